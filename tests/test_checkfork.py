"""The check of forks must pass an exact sandbox and catch each way in which a fork can be wrong."""

import dataclasses

import pytest

from bpo.checkfork import by_verb, check_fork
from bpo.errors import BadInput
from bpo.sandbox import Observation, Outcome


@dataclasses.dataclass(frozen=True)
class State:
    total: int = 0
    step: int = 0
    size_bytes: int = 16


class Adder:
    """Adds what it is told, for eight steps; `fault` breaks one thing."""

    def __init__(self, fault=""):
        self.fault, self.drift, self.closed = fault, 0, False

    def tasks(self, split):
        return tuple(f"from {number}" for number in range(9))

    def reset(self, task):
        self.state = State(int(task.split()[1]))
        self.drift += self.fault == "reset"
        return self.observe()

    def step(self, action):
        self.state = State(self.state.total + int(action.split()[1]), self.state.step + 1)
        self.drift += self.fault == "leak"
        reward = float(self.state.total > 20) + (self.fault == "reward") * 0.5
        done = self.state.step == 8 or (self.fault == "done" and self.state.step == 5)
        return Outcome(self.observe(), reward, done)

    def snapshot(self):
        return self.state

    def restore(self, snapshot):
        self.state = State() if self.fault == "restore" else snapshot
        return self.observe()

    def fork(self, n):
        others = [self if self.fault == "shared fork" else type(self)(self.fault) for _ in range(n)]
        for other in others:
            other.drift = self.drift
            other.state = State(0, self.state.step) if self.fault == "fork" else self.state
        return others

    def state_key(self):
        return self.state

    def close(self):
        self.closed = True

    def observe(self):
        actions = ("add 1", "add 2", "add 3")
        actions = actions[:2] if self.fault == "actions" and self.state.step == 2 else actions
        text = f"total {self.state.total + (self.drift if self.fault in ('leak', 'reset') else 0)}"
        return Observation(text, actions, "add", self.state.step)


def check(make, reference=None, **options):
    options = {"games": 3, "branches": 3, "steps": 10, "seed": 0} | options
    return check_fork(make, Adder().tasks("train"), reference=reference, **options)


def test_an_exact_sandbox_passes_and_its_steps_are_counted():
    report = check(Adder)
    assert (report.mismatches, report.first_differences) == (0, ())
    assert report.steps >= 3 * 3 * 8


def test_the_check_is_fixed_by_its_seed():
    assert check(Adder, seed=4) == check(Adder, seed=4)


@pytest.mark.parametrize("fault", ["restore", "leak", "reset"])
def test_wrong_restores_are_caught_by_comparison_with_itself(fault):
    report = check(lambda: Adder(fault))
    assert report.mismatches > 0
    assert 0 < len(report.first_differences) <= 5


@pytest.mark.parametrize(("fault", "named"), [("fork", "something else in a fork"), ("shared fork", "moved the sandbox")])
def test_wrong_forks_are_caught(fault, named):
    report = check(lambda: Adder(fault))
    assert report.mismatches > 0
    assert named in " ".join(report.first_differences)


@pytest.mark.parametrize("fault", ["reward", "done", "actions"])
def test_differences_from_a_reference_are_caught_and_named(fault):
    report = check(lambda: Adder(fault), Adder)
    assert report.mismatches > 0
    assert fault in report.first_differences[0]


def test_both_sandboxes_are_closed_even_after_an_error():
    made = []

    def make():
        made.append(Adder())
        return made[-1]

    check(make)
    with pytest.raises(BadInput, match="there are only 9 tasks"):
        check(make, games=10)
    assert len(made) == 4
    assert all(sandbox.closed for sandbox in made)


def test_free_text_needs_a_proposal():
    class Free(Adder):
        def observe(self):
            return dataclasses.replace(super().observe(), actions=None)

    with pytest.raises(BadInput, match="propose"):
        check(Free)
    assert check(Free, propose=lambda observation, rng: f"add {rng.integers(3)}").mismatches == 0


def test_rare_verbs_are_proposed_as_often_as_common_ones():
    import numpy as np

    rng = np.random.default_rng(0)
    seen = Observation("", (*(f"go to {n}" for n in range(50)), "open door"), "", 0)
    share = sum(by_verb(seen, rng) == "open door" for _ in range(1000)) / 1000
    assert 0.45 < share < 0.55
    seen = Observation("", (*(f"click[{n}]" for n in range(50)), "search[lamp]"), "", 0)
    share = sum(by_verb(seen, rng) == "search[lamp]" for _ in range(1000)) / 1000
    assert 0.45 < share < 0.55
