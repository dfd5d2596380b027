"""The warm start: a model that has seen demonstrations, made once and kept in the cache."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from bpo.cache import cache_dir, data_of, key_of
from bpo.errors import BadInput
from bpo.files import locked, published
from bpo.policies.imitation import Episode, Progress, imitate
from bpo.policies.lm import LMPolicy
from bpo.policies.prompts import spelled
from bpo.policies.settings import PolicySettings, WarmStart
from bpo.policies.tiny import tiny_model, train_tokenizer
from bpo.provenance import code_of, module_code, parts, versions
from bpo.sandbox import Sandbox
from bpo.sealed import is_whole

# First words of actions that change nothing in a household; what a hesitant demonstrator does.
IDLE = ("look", "inventory", "examine")

# First integer of the key of the stream that draws the demonstrated games.
GAMES = 9

Demonstrate = Callable[[str, int], Sequence[str]]  # (task id, seed) -> winning actions


def warm_start(
    sandbox_factory: Callable[[], Sandbox],
    recipe: WarmStart | None = None,
    settings: PolicySettings | None = None,
    *,
    demonstrate: Demonstrate,
    cache: bool = True,
    progress: Progress | None = None,
) -> LMPolicy:
    """A policy trained to imitate demonstrations in a sandbox; from the cache where the same one was made before.

    sandbox_factory  makes the sandbox whose tasks are demonstrated
    settings         which model is trained: a tiny one made here, or a pretrained one (by adapters, which are merged into it,
                     where they have a rank); and how it reads and writes
    demonstrate      (game, seed) -> winning actions, where game is what the sandbox's method `game` says of the task id, or the
                     id itself where it has none; [] where a game cannot be demonstrated
    progress         called as progress(what, done, total)

    The cache key covers the recipe, the sandbox's settings, the code that matters and the library versions. A second process
    that wants the same policy waits for the first. Errors: BadInput if a demonstration does not win.
    """
    recipe, settings = recipe or WarmStart(), settings or PolicySettings()
    if not cache:
        return _make(sandbox_factory, recipe, settings, demonstrate, progress)
    folder = cache_dir("warmstart") / fingerprint(sandbox_factory, recipe, settings, demonstrate)
    with locked(folder.with_suffix(".lock")):
        if not is_whole(folder):
            policy = _make(sandbox_factory, recipe, settings, demonstrate, progress)
            with published(folder) as temporary:
                policy.save(temporary)
    return LMPolicy.load(folder, **writing(settings))


def writing(settings: PolicySettings) -> dict:
    """The part of the settings that LMPolicy takes."""
    names = ("prompt", "writing", "temperature", "max_action_tokens", "pause_tokens", "pause_at", "device", "dtype")
    return {name: getattr(settings, name) for name in names}


def demonstrations(
    sandbox: Sandbox, recipe: WarmStart, demonstrate: Demonstrate, progress: Progress | None = None
) -> list[Episode]:
    """Plays the recipe's demonstrations; each episode is a list of (observation, action).

    Games that cannot be demonstrated are passed over; BadInput where fewer than the recipe wants are left.
    """
    game = getattr(sandbox, "game", lambda task: task)
    episodes, games = [], 0
    for task in _in_order(sandbox.tasks(recipe.split), recipe):
        if games == recipe.games:
            break
        plays = [demonstrate(game(task), seed) for seed in range(recipe.demonstrations)]
        if not all(plays):
            continue
        for seed, actions in enumerate(plays):
            rng = random.Random(f"{recipe.seed}/{task}/{seed}/hesitation")
            episodes.append(_play(sandbox, task, actions, recipe.hesitation, rng))
        games += 1
        if progress:
            progress("demonstrations", games, recipe.games)
    if games < recipe.games:
        raise BadInput(f"the recipe wants {recipe.games} games, split {recipe.split!r} has {games} that can be demonstrated")
    return episodes


def _in_order(tasks: Sequence[str], recipe: WarmStart) -> Iterator[str]:
    """The tasks that may be demonstrated: those of the split as they come, or in an order that the recipe's seed draws."""
    if not recipe.per_seed:
        return iter(tasks)
    return (tasks[int(place)] for place in np.random.default_rng([GAMES, recipe.seed]).permutation(len(tasks)))


def _play(sandbox: Sandbox, task: str, actions: Sequence[str], hesitation: float, rng: random.Random) -> Episode:
    observation, seen, reward = sandbox.reset(task), [], 0.0
    spare = getattr(sandbox, "max_steps", len(actions)) - len(actions)
    for action in actions:
        while spare > 0 and rng.random() < hesitation:
            idle = [a for a in observation.actions or () if a.split()[0] in IDLE]
            if not idle:
                break
            seen.append((observation, rng.choice(idle)))
            observation, spare = sandbox.step(seen[-1][1]).observation, spare - 1
        seen.append((observation, action))
        outcome = sandbox.step(action)
        observation, reward = outcome.observation, reward + outcome.reward
    if reward <= 0:
        raise BadInput(f"the demonstration of task {task!r} does not win: {', '.join(actions)}")
    return seen


def _make(
    sandbox_factory, recipe: WarmStart, settings: PolicySettings, demonstrate: Demonstrate, progress: Progress | None
) -> LMPolicy:
    with contextlib.closing(sandbox_factory()) as sandbox:
        episodes = demonstrations(sandbox, recipe, demonstrate, progress)
    if settings.kind == "hf":
        policy = LMPolicy.load(settings.model, **writing(settings))
        if settings.adapter_rank:
            policy = policy.with_adapters(settings.adapter_rank, recipe.seed)
    else:
        tokenizer = train_tokenizer((transcript(episode) for episode in episodes), recipe.vocab_size)
        policy = LMPolicy.of(tiny_model(len(tokenizer), recipe.size, recipe.seed), tokenizer, **writing(settings))
    imitate(
        policy,
        episodes,
        epochs=recipe.epochs,
        lr=recipe.lr,
        batch_size=recipe.batch_size,
        seed=recipe.seed,
        text_weight=recipe.text_weight,
        progress=progress,
    )
    return policy.merged() if settings.adapter_rank else policy


def transcript(episode: Episode) -> str:
    """The episode as plain text, for the tokenizer to learn from."""
    lines = [episode[0][0].task]
    for observation, action in episode:
        lines += [observation.text, f"> {spelled(action)}"]
    return "\n".join(lines)


def fingerprint(
    sandbox_factory: Callable[[], Sandbox], recipe: WarmStart, settings: PolicySettings, demonstrate: Demonstrate
) -> str:
    """A key of everything that the made policy depends on: settings, code, versions, and the files that settings name."""
    with contextlib.closing(sandbox_factory()) as sandbox:
        kind, facts = type(sandbox), {name: _plain(value) for name, value in vars(sandbox).items()}
    told = [argument for argument in getattr(sandbox_factory, "args", ()) if isinstance(argument, Mapping)]
    options = {name: value for mapping in told for name, value in mapping.items()}
    roots, values = parts(demonstrate)
    model = {"model": settings.model} if settings.kind == "hf" else {}
    return key_of(
        [asdict(recipe), asdict(settings), [kind.__module__, kind.__qualname__]],
        [facts, _plain(options), data_of({**facts, **options, **model})],
        [code_of(f"{__name__}:_make"), *map(_code, [kind, *roots]), values],
        versions(),
    )


def _code(thing: Any) -> str:
    """The code that a class or function reaches; of one that lies in no package, its file."""
    try:
        return code_of(thing)
    except LookupError:
        return module_code(Path(inspect.getfile(inspect.unwrap(thing))))


def _plain(value: Any) -> Any:
    """A setting as JSON has it: numbers, text, and lists and objects of them; None for what a sandbox works with."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, str | int | float | bool) else None
