"""A household-like text world of a few lines, and how to play it."""

from __future__ import annotations

import random

import numpy as np

from bpo.sandbox import Observation

RECEPTACLES = [f"{kind} {i}" for kind in ("cabinet", "countertop", "drawer", "shelf") for i in (1, 2, 12)] + ["fridge 1"]
OBJECTS = ("mug", "apple", "plate", "egg")


def room(seed: int, step: int = 0) -> Observation:
    """An observation with 8 to 14 admissible actions, some of which begin like others ("cabinet 1", "cabinet 12")."""
    rng = random.Random(f"{seed}-{step}")
    if step == 0:
        text = "You are in the middle of a room. Looking quickly around you, you see a " + ", a ".join(RECEPTACLES) + "."
    else:
        text = f"You arrive at countertop {step}. On it, you see a {rng.choice(OBJECTS)} {step} and a {rng.choice(OBJECTS)} 7."
    actions = [f"go to {name}" for name in rng.sample(RECEPTACLES, rng.randint(4, 9))]
    actions += [f"take {rng.choice(OBJECTS)} {i} from countertop {i}" for i in (1, 2)]
    task = f"put a hot {OBJECTS[seed % len(OBJECTS)]} in cabinet."
    return Observation(text, (*actions, "open fridge 1", "inventory", "look"), task, step)


def demonstration(seed: int) -> list[tuple[Observation, str]]:
    rng = random.Random(seed)
    return [(observation, rng.choice(observation.actions)) for observation in (room(seed, step) for step in range(4))]


def streams(n: int, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, i]) for i in range(n)]


def play(policy, n: int = 6, length: int = 4, seed: int = 0):
    """`n` paths of `length` decisions through rooms; returns the steps, path by path."""
    rngs = streams(n, seed)
    contexts = [policy.begin(room(i)) for i in range(n)]
    steps = [[] for _ in range(n)]
    for t in range(length):
        decisions = policy.act(contexts, rngs)
        for i, decision in enumerate(decisions):
            steps[i].append((contexts[i], decision))
            contexts[i] = policy.extend(contexts[i], decision, room(i, t + 1))
    return steps
