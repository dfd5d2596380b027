"""The ledger of claims: what the paper says, whether it holds, and the numbers that show it, computed when the ledger is made.

Every claim is checked exactly on small decision trees by the library's own growth and credit code (bpo.exact). The verdict
comes out of the check: a claim that stopped failing would be reported as holding.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bpo import credit, select
from bpo.exact import AtDepths, PostHocAtDepths, Problem, advantage_variance, check_unbiased, moments, theorem2
from bpo.exact.moments import coefficients
from bpo.exact.realise import blocks
from bpo.files import to_json, write_atomically
from bpo.rollout import TRAJECTORY, Growth
from bpo.tree import Tree

HOLDS, CONDITIONS, FAILS = "holds exactly", "holds with conditions", "fails"
ROUNDING = 1e-10

# The reference tree: three decisions, binary returns.
TREE = Problem.from_spec({"p": [0.6, 0.3, 0.8, 0.5, 0.7, 0.45, 0.2], "r": [0, 0, 1, 0, 1, 1, 0, 1]})
# The return is the first action: nothing after it matters.
FIRST_ACTION = Problem.from_spec({"p": [0.3, 0.5, 0.5], "r": [0, 0, 1, 1]})
# The return is a fair coin whatever is known before the last action: the prefix explains nothing, all groups are alike.
LAST_ACTION = Problem.from_spec({"p": [0.5] * 7, "r": [0, 1] * 4})
# The same policy with graded returns.
GRADED = Problem.from_spec({"p": [0.6, 0.3, 0.8, 0.5, 0.7, 0.45, 0.2], "r": [0.0, 0.1, 1.0, 0.0, 0.7, 0.0, 0.2, 1.0]})
# Whether the second step is the branch point depends on what the backbone does there: one of its actions leads to a state that
# is more uncertain still.
SELECTED = Problem.from_spec({"p": [0.1, 0.3, 0.3, 0.5, 0.1, 0.1, 0.1], "r": [1, 0, 0, 0, 0, 0, 0, 1]})
# The paper's estimator at the branch points alone, and ours.
LITERAL = partial(credit.bpo, suffix="zero", prefix="off")
SPLIT = partial(credit.bpo_split, root_baseline="zero")

WORDS = """\
Words: the *backbone* is the first rollout of a tree, forks leave it at *branch points*. *Prefix credit* is what steps before
a branch point get (Eq. 4). Steps after it get nothing (*zero*) or its advantage (*broadcast*); the paper leaves that open. A
branch point is *causal* if it was chosen before the action there was drawn; *top-1 entropy* chooses on the finished backbone.
J is the expected return, V and Q the values, M the number of branch points, K the children of each, N the returns. The
*reference tree* has three binary decisions and J = 0.252; Proposition 1 is checked on a tree whose last action alone decides,
as a fair coin."""

Numbers = dict[str, float]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper (or of ours), where it is, how it is checked, and where a reader can see it.

    check returns (verdict, numbers): numbers by what they are.
    """

    claim: str
    place: str
    check: Callable[[], tuple[str, Numbers]]
    because: str
    shown: tuple[str, ...]


def of_rank(rank: int) -> Callable[[Tree], list[int]]:
    """From a tree to its children of this rank (0: the backbone's, 1: the first fork) at every branch point."""
    return lambda tree: [tree.children[point][rank] for point in tree.branch_points]


def conditional_bias(problem: Problem, growth: Growth, rank: int) -> float:
    """Largest |E[A(s_t, a^k) | s_t, a^k] - (Q - V)|, up to a constant per state, for the child of this rank.

    A constant per state cannot change the expected gradient, since the score has mean zero; what is measured is the rest.
    """
    total: dict[tuple[int, int], np.ndarray] = {}
    for block in blocks(problem, growth)[1]:
        factor = coefficients(block.shape, block.states, LITERAL)
        for node in of_rank(rank)(block.shape.template):
            for s, a, weight, value in zip(*block.shape.edge(block.states, node), block.chance, factor[:, node], strict=True):
                total[int(s), int(a)] = total.get((int(s), int(a)), np.zeros(2)) + weight * np.array([1, value])
    worst = 0.0
    for state in {s for s, _ in total}:
        taken = [a for a in range(problem.width) if (state, a) in total]
        mean = np.array([total[state, a][1] / total[state, a][0] for a in taken])
        truth = problem.value[problem.children(state)][taken] - problem.value[state]
        gap = mean - truth
        worst = max(worst, float(np.ptp(gap)))
    return worst


def theorem_1() -> tuple[str, Numbers]:
    fixed = max(conditional_bias(TREE, Growth(PostHocAtDepths(t), 1, 3), rank) for t in range(3) for rank in (0, 1))
    top = Growth(select.TopEntropy(), points=1, width=3)
    backbone, fresh = conditional_bias(TREE, top, 0), conditional_bias(TREE, top, 1)
    verdict = HOLDS if max(fixed, backbone, fresh) < ROUNDING else CONDITIONS if fixed < ROUNDING else FAILS
    return verdict, {
        "largest error, branch point at a fixed depth": fixed,
        "largest error of the backbone's member, top-1 entropy": backbone,
        "largest error of a fresh sibling, top-1 entropy (up to a constant per state)": fresh,
    }


def theorem_1_consequence() -> tuple[str, Numbers]:
    never = moments(FIRST_ACTION, Growth(PostHocAtDepths(1), 1, 2), LITERAL)
    top = moments(TREE, Growth(select.TopEntropy(), points=1, width=4), partial(credit.bpo, suffix="zero"))
    verdict = HOLDS if max(never.bias, top.bias) < ROUNDING else FAILS
    return verdict, {
        "R = first action, branch at the second: norm of the mean": float(np.linalg.norm(never.mean)),
        "the same: norm of grad J": float(np.linalg.norm(never.gradient)),
        "reference tree, top-1 entropy, K = 4, prefix credit: cosine to grad J": top.cosine,
        "the same: norm of the mean over norm of grad J": _ratio(top),
    }


def suffix_rules() -> tuple[str, Numbers]:
    growth = Growth(PostHocAtDepths(0, 1, 2), points=3, width=2)
    found = {
        suffix: moments(TREE, growth, partial(credit.bpo, suffix=suffix, prefix="off")) for suffix in ("zero", "broadcast")
    }
    verdict = HOLDS if all(m.bias < ROUNDING for m in found.values()) else FAILS
    last = [m.mean[3:].sum() / m.gradient[3:].sum() for m in found.values()]
    return verdict, {
        "every step branched, K = 2, zero: cosine to grad J": found["zero"].cosine,
        "zero: norm of the mean over norm of grad J": _ratio(found["zero"]),
        "broadcast: cosine to grad J": found["broadcast"].cosine,
        "broadcast: scale of the last step's gradient": float(last[1]),
    }


def prefix_credit() -> tuple[str, Numbers]:
    added = {}
    for name, problem, selector in (
        ("fixed", TREE, PostHocAtDepths(1)),
        ("top", SELECTED, select.TopEntropy()),
    ):
        growth = Growth(selector, points=1, width=4)
        on, off = (moments(problem, growth, partial(credit.bpo, suffix="zero", prefix=p)) for p in ("backbone", "off"))
        added[name] = (on.mean[0, 0] - off.mean[0, 0], on.trace_cov - off.trace_cov)
    fixed, top, truth = added["fixed"][0], added["top"][0], SELECTED.gradient[0, 0]
    learns = abs(fixed) > ROUNDING and top * truth > 0
    return HOLDS if learns else FAILS, {
        "fixed branch point: mean that prefix credit adds to the gradient of the first action": fixed,
        "fixed branch point: variance that it adds": added["fixed"][1],
        "top-1 entropy: mean that it adds to the gradient of the first action": top,
        "top-1 entropy: gradient of J with respect to the first action": truth,
    }


def theorem_2() -> tuple[str, Numbers]:
    worst, numbers = 0.0, {}
    for depth in range(3):
        for width in (2, 3, 4):
            row = theorem2(TREE, depth, width)
            gap = row["var_root_loo"] - row["var_sibling"]
            worst = max(worst, abs(gap - width / (width - 1) * row["prefix_explained"]))
            if width == 2:
                numbers[f"K = 2, t = {depth}: root minus sibling variance"] = gap
    return HOLDS if worst < ROUNDING else FAILS, {"largest deviation over t = 0, 1, 2 and K = 2, 3, 4": worst, **numbers}


def corollary_1() -> tuple[str, Numbers]:
    explained, graded = ([problem.variance(t) for t in range(4)] for problem in (TREE, GRADED))
    siblings = [theorem2(TREE, t, 2)["var_sibling"] for t in range(3)]
    rising = min(np.diff(explained).min(), np.diff(graded).min()) > -ROUNDING
    return HOLDS if rising and np.diff(siblings).max() < ROUNDING else FAILS, {
        **{f"Var(V(s_{t})), reference tree": value for t, value in enumerate(explained)},
        **{f"variance of a sibling advantage at t = {t}, K = 2": value for t, value in enumerate(siblings)},
    }


def proposition_1() -> tuple[str, Numbers]:
    """Variance of the average over M groups, at N = 4 returns, where all groups have the same variance."""
    numbers, spread = {}, []
    sigma = LAST_ACTION.variance()
    for points, width in ((3, 2), (1, 4)):
        growth = Growth(PostHocAtDepths(*range(points)), points=points, width=width)
        backbone, fresh = (advantage_variance(LAST_ACTION, growth, LITERAL, of_rank(rank)).value / sigma for rank in (0, 1))
        summed = moments(LAST_ACTION, growth, LITERAL).trace_cov
        numbers[f"M = {points}, K = {width}: claimed variance K/((K-1)M), in units of Var(G)"] = width / ((width - 1) * points)
        numbers[f"M = {points}, K = {width}: average over groups of the backbone's advantages"] = backbone
        numbers[f"M = {points}, K = {width}: average over groups of a fresh sibling's advantages"] = fresh
        numbers[f"M = {points}, K = {width}: trace of the covariance of the summed gradient"] = summed
        spread.append((width / ((width - 1) * points), backbone, fresh))
    right = all(abs(claimed - b) < ROUNDING and abs(claimed - f) < ROUNDING for claimed, b, f in spread)
    return HOLDS if right else FAILS, numbers


def remark_1() -> tuple[str, Numbers]:
    root = Growth(select.RootOnly(), points=1, width=4, root=True)
    binary, graded = moments(TREE, root, credit.grpo), moments(GRADED, root, credit.grpo)
    more = Growth(select.RootOnly(), points=1, width=8, root=True)
    hard, easy = (Problem.from_spec({"p": [p], "r": [0, 1]}) for p in (0.05, 0.5))
    scales = [_ratio(moments(problem, more, credit.grpo)) for problem in (hard, easy)]
    ok = [abs(1 - binary.cosine) < ROUNDING, abs(1 - graded.cosine) < ROUNDING, abs(scales[0] - scales[1]) < ROUNDING]
    return HOLDS if all(ok) else CONDITIONS if ok[0] else FAILS, {
        "binary rewards, one task, N = 4: cosine to grad J": binary.cosine,
        "graded rewards, one task: cosine to grad J": graded.cosine,
        "N = 8: scale of the gradient of a task with success 0.05": scales[0],
        "N = 8: scale of the gradient of a task with success 0.5": scales[1],
    }


def less_advantage_variance_is_less_gradient_variance() -> tuple[str, Numbers]:
    """Five returns: three from the root, one of which forks into three at its last step, against five from the root."""
    tree = Growth(AtDepths(0, 2), points=2, width=3)
    root = Growth(select.RootOnly(), points=1, width=5, root=True)
    pair = [
        advantage_variance(TREE, growth, rule, lambda tree, depth=depth: [tree.backbone[depth + 1]]).value
        for growth, rule, depth in ((root, credit.rloo, 0), (tree, SPLIT, 2))
    ]
    forked, flat = moments(TREE, tree, SPLIT), moments(TREE, root, credit.rloo)
    smaller = pair[1] < pair[0]
    return FAILS if smaller and forked.trace_cov > flat.trace_cov else HOLDS, {
        "advantage variance, 5 rollouts": pair[0],
        "advantage variance at the fork, 5 returns in a tree": pair[1],
        "gradient variance, 5 rollouts": flat.trace_cov,
        "gradient variance, 5 returns in a tree": forked.trace_cov,
        "gradient variance times environment steps, 5 rollouts": flat.trace_cov * flat.env_steps,
        "gradient variance times environment steps, 5 returns in a tree": forked.trace_cov * forked.env_steps,
    }


def mass_splitting() -> tuple[str, Numbers]:
    growths = {
        "root alone, K = 3": Growth(select.RootOnly(), 1, 3, root=True),
        "root and threshold": Growth(select.Threshold(0.6), 2, 2, root=True),
        "threshold, planned weights": Growth(select.Threshold(0.6), 2, 2, weights="planned"),
        "coin": Growth(select.Coin(0.5), 2, 2, root=True),
        "no branch point": TRAJECTORY,
    }
    found = {name: check_unbiased(growth, SPLIT).relative_bias for name, growth in growths.items()}
    found["shrink = 0.4"] = check_unbiased(growths["root and threshold"], partial(SPLIT, shrink=0.4)).relative_bias
    ahead = check_unbiased(Growth(select.TopEntropy(), 1, 2), SPLIT).relative_bias
    return HOLDS if max(found.values()) < ROUNDING < ahead else FAILS, {
        "largest bias over norm of grad J, six causal growths": max(found.values()),
        "the same with a selector that looks ahead": ahead,
    }


CLAIMS = (
    Claim(
        "The leave-one-out advantage of a sibling at a branch point is an unbiased estimate of Q - V.",
        "Theorem 1, first part",
        theorem_1,
        "It needs a branch point that is fixed or chosen causally. Under top-M selection over the finished backbone, the "
        "backbone's member is no independent draw; a fresh sibling is off by a constant that does not depend on its action.",
        ("notebooks/02_unbiasedness.ipynb",),
    ),
    Claim(
        "Hence the gradient of the loss is unbiased for grad J.",
        "Theorem 1, second part",
        theorem_1_consequence,
        "Only branched steps are trained. What decides the return before the first branch point is never learned.",
        ("notebooks/02_unbiasedness.ipynb", "tests/test_estimators_exact.py"),
    ),
    Claim(
        "Where every boundary is branched, the summed loss has the gradient of J.",
        "Eqs. 3 and 5; what steps after a branch point get is left open (new here: zero or broadcast)",
        suffix_rules,
        "With zero the direction is right and the scale is K, since members are summed. With broadcast a step is counted once "
        "per branch point at or above it, so later steps weigh more and the direction turns.",
        ("notebooks/02_unbiasedness.ipynb",),
    ),
    Claim(
        "Earlier steps of the backbone learn from the discounted advantages of later branch points.",
        "Eq. 4",
        prefix_credit,
        "At a fixed or causal branch point this credit has mean zero given the state, so it is noise. Under top-M selection it "
        "has a mean, which comes from the selection and can have the wrong sign.",
        ("notebooks/02_unbiasedness.ipynb",),
    ),
    Claim(
        "Sibling baselines take K/(K-1) Var(V(s_t)) off the variance of the advantage.",
        "Theorem 2",
        theorem_2,
        "For a branch point that is fixed or chosen causally, as in Theorem 1. It is a statement about advantages, not about "
        "gradients.",
        ("notebooks/03_variance.ipynb", "tests/test_estimators_exact.py"),
    ),
    Claim(
        "Deeper branch points have advantages of smaller variance.",
        "Corollary 1",
        corollary_1,
        "V(s_t) is a martingale, so its variance never falls.",
        ("notebooks/03_variance.ipynb",),
    ),
    Claim(
        "At a budget of N = 1 + M(K-1) returns the aggregate variance is proportional to K/((K-1)M), so K = 2 is best.",
        "Proposition 1",
        proposition_1,
        "As algebra about an average of M independent groups with equal variance it holds. But all groups of a tree contain "
        "the backbone's return, so averaging over M groups does not divide by M; and the loss sums over groups.",
        ("notebooks/03_variance.ipynb",),
    ),
    Claim(
        "Dividing by the group's standard deviation only rescales.",
        "Remark 1",
        remark_1,
        "True for binary rewards and one task. Graded rewards turn the direction, and tasks of different difficulty get "
        "different scales, which turns the direction of their sum.",
        ("notebooks/01_policy_gradients.ipynb",),
    ),
    Claim(
        "Smaller advantage variance means smaller gradient variance at the same number of returns.",
        "implied by the use of Theorem 2",
        less_advantage_variance_is_less_gradient_variance,
        "Leaves of a tree share their early actions. The notebook maps where forks win, per return and per environment step.",
        ("notebooks/03_variance.ipynb",),
    ),
    Claim(
        "Mass splitting at causal branch points is unbiased for grad J.",
        "new here (`bpo_split`; importance splitting)",
        mass_splitting,
        "Proved in docs/theory.md (T3), and enumerated for every causal growth that is listed in the tests. The argument about "
        "the weights is that of importance splitting, published for rollout trees as a branch aggregation lemma (OPTS-TTPO, "
        "arXiv 2609.40035). Causal selectors and sibling baselines without a critic are new here.",
        ("notebooks/02_unbiasedness.ipynb", "tests/test_estimators_exact.py"),
    ),
)


def ledger() -> list[dict[str, Any]]:
    """Every claim with its verdict and numbers, as plain values."""
    rows = []
    for claim in CLAIMS:
        verdict, numbers = claim.check()
        rows.append(
            {
                "claim": claim.claim,
                "place": claim.place,
                "verdict": verdict,
                "because": claim.because,
                # Twelve digits: what is below is rounding, and differs between machines.
                "numbers": {name: round(float(value), 12) + 0.0 for name, value in numbers.items()},
                "shown": list(claim.shown),
            }
        )
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """docs/claims.md."""
    lines = [
        "# Claims",
        "",
        "What the paper (arXiv 2607.14171) claims, what we add (new here), and what is true of it. Proofs are in",
        "[theory.md](theory.md). `python -m reproduce claims` makes the numbers from exact moments on small decision trees;",
        "`claims.json` has the digits.",
        "",
        WORDS,
        "",
        "| claim | place | verdict | where to see it |",
        "| --- | --- | --- | --- |",
    ]
    for row in rows:
        shown = ", ".join(f"[{Path(name).stem}](../{name})" for name in row["shown"])
        lines.append(f"| {row['claim']} | {row['place']} | **{row['verdict']}** | {shown} |")
    for row in rows:
        lines += ["", f"## {row['place']}: {row['verdict']}", "", f"> {row['claim']}", "", row["because"], ""]
        lines += [f"* {name}: {value:.4g}" for name, value in row["numbers"].items()]
    return "\n".join(lines) + "\n"


def write(folder: Path) -> list[dict[str, Any]]:
    """Make `claims.json` and `claims.md` in the folder."""
    rows = ledger()
    # Not sorted: the order of the numbers is part of the explanation.
    write_atomically(folder / "claims.json", to_json(rows, indent=1) + "\n")
    write_atomically(folder / "claims.md", markdown(rows))
    return rows


def read(folder: Path) -> list[dict[str, Any]]:
    """The ledger as it was written."""
    return json.loads((folder / "claims.json").read_text())


def _ratio(found) -> float:
    return float(np.linalg.norm(found.mean) / np.linalg.norm(found.gradient))
