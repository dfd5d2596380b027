"""The household sandbox as a rollout sees it: observations, endings, snapshots, forks, portable states and errors."""

import dataclasses
import json
import os
import random
import subprocess
import sys

import pytest

from bpo.errors import BadInput
from bpo.sandbox import Sandbox, Snapshot, SnapshotError

pytest.importorskip("alfworld", reason="the household extra is not installed")

from bpo.sandboxes.household import Household, PortableHousehold, demonstration, play

TASK = "small/train/000003"


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BPO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def sandbox():
    with Household("small") as sandbox:
        yield sandbox


def walk(sandbox, task, seed, steps):
    """Random admissible actions; returns the actions and the outcomes."""
    rng = random.Random(seed)
    observation = sandbox.reset(task)
    actions, outcomes = [], []
    for _ in range(steps):
        actions.append(rng.choice(observation.actions))
        outcomes.append(sandbox.step(actions[-1]))
        observation = outcomes[-1].observation
        if outcomes[-1].done:
            break
    return actions, outcomes


def test_protocol_and_first_observation(sandbox):
    first = sandbox.reset(TASK)
    assert isinstance(sandbox, Sandbox)
    assert isinstance(sandbox.snapshot(), Snapshot)
    assert first.text.startswith("You are in the middle of a room.")
    assert "Your task" not in first.text
    assert "Welcome" not in first.text
    assert sandbox.raw() == f"-= Welcome to TextWorld, ALFRED! =-\n\n{first.text}\n\nYour task is to: {first.task}"
    assert first.step == 0
    assert "help" not in first.actions
    assert {"look", "inventory"} <= set(first.actions)
    assert list(first.actions) == sorted(set(first.actions))


def test_a_win_pays_one_and_ends_the_episode(sandbox):
    seen, last = play(sandbox, TASK, demonstration(TASK, 0))
    assert (last.reward, last.done) == (1.0, True)
    assert dict(last.info) == {"won": True, "truncated": False, "task_type": "heat", "task": TASK}
    assert [observation.step for observation, _ in seen] == list(range(len(seen)))
    with pytest.raises(RuntimeError, match="is over"):
        sandbox.step("look")


def test_senseless_actions_cost_steps_up_to_the_limit():
    with Household("small", max_steps=3) as sandbox:
        before = sandbox.reset(TASK)
        outcomes = [sandbox.step("dance") for _ in range(3)]
        assert {outcome.observation.text for outcome in outcomes} == {"Nothing happens."}
        assert all(outcome.observation.actions == before.actions for outcome in outcomes)
        assert [outcome.done for outcome in outcomes] == [False, False, True]
        assert outcomes[-1].info["truncated"]
        assert outcomes[-1].reward == 0.0


def test_snapshots_restore_in_any_order_and_any_number_of_times(sandbox):
    rng = random.Random(1)
    observation = sandbox.reset(TASK)
    saved = [(sandbox.snapshot(), observation, sandbox.state_key())]
    for _ in range(10):
        observation = sandbox.step(rng.choice(observation.actions)).observation
        saved.append((sandbox.snapshot(), observation, sandbox.state_key()))
    for snapshot, observation, key in rng.choices(saved, k=60):
        assert sandbox.restore(snapshot) == observation
        assert sandbox.state_key() == key
        assert sandbox.snapshot() == snapshot
        assert 0 < snapshot.size_bytes < 100_000
        sandbox.step(rng.choice(observation.actions))


def test_a_restored_end_is_still_an_end(sandbox):
    play(sandbox, TASK, demonstration(TASK, 0))
    end = sandbox.snapshot()
    sandbox.reset(TASK)
    play(sandbox, TASK, demonstration(TASK, 0)[:-1])
    before = sandbox.snapshot()
    assert sandbox.step(demonstration(TASK, 0)[-1]).done
    with pytest.raises(SnapshotError, match="before the last reset"):
        sandbox.restore(end)
    sandbox.restore(before)
    assert sandbox.step(demonstration(TASK, 0)[-1]).reward == 1.0


def test_foreign_stale_and_closed_snapshots_are_refused(sandbox):
    sandbox.reset(TASK)
    old = sandbox.snapshot()
    with Household("small") as other:
        other.reset(TASK)
        with pytest.raises(SnapshotError, match="another sandbox"):
            other.restore(old)
    sandbox.reset(TASK)
    with pytest.raises(SnapshotError, match="before the last reset"):
        sandbox.restore(old)
    with pytest.raises(SnapshotError, match="household snapshot"):
        sandbox.restore("what?")
    present = sandbox.snapshot()
    sandbox.close()
    sandbox.close()
    with pytest.raises(SnapshotError, match="closed"):
        sandbox.restore(present)
    with pytest.raises(RuntimeError, match="closed"):
        sandbox.step("look")
    with pytest.raises(RuntimeError, match="closed"):
        sandbox.reset(TASK)


def test_step_before_reset_says_so(sandbox):
    with pytest.raises(RuntimeError, match="reset first"):
        sandbox.step("look")


def test_portable_states_continue_alike_in_another_instance(sandbox):
    walk(sandbox, TASK, 5, 8)
    portable = sandbox.snapshot().portable()
    with Household("small") as other:
        assert other.resume(portable) == sandbox.restore(sandbox.snapshot())
        assert other.state_key() == sandbox.state_key()
        assert other.raw() == sandbox.raw()
        for _ in range(4):
            action = random.Random(0).choice(sandbox.restore(sandbox.snapshot()).actions)
            assert other.step(action) == sandbox.step(action)


CHILD = """
import json, sys
from bpo.sandboxes.household import Household, PortableHousehold
task, actions = json.loads(sys.argv[1])
sandbox = Household("small")
seen = sandbox.resume(PortableHousehold(task, tuple(actions)))
game = sandbox.game(task).text
print(json.dumps([seen.text, seen.actions, seen.task, seen.step, sandbox.state_key(), game.problem, game.grammar]))
"""


@pytest.mark.parametrize("hash_seed", ["1", "77"])
def test_portable_states_and_tasks_are_the_same_in_another_process(sandbox, hash_seed):
    walk(sandbox, TASK, 9, 12)
    portable = sandbox.snapshot().portable()
    here, text = sandbox.restore(sandbox.snapshot()), sandbox.game(TASK).text
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(dataclasses.astuple(portable))],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    there = json.loads(done.stdout.splitlines()[-1])
    expected = [here.text, here.actions, here.task, here.step, sandbox.state_key(), text.problem, text.grammar]
    assert there == json.loads(json.dumps(expected))


def test_forks_are_independent(sandbox):
    walk(sandbox, TASK, 3, 5)
    here, key = sandbox.restore(sandbox.snapshot()), sandbox.state_key()
    forks = sandbox.fork(3)
    assert [fork.state_key() for fork in forks] == [key] * 3
    for number, fork in enumerate(forks):
        fork.step(here.actions[number])
    assert sandbox.state_key() == key
    with pytest.raises(SnapshotError):
        forks[0].restore(sandbox.snapshot())
    keys = []
    for number, fork in enumerate(forks):
        sandbox.resume(PortableHousehold(TASK, (*walk(sandbox, TASK, 3, 5)[0], here.actions[number])))
        keys.append(sandbox.state_key())
        assert fork.state_key() == keys[-1]
        fork.close()


def test_state_keys_tell_steps_and_states_apart(sandbox):
    sandbox.reset(TASK)
    start = sandbox.state_key()
    action = next(a for a in sandbox.restore(sandbox.snapshot()).actions if a.startswith("go to"))
    sandbox.step(action)
    assert sandbox.state_key() != start
    sandbox.reset(TASK)
    assert sandbox.state_key() == start
    sandbox.step("dance")
    assert sandbox.state_key()[2] == start[2]
    assert sandbox.state_key() != start


def write_game(folder, split="valid_seen", **changes):
    """A folder laid out like $ALFWORLD_DATA with one game; a change of None drops the key."""
    with Household("tiny") as sandbox:
        text = sandbox.game("tiny/train/000000").text
    game = {"pddl_domain": text.domain, "grammar": text.grammar, "pddl_problem": text.problem, "solvable": True} | changes
    place = folder / "json_2.1.1" / split / "pick_and_place_simple-Mug-None-Desk-1" / "trial_1"
    place.mkdir(parents=True)
    (place / "game.tw-pddl").write_text(json.dumps({key: value for key, value in game.items() if value is not None}))
    return place / "game.tw-pddl"


def test_data_folder(tmp_path, monkeypatch):
    write_game(tmp_path)
    monkeypatch.setenv("MY_GAMES", str(tmp_path))
    for folder in (tmp_path, tmp_path / "json_2.1.1", "$MY_GAMES"):
        with Household(data=folder) as sandbox:
            (task,) = sandbox.tasks("valid_seen")
            assert task == "valid_seen/pick_and_place_simple-Mug-None-Desk-1/trial_1"
            assert sandbox.max_steps == 50
            sandbox.reset(task)
            assert sandbox.step("look").info["task_type"] == "pick"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda d: Household("smal"), "unknown difficulty 'smal'; did you mean 'small'"),
        (lambda d: Household(max_steps=0), "max_steps is 0"),
        (lambda d: Household().tasks("valid"), "unknown split 'valid'"),
        (lambda d: Household().reset("small/train/100000"), "unknown task 'small/train/100000'"),
        (lambda d: Household().reset("small/train/7"), "unknown task 'small/train/7'"),
        (lambda d: Household().reset("tiny/train/000000"), "unknown task 'tiny/train/000000'"),
        (lambda d: Household(data=d / "nowhere"), "does not exist"),
        (lambda d: Household(data=d), "holds no games"),
        (lambda d: Household(data="$NO_SUCH_VARIABLE/x"), "environment variable that is not set"),
    ],
)
def test_wrong_input_is_named_in_one_sentence(tmp_path, make, words):
    with pytest.raises(BadInput) as error:
        make(tmp_path)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pddl_domain": None}, "lacks 'pddl_domain'"),
        ({"grammar": "grammar {"}, "grammar cannot be parsed"),
        ({"pddl_problem": "(define (problem x)"}, "cannot read this PDDL problem"),
    ],
)
def test_damaged_games(tmp_path, changes, words):
    write_game(tmp_path, **changes)
    with Household(data=tmp_path) as sandbox, pytest.raises(BadInput, match=words.replace("(", r"\(")):
        sandbox.reset(sandbox.tasks("valid_seen")[0])


def test_missing_unreadable_and_foreign_games(tmp_path):
    path = write_game(tmp_path)
    with Household(data=tmp_path) as sandbox:
        task = sandbox.tasks("valid_seen")[0]
        with pytest.raises(BadInput, match="unknown split of the games in"):
            sandbox.tasks("train")
        with pytest.raises(BadInput, match="there is no game file"):
            sandbox.reset("valid_seen/pick_and_place_simple-Mug-None-Desk-1/trial_2")
        with pytest.raises(BadInput, match="should begin with"):
            sandbox.reset("../x")
        path.write_text('{"pddl_domain": "')
        with pytest.raises(BadInput, match="cannot be read"):
            sandbox.reset(task)
        path.unlink()
        with pytest.raises(BadInput, match="there is no game file"):
            sandbox.reset(task)


def test_a_game_that_is_marked_unsolvable_is_left_out(tmp_path):
    write_game(tmp_path, solvable=False)
    write_game(tmp_path, "valid_unseen")
    with Household(data=tmp_path) as sandbox:
        assert sandbox.tasks("valid_seen") == ()
        assert len(sandbox.tasks("valid_unseen")) == 1


def test_importing_the_module_is_light_and_leaves_no_trace(tmp_path):
    """alfworld's own import makes ~/.cache/alfworld and sets $ALFWORLD_DATA; neither our engine nor the stock one may."""
    code = (
        "import sys, os, bpo.sandboxes.household as h\n"
        "assert not {'textworld', 'alfworld', 'fast_downward', 'torch'} & set(sys.modules)\n"
        "h.Household('tiny').reset('tiny/train/000000')\n"
        "assert 'alfworld' not in sys.modules\n"
        "h.StockHousehold('tiny').reset('tiny/train/000000')\n"
        "assert 'ALFWORLD_DATA' not in os.environ\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "ALFWORLD_DATA"}
    environment |= {"HOME": str(tmp_path), "BPO_CACHE": str(tmp_path / "bpo")}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert not (tmp_path / ".cache" / "alfworld").exists()
