"""The policy protocol: who chooses actions, and how sure it was.

A *context* is what the policy remembers of a path. It is immutable: `extend` returns a new one, so two branches can share
their prefix. The rollout pairs it with the sandbox's snapshot; neither knows the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bpo.sandbox import Observation


@dataclass(frozen=True)
class Decision:
    """One action with everything the update needs, so that nothing has to be rendered or tokenised again.

    action      the text given to the sandbox
    tokens      ids the policy wrote for it, in order (the action index alone for a tabular policy)
    log_probs   natural log-probability of each token under the distribution it was sampled from (0.0 for a forced token)
    choices     for each token the ids that were allowed there; a single id is a forced token; None means the whole vocabulary
    entropy     nats, of the first token distribution that leaves a choice, given the state only: known before the draw.
                0.0 when nothing is left to choose
    prefilled   context tokens that had to be computed for this decision
    generated   tokens drawn for it, forced ones between them included
    computed    tokens the model computed for it, of the context and of what was written; what several decisions share is
                counted at one of them
    entropies   nats, of each distribution that a token with a choice was drawn from, in order; empty where nobody kept them
    ended       False where free writing paused inside an action, so that a tree can branch there: nothing is done yet, and
                `action` is the text since it began or last paused
    """

    action: str
    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    choices: tuple[tuple[int, ...] | None, ...]
    entropy: float
    prefilled: int = 0
    generated: int = 0
    computed: int = 0
    entropies: tuple[float, ...] = ()
    ended: bool = True

    @property
    def free(self) -> tuple[int, ...]:
        """Positions in `tokens` where there was a choice; only these carry gradient."""
        return tuple(i for i, ids in enumerate(self.choices) if ids is None or len(ids) > 1)


class Policy(Protocol):
    """Chooses actions in batches and can say again, differentiably, how likely they were.

    begin / extend     pure functions of their arguments; contexts are never changed in place
    resume             the context after a decision that has not ended; only for policies that pause inside actions
    act                one decision per context. `rngs[i]` is the numpy Generator that belongs to decision i alone, so a
                       decision does not depend on what else is in the batch (up to rounding)
    evict_except       says that every later context will be one of these or go on from one: what was kept for other paths
                       can be freed
    logprob            `steps` are (context, decision) pairs. Returns (values, owner): `values` float tensor [T] with the
                       log-probability of every free token, in order of the steps and of the tokens within them, and `owner`
                       int64 tensor [T] with the index of the step each belongs to. Differentiable in `parameters()`
    batches            splits the steps into lists of indices that fit into memory together
    features           splits the contexts into lists of indices that fit into memory together, and gives each with float tensor
                       [n, feature_size], what the policy makes of these contexts; differentiable in `parameters()`
    context_size       number of tokens along the path before the next decision (of steps, for policies without tokens)
    """

    def begin(self, observation: Observation) -> Any: ...
    def extend(self, context: Any, decision: Decision, observation: Observation) -> Any: ...
    def resume(self, context: Any, decision: Decision) -> Any: ...
    def act(self, contexts: Sequence[Any], rngs: Sequence[Any]) -> list[Decision]: ...
    def evict_except(self, contexts: Sequence[Any]) -> None: ...
    def logprob(self, steps: Sequence[tuple[Any, Decision]]) -> tuple[Any, Any]: ...
    def batches(self, steps: Sequence[tuple[Any, Decision]]) -> list[list[int]]: ...
    @property
    def feature_size(self) -> int: ...
    def features(self, contexts: Sequence[Any]) -> Iterator[tuple[list[int], Any]]: ...
    def context_size(self, context: Any) -> int: ...
    def parameters(self) -> Any: ...
    def state_dict(self) -> dict: ...
    def load_state_dict(self, state: dict) -> None: ...
    def frozen_copy(self) -> Policy: ...
    def save(self, folder: Any) -> None: ...
