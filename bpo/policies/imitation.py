"""Imitation: maximise the probability of demonstrated actions under the very distribution that the policy acts with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from bpo.errors import BadInput
from bpo.finite import require_finite, require_weights
from bpo.policies.lm import LMPolicy, Step
from bpo.policies.master_weights import MasterWeights
from bpo.policies.prompts import Context
from bpo.policy import Decision
from bpo.sandbox import Observation

Episode = Sequence[tuple[Observation, str]]
Progress = Callable[[str, int, int], None]  # what is going on, how much is done, out of how much


@dataclass(frozen=True)
class _Lesson:
    """One episode as steps to score: its decisions, and the text between them as one more step (None if it has no weight)."""

    decisions: tuple[Step, ...]
    text: Step | None
    size: int


def imitate(
    policy: LMPolicy,
    episodes: Sequence[Episode],
    *,
    epochs: int,
    lr: float,
    batch_size: int,
    seed: int,
    text_weight: float = 0.0,
    weight_decay: float = 0.01,
    progress: Progress | None = None,
) -> dict:
    """Train the policy on (observation, action) episodes by teacher forcing; changes its model in place.

    The loss is the mean negative log-probability (nats) of a demonstrated action in the policy's own distribution, plus
    `text_weight` times the mean over the tokens of the observations, which teaches a new model to spell and copy names.
    AdamW on minibatches of `batch_size` whole episodes, learning rate up for 5 % of the updates and then along a cosine to
    zero, gradient norm clipped at 1. Weights narrower than float32 learn by a float32 copy (see `MasterWeights`). Everything
    random (the order of episodes) comes from `seed`.

    Returns `action_loss` and `text_loss` (a mean per epoch), and the numbers of `updates` and `tokens` (per epoch).
    Errors: BadInput for a recorded action that was not admissible, for an episode that is longer than the model reads, or no
    episodes.
    """
    lessons = [lesson(policy, episode, with_text=text_weight > 0) for episode in episodes if episode]
    if not lessons:
        raise BadInput("imitation needs at least one episode with at least one action")
    policy.check_length(max(lesson.size for lesson in lessons))
    rng = np.random.default_rng(seed)
    parameters = policy.parameters()
    optimiser = MasterWeights(
        parameters, lambda weights: torch.optim.AdamW(weights, lr=lr, betas=(0.9, 0.95), weight_decay=weight_decay)
    )
    updates = epochs * math.ceil(len(lessons) / batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser.optimiser, lambda update: warmup_cosine(update, updates))
    history: dict[str, list[float]] = {"action_loss": [], "text_loss": []}
    done = 0
    for _ in range(epochs):
        sums = np.zeros(4)  # action loss, actions, text loss, text tokens
        order = rng.permutation(len(lessons))
        for start in range(0, len(order), batch_size):
            sums += _gradient(policy, [lessons[i] for i in order[start : start + batch_size]], text_weight)
            norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            require_finite(f"imitation, update {done + 1}", {"the loss": sums, "the gradient's norm": norm}, "try a smaller lr")
            optimiser.step()
            optimiser.zero_grad()
            schedule.step()
            done += 1
            if progress:
                progress("imitation", done, updates)
        history["action_loss"].append(float(sums[0] / sums[1]))
        history["text_loss"].append(float(sums[2] / max(sums[3], 1)))
    require_weights("imitation", parameters, "try a smaller lr")
    return {**history, "updates": done, "tokens": sum(lesson.size for lesson in lessons)}


def lesson(policy: LMPolicy, episode: Episode, *, with_text: bool) -> _Lesson:
    """The demonstrated decisions with their contexts, as the policy would have met them."""
    steps: list[Step] = []
    for observation, action in episode:
        context = policy.extend(*steps[-1], observation) if steps else policy.begin(observation)
        steps.append((context, policy.decide(context, action)))
    last, decision = steps[-1]
    text = _text_step(steps) if with_text and last.parent is not None else None
    return _Lesson(tuple(steps), text, len(last.ids) + len(decision.tokens))


def _text_step(steps: Sequence[Step]) -> Step:
    """The observations' tokens as free writing, so that one forward pass scores them along with the actions.

    The tokens of actions stand in between as if they were forced: they are read, but not counted.
    """
    last, _ = steps[-1]
    choices: list[tuple[int, ...] | None] = [None] * len(last.ids)
    for context, decision in steps[:-1]:
        for place, token in enumerate(decision.tokens, start=len(context.ids)):
            choices[place] = (token,)
    start = Context(ids=last.ids[:1], observation=last.observation)
    return start, Decision("", last.ids[1:], (0.0,) * (len(last.ids) - 1), tuple(choices[1:]), entropy=math.nan)


def _gradient(policy: LMPolicy, batch: Sequence[_Lesson], text_weight: float) -> np.ndarray:
    """Adds the batch's gradient; returns the sums of action losses, actions, text losses and text tokens."""
    steps, is_text = [], []
    for item in batch:
        steps += item.decisions
        is_text += [False] * len(item.decisions)
        if item.text is not None:
            steps.append(item.text)
            is_text.append(True)
    actions = is_text.count(False)
    tokens = sum(len(decision.free) for (_, decision), text in zip(steps, is_text, strict=True) if text)
    weights = torch.tensor([text_weight / max(tokens, 1) if text else 1 / actions for text in is_text])
    texts = torch.tensor(is_text)
    sums = np.array([0.0, actions, 0.0, tokens])
    for group in policy.batches(steps):
        values, owner = policy.logprob([steps[i] for i in group])
        if not len(values):
            continue
        owner = torch.tensor(group)[owner.cpu()]
        loss = -(values * weights[owner].to(values.device)).sum()
        loss.backward()
        of_text = texts[owner]
        lost = -values.detach().cpu().double()
        sums[0] += lost[~of_text].sum().item()
        sums[2] += lost[of_text].sum().item()
    return sums


def warmup_cosine(update: int, updates: int, warmup: float = 0.05) -> float:
    """Factor of the learning rate: linear over the first `warmup` share of the updates, then a cosine to zero."""
    ramp = max(1, round(warmup * updates))
    if update < ramp:
        return (update + 1) / ramp
    return 0.5 * (1 + math.cos(math.pi * (update - ramp) / max(1, updates - ramp)))
