"""A table of logits, one row per state: the policy on which exact results are stated."""

from __future__ import annotations

import copy
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bpo.errors import BadInput, counted, listed, scalar, shown
from bpo.files import write_atomically
from bpo.finite import require_mass
from bpo.policy import Decision
from bpo.sandbox import Observation
from bpo.sealed import seal_folder


class TabularPolicy:
    """Softmax over the admissible actions of each state; a context is the observation itself, its text names the state.

    logits: one float64 vector per state, in the order of the state's admissible actions. States that are not given get zeros
    when they are first seen.
    """

    def __init__(self, logits: Mapping[str, Sequence[float]] | None = None):
        self.logits = {
            state: torch.tensor(_numbers(state, row), dtype=torch.float64, requires_grad=True)
            for state, row in _mapping("logits", logits or {}).items()
        }

    @classmethod
    def bernoulli(cls, p: Mapping[str, float]) -> TabularPolicy:
        """Two actions with P(action 1 | state) = p[state]; the logits are (0, log p/(1-p))."""
        for state, x in _mapping("p", p).items():
            if not 0 < scalar(float, _plain(x), f"p[{state!r}]") < 1:
                raise BadInput(f"p[{state!r}] is {x!r}; it must be a probability between 0 and 1")
        return cls({state: (0.0, float(np.log(x / (1 - x)))) for state, x in p.items()})

    @classmethod
    def uniform(cls, returns: Sequence[float], width: int = 2) -> TabularPolicy:
        """Zero logits in every inner state of the tree with these leaf returns."""
        listed("returns", returns, "a list with one number per leaf"), counted("width", width, 2)
        depth = round(np.log(len(returns)) / np.log(width)) if len(returns) > 0 else 0
        if depth < 1 or width**depth != len(returns):
            raise BadInput(f"returns has {len(returns)} entries, which is not a power of the {width} actions")
        states = ["".join(map(str, s)) for d in range(depth) for s in itertools.product(range(width), repeat=d)]
        return cls({state: [0.0] * width for state in states})

    def begin(self, observation: Observation) -> Observation:
        return observation

    def extend(self, context: Observation, decision: Decision, observation: Observation) -> Observation:
        return observation

    def act(self, contexts: Sequence[Observation], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        return [self._decide(context, float(rng.random())) for context, rng in zip(contexts, rngs, strict=True)]

    def logprob(self, steps: Sequence[tuple[Observation, Decision]]) -> tuple[torch.Tensor, torch.Tensor]:
        owner = [i for i, (_, decision) in enumerate(steps) if decision.free]
        rows = [torch.log_softmax(self._row(steps[i][0]), 0)[steps[i][1].tokens[0]] for i in owner]
        values = torch.stack(rows) if rows else torch.zeros(0, dtype=torch.float64)
        return values, torch.tensor(owner, dtype=torch.int64)

    def batches(self, steps: Sequence[tuple[Observation, Decision]]) -> list[list[int]]:
        return [list(range(len(steps)))]

    @property
    def feature_size(self) -> int:
        """Number of states that have a row."""
        return len(self.logits)

    def features(self, contexts: Sequence[Observation]) -> Iterator[tuple[list[int], torch.Tensor]]:
        """One-hot rows [n, feature_size] of the states in order of their names; KeyError for a state without a row."""
        number = {state: i for i, state in enumerate(sorted(self.logits))}
        rows = torch.zeros(len(contexts), len(number), dtype=torch.float64)
        rows[range(len(contexts)), [number[context.text] for context in contexts]] = 1.0
        yield list(range(len(contexts))), rows

    def context_size(self, context: Observation) -> int:
        return context.step

    def evict_except(self, contexts: Sequence[Observation]) -> None:
        """A table keeps nothing of the paths it acts on."""

    def parameters(self) -> list[torch.Tensor]:
        return [self.logits[state] for state in sorted(self.logits)]

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {state: row.detach().clone() for state, row in self.logits.items()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        self.logits = {name: row.clone().requires_grad_(True) for name, row in state.items()}

    def frozen_copy(self) -> TabularPolicy:
        frozen = copy.deepcopy(self)
        for row in frozen.logits.values():
            row.requires_grad_(False)
        return frozen

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        data = io.BytesIO()
        torch.save(self.state_dict(), data)
        write_atomically(folder / "table.pt", data.getvalue())
        seal_folder(folder)

    def _row(self, context: Observation) -> torch.Tensor:
        actions = context.actions
        if actions is None:
            raise BadInput("a table of logits is given a state in which any text is allowed; it needs listed actions")
        if context.text not in self.logits:
            self.logits[context.text] = torch.zeros(len(actions), dtype=torch.float64, requires_grad=True)
        row = self.logits[context.text]
        if len(row) != len(actions):
            raise BadInput(
                f"the policy has {len(row)} logits for the state {shown(context.text)}, in which the sandbox lists "
                f"{len(actions)} actions: it was made for another sandbox, or texts do not tell the states of this one apart"
            )
        return row

    def _decide(self, context: Observation, uniform: float) -> Decision:
        log_probs = torch.log_softmax(self._row(context).detach(), 0).numpy()
        probs = np.exp(log_probs)
        require_mass(probs.sum())
        action = min(int(np.searchsorted(np.cumsum(probs), uniform, side="right")), len(probs) - 1)
        entropy = float(-(probs * log_probs).sum()) if len(probs) > 1 else 0.0
        return Decision(
            action=(context.actions or ())[action],
            tokens=(action,),
            log_probs=(float(log_probs[action]),),
            choices=(tuple(range(len(probs))),),
            entropy=entropy,
            prefilled=1,
            generated=1,
            computed=1,
            entropies=(entropy,) if len(probs) > 1 else (),
        )


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadInput(f"{name} is {shown(value)}; it must be a mapping of the names of states")
    return value


def _numbers(state: str, row: Any) -> list[float]:
    where = f"logits[{state!r}]"
    numbers = [scalar(float, _plain(x), f"{where}[{place}]") for place, x in enumerate(listed(where, row, "a list of numbers"))]
    if not numbers:
        raise BadInput(f"{where} is []; it must have a number for each action")
    return numbers


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value
