"""Snapshots by replay: exact for deterministic simulators, a clear error for others."""

import itertools

import pytest

from bpo.checkfork import check_fork
from bpo.replay import ReplaySandbox
from bpo.sandbox import Observation, Outcome, Sandbox, Snapshot, SnapshotError


class Counter:
    """Has reset and step only. `noise` yields what is added to each shown total."""

    def __init__(self, noise=None):
        self.noise = itertools.repeat(0) if noise is None else noise

    def tasks(self, split):
        return ("0", "5")

    def reset(self, task):
        self.total, self.steps = int(task), 0
        return self.observe()

    def step(self, action):
        self.total, self.steps = self.total * 2 + int(action), self.steps + 1
        return Outcome(self.observe(), float(self.total % 7 == 0), self.steps == 6)

    def observe(self):
        return Observation(f"{self.total + next(self.noise)}", ("0", "1", "2"), "count", self.steps)


def test_it_is_a_sandbox_and_its_forks_are_exact():
    sandbox = ReplaySandbox(Counter)
    sandbox.reset("0")
    assert isinstance(sandbox, Sandbox)
    assert isinstance(sandbox.snapshot(), Snapshot)
    assert sandbox.snapshot().size_bytes > 0
    report = check_fork(
        lambda: ReplaySandbox(Counter),
        ("0", "5"),
        games=2,
        branches=3,
        steps=12,
        seed=1,
        reference=lambda: ReplaySandbox(Counter),
    )
    assert report.steps > 50
    assert report.mismatches == 0


def test_forks_stand_at_the_present_state_and_are_independent():
    sandbox = ReplaySandbox(Counter)
    sandbox.reset("5")
    here = sandbox.step("1").observation
    first, second = sandbox.fork(2)
    assert first.restore(first.snapshot()) == here
    assert first.state_key() == sandbox.state_key() == second.state_key()
    assert first.step("2").observation.text == "24"
    assert second.step("0").observation.text == "22"
    assert sandbox.restore(sandbox.snapshot()) == here


def test_a_simulator_that_is_not_deterministic_is_found_out():
    sandbox = ReplaySandbox(lambda: Counter(itertools.chain([0, 0, 0, 0], itertools.repeat(1))))
    sandbox.reset("0")
    sandbox.step("1")
    snapshot = sandbox.snapshot()
    sandbox.restore(snapshot)
    with pytest.raises(SnapshotError, match="diverged at step 0: text was '0' and is now '1'"):
        sandbox.restore(snapshot)


def test_foreign_stale_and_closed_snapshots_are_refused():
    sandbox, other = ReplaySandbox(Counter), ReplaySandbox(Counter)
    with pytest.raises(RuntimeError, match="reset first"):
        sandbox.step("1")
    sandbox.reset("0")
    other.reset("0")
    with pytest.raises(SnapshotError, match="another sandbox"):
        sandbox.restore(other.snapshot())
    old = sandbox.snapshot()
    sandbox.reset("0")
    with pytest.raises(SnapshotError, match="before the last reset"):
        sandbox.restore(old)
    present = sandbox.snapshot()
    sandbox.close()
    with pytest.raises(SnapshotError, match="closed"):
        sandbox.restore(present)
    with pytest.raises(RuntimeError, match="closed"):
        sandbox.step("1")
