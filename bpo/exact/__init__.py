"""Exact moments of gradient estimates on small decision trees, through the select, growth and credit code of training."""

from bpo.exact.check import Verdict, check_unbiased
from bpo.exact.moments import Moments, moments
from bpo.exact.problem import Problem
from bpo.exact.rows import AtDepths, PostHocAtDepths, advantage_variance, report, theorem2

__all__ = [
    "AtDepths",
    "Moments",
    "PostHocAtDepths",
    "Problem",
    "Verdict",
    "advantage_variance",
    "check_unbiased",
    "moments",
    "report",
    "theorem2",
]
