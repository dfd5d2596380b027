import subprocess
import sys
import textwrap
from dataclasses import replace
from types import MappingProxyType

import pytest
from rooms import room

from bpo.errors import BadInput
from bpo.policies import warmstart
from bpo.policies.lm import LMPolicy
from bpo.policies.settings import PolicySettings, WarmStart
from bpo.policies.warmstart import fingerprint, warm_start
from bpo.provenance import module_code
from bpo.sandbox import Outcome

RECIPE = WarmStart(games=6, demonstrations=1, epochs=2, size="micro", vocab_size=400, batch_size=2)


class Corridor:
    """Two steps: any admissible action, then "look" wins."""

    def __init__(self, length: int = 2):
        self.length = length

    def tasks(self, split):
        return tuple(str(i) for i in range(10))

    def reset(self, task):
        self._task, self._step = int(task), 0
        return room(self._task)

    def step(self, action):
        self._step += 1
        won = self._step == self.length and action == "look"
        return Outcome(room(self._task, self._step), float(won), self._step == self.length, MappingProxyType({}))

    def close(self):
        pass


def show(task, seed):
    return ["inventory", "look"]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("BPO_CACHE", str(tmp_path))


def test_the_second_call_reads_the_first_one_s_model(monkeypatch, tmp_path):
    seen = []
    made = warm_start(Corridor, RECIPE, demonstrate=show, progress=lambda *args: seen.append(args))
    assert seen[5] == ("demonstrations", 6, 6)
    assert seen[-1] == ("imitation", 6, 6)
    monkeypatch.setattr(warmstart, "_make", None)
    again = warm_start(Corridor, RECIPE, demonstrate=show)
    step = [(context := made.begin(room(0)), made.decide(context, "look"))]
    assert again.begin(room(0)).ids == context.ids
    assert again.logprob(step)[0].tolist() == made.logprob(step)[0].tolist()
    assert [p.name for p in (tmp_path / "warmstart").iterdir() if p.name.startswith(".")] == []


def test_fingerprint_covers_recipe_settings_and_code(monkeypatch):
    base = fingerprint(Corridor, RECIPE, PolicySettings(), show)
    assert fingerprint(Corridor, RECIPE, PolicySettings(), show) == base
    others = {
        fingerprint(Corridor, replace(RECIPE, lr=1e-3), PolicySettings(), show),
        fingerprint(lambda: Corridor(3), RECIPE, PolicySettings(), show),
        base,
    }
    monkeypatch.setattr(warmstart, "code_of", lambda *roots: "changed")
    assert len(others | {fingerprint(Corridor, RECIPE, PolicySettings(), show)}) == 4


def test_code_hash_ignores_comments_and_docstrings(tmp_path):
    def code(text):
        (tmp_path / "m.py").write_text(textwrap.dedent(text))
        return module_code(tmp_path / "m.py")

    base = code("def f(x):\n    return x + 1\n")
    assert code("def f(x):\n    # why\n    return  x+1\n") == base
    assert code('"""What."""\n\ndef f(x):\n    "how"\n    return x + 1\n') == base
    assert code("def f(x):\n    return x + 2\n") != base


def test_a_half_written_folder_is_made_again():
    folder = warmstart.cache_dir("warmstart", fingerprint(Corridor, RECIPE, PolicySettings(), show))
    (folder / "config.json").write_text("{")
    assert warm_start(Corridor, RECIPE, demonstrate=show).begin(room(0)).ids


def test_a_damaged_warm_start_is_made_again_and_not_trained_from():
    """One bit of its weights, a cut, a missing file: the model is the one that was made, to the last digit."""
    # Copies: a loaded model's weights are the file itself, mapped into memory.
    made = {name: value.clone() for name, value in warm_start(Corridor, RECIPE, demonstrate=show).state_dict().items()}
    folder = warmstart.cache_dir("warmstart", fingerprint(Corridor, RECIPE, PolicySettings(), show))
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    place = len(whole) - 1000
    for damage in (whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :], whole[: len(whole) // 2], None):
        weights.unlink() if damage is None else weights.write_bytes(damage)
        again = warm_start(Corridor, RECIPE, demonstrate=show).state_dict()
        assert all(value.equal(again[name]) for name, value in made.items())
        assert weights.read_bytes() == whole


def test_a_saved_policy_whose_weights_have_changed_is_not_loaded(tmp_path):
    warm_start(Corridor, RECIPE, demonstrate=show).save(tmp_path / "saved")
    assert LMPolicy.load(tmp_path / "saved").settings
    weights = tmp_path / "saved" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x40")
    with pytest.raises(BadInput, match=r"saved is damaged and cannot be used: model.safetensors has another digest"):
        LMPolicy.load(tmp_path / "saved")


def test_two_processes_at_once_both_end_well(tmp_path):
    program = """
        import sys, torch
        torch.set_num_threads(1)
        sys.path.insert(0, {here!r})
        from test_warmstart import *
        print(hash(warm_start(Corridor, RECIPE, demonstrate=show).begin(room(0)).ids))
    """
    here = str(__import__("pathlib").Path(__file__).parent)
    command = [sys.executable, "-c", textwrap.dedent(program).format(here=here)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [process.communicate(timeout=120)[0].strip() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert printed[0] == printed[1] != ""
    assert len([p for p in (tmp_path / "warmstart").iterdir() if p.is_dir()]) == 1


def test_a_demonstration_that_does_not_win_is_named():
    with pytest.raises(BadInput, match="does not win"):
        warm_start(Corridor, RECIPE, demonstrate=lambda task, seed: ["look", "inventory"], cache=False)
    with pytest.raises(BadInput, match="wants 11 games"):
        warm_start(Corridor, replace(RECIPE, games=11), demonstrate=show, cache=False)


def test_a_hesitant_demonstrator_wins_all_the_same_and_only_looks_around_more():
    """The idle actions come between the planned ones, as often as asked, and never beyond the step limit."""
    from bpo.sandboxes.household import Household, demonstration

    with Household("tiny") as home:
        plain = warmstart.demonstrations(home, WarmStart(games=12, demonstrations=2), demonstration)
        slow = warmstart.demonstrations(home, WarmStart(games=12, demonstrations=2, hesitation=0.4), demonstration)
        assert max(map(len, slow)) <= home.max_steps
    added = 0
    for one, other in zip(plain, slow, strict=True):
        planned = [action for _, action in one]
        rest = iter(action for _, action in other)
        idle = []
        for action in planned:
            while (played := next(rest)) != action:
                idle.append(played)
        assert list(rest) == []
        assert all(action.split()[0] in warmstart.IDLE for action in idle)
        added += len(idle)
    assert 0.15 < added / sum(map(len, slow)) < 0.45
