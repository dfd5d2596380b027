"""An objective, and a method whose objective is a parameter."""

from bpo.credit import per_task, rloo
from bpo.methods import OBJECTIVES, Method, Param
from bpo.objective import reinforce
from bpo_friends.pairs import growth


def gentle(tokens):
    loss, facts = reinforce(tokens)
    return loss / 2, facts


chosen_loss = Method(
    summary="two rollouts against each other, by an objective of your choice",
    parameters={
        "rivals": Param(2, "rollouts per task", low=2),
        "objective": Param("reinforce", "how the policy moves", choices=OBJECTIVES),
    },
    growth=growth,
    credit=lambda p: per_task(rloo),
    objective=lambda p: OBJECTIVES[p["objective"]],
    citation="nowhere",
    fidelity="full",
    bias="unbiased",
)
