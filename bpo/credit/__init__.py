"""Who gets credit: one pure function per rule, from leaf returns to an advantage and a weight per edge (see `record`)."""

from bpo.credit.literal import bpo
from bpo.credit.record import SPREAD, Credit, CreditRule, declared, leave_one_out, per_task, reads
from bpo.credit.rollouts import drgrpo, grpo, rloo
from bpo.credit.splitting import bpo_split

__all__ = [
    "SPREAD",
    "Credit",
    "CreditRule",
    "bpo",
    "bpo_split",
    "declared",
    "drgrpo",
    "grpo",
    "leave_one_out",
    "per_task",
    "reads",
    "rloo",
]
