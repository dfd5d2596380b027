"""Branching Policy Optimization: reinforcement learning on rollout trees for agents in sandboxes that can be forked.

The names below are what most programs need; each is imported when it is first used, so that `import bpo` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bpo.checkfork import check_fork
    from bpo.credit import bpo_split, grpo, leave_one_out, rloo
    from bpo.errors import BadInput
    from bpo.exact.check import check_unbiased
    from bpo.exact.moments import moments
    from bpo.methods import METHODS, build
    from bpo.policies.lm import LMPolicy
    from bpo.policies.tabular import TabularPolicy
    from bpo.policy import Decision, Policy
    from bpo.rollout import Growth, grow
    from bpo.sandbox import Observation, Outcome, Sandbox
    from bpo.sandboxes.household import Household
    from bpo.sandboxes.toy import ToyTree
    from bpo.select import CausalSelector, QuantileThreshold, RootOnly, Threshold, TopEntropy
    from bpo.tree import Tree
    from bpo.viz.text import tree_lines

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "BadInput",
    "CausalSelector",
    "Decision",
    "Growth",
    "Household",
    "LMPolicy",
    "Observation",
    "Outcome",
    "Policy",
    "QuantileThreshold",
    "RootOnly",
    "Sandbox",
    "TabularPolicy",
    "Threshold",
    "TopEntropy",
    "ToyTree",
    "Tree",
    "bpo_split",
    "build",
    "check_fork",
    "check_unbiased",
    "grow",
    "grpo",
    "leave_one_out",
    "moments",
    "rloo",
    "tree_lines",
]

# Where each name is defined.
_HOMES = {
    "bpo.checkfork": ("check_fork",),
    "bpo.credit": ("bpo_split", "grpo", "leave_one_out", "rloo"),
    "bpo.errors": ("BadInput",),
    "bpo.exact.check": ("check_unbiased",),
    "bpo.exact.moments": ("moments",),
    "bpo.methods": ("METHODS", "build"),
    "bpo.policies.lm": ("LMPolicy",),
    "bpo.policies.tabular": ("TabularPolicy",),
    "bpo.policy": ("Decision", "Policy"),
    "bpo.rollout": ("Growth", "grow"),
    "bpo.sandbox": ("Observation", "Outcome", "Sandbox"),
    "bpo.sandboxes.household": ("Household",),
    "bpo.sandboxes.toy": ("ToyTree",),
    "bpo.select": ("CausalSelector", "QuantileThreshold", "RootOnly", "Threshold", "TopEntropy"),
    "bpo.tree": ("Tree",),
    "bpo.viz.text": ("tree_lines",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
# Which extra installs a package that some of these names need.
_EXTRAS = {"torch": "lm", "transformers": "lm", "textworld": "household", "alfworld": "household"}


def __getattr__(name: str) -> Any:
    """Import a public name on first use; ImportError names the pip command where a package is missing."""
    if name not in _HOME:
        raise AttributeError(f"module 'bpo' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRAS:
            raise
        install = f"pip install 'bpo[{_EXTRAS[missing]}]'"
        raise ImportError(f"bpo.{name} needs the package {missing!r}, which is not installed: {install}") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
