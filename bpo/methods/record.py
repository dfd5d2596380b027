"""What a row of the table of methods is made of, and what a row becomes once its parameters are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bpo.credit import CreditRule
from bpo.mechanism import CONTRAST, Mechanism
from bpo.memory import Memory, Statistics
from bpo.objective import Loss
from bpo.param import Param
from bpo.rollout import Planned

if TYPE_CHECKING:
    from bpo.learner import Learner

Parameters = Mapping[str, Any]


def no_check(parameters: Parameters) -> None:
    """For rows all of whose combinations of parameters make sense."""


def contrast(parameters: Parameters) -> Mapping[str, Mechanism]:
    """What most methods need: returns that differ."""
    return {"contrast": CONTRAST}


def statistics(growth: Planned) -> Memory:
    """The memory of most methods."""
    return Statistics(growth.selector)


def plain_memory(parameters: Parameters) -> Callable[[Planned], Memory]:
    """What makes it, whatever the parameters."""
    return statistics


def gradient_learner(*given: Any) -> Learner:
    """The learner of most methods; torch is imported when it is made."""
    from bpo.learner import GradientLearner

    return GradientLearner(*given)


@dataclass(frozen=True)
class Method:
    """One row of the table.

    parameters  every parameter; no others are accepted
    growth      parameters -> Growth: where the tree grows
    credit      parameters -> credit rule of a batch (see credit.per_task): who gets credit
    objective   parameters -> loss (see `bpo.objective`): how the policy moves; clip and KL weight belong to the run, so that
                methods share them
    citation    where the method comes from
    fidelity    how far this follows its source, and what is our own reading
    known_from  what of the source was read: "released code", "full text", "digest", "abstract"
    equals      other rows that it has the same gradient direction as at ratio 1, on rollouts from the root: by what factor, why
    inexact     why trees of a table of logits cannot express it, where they cannot
    bias        whether the gradient estimate is unbiased for grad J (at ratio 1 and without KL), and if not why
    memory      parameters -> growth -> what the method remembers from update to update
    mechanism   parameters -> what must happen in a run for it to be one of this method, by the names in its metrics
    learner     makes what changes the policy, see `bpo.learner`
    check       parameters -> None: refuses combinations that make no sense, by a BadInput that begins with a parameter's name
    """

    summary: str
    parameters: Mapping[str, Param]
    growth: Callable[[Parameters], Planned]
    credit: Callable[[Parameters], CreditRule]
    objective: Callable[[Parameters], Loss]
    citation: str
    fidelity: str
    bias: str
    memory: Callable[[Parameters], Callable[[Planned], Memory]] = plain_memory
    learner: Callable[..., Learner] = gradient_learner
    check: Callable[[Parameters], None] = no_check
    known_from: str = ""
    equals: Mapping[str, str] = field(default_factory=dict)
    inexact: str = ""
    mechanism: Callable[[Parameters], Mapping[str, Mechanism]] = contrast

    def naming(self, parameters: Parameters) -> dict[str, Any]:
        """The values that a run is named by: all but those of later parameters that are at their defaults."""
        rows = self.parameters
        return {key: value for key, value in parameters.items() if not (rows[key].later and value == rows[key].default)}

    @property
    def defaults(self) -> dict[str, Any]:
        """Every parameter with its default."""
        return {name: parameter.default for name, parameter in self.parameters.items()}


@dataclass(frozen=True)
class BuiltMethod:
    """A method with its parameters filled in: what the training loop runs."""

    name: str
    parameters: Parameters
    growth: Planned
    credit: CreditRule
    objective: Loss
    memory: Callable[[], Memory]
    learner: Callable[..., Learner]
    mechanism: Mapping[str, Mechanism]
