"""Exact moments of gradient estimates on small decision trees, through the select, growth and credit code of training."""

from bpo.exact.check import Verdict, check_unbiased
from bpo.exact.directions import ExactDirections, exact_directions
from bpo.exact.moments import Moments, moments
from bpo.exact.problem import Problem, read_spec
from bpo.exact.rows import AtDepths, PostHocAtDepths, advantage_variance, report, theorem2

__all__ = [
    "AtDepths",
    "ExactDirections",
    "Moments",
    "PostHocAtDepths",
    "Problem",
    "Verdict",
    "advantage_variance",
    "check_unbiased",
    "exact_directions",
    "moments",
    "read_spec",
    "report",
    "theorem2",
]
