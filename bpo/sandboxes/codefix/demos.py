"""Demonstrations: repairs for imitation, by a programmer who now and then tries another edit first."""

from __future__ import annotations

import random

from bpo.sandboxes.codefix.sandbox import RUN, SUBMIT, UNDO, Repair

# Chances: to run the tests before anything else, to try another edit first, to submit a repair without having run its tests.
LOOK, WRONG, BLIND = 0.3, 0.4, 0.1


def demonstration(repair: Repair, seed: int) -> list[str]:
    """Actions that repair the program and submit; [] where they do not fit into the step limit. Variety comes from `seed`."""
    rng = random.Random(f"codefix/{repair.task}/demonstration/{seed}")
    actions = [RUN] if rng.random() < LOOK else []
    others = [edit for edit in repair.offered if edit not in repair.repair]
    rng.shuffle(others)
    while others and rng.random() < WRONG:
        actions += [others.pop().action, RUN, UNDO]
    needed = list(repair.repair)
    rng.shuffle(needed)
    actions += [edit.action for edit in needed]
    if rng.random() >= BLIND:
        actions.append(RUN)
    actions.append(SUBMIT)
    # Where it took too long, the straight way.
    straight = [*(edit.action for edit in repair.repair), SUBMIT]
    return next((way for way in (actions, straight) if len(way) <= repair.max_steps), [])
