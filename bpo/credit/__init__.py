"""Who gets credit: one pure function per rule, from leaf returns to an advantage and a weight per edge (see `record`)."""

from bpo.credit.anchors import gigpo
from bpo.credit.gae import gae
from bpo.credit.literal import bpo
from bpo.credit.record import SPREAD, Credit, CreditRule, declared, found_by, leave_one_out, per_task, reads
from bpo.credit.rollouts import drgrpo, grpo, raw, rloo, within
from bpo.credit.splitting import bpo_split
from bpo.credit.values import vineppo
from bpo.credit.weighing import WEIGHINGS, Weighing, by_cap
from bpo.credit.whitening import whitened

__all__ = [
    "SPREAD",
    "WEIGHINGS",
    "Credit",
    "CreditRule",
    "Weighing",
    "bpo",
    "bpo_split",
    "by_cap",
    "declared",
    "drgrpo",
    "found_by",
    "gae",
    "gigpo",
    "grpo",
    "leave_one_out",
    "per_task",
    "raw",
    "reads",
    "rloo",
    "vineppo",
    "whitened",
    "within",
]
