"""What turns the trees of an update into a better policy: the protocol, and the learner that follows a gradient."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from bpo import finite, update
from bpo.credit import Credit
from bpo.memory import Memory
from bpo.objective import needs_reference
from bpo.policies.master_weights import MasterWeights
from bpo.policy import Policy
from bpo.tree import Tree

if TYPE_CHECKING:
    from bpo.config import Settings
    from bpo.methods import BuiltMethod

# First integer of the key of the stream that deals trees to mini-batches.
DEAL = 5


class Learner(Protocol):
    """One per run; it alone knows how the policy is changed (optimiser, reference, critic) and what of that a checkpoint keeps.

    learn   one update, number 0, 1, ...: changes the policy and returns facts. Of them `loss`, `tokens`, `clipped`,
            `approx_kl`, `kl` (sums over tokens) and `grad_norm` (before clipping) are written down for every learner
    """

    def learn(self, number: int, trees: Sequence[Tree], credits: Sequence[Credit]) -> dict[str, float]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class GradientLearner:
    """AdamW on the objective's gradient, with a KL term to the initial policy where the settings have one.

    Weights in half precision are stepped in float32 (see `bpo.policies.master_weights`).

    An update makes `epochs` passes over its trees, each in `mini_batches` steps on trees that are dealt at random. Facts are
    those of the last pass; the gradient norm is that of the last step.
    """

    def __init__(self, policy: Policy, memory: Memory, method: BuiltMethod, settings: Settings, seed: int):
        self.policy, self.memory, self.method, self.settings, self.seed = policy, memory, method, settings, seed
        self.reference = policy.frozen_copy() if settings.beta > 0 or needs_reference(method.objective) else None
        memory.attach(policy, self.reference)
        self.optimizer = self._optimizer()

    def learn(self, number: int, trees: Sequence[Tree], credits: Sequence[Credit]) -> dict[str, float]:
        """One update; see `Learner`."""
        whole = update.make_batch(trees, credits)
        self._set_lr(number)
        facts: dict[str, float] = {}
        for epoch in range(self.settings.epochs):
            facts = {}
            for chosen in self._deal(len(trees), number, epoch):
                batch = whole if len(chosen) == len(trees) else update.of_trees(whole, chosen)
                for name, value in self._step(number, batch, trees, chosen).items():
                    facts[name] = value if name == "grad_norm" else facts.get(name, 0.0) + value
        finite.require_weights(f"update {number + 1}", self._parameters(), "the last checkpoint is kept")
        return facts

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # Policies may have new parameters since their own state was loaded.
        self.optimizer = self._optimizer()
        self.optimizer.load_state_dict(state["optimizer"])

    def _step(self, number: int, batch: update.Batch, all_trees: Sequence[Tree], chosen: Sequence[int]) -> dict[str, float]:
        settings = self.settings
        for parameter in self._parameters():
            parameter.grad = None
        trees = [all_trees[i] for i in chosen]
        options: dict[str, Any] = {"clip": settings.clip, "beta": settings.beta}
        if "log_z" in inspect.signature(self.method.objective).parameters:
            normalisers = self.memory.log_z(trees)
            # Tokens name trees by their place in the update.
            places = torch.tensor(chosen, device=normalisers.device)
            options["log_z"] = normalisers.new_zeros(len(all_trees)).index_copy(0, places, normalisers)
        facts = update.backward(self.policy, self.reference, batch, self.method.objective, options)
        extra = [self._backward(loss) for loss in self.memory.auxiliary_losses(trees)]
        norm = update.grad_norm(self._parameters())
        finite.require_step(number + 1, facts["loss"], norm, settings.lr)
        # A batch without any contrast says nothing; stepping on it would only replay AdamW's momentum.
        if batch.steps or extra:
            torch.nn.utils.clip_grad_norm_(self._parameters(), settings.max_grad_norm)
            self.optimizer.step()
        return {**facts, "auxiliary": sum(extra), "grad_norm": norm}

    @staticmethod
    def _backward(loss: Any) -> float:
        loss.backward()
        return float(loss.item())

    def _deal(self, trees: int, number: int, epoch: int) -> list[list[int]]:
        count = min(self.settings.mini_batches, trees)
        if count == 1:
            return [list(range(trees))]
        order = np.random.default_rng([DEAL, self.seed, number, epoch]).permutation(trees)
        return [sorted(part.tolist()) for part in np.array_split(order, count)]

    def _parameters(self) -> list[Any]:
        return [*self.policy.parameters(), *self.memory.parameters()]

    def _optimizer(self) -> MasterWeights:
        lr = self.settings.lr
        return MasterWeights(self._parameters(), lambda weights: torch.optim.AdamW(weights, lr=lr, weight_decay=0.0))

    def _set_lr(self, number: int) -> None:
        settings = self.settings
        factor = 1.0
        if settings.schedule == "cosine":
            factor = 0.5 * (1 + math.cos(math.pi * number / max(settings.updates, 1)))
        for group in self.optimizer.param_groups:
            group["lr"] = settings.lr * factor
