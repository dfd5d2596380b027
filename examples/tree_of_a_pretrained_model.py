"""A rollout tree of a pretrained model in a household game: SmolLM2-135M, or an untrained tiny model without it."""

from bpo import BadInput, Growth, Household, LMPolicy, Threshold, grow, tree_lines
from bpo.policies.tiny import tiny_model, train_tokenizer


def load(sandbox, tasks):
    """SmolLM2, whose weights `make smollm` installs; where they are missing, one sentence and a model that knows nothing."""
    try:
        return LMPolicy.load("smollm2")
    except BadInput as missing:
        print(f"An untrained model of 0.7 M parameters plays, since {missing}")
        tokenizer = train_tokenizer([sandbox.reset(task).text for task in tasks])
        return LMPolicy(tiny_model(len(tokenizer)), tokenizer)


sandbox = Household(difficulty="small", max_steps=6)
tasks = sandbox.tasks("train")[:8]
growth = Growth(Threshold(0.2), points=3, width=3, root=True)
(tree,), ledger = grow(tasks[:1], [sandbox], load(sandbox, tasks), growth, key=(0,))
print(*tree_lines(tree, width=120), sep="\n")
print(f"{len(tree.leaves)} returns, {ledger.env_steps} environment steps, {ledger.computed} tokens computed")
sandbox.close()
