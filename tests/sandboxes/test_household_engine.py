"""The engine against the stock one, byte for byte, and what it leaves behind: caches, memory, files."""

import gc
import json
import lzma
import os
import random
from importlib import util
from pathlib import Path

import pytest

from bpo.errors import BadInput

pytest.importorskip("alfworld", reason="the household extra is not installed")

from bpo.cache import cache_dir
from bpo.checkfork import check_fork
from bpo.sandboxes.household import TASK_TYPES, Household, StockHousehold, demonstration, downward, engines, play
from bpo.sandboxes.household import translation as translations
from bpo.sandboxes.household.grammar import _compile, parse_grammar
from bpo.sandboxes.household.translation import translate

SHARED = Path(os.environ.get("BPO_SHARED", Path(__file__).parents[2].parent / "shared"))
ARCHIVE = SHARED / "data" / "alfworld" / "games.jsonl.xz"


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BPO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def official_games(tmp_path_factory):
    """Some official games of every task type, in the layout that users have."""
    if not ARCHIVE.exists():
        pytest.skip(f"the official games are not here ({ARCHIVE})")
    root = tmp_path_factory.mktemp("official")
    left = {(split, task_type): 3 for split in ("train", "valid_seen", "valid_unseen") for task_type in TASK_TYPES.values()}
    with lzma.open(ARCHIVE, "rt") as file:
        head = json.loads(next(file))
        for line in file:
            record = json.loads(line)
            key = (record["split"], record["task_type"])
            if not left.get(key):
                continue
            left[key] -= 1
            grammar = head["grammar_template"].replace("UNKNOWN GOAL.", record["task"])
            game = {"pddl_domain": head["pddl_domain"], "grammar": grammar, "pddl_problem": record["pddl_problem"]}
            place = root / "json_2.1.1" / record["split"] / record["task_dir"] / record["trial"]
            place.mkdir(parents=True)
            game |= {"solvable": True, "walkthrough": record["walkthrough"]}
            (place / "game.tw-pddl").write_text(json.dumps(game))
            if not any(left.values()):
                break
    return root


def one_of_each_type(folder, split):
    with Household(data=folder) as sandbox:
        tasks = {sandbox.game(task).task_type: task for task in sandbox.tasks(split)}
    assert set(tasks) == set(TASK_TYPES)
    return [tasks[name] for name in TASK_TYPES]


def test_generated_games_of_all_types_match_the_stock_engine_under_interleaved_branches():
    """Text, raw text, admissible actions, reward and done; the tasks take turns through the six types."""
    options = {"difficulty": "small", "max_steps": 40}
    tasks = Household(**options).tasks("train")[:6]
    report = check_fork(
        lambda: Household(**options),
        tasks,
        games=6,
        branches=2,
        steps=12,
        seed=3,
        reference=lambda: StockHousehold(**options),
    )
    assert report.steps >= 6 * 2 * 12 // 2
    assert report.mismatches == 0, report.first_differences


def test_demonstrations_and_senseless_commands_match_the_stock_engine():
    """Winning plays reach what random walks rarely do: heat, clean, cool, a second object, the end."""
    with Household("tiny") as ours, StockHousehold("tiny") as stock:
        for task in ours.tasks("panel")[:6]:
            assert ours.reset(task) == stock.reset(task)
            for action in ["help", " look ", "", *demonstration(task, 1, search=(0, 0), max_steps=7 + 2)[:-1]]:
                assert ours.step(action) == stock.step(action)
                assert ours.raw() == stock.raw()
            ours.reset(task)
            assert play(ours, task, demonstration(task, 1)) == play(stock, task, demonstration(task, 1))


def test_official_games_match_the_stock_engine(official_games):
    options = {"data": official_games, "max_steps": 60}
    tasks = [*one_of_each_type(official_games, "valid_seen")[::2], *one_of_each_type(official_games, "valid_unseen")[1::2]]
    report = check_fork(
        lambda: Household(**options),
        tasks,
        games=3,
        branches=1,
        steps=10,
        seed=1,
        reference=lambda: StockHousehold(**options),
    )
    assert report.steps >= 25
    assert report.mismatches == 0, report.first_differences


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "valid_seen", "valid_unseen"])
def test_long_walks_in_official_games_match_the_stock_engine(official_games, split):
    options = {"data": official_games, "max_steps": 60}
    report = check_fork(
        lambda: Household(**options),
        one_of_each_type(official_games, split),
        games=6,
        branches=2,
        steps=25,
        seed=7,
        reference=lambda: StockHousehold(**options),
    )
    assert report.steps >= 200
    assert report.mismatches == 0, report.first_differences


def test_stored_walkthroughs_win(official_games):
    with Household(data=official_games) as sandbox:
        for split in ("valid_seen", "valid_unseen"):
            for task in one_of_each_type(official_games, split):
                _, last = play(sandbox, task, demonstration(sandbox.game(task), 0))
                assert last.info["won"], task


def test_layouts_of_official_games(official_games):
    """valid_seen is played in rooms of train, valid_unseen in others; equal floor plans have equal hashes."""
    with Household(data=official_games) as sandbox:
        rooms = {split: {sandbox.layout_hash(task) for task in sandbox.tasks(split)} for split in ("train", "valid_unseen")}
        assert not rooms["train"] & rooms["valid_unseen"]
        same = [task for task in sandbox.tasks("valid_unseen") if task.split("/")[1].endswith("-10")]
        assert len(same) > 1
        assert len({sandbox.layout_hash(task) for task in same}) == 1


def test_a_translation_is_read_back_equal_and_a_damaged_one_is_rebuilt():
    text = Household("tiny").game("tiny/panel/000011").text
    folder = cache_dir("household", "translations")
    before = set(folder.iterdir())
    first = translate(text.domain, text.problem)
    (path,) = set(folder.iterdir()) - before
    whole = path.read_bytes()
    assert len(whole) < 40_000
    assert translate(text.domain, text.problem) == first
    for damage in (
        b"",
        whole[: len(whole) // 2],
        b"nonsense",
        whole[:-1] + b"?",
        whole[:40] + bytes([whole[40] ^ 1]) + whole[41:],
    ):
        path.write_bytes(damage)
        assert translate(text.domain, text.problem) == first
        assert path.read_bytes() == whole
    assert not [file for file in folder.iterdir() if file.name.startswith(".tmp")]


def test_the_cache_of_translations_stays_bounded(monkeypatch):
    monkeypatch.setattr(translations, "KEEP", 8)
    folder = cache_dir("household", "translations")
    for number in range(20):
        (folder / f"{number}.z").write_bytes(b"x")
    monkeypatch.setattr(translations, "_written", 0)
    text = Household("tiny").game("tiny/panel/000012").text
    translate(text.domain, text.problem)
    assert len(list(folder.glob("*.z"))) == 8 * 3 // 4 + 1


def test_an_unwritable_cache_costs_time_not_the_run(monkeypatch):
    def refuse(path, data):
        raise OSError("no space left on device")

    monkeypatch.setattr(translations, "write_sealed", refuse)
    text = Household("tiny").game("tiny/panel/000013").text
    assert translate(text.domain, text.problem).sas.startswith("begin_version")


@pytest.mark.parametrize("expression", ["__import__('os')", "r.__class__", "r.name()", "[x for x in r]", "r[0]", "r +"])
def test_grammar_expressions_cannot_run_code(expression):
    with pytest.raises(BadInput, match="grammar expression"):
        _compile(expression)


def test_games_share_one_parse_of_their_grammar():
    from bpo.sandboxes.household.grammar import _parse_document

    texts = [Household("tiny").game(task).text.grammar for task in Household("tiny").tasks("train")[:30]]
    assert len(set(texts)) > 5
    misses = _parse_document.cache_info().misses
    parsed = [parse_grammar(text) for text in texts]
    assert _parse_document.cache_info().misses <= misses + 1
    assert parsed[0].actions is parsed[1].actions


def test_engines_are_shared_bounded_and_leave_no_files():
    def open_files():
        return len(os.listdir("/proc/self/fd"))

    gc.collect()
    engines.clear()
    with Household("tiny") as sandbox:
        sandbox.reset(sandbox.tasks("train")[0])
    copies, files = downward.loaded(), open_files()
    sandboxes = [Household("tiny") for _ in range(4)]
    for task in sandboxes[0].tasks("train")[:60]:
        for sandbox in sandboxes:
            play(sandbox, task, demonstration(task, 0)[:2])
    for sandbox in sandboxes:
        sandbox.close()
    assert downward.loaded() <= copies + engines.KEEP_IDLE + 2
    assert open_files() == files
    assert not list(cache_dir("household").glob(".tmp-*"))


def test_too_many_live_engines_are_refused(monkeypatch):
    engines.clear()
    monkeypatch.setattr(downward, "LIMIT", downward.loaded() + 1)
    sandboxes = [Household("tiny") for _ in range(downward.LIMIT + 1)]
    for number, sandbox in enumerate(sandboxes[:-1]):
        sandbox.reset(f"tiny/train/{number:06d}")
    with pytest.raises(RuntimeError, match="close sandboxes"):
        sandboxes[-1].reset("tiny/train/000099")
    for sandbox in sandboxes:
        sandbox.close()


def test_a_grown_engine_is_replaced(monkeypatch):
    monkeypatch.setattr(engines, "MOST_NODES", 3)
    with Household("tiny") as sandbox:
        first = sandbox.reset("tiny/train/000001")
        for action in first.actions[:5]:
            sandbox.step(action)
        grown = sandbox._episode.engine
        assert sandbox.reset("tiny/train/000001") == first
        assert sandbox._episode.engine is not grown
        assert sandbox._episode.engine.nodes == 1


def test_abandoned_sandboxes_give_their_engine_back():
    engines.clear()
    for number in range(40):
        Household("tiny").reset(f"tiny/train/{number:06d}")
    gc.collect()
    with Household("tiny") as last:
        last.reset("tiny/train/000050")
        assert len(engines._engines) == 1
        assert len(engines._idle) <= engines.KEEP_IDLE


@pytest.mark.slow
def test_two_thousand_games_leave_memory_and_files_where_they_were():
    psutil = pytest.importorskip("psutil")
    rng = random.Random(0)
    process = psutil.Process()
    sizes = []
    with Household("tiny") as sandbox:
        for number in range(2_000):
            observation = sandbox.reset(f"tiny/train/{number:06d}")
            for _ in range(10):
                outcome = sandbox.step(rng.choice(observation.actions))
                observation = outcome.observation
                if outcome.done:
                    break
            if number % 500 == 499:
                gc.collect()
                sizes.append((process.memory_info().rss / 1e6, process.num_fds()))
    assert sizes[-1][0] - sizes[0][0] < 20
    assert sizes[-1][1] == sizes[0][1]


def test_the_planner_is_loaded_without_its_symbols_where_strip_exists(monkeypatch, tmp_path):
    monkeypatch.setenv("BPO_CACHE", str(tmp_path))
    monkeypatch.setattr(downward.shutil, "which", lambda name: None)
    shipped = downward._stripped_library()
    assert shipped == (Path(util.find_spec("fast_downward").submodule_search_locations[0]) / "libdownward.so").read_bytes()
    assert not list(tmp_path.rglob("*.so"))
    monkeypatch.undo()
    monkeypatch.setenv("BPO_CACHE", str(tmp_path))
    if downward.shutil.which("strip") is None:
        pytest.skip("strip is not installed")
    stripped = downward._stripped_library()
    assert len(stripped) < len(shipped) / 5
    (kept,) = cache_dir("household").glob("downward-*.so")
    whole = kept.read_bytes()
    assert whole.startswith(stripped)
    for damage in (whole[:-9], b"", whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:], whole):
        kept.write_bytes(damage)
        assert downward._stripped_library() == stripped
        assert kept.read_bytes() == whole
