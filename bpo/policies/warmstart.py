"""The warm start: a model that has seen demonstrations, made once and kept in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from bpo.cache import cache_dir
from bpo.errors import BadInput
from bpo.files import locked, published
from bpo.policies.imitation import Episode, Progress, imitate
from bpo.policies.lm import LMPolicy
from bpo.policies.prompts import spelled
from bpo.policies.settings import PolicySettings, WarmStart
from bpo.policies.tiny import tiny_model, train_tokenizer
from bpo.provenance import module_code
from bpo.sandbox import Sandbox

# First words of actions that change nothing in a household; what a hesitant demonstrator does.
IDLE = ("look", "inventory", "examine")

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
        if not (folder / "policy.json").exists():
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
    for task in sandbox.tasks(recipe.split):
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
    """Hash of everything that the made policy depends on."""
    with contextlib.closing(sandbox_factory()) as sandbox:
        kind = type(sandbox)
        options = {name: value for name, value in vars(sandbox).items() if isinstance(value, (str, int, float, bool))}
    here = Path(__file__).parent
    names = (
        "warmstart",
        "imitation",
        "lm",
        "lora",
        "master_weights",
        "net",
        "prompts",
        "score",
        "spelling",
        "text",
        "prefix_sharing",
        "tiny",
        "trie",
    )
    made_by = [here / f"{name}.py" for name in names]
    parts = {
        "recipe": asdict(recipe),
        "settings": asdict(settings),
        "sandbox": [kind.__module__, kind.__qualname__, options],
        "code": {path.name: module_code(path) for path in made_by},
        "sandbox code": {path.name: module_code(path) for path in _package(kind)},
        "demonstrations": {path.name: module_code(path) for path in _package(demonstrate)},
        "versions": {name: version(name) for name in ("torch", "transformers", "tokenizers", "numpy")},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:24]


def _package(thing) -> list[Path]:
    """The source files beside the one that defines `thing`: the whole package, or the file alone outside of bpo's sandboxes."""
    path = Path(inspect.getfile(inspect.unwrap(thing)))
    # The record of a sandbox says about it and does nothing in it.
    package = sorted(other for other in path.parent.glob("*.py") if other.name != "spec.py")
    return package if ".sandboxes." in thing.__module__ else [path]
