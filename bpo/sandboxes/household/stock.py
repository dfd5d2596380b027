"""The stock engine, unpatched: TextWorld's PddlEnv under ALFWorld's Demangler, to compare with and to measure against."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from bpo.cache import cache_dir
from bpo.sandbox import Observation, Outcome
from bpo.sandboxes.household.sandbox import Household, facts, split_intro


class StockHousehold(Household):
    """The same games and the same surface as Household on the stock engine, without snapshots, forks or state keys.

    Every instance loads a 33 MB copy of the planner that the stock package never unloads; use few.
    """

    def __init__(self, difficulty: str = "small", data: str | os.PathLike | None = None, max_steps: int | None = None):
        super().__init__(difficulty, data, max_steps)
        self._env = None
        self._loaded = None

    def reset(self, task: str) -> Observation:
        """Start an episode; the game is loaded if it is another than before."""
        self._game = self.game(task)
        if self._env is None:
            self._env = _environment()
        if self._loaded != self._game.text:
            text = self._game.text
            self._env.load({"pddl_domain": text.domain, "grammar": text.grammar, "pddl_problem": text.problem})
            self._loaded = text
        self._state = self._env.reset()
        self._sentence = split_intro(self._state.feedback)[1]
        self._steps, self._done = 0, False
        return self._observe()

    def step(self, action: str) -> Outcome:
        """Play one action."""
        if self._done:
            raise RuntimeError("this episode is over; call reset before the next step")
        self._state, score, won = self._env.step(action)
        self._steps += 1
        self._done = won or self._steps >= self.max_steps
        return Outcome(self._observe(), float(score), self._done, facts(self._game, won, self._done))

    def raw(self) -> str:
        """The engine's own text for the present observation."""
        return self._state.feedback

    def snapshot(self):
        """The stock engine has none."""
        raise NotImplementedError("the stock engine has no snapshots")

    def restore(self, snapshot):
        """The stock engine has none."""
        raise NotImplementedError("the stock engine has no snapshots")

    def resume(self, portable):
        """The stock engine has none."""
        raise NotImplementedError("the stock engine has no snapshots")

    def fork(self, n: int):
        """The stock engine has none."""
        raise NotImplementedError("the stock engine cannot fork")

    def state_key(self):
        """The stock engine has none."""
        raise NotImplementedError("the stock engine has no state key")

    def close(self) -> None:
        """Drop the environment; the stock package keeps its library loaded."""
        self._env = None
        super().close()

    def _observe(self) -> Observation:
        raw = self._state.feedback
        text = split_intro(raw)[0] if self._steps == 0 else raw.strip()
        actions = tuple(command for command in self._state["admissible_commands"] if command != "help")
        return Observation(text, actions, self._sentence, self._steps)


def _environment():
    with _alfworld_import():
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    import textworld
    from textworld.envs import PddlEnv

    return AlfredDemangler()(PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True)))


@contextlib.contextmanager
def _alfworld_import() -> Iterator[None]:
    """Importing alfworld makes the folder $ALFWORLD_DATA (or ~/.cache/alfworld) and sets the variable: let it do neither."""
    before = os.environ.get("ALFWORLD_DATA")
    os.environ["ALFWORLD_DATA"] = str(cache_dir("household"))
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("ALFWORLD_DATA", None)
        else:
            os.environ["ALFWORLD_DATA"] = before
