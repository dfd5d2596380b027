"""A method: two rollouts of a task against each other."""

from bpo.credit import per_task, rloo
from bpo.methods import Method, Param
from bpo.objective import reinforce
from bpo.rollout import Growth
from bpo.select import RootOnly


def growth(p):
    return Growth(RootOnly(), points=1, width=p["rivals"], root=True)


pairs = Method(
    summary="two rollouts against each other",
    parameters={"rivals": Param(2, "rollouts per task", low=2, high=4)},
    growth=growth,
    credit=lambda p: per_task(rloo),
    objective=lambda p: reinforce,
    citation="nowhere",
    fidelity="full",
    bias="unbiased",
)
