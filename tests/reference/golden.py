"""What every method makes of one recorded forest, worked out from the formulas alone: python tests/reference/golden.py

`forest.json` holds trees with unequal returns. Of every node it has the parent, the rank among its siblings, the share of the
parent's mass, the reward and the tokens of the edge that led there, each with its log-probability under the policy that acted,
under the one that is trained, and under the reference. Tasks a and b branch at the root only, and every state in which an
action was drawn has two auxiliary rollouts; task c has two trees that branch below the root, task d one with uneven masses.

`golden.json` gets, per case, the advantage and the weight of every edge, the loss, and the derivative of the loss by the
log-probability of every token. Nothing of bpo is imported: a test compares the two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

HERE = Path(__file__).parent
# Settings of a run: PPO's clip range, weight of the KL to the reference.
CLIP, BETA = 0.2, 0.05

Edge = tuple[int, int]  # (tree, node)
Numbers = dict[Edge, float]


class Tree:
    """One recorded tree."""

    def __init__(self, raw: dict):
        self.task, self.nodes = raw["task"], raw["nodes"]

    def __getitem__(self, node: int) -> dict:
        return self.nodes[node]

    def children(self, node: int) -> list[int]:
        """Trained children, or those of an auxiliary node within its rollout, by rank."""
        kind = self[node]["auxiliary"]
        found = [n for n in range(1, len(self.nodes)) if self[n]["parent"] == node and self[n]["auxiliary"] == kind]
        return sorted(found, key=lambda n: self[n]["rank"])

    def edges(self) -> list[int]:
        """Trained nodes below the root."""
        return [n for n in range(1, len(self.nodes)) if not self[n]["auxiliary"]]

    def above(self, node: int) -> list[int]:
        """The nodes from below the root to this one."""
        return [] if node == 0 else [*self.above(self[node]["parent"]), node]

    def main(self, node: int) -> list[int]:
        """This node and what follows along first children."""
        following = self.children(node)
        return [node, *(self.main(following[0]) if following else [])]

    def gained(self, node: int) -> float:
        """Rewards from the root to the node."""
        return sum(self[n]["reward"] for n in self.above(node))

    def outcome(self, node: int) -> float:
        """Return of the path through the node that continues with first children."""
        return self.gained(self.main(node)[-1])

    def mass(self, node: int) -> float:
        return math.prod(self[n]["weight"] for n in self.above(node))

    def value(self, node: int) -> float:
        """Mean return of the leaves below, by their shares."""
        following = self.children(node)
        return sum(self[n]["weight"] * self.value(n) for n in following) if following else self.gained(node)

    def rollout(self, node: int) -> int:
        """The child of the root that the node lies below."""
        return self.above(node)[0]


FOREST = [Tree(raw) for raw in json.loads((HERE / "forest.json").read_text())["trees"]]
INDEPENDENT, ALL = (0, 1), (0, 1, 2, 3, 4)


def rollouts(formula: Callable[[list[float], int], float]) -> Callable[[tuple[int, ...]], Numbers]:
    """An advantage per rollout, formula(returns of the task, which), for all of its edges."""

    def numbers(trees: tuple[int, ...]) -> Numbers:
        found: Numbers = {}
        for t in trees:
            tree = FOREST[t]
            starts = tree.children(0)
            returns = [tree.outcome(n) for n in starts]
            for n in tree.edges():
                found[t, n] = formula(returns, starts.index(tree.rollout(n)))
        return found

    return numbers


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def std(values: list[float], ddof: int = 0) -> float:
    return math.sqrt(sum((x - mean(values)) ** 2 for x in values) / (len(values) - ddof))


def share(t: int, n: int) -> float:
    """1/N for each of N rollouts."""
    return FOREST[t].mass(n)


def count(t: int, n: int) -> int:
    return len(FOREST[t][n]["tokens"])


def per_response(t: int, n: int) -> float:
    """1/N times 1/|y|."""
    tree = FOREST[t]
    return tree.mass(n) / sum(count(t, m) for m in tree.edges() if tree.rollout(m) == tree.rollout(n))


def per_token(t: int, n: int) -> float:
    """1 over the tokens of tasks a and b; the loss is divided by their number of trees."""
    return len(INDEPENDENT) / sum(count(s, m) for s in INDEPENDENT for m in FOREST[s].edges())


def whitened(numbers: Callable[[tuple[int, ...]], Numbers]) -> Callable[[tuple[int, ...]], Numbers]:
    """Mean 0 and standard deviation 1 over the tokens, each with the mass of its edge."""

    def white(trees: tuple[int, ...]) -> Numbers:
        found = numbers(trees)
        share_of = {(t, n): count(t, n) * FOREST[t].mass(n) for t, n in found}
        middle = sum(share_of[edge] * a for edge, a in found.items()) / sum(share_of.values())
        square = sum(share_of[edge] * (a - middle) ** 2 for edge, a in found.items()) / sum(share_of.values())
        return {edge: (a - middle) / math.sqrt(square) for edge, a in found.items()}

    return white


def literal(suffix: str = "broadcast", prefix: str = "backbone", lam: float = 0.95) -> Callable[[tuple[int, ...]], Numbers]:
    """Eqs. 3 and 4: at a branch point the return minus the mean of the other siblings'; earlier backbone steps discounted."""

    def numbers(trees: tuple[int, ...]) -> Numbers:
        found: Numbers = {}
        for t in trees:
            tree = FOREST[t]
            points = [n for n in range(len(tree.nodes)) if not tree[n]["auxiliary"] and len(tree.children(n)) > 1]
            for n in tree.edges():
                total = 0.0
                for p in points:
                    group = tree.children(p)
                    returns = [tree.outcome(c) for c in group]
                    local = [g - (sum(returns) - g) / (len(group) - 1) for g in returns]
                    for c, a in zip(group, local, strict=True):
                        path = tree.main(c)
                        if n == c or (n in path and suffix == "broadcast"):
                            total += a
                        elif n in path and suffix == "nearest":
                            between = path[: path.index(n)]
                            total += 0.0 if any(m in points for m in between) else a
                    if prefix == "backbone" and p in tree.main(0) and n in tree.above(p):
                        total += lam ** (len(tree.above(p)) - (len(tree.above(n)) - 1)) * local[0]
                found[t, n] = total
        return found

    return numbers


def splitting(shrink: float = 0.0) -> Callable[[tuple[int, ...]], Numbers]:
    """Q minus the siblings' weighted mean of the nearest branch point at or above; else the task's other root values."""

    def baseline(t: int, n: int) -> float:
        tree = FOREST[t]
        if n == 0:
            return mean([other.value(0) for s, other in enumerate(FOREST) if other.task == tree.task and s != t] or [math.nan])
        p = tree[n]["parent"]
        group = tree.children(p)
        if len(group) == 1:
            return baseline(t, p)
        others = [c for c in group if c != n]
        siblings = sum(tree[c]["weight"] * tree.value(c) for c in others) / sum(tree[c]["weight"] for c in others)
        return siblings if p == 0 or not shrink else (1 - shrink) * siblings + shrink * baseline(t, p)

    return lambda trees: {(t, n): FOREST[t].value(n) - baseline(t, n) for t in trees for n in FOREST[t].edges()}


def vine(trees: tuple[int, ...]) -> Numbers:
    """r + V(s') - V(s), with V the mean of what auxiliary rollouts gained from the state on, and 0 at the end."""

    def worth(tree: Tree, node: int) -> float:
        starts = [n for n in range(1, len(tree.nodes)) if tree[n]["auxiliary"] and tree[n]["parent"] == node]
        return 0.0 if tree[node]["ended"] else mean([sum(tree[m]["reward"] for m in tree.main(n)) for n in starts])

    return {
        (t, n): FOREST[t][n]["reward"] + worth(FOREST[t], n) - worth(FOREST[t], FOREST[t][n]["parent"])
        for t in trees
        for n in FOREST[t].edges()
    }


def anchored(
    ddof: int | None = 1, by_step: bool = True, omega: float = 1.0, ratio: float = 1.0
) -> Callable[[tuple[int, ...]], Numbers]:
    """(R - mean) / std of the rollouts, plus omega times the same of R_t among steps from one state (gamma = 0.95)."""

    def standing(values: list[float], x: float) -> float:
        if len(values) < 2 or max(values) == min(values):
            return 0.0
        return (x - mean(values)) / (1.0 if ddof is None else std(values, ddof))

    def numbers(trees: tuple[int, ...]) -> Numbers:
        found: Numbers = {}
        for t in trees:
            tree = FOREST[t]
            edges = tree.edges()
            totals = [tree.outcome(n) for n in (edges if by_step else tree.children(0))]
            later = {n: sum(0.95**k * tree[m]["reward"] for k, m in enumerate(tree.main(n))) for n in edges}
            seen = {n: tree[tree[n]["parent"]]["state"] for n in edges}
            for n in edges:
                group = [m for m in edges if SequenceMatcher(None, seen[m], seen[n]).ratio() >= ratio]
                found[t, n] = standing(totals, tree.outcome(n)) + omega * standing([later[m] for m in group], later[n])
        return found

    return numbers


def guessed(tree: Tree, node: int) -> float:
    """What a critic says of a state in the cases that have one; 0 once the episode is over."""
    return 0.0 if tree[node]["ended"] else 0.1 + len(tree[node]["state"]) / 40


def generalised(
    critic: Callable[[Tree, int], float] = lambda tree, node: 0.0, gamma: float = 1.0, lam: float = 0.95
) -> Callable[[tuple[int, ...]], Numbers]:
    """sum of (gamma lam)^k (r + gamma V' - V) along the path; at a branch point the children's mean by their shares goes on."""

    def rest(tree: Tree, node: int) -> float:
        delta = tree[node]["reward"] + gamma * critic(tree, node) - critic(tree, tree[node]["parent"])
        return delta + gamma * lam * sum(tree[n]["weight"] * rest(tree, n) for n in tree.children(node))

    return lambda trees: {(t, n): rest(FOREST[t], n) for t in trees for n in FOREST[t].edges()}


def clipped(high: float | None = None, dual: float | None = None) -> Callable[[float, list[float]], tuple[float, float]]:
    """PPO's loss of one token with advantage a, and its derivative by the log-probability: -min(r a, clip(r) a) + beta k3."""

    def loss(a: float, token: list[float]) -> tuple[float, float]:
        old, new, reference = token
        ratio, upper = math.exp(new - old), 1 + (CLIP if high is None else high)
        bounded = min(max(ratio, 1 - CLIP), upper)
        gain, slope = (ratio * a, ratio * a) if ratio * a <= bounded * a else (bounded * a, 0.0)
        if dual is not None and a < 0 and gain < dual * a:
            gain, slope = dual * a, 0.0
        d = reference - new
        return -gain + BETA * (math.exp(d) - d - 1), -slope + BETA * (1 - math.exp(d))

    return loss


def divergence(kl: bool = False) -> Callable[[float, list[float]], tuple[float, float]]:
    """-(a * ratio) log pi with the ratio held fixed, 0 where the probability has moved too far in the advantage's direction."""

    def loss(a: float, token: list[float]) -> tuple[float, float]:
        old, new, reference = token
        p, q = math.exp(new), math.exp(old)
        far = (q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p)) > 0.05) if kl else abs(p - q) > 0.15
        out = far and ((a > 0 and p > q) or (a < 0 and p < q))
        slope = 0.0 if out else -a * min(p / q, 10.0)
        d = reference - new
        return slope * new + BETA * (math.exp(d) - d - 1), slope + BETA * (1 - math.exp(d))

    return loss


def prefixes(t: int, advantages: Numbers, weight: Callable[[int, int], float]) -> tuple[float, dict[int, list[float]]]:
    """The ratio of all tokens up to each, log-bounds -0.025 sqrt(t) and 0.05 sqrt(t), dual bound at the upper one."""
    tree, total, slopes = FOREST[t], 0.0, {}
    for n in tree.edges():
        earlier = [token for m in tree.above(n)[:-1] for token in tree[m]["tokens"]]
        slopes[n] = []
        for i, (_, new, reference) in enumerate(tree[n]["tokens"]):
            walk = [*earlier, *tree[n]["tokens"][: i + 1]]
            moved, place, a = min(sum(b - c for c, b, _ in walk), 10.0), len(walk), advantages[t, n]
            ratio, most = math.exp(moved), math.exp(0.05 * math.sqrt(place))
            bounded = math.exp(min(max(moved, -0.025 * math.sqrt(place)), 0.05 * math.sqrt(place)))
            gain, slope = (ratio * a, ratio * a) if ratio * a <= bounded * a else (bounded * a, 0.0)
            if a < 0 and gain < most * a:
                gain, slope = most * a, 0.0
            d = reference - new
            total += weight(t, n) * (-gain + BETA * (math.exp(d) - d - 1))
            slopes[n].append(weight(t, n) * (-slope + BETA * (1 - math.exp(d))))
    return total, slopes


def regression(size: int) -> Callable[..., tuple[float, dict[int, list[float]]]]:
    """Mean over the pairs of each group of (d_i - d_j - (R_i - R_j))^2, and over groups; the KL has the rollouts' weight."""

    def joint(t: int, _advantages: Numbers, weight: Callable[[int, int], float]) -> tuple[float, dict[int, list[float]]]:
        tree = FOREST[t]
        starts = tree.children(0)
        moved = [sum(b - c for m in tree.main(n) for c, b, _ in tree[m]["tokens"]) for n in starts]
        groups = [range(first, first + size) for first in range(0, len(starts), size)]
        total, pull = 0.0, [0.0] * len(starts)
        for group in groups:
            pairs = [(i, j) for i in group for j in group if i < j]
            for i, j in pairs:
                rest = moved[i] - moved[j] - (tree.outcome(starts[i]) - tree.outcome(starts[j]))
                share = 1 / len(pairs) / len(groups)
                total += share * rest**2
                pull[i] += 2 * share * rest
                pull[j] -= 2 * share * rest
        slopes = {}
        for n in tree.edges():
            gaps = [reference - new for _, new, reference in tree[n]["tokens"]]
            total += weight(t, n) * BETA * sum(math.exp(d) - d - 1 for d in gaps)
            own = pull[starts.index(tree.rollout(n))]
            slopes[n] = [own + weight(t, n) * BETA * (1 - math.exp(d)) for d in gaps]
        return total, slopes

    return joint


def balanced(alpha: float, per_token: bool) -> Callable[..., tuple[float, dict[int, list[float]]]]:
    """ratio of the rollout, held fixed, times (log pi(y) - alpha R - log pi_ref(y))^2, with log Z = 0."""

    def joint(t: int, advantages: Numbers, weight: Callable[[int, int], float]) -> tuple[float, dict[int, list[float]]]:
        tree, total, slopes = FOREST[t], 0.0, {}
        for start in tree.children(0):
            path = tree.main(start)
            tokens = [token for n in path for token in tree[n]["tokens"]]
            length = len(tokens) if per_token else 1
            rest = sum(new - reference for _, new, reference in tokens) / length - alpha * advantages[t, start]
            factor = weight(t, start) * math.exp(sum(new - old for old, new, _ in tokens))
            total += factor * rest**2
            for n in path:
                slopes[n] = [2 * factor * rest / length] * len(tree[n]["tokens"])
        return total, slopes

    return joint


@dataclass(frozen=True)
class Case:
    """A method with some parameters: advantage and weight of every edge, loss of every token.

    joint    instead of `loss`: the weighted loss of all tokens of a tree, and its derivatives by node
    critic   the value of a state, where the method has a critic that has learned something
    same_as  a case with the same numbers, and why the two must be the same
    """

    method: str
    advantage: Callable[[tuple[int, ...]], Numbers]
    weight: Callable[[int, int], float] = share
    loss: Callable[[float, list[float]], tuple[float, float]] = field(default_factory=clipped)
    trees: tuple[int, ...] = INDEPENDENT
    joint: Callable[..., tuple[float, dict[int, list[float]]]] | None = None
    parameters: dict = field(default_factory=dict)
    critic: Callable[[Tree, int], float] | None = None
    same_as: dict[str, str] = field(default_factory=dict)


def own(_t: int, _n: int) -> float:
    return 1.0


loo = rollouts(lambda g, i: g[i] - (sum(g) - g[i]) / (len(g) - 1))
centred = rollouts(lambda g, i: g[i] - mean(g))
standard = rollouts(lambda g, i: (g[i] - mean(g)) / std(g))
sample = rollouts(lambda g, i: (g[i] - mean(g)) / std(g, 1))
paired = rollouts(lambda g, i: (g[i] - g[i + 1 - 2 * (i % 2)]) / 2)
returned = rollouts(lambda g, i: g[i])

CASES = {
    "rloo": Case("rloo", loo, same_as={"bpo_split on tasks a and b": "independent rollouts are a split at the root alone"}),
    "grpo": Case("grpo", standard),
    "grpo, sample std": Case("grpo", sample, parameters={"std": "sample"}),
    "grpo, mean per response": Case("grpo", standard, per_response, parameters={"tokens": "rollout"}),
    "drgrpo": Case("drgrpo", centred),
    "drgrpo, cap 32": Case("drgrpo", centred, lambda t, n: share(t, n) / 32, parameters={"cap": 32}),
    "reinforcepp": Case("reinforcepp", whitened(centred)),
    "reinforcepp, no baseline": Case("reinforcepp", whitened(returned), parameters={"baseline": "none"}),
    "dapo": Case("dapo", standard, per_token, clipped(high=0.28)),
    "dapo, dual clip": Case("dapo", standard, per_token, clipped(high=0.28, dual=3.0), parameters={"dual": 3.0}),
    "ppo": Case("ppo", whitened(generalised())),
    "ppo, with a critic": Case("ppo", generalised(guessed, 0.9), parameters={"gamma": 0.9, "whiten": False}, critic=guessed),
    "vineppo": Case("vineppo", vine),
    "gigpo": Case("gigpo", anchored()),
    "gigpo, statistics of rollouts": Case("gigpo", anchored(by_step=False), parameters={"over": "rollouts"}),
    "gigpo, without std": Case("gigpo", anchored(None), parameters={"std": "none"}),
    "gigpo, population std": Case("gigpo", anchored(0), parameters={"std": "population"}),
    "gigpo, similar states": Case("gigpo", anchored(ratio=0.95), parameters={"anchor": "similar"}),
    "gigpo, states of the sandbox": Case(
        "gigpo",
        anchored(),
        parameters={"anchor": "state"},
        same_as={"gigpo": "the recorded states have one text each"},
    ),
    "ctpo": Case("ctpo", standard, joint=prefixes),
    "dppo": Case("dppo", centred, loss=divergence()),
    "dppo, KL": Case("dppo", centred, loss=divergence(kl=True), parameters={"divergence": "kl"}),
    "rebel": Case("rebel", centred, joint=regression(4), parameters={"returns": 4}),
    "rebel, pairs": Case("rebel", paired, joint=regression(2), parameters={"form": "pairs"}),
    "opts_ttpo": Case("opts_ttpo", whitened(generalised(lam=0.999)), trees=ALL),
    "opts_ttpo, with a critic": Case(
        "opts_ttpo", generalised(guessed, lam=0.999), trees=ALL, parameters={"whiten": False}, critic=guessed
    ),
    "flowrl": Case("flowrl", standard, joint=balanced(15.0, per_token=True)),
    "flowrl, sums": Case("flowrl", standard, joint=balanced(15.0, per_token=False), parameters={"mean": False}),
    "disa": Case("disa", returned, joint=balanced(15.0, per_token=False)),
    "bpo": Case("bpo", literal(), own, trees=ALL),
    "bpo, zero suffix": Case("bpo", literal("zero"), own, trees=ALL, parameters={"suffix": "zero"}),
    "bpo, nearest suffix": Case("bpo", literal("nearest"), own, trees=ALL, parameters={"suffix": "nearest"}),
    "bpo, no prefix": Case("bpo", literal(prefix="off"), own, trees=ALL, parameters={"prefix": "off"}),
    "bpo_split": Case("bpo_split", splitting(), trees=ALL),
    "bpo_split on tasks a and b": Case("bpo_split", splitting()),
    "bpo_split, shrunk": Case("bpo_split", splitting(0.25), trees=ALL, parameters={"shrink": 0.25}),
}


def worked_out(case: Case) -> dict:
    """The golden numbers of a case; entries of a tree have one number per node, 0 where no edge is trained."""
    advantages, weights, slopes, total = [], [], [], 0.0
    by_edge = case.advantage(case.trees)
    for t in case.trees:
        tree, trained = FOREST[t], FOREST[t].edges()
        advantages.append([by_edge[t, n] if n in trained else 0.0 for n in range(len(tree.nodes))])
        weights.append([case.weight(t, n) if n in trained else 0.0 for n in range(len(tree.nodes))])
        if case.joint is not None:
            loss, slopes_of = case.joint(t, by_edge, case.weight)
            total += loss
            slopes.append([[x / len(case.trees) for x in slopes_of.get(n, [])] for n in range(len(tree.nodes))])
            continue
        row = []
        for n in range(len(tree.nodes)):
            parts = [case.loss(advantages[-1][n], token) for token in tree[n]["tokens"]] if n in trained else []
            total += weights[-1][n] * sum(loss for loss, _ in parts)
            row.append([weights[-1][n] * slope / len(case.trees) for _, slope in parts])
        slopes.append(row)
    return {
        "method": case.method,
        "parameters": case.parameters,
        "trees": list(case.trees),
        "same_as": case.same_as,
        "values": case.critic and [[case.critic(FOREST[t], n) for n in range(len(FOREST[t].nodes))] for t in case.trees],
        "advantage": advantages,
        "weight": weights,
        "loss": total / len(case.trees),
        "gradient": slopes,
    }


def golden() -> dict:
    """All cases, and the settings that they share."""
    return {"clip": CLIP, "beta": BETA, "cases": {name: worked_out(case) for name, case in CASES.items()}}


def rounded(value):
    """Numbers to 12 digits, so that the file is the same on every machine."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return float(f"{value:.12g}") if isinstance(value, float) else value


def text() -> str:
    """golden.json as it should be."""
    made = rounded(golden())
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in made.pop("cases").items())
    return f'{json.dumps(made)[:-1]}, "cases": {{\n{rows}\n}}}}\n'


if __name__ == "__main__":
    (HERE / "golden.json").write_text(text())
