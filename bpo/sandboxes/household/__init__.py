"""The household sandbox: real ALFWorld games, generated or official, with snapshots that cost a reference.

Nothing heavy is imported here; TextWorld loads with the first game.
"""

from bpo.sandboxes.household.demos import demonstration, play
from bpo.sandboxes.household.games import TASK_TYPES, layout_hash
from bpo.sandboxes.household.generator import SPLITS, generate
from bpo.sandboxes.household.layouts import DIFFICULTIES
from bpo.sandboxes.household.sandbox import Household, HouseholdSnapshot, PortableHousehold
from bpo.sandboxes.household.stock import StockHousehold

__all__ = [
    "DIFFICULTIES",
    "SPLITS",
    "TASK_TYPES",
    "Household",
    "HouseholdSnapshot",
    "PortableHousehold",
    "StockHousehold",
    "demonstration",
    "generate",
    "layout_hash",
    "play",
]
