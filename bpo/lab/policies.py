"""The laboratory's two policies: a softmax over features that states share, and a table in which every state is its own."""

from __future__ import annotations

import copy
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from bpo.files import write_atomically
from bpo.finite import require_mass
from bpo.lab.dynamic import log_softmax
from bpo.lab.family import Family
from bpo.policy import Decision
from bpo.sandbox import Observation
from bpo.sealed import seal_folder

POLICIES = ("tabular", "linear")


class FeaturePolicy:
    """pi(a|s) = softmax(start[s] + features[s] @ weights); a context is the observation, whose text names the state.

    All probabilities are computed at once, when weights have changed since the last decision, and every decision is made once.

    kind  "tabular": one row of weights per state (features are the identity, and are not multiplied);
          "linear": rows of weights belong to the family's features, so that states which share one learn together
    """

    def __init__(self, family: Family, kind: str):
        if kind not in POLICIES:
            raise ValueError(f"kind is {kind!r}; it must be one of {', '.join(POLICIES)}")
        self.kind, self._number, self._actions = kind, family.number, tuple(map(str, range(family.width)))
        self._start = torch.as_tensor(family.start)
        self._features = torch.as_tensor(family.features) if kind == "linear" else None
        rows = len(family.names) if self._features is None else self._features.shape[1]
        self.weights = torch.zeros(rows, family.width, dtype=torch.float64, requires_grad=True)
        self._choices = (tuple(range(family.width)),)
        self._version = -1

    def begin(self, observation: Observation) -> Observation:
        return observation

    def extend(self, context: Observation, decision: Decision, observation: Observation) -> Observation:
        return observation

    def act(self, contexts: Sequence[Observation], rngs: Sequence[np.random.Generator]) -> list[Decision]:
        self._refresh()
        return [self._decide(self._number[context.text], rng.random()) for context, rng in zip(contexts, rngs, strict=True)]

    def logprob(self, steps: Sequence[tuple[Observation, Decision]]) -> tuple[torch.Tensor, torch.Tensor]:
        states = torch.tensor([self._number[context.text] for context, _ in steps], dtype=torch.int64)
        actions = torch.tensor([[decision.tokens[0]] for _, decision in steps], dtype=torch.int64).reshape(-1, 1)
        # Steps share states: one softmax per state that occurs.
        occurring, place = torch.unique(states, return_inverse=True)
        table = torch.log_softmax(self._logits(occurring), 1)
        return table[place, actions[:, 0]], torch.arange(len(steps))

    def batches(self, steps: Sequence[tuple[Observation, Decision]]) -> list[list[int]]:
        return [list(range(len(steps)))]

    def context_size(self, context: Observation) -> int:
        return context.step

    def evict_except(self, contexts: Sequence[Observation]) -> None:
        """Nothing is kept of the paths it acts on."""

    def probabilities(self) -> np.ndarray:
        """float64 [S, A], of every state."""
        self._refresh()
        return self._table

    def parameters(self) -> list[torch.Tensor]:
        return [self.weights]

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"weights": self.weights.detach().clone()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        self.weights = state["weights"].clone().requires_grad_(True)
        self._version = -1

    def frozen_copy(self) -> FeaturePolicy:
        frozen = copy.deepcopy(self)
        frozen.weights.requires_grad_(False)
        return frozen

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        data = io.BytesIO()
        torch.save(self.state_dict(), data)
        write_atomically(folder / "weights.pt", data.getvalue())
        seal_folder(folder)

    def _logits(self, states: torch.Tensor | slice) -> torch.Tensor:
        rows = self.weights[states] if self._features is None else self._features[states] @ self.weights
        return self._start[states] + rows

    def _refresh(self) -> None:
        """Compute the table again where the weights have been stepped on since."""
        if self._version == self.weights._version:
            return
        self._version = self.weights._version
        with torch.no_grad():
            logits = self._logits(slice(None)).numpy()
        logs = log_softmax(logits)
        self._table = np.exp(logs)
        require_mass(self._table.sum(axis=1))
        self._logs = logs.tolist()
        self._upto = self._table.cumsum(axis=1).tolist()
        self._entropy = -(self._table * logs).sum(axis=1)
        self._made: dict[tuple[int, int], Decision] = {}

    def _decide(self, state: int, uniform: float) -> Decision:
        upto = self._upto[state]
        action = 0
        while action < len(upto) - 1 and uniform >= upto[action]:
            action += 1
        made = self._made.get((state, action))
        if made is None:
            entropy = float(self._entropy[state])
            made = self._made[state, action] = Decision(
                action=self._actions[action],
                tokens=(action,),
                log_probs=(self._logs[state][action],),
                choices=self._choices,
                entropy=entropy,
                prefilled=1,
                generated=1,
                computed=1,
                entropies=(entropy,),
            )
        return made
