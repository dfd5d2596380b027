"""WebShop: equal to the original on recorded sessions, and a sandbox like every other."""

from __future__ import annotations

import copy
import gzip
import itertools
import json
import random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from places import SHARED

from bpo.checkfork import check_fork
from bpo.errors import BadInput
from bpo.sandbox import SnapshotError
from bpo.sandboxes.webshop import WebShop, catalogue, demonstration, pages, rules
from bpo.sandboxes.webshop.colors import COLORS
from bpo.sandboxes.webshop.phrases import queries
from bpo.sandboxes.webshop.records import prices_of
from bpo.sandboxes.webshop.replay import read_traces, replay
from bpo.sandboxes.webshop.reward import reward
from bpo.sandboxes.webshop.shop import parse

DATA = SHARED / "data" / "webshop"
TRACES = DATA / "golden_traces_100.json.gz"


def recorded(name: str):
    path = DATA / name
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_text())


@pytest.fixture(scope="module")
def original():
    """The 1,000 products of the field, with no step limit in reach."""
    if not TRACES.exists():
        pytest.skip(f"WebShop's products and recorded sessions are not here: {DATA}")
    with WebShop(data=DATA, max_steps=10**9) as sandbox:
        yield sandbox


@pytest.fixture
def shop():
    """The embedded catalogue."""
    with WebShop() as sandbox:
        yield sandbox


def bought(sandbox, task) -> dict:
    """The facts of a purchase by the policy that knows the product."""
    return dict(rules.play(sandbox, task, rules.oracle, random.Random(0))[1])


# --- equal to the original


def test_recorded_sessions_are_equal_in_every_step(original):
    found = replay(original, read_traces(TRACES))
    assert found.mismatches == ()
    assert found.steps == 1447


def test_a_replay_notices_every_kind_of_difference(original):
    """One thing changed at a time in one recorded session."""
    whole = next(trace for trace in read_traces(TRACES) if trace["steps"][-1]["done"])
    for key, value in (("obs", "x"), ("reward", 0.123), ("done", False), ("avail", {})):
        trace = copy.deepcopy(whole)
        trace["steps"][-1][key] = value
        (difference,) = replay(original, [trace]).mismatches
        assert key in difference
    trace = {**whole, "obs0": whole["obs0"] + "."}
    assert len(replay(original, [trace]).mismatches) == 1


def test_goals_prices_and_limits_are_the_recorded_ones(original):
    catalogue, goals = original.shop.catalogue, original.shop.catalogue.goals
    assert (len(catalogue), len(goals)) == (1000, 6910)
    prices = recorded("prices_seed42.json")
    assert {asin: catalogue.product(asin).price for asin in prices["purchase_price"]} == prices["purchase_price"]
    assert {goal.asin: goal.price_upper for goal in goals} == prices["price_upper"]
    for wanted in recorded("goals_first20_seed42.json.gz"):
        goal = goals[wanted["index"]]
        assert (goal.asin, goal.text, goal.price_upper) == (wanted["asin"], wanted["text"], wanted["up"])
        assert (list(goal.attributes), dict(goal.options)) == (wanted["attrs"], wanted["opts"])
    # From the recorded session of goal 0: the mean of 1 / (goals with the attribute).
    assert goals[0].weight == pytest.approx(0.05299377134820173, abs=1e-15)


def test_all_recorded_rewards_are_exact(original):
    catalogue, goals = original.shop.catalogue, original.shop.catalogue.goals
    cases = recorded("reward_cases_300.json.gz")
    found = []
    for case in cases:
        goal, product = goals[case["goal"]], catalogue.product(case["asin"])
        nouns = catalogue.nouns(goal.asin), catalogue.nouns(product.asin)
        wanted = catalogue.product(goal.asin)
        found.append(reward(goal, wanted, nouns[0], product, nouns[1], list(case["options"].values())).total)
    assert found == [case["reward"] for case in cases]
    assert len(set(found)) > 10


def test_the_colours_are_the_original_s(original):
    assert list(COLORS) == recorded("colors.json")


@pytest.mark.parametrize(
    ("rule", "score", "success"),
    [("oracle", 99.2, 95.8), ("first hit, named options", 79.1, 57.2), ("first hit", 57.1, 2.2)],
)
def test_rule_policies_reach_their_reference_scores(original, rule, score, success):
    """500 test goals, 15 steps: the reference run's figures, to the digit."""
    with WebShop(data=DATA) as sandbox:
        tasks = sandbox.tasks("test")
        assert len(tasks) == 500
        found = rules.score(sandbox, tasks, rule)
    assert (round(found.score, 1), round(found.success, 1)) == (score, success)


def test_the_random_policy_is_near_its_reference_score(original):
    """8.2 / 0.0 in the reference; one run of 500 sessions has a standard error of about 1.1 points."""
    with WebShop(data=DATA) as sandbox:
        found = rules.score(sandbox, sandbox.tasks("test"), "random")
    assert found.score == pytest.approx(8.2, abs=4)
    assert found.success < 1


def test_rich_pages_are_those_of_the_transcript(original):
    """The transcript cuts pages off at 700 characters."""
    blocks = (DATA / "sample_transcript.txt").read_text().split(">>> ")[14:]
    seen = 0
    with WebShop(data=DATA, observation="text_rich") as sandbox:
        for block in blocks:
            action, _, rest = block.partition("\n")
            page = rest[: rest.rindex("\n(") if "\n(" in rest else None].removesuffix("\n")
            page = page.split("\n(0.0, False")[0].split("\n(1.0, True")[0]
            text = (sandbox.reset("goal/0") if action.startswith("RESET") else sandbox.step(action).observation).text
            assert text.startswith(page[:690].rstrip("\n")), action
            seen += 1
    assert seen == 13


def test_the_field_s_splits_share_products_and_ours_do_not(original):
    with WebShop(data=DATA) as field, WebShop(data=DATA, splits="products") as clean:
        assert [len(field.tasks(name)) for name in ("test", "eval", "train")] == [500, 1000, 5410]
        assert (field.leaks("test").shared_products, field.leaks("test").products) == (125, 146)
        assert "125 of 146 products" in str(field.leaks("test"))
        assert clean.leaks("valid_unseen").shared_products == 0
        assert clean.leaks("valid_seen").shared_products > 0
        together = [task for name in ("train", "panel", "valid_seen", "valid_unseen") for task in clean.tasks(name)]
        assert len(together) == len(set(together)) == 6910


def test_human_goals_name_plain_options(original):
    with WebShop(data=DATA, goals="human") as sandbox:
        goals = sandbox.shop.catalogue.goals
        assert all(isinstance(option, str) for goal in goals for option in goal.options)
        assert 0 < len(goals) <= 13


def test_nouns_come_from_the_list_and_for_other_titles_from_the_tagger(tmp_path, monkeypatch, shop):
    """Without a list and without spaCy's model one sentence says what to install, before anything is built."""
    first, second = itertools.islice(shop.shop.catalogue, 2)
    tagged = [SimpleNamespace(text="Lamp", pos_="NOUN"), SimpleNamespace(text="warm", pos_="ADJ")]

    def absent(name):
        raise OSError(name)

    monkeypatch.setattr("spacy.load", absent)
    with pytest.raises(BadInput, match="spacy download en_core_web_sm"):
        catalogue.title_nouns(str(tmp_path))
    monkeypatch.setattr("spacy.load", lambda name: lambda title: tagged)
    (tmp_path / "title_nouns_spacy3.8.json.gz").write_bytes(gzip.compress(json.dumps({first.asin: ["shirt"]}).encode()))
    nouns = catalogue.title_nouns(str(tmp_path))
    assert (nouns(first), nouns(second)) == (["shirt"], ["lamp"])
    catalogue._tagger.cache_clear()


# --- pages and actions


@pytest.mark.parametrize(
    ("action", "parsed"),
    [
        ("search[red shoes]", ("search", "red shoes")),
        ("click[Buy Now] please", ("click", "buy now")),
        ("search[a [b] c]", ("search[a ", "b] c")),
        ("search[]", None),
        ("search[a\nb]", None),
        (" click[x]", (" click", "x")),
        ("buy now", None),
    ],
)
def test_actions_are_parsed_like_the_original_s(action, parsed):
    """Greedy up to the last brackets; a name that is not exactly search or click means nothing."""
    assert parse(action) == parsed


def test_a_session_goes_where_its_clicks_lead(shop):
    task = shop.tasks("train")[0]
    first = shop.reset(task)
    assert first.text.startswith("WebShop [SEP] Instruction: [SEP] Find me ")
    for nothing in ("click[search]", "click[buy now]", "hello", "Search[lamp]", "search[]"):
        assert shop.step(nothing).observation.text == first.text
    assert shop.step("search[lamp]").observation.text.count("$") >= 10
    results = shop.state
    asin = shop.shop.shown(results)[0]
    shop.step("click[next >]")
    assert shop.state.number == 2
    shop.step("click[< prev]")
    assert shop.state == results
    item = shop.step(f"click[{asin.lower()}]").observation
    assert "Rating: N.A." in item.text
    shop.step("click[features]")
    assert shop.state.sub == "Features"
    shop.step("click[< prev]")
    shop.step("click[< prev]")
    assert (shop.state.page, shop.state.asin, shop.state.opened) == (pages.RESULTS, "", {asin})
    shop.step("click[back to search]")
    assert shop.state == pages.ShopState()


def test_a_click_on_an_option_changes_the_state_and_not_the_text(shop):
    task = next(task for task in shop.tasks("train") if shop.game(task).goal.options)
    shop.reset(task)
    goal = shop.goal
    shop.step(f"search[{goal.text}]")
    while goal.asin not in shop.shop.shown(shop.state):
        shop.step("click[next >]")
    before = shop.step(f"click[{goal.asin.lower()}]").observation
    key = shop.state_key()
    after = shop.step(f"click[{goal.options[0][1]}]").observation
    assert after.text == before.text
    assert shop.state.options == (goal.options[0],)
    assert shop.state_key()[2] != key[2]
    with WebShop(observation="text_rich") as rich:
        rich.resume(shop.snapshot().portable())
        assert f"[clicked button] {goal.options[0][1]} [clicked button_]" in rich.restore(rich.snapshot()).text


def test_a_text_in_two_groups_is_one_clickable_of_the_last(shop):
    from dataclasses import replace

    product = replace(next(iter(shop.shop.catalogue)), options=(("size", ("one", "two")), ("pack", ("two", "buy now", "3 [x"))))
    catalogue = type("Catalogue", (), {"product": lambda self, asin: product, "search": lambda self, query: ()})()
    store = type(shop.shop)(catalogue)
    state = pages.ShopState(pages.ITEM, query="x", asin=product.asin)
    names = store.clickables(state)
    assert names == ("back to search", "< prev", "description", "features", "reviews", "buy now", "one", "two", "3 [x")
    assert "click[3 [x]" not in store.clicks(state)  # it would be read as another name
    assert store.advance(state, "click[two]").options == (("pack", "two"),)
    assert store.advance(state, "click[buy now]").options == (("pack", "buy now"),)


def test_listed_actions_all_do_something_and_cover_the_whole_action(shop):
    """Searches lead to results, and every listed click to another state."""
    task = shop.tasks("train")[0]
    for action in shop.reset(task).actions:
        shop.reset(task)
        assert shop.step(action).observation.text.startswith("Instruction:")
    state = shop.state
    for action in shop.shop.clicks(state):
        assert shop.shop.advance(state, action) != state
    with WebShop(queries="free") as free:
        assert free.reset(task).actions == ("search[<your query>]",)


def test_queries_are_runs_of_phrases():
    text = "Find me soft, warm socks with grip with color: red, and price lower than 20.00 dollars"
    assert queries(text)[0] == text
    assert queries(text)[1] == "soft warm socks grip color: red"
    assert len(queries(text)) == 1 + 4 * 5 / 2
    assert not any("price" in query for query in queries(text)[1:])


def test_briefly_shown_pages_leave_the_instruction_out(shop):
    task = shop.tasks("train")[0]
    with WebShop(observation="brief") as brief:
        whole, short = shop.reset(task), brief.reset(task)
        assert short.text == "Search"
        whole, short = (box.step("search[lamp]").observation for box in (shop, brief))
        assert whole.text == f"Instruction: [SEP] {whole.task} [SEP] {short.text}"


@pytest.mark.parametrize(
    ("text", "prices"),
    [("$19.99", (19.99,)), ("$1,019.99 to $2,000", (1019.99, 2000.0)), ("", (100.0,)), ("$1 $2 $3", (1.0, 2.0))],
)
def test_prices(text, prices):
    assert prices_of(text) == prices


# --- protocols


def test_the_field_pays_ten_for_a_perfect_purchase_and_the_paper_its_degree(shop):
    perfect, poor = shop.tasks("train")[0], shop.tasks("train")[1]
    with WebShop(protocol="paper") as paper:
        assert (shop.max_steps, paper.max_steps) == (15, 50)
        for sandbox, best in ((shop, 10.0), (paper, 1.0)):
            actions, info = rules.play(sandbox, perfect, rules.oracle, random.Random(0))
            assert (info["won"], info["score"], info["truncated"]) == (True, 1.0, False)
            sandbox.reset(perfect)
            assert sum(sandbox.step(action).reward for action in actions) == best
        scores = {}
        for name, sandbox in (("field", shop), ("paper", paper)):
            sandbox.reset(poor)
            sandbox.step("search[phone case]")
            sandbox.step(f"click[{sandbox.shop.shown(sandbox.state)[-1].lower()}]")
            outcome = sandbox.step("click[buy now]")
            scores[name] = (outcome.reward, outcome.info["score"])
    assert scores["field"][0] == 0.0
    assert 0.0 <= scores["paper"][0] == scores["paper"][1] < 1.0


def test_a_session_ends_at_its_step_limit_without_a_score():
    with WebShop(max_steps=2) as sandbox:
        sandbox.reset(sandbox.tasks("train")[0])
        assert not sandbox.step("nothing").done
        outcome = sandbox.step("nothing")
        assert (outcome.done, outcome.info["truncated"], outcome.info["score"]) == (True, True, 0.0)
        with pytest.raises(RuntimeError, match="over"):
            sandbox.step("nothing")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"observation": "html"}, "'html'"),
        ({"protocol": "mine"}, "'mine'"),
        ({"splits": "none"}, "'none'"),
        ({"queries": "all"}, "'all'"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"page_size": 0}, "page_size is 0"),
        ({"size": "full"}, "needs? data"),
        ({"goals": "human"}, "needs? data"),
        ({"data": "/nowhere"}, "/nowhere"),
        ({"data": 5}, "the path of a folder"),
        ({"data": __file__}, "is no folder"),
        ({"max_steps": "15"}, "max_steps is '15'"),
    ],
)
def test_options_that_cannot_be(options, named):
    with pytest.raises(BadInput, match=named):
        WebShop(**options)


def test_unknown_tasks_and_splits_are_named(shop):
    for task in ("goal/-1", "goal/999999", "x", "goal/"):
        with pytest.raises(BadInput, match="goal/0"):
            shop.reset(task)
    with pytest.raises(BadInput, match="valid_seen"):
        shop.tasks("seen")


@pytest.mark.parametrize("content", [b"{", b"\x1f\x8bxx", b"[1]", b'[{"goal": 1}]', b"[]"])
def test_files_that_are_no_traces(tmp_path, content):
    path = tmp_path / "traces.json"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"traces\.json"):
        read_traces(path)


# --- forks


def test_forks_are_exact_on_random_walks(shop):
    report = check_fork(WebShop, shop.tasks("train"), games=6, branches=3, steps=20, seed=1)
    assert report.mismatches == 0
    assert report.steps > 200


def test_a_snapshot_is_a_reference_and_belongs_to_its_session(shop):
    a, b = shop.tasks("train")[:2]
    shop.reset(a)
    shop.step("search[lamp]")
    snapshot = shop.snapshot()
    assert snapshot.state is shop.state
    assert snapshot.size_bytes < 2_000
    shop.reset(b)
    with pytest.raises(SnapshotError, match="session before"):
        shop.restore(snapshot)
    with pytest.raises(SnapshotError, match="str"):
        shop.restore("state")
    with WebShop() as other:
        assert other.resume(json_of(snapshot.portable())).task == shop.game(a).goal.text
        assert other.state_key() == (a, 1, snapshot.state)
    shop.close()
    with pytest.raises(SnapshotError, match="closed"):
        shop.restore(snapshot)
    with pytest.raises(RuntimeError, match="closed"):
        shop.reset(a)


def json_of(portable):
    """A portable state that has been through a file."""
    return type(portable)(**json.loads(json.dumps(vars(portable))))


def test_forks_go_their_own_ways(shop):
    shop.reset(shop.tasks("train")[0])
    shop.step("search[lamp]")
    left, right = shop.fork(2)
    left.step("click[next >]")
    right.step("click[back to search]")
    assert (left.state.number, right.state.page, shop.state.number) == (2, pages.INDEX, 1)
    assert shop.shop is left.shop


ANYTHING = st.one_of(
    st.text(max_size=40),
    st.text(max_size=40).map(lambda text: f"search[{text}]"),
    st.text(max_size=40).map(lambda text: f"click[{text}]"),
    st.sampled_from(["search[ ]", "search[<r>]", "search[<a> x]", "search[<c>]", "search[" + "lamp " * 5_000 + "]"]),
    st.integers(0, 30),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ANYTHING, max_size=14), st.integers(0, 50))
def test_no_action_crashes_the_shop_or_touches_another_session(actions, number):
    """Any text, any Unicode, huge queries; a number is an admissible action, so that walks get past the first page."""
    with WebShop(max_steps=15) as sandbox, WebShop() as other:
        task = sandbox.tasks("train")[number]
        watched = other.reset(sandbox.tasks("train")[0])
        key, products = other.state_key(), list(other.shop.catalogue)[:5]
        observation = sandbox.reset(task)
        for action in actions:
            if sandbox.done:
                break
            if isinstance(action, int):
                action = observation.actions[action % len(observation.actions)]
            observation = sandbox.step(action).observation
            assert observation.text
        assert other.state_key() == key
        assert other.restore(other.snapshot()).text == watched.text
        assert list(other.shop.catalogue)[:5] == products


def test_demonstrations_win_in_different_ways(shop):
    plays = {}
    for task in shop.tasks("train")[:40]:
        for seed in range(3):
            actions = demonstration(shop.game(task), seed)
            if actions:
                plays.setdefault(task, set()).add(tuple(actions))
                shop.reset(task)
                outcomes = [shop.step(action) for action in actions]
                assert outcomes[-1].info["won"], (task, actions)
                assert actions == demonstration(shop.game(task), seed)
    assert len(plays) > 30
    assert sum(len(ways) > 1 for ways in plays.values()) > 20


def test_spaces_around_an_action_do_not_matter(shop):
    task = shop.tasks("train")[0]
    seen = []
    for action in ("search[mug]", " \nsearch[mug]\n "):
        shop.reset(task)
        seen.append(shop.step(action).observation)
    assert seen[0] == seen[1]
    assert seen[0].text != shop.reset(task).text
