"""Exact values by dynamic programming: J of any policy, the optimum, and how much of the return the past explains."""

from __future__ import annotations

import numpy as np

from bpo.lab.family import OVER, Family


def values(family: Family, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(V float64 [S], Q float64 [S, A]) of the policy pi(a|s) = probabilities [S, A]."""
    q = np.empty_like(family.start)
    v = np.zeros(len(family.names) + 1)  # one more, for the end: OVER is its index
    for layer in reversed(family.layers):
        q[layer] = _q(family, layer, v)
        v[layer] = (probabilities[layer] * q[layer]).sum(axis=1)
    return v[:OVER], q


def _q(family: Family, layer: slice, v: np.ndarray) -> np.ndarray:
    return (family.chance[layer] * (family.reward[layer] + v[family.following[layer]])).sum(axis=2)


def expected_return(family: Family, probabilities: np.ndarray) -> float:
    """J, exactly."""
    return float(values(family, probabilities)[0][0])


def optimum(family: Family) -> float:
    """J of the best policy."""
    v = np.zeros(len(family.names) + 1)
    for layer in reversed(family.layers):
        q = _q(family, layer, v)
        v[layer] = q.max(axis=1)
    return float(v[0])


def reach(family: Family, probabilities: np.ndarray) -> np.ndarray:
    """float64 [S], probability that an episode passes through each state."""
    found = np.zeros(len(family.names) + 1)
    found[0] = 1.0
    for layer in family.layers:
        flow = found[layer][:, None, None] * probabilities[layer][:, :, None] * family.chance[layer]
        np.add.at(found, family.following[layer], flow)
        found[OVER] = 0.0
    return found[:OVER]


def explained(family: Family, probabilities: np.ndarray) -> np.ndarray:
    """float64 [T], Var(V(s_t)) at every depth: what branching there takes out of an advantage (theory.md, T2).

    For families all of whose reward comes at the end, as here.
    """
    v, _ = values(family, probabilities)
    passing = reach(family, probabilities)
    return np.array([passing[layer] @ (v[layer] - v[0]) ** 2 for layer in family.layers])


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """float64 [S, A], log-probabilities of logits [S, A]."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
