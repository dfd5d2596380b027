"""The record of the household sandbox."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path

from bpo.param import Param
from bpo.sandbox import Sandbox
from bpo.sandboxes.household.demos import demonstration
from bpo.sandboxes.household.layouts import DIFFICULTIES
from bpo.sandboxes.household.sandbox import Household
from bpo.sandboxes.household.stock import StockHousehold
from bpo.sandboxes.record import Demonstrate, OfficialTasks, Options, PaperColumn, SandboxSpec, Walk, presets_beside, walk_limit


def make(**options) -> Sandbox:
    """Rooms; the engine loads with the first game."""
    return Household(**options)


def tasks(options: Options) -> str:
    """Official games, or generated rooms of a size."""
    return "official ALFWorld games" if options.get("data") else f"generated, {options.get('difficulty', 'small')} rooms"


def demonstrations(options: Options) -> Demonstrate:
    """A planner that knows the rooms."""
    return demonstration


def walk(games: int, steps: int, data: str | None) -> Walk:
    """Rooms of full size, or official games of valid_seen, replayed on the stock engine."""
    options = {"max_steps": walk_limit(steps), **({"data": data} if data else {"difficulty": "full"})}
    with contextlib.closing(Household(**options)) as probe:
        found = probe.tasks("valid_seen" if data else "train")
    return Walk(partial(Household, **options), partial(StockHousehold, **options), found if data else found[:games])


def official_folder() -> Path | None:
    """The folder with the official games, from $ALFWORLD_DATA; None where they are absent."""
    told = os.environ.get("ALFWORLD_DATA")
    folder = Path(told).expanduser() if told else None
    return folder if folder is not None and (folder / "json_2.1.1").is_dir() else None


household = SandboxSpec(
    summary="ALFWorld's text games, generated or official",
    make=make,
    options={
        "difficulty": Param("small", "size of generated games", choices=tuple(DIFFICULTIES)),
        "data": Param(None, "folder of the official games, laid out like $ALFWORLD_DATA; unset: generated ones", kind=Path),
        "max_steps": Param(None, "step limit; unset: the difficulty's, 50 for official games", low=1, kind=int),
    },
    tasks=tasks,
    packages={"alfworld": "household", "textworld": "household"},
    demonstrations=demonstrations,
    walk=walk,
    presets=presets_beside(__file__),
    paper=PaperColumn(
        start="44.6 ± 2.1 (SFT)",
        methods={"rloo": "58.3 ± 2.2", "grpo": "60.5 ± 2.0", "bpo": "66.4 ± 1.9 (M = 4, K = 4)"},
        head="paper: success, Qwen2.5-7B, ALFWorld valid_unseen, 3 seeds, ± std (a different experiment)",
        tasks="the official ALFWorld games, and another step limit than the paper's 40",
        others="PPO, VinePPO, SWE-bench, the second model",
    ),
    official=OfficialTasks(
        label="official ALFWorld games, tiny model",
        folder=official_folder,
        hint="set $ALFWORLD_DATA to the folder that alfworld-download filled",
    ),
)
