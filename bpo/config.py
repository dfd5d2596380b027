"""What a run is: every setting in one frozen record, read from a preset, checked field by field before anything starts."""

from __future__ import annotations

import hashlib
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from bpo.errors import BadInput, at_least, choose, scalar
from bpo.methods import METHODS, BuiltMethod, build
from bpo.plugins import OWN
from bpo.policies.settings import SIZES, PolicySettings, WarmStart, hub_name
from bpo.sandboxes import SANDBOXES, factory, spec


@dataclass(frozen=True)
class Settings:
    """Everything that methods of one comparison share.

    updates            policy updates
    tasks_per_update   tasks per update, drawn fresh from the training split; the same for every method at equal seed
    epochs             passes over the trees of an update; above 1 the ratios leave 1 and clipping can become active
    mini_batches       optimiser steps of a pass; the trees are dealt to them at random
    lr, schedule       AdamW's learning rate, "constant" or "cosine" (to zero at the last update)
    beta, clip         KL weight (k3, to the frozen initial policy) and PPO clip range
    max_grad_norm      gradient clipping; statistics of the norm are taken before it
    curve_every        updates between points of the learning curve (0: none); curve_tasks tasks of curve_split
    eval_tasks         tasks per evaluation split, eval_samples episodes each, sampled at the policy's temperature
    checkpoint_every   updates between checkpoints; the last two are kept
    concurrency        most sandboxes that live at once
    """

    updates: int = 60
    tasks_per_update: int = 4
    epochs: int = 1
    mini_batches: int = 1
    lr: float = 1e-4
    schedule: str = "constant"
    beta: float = 0.05
    clip: float = 0.2
    max_grad_norm: float = 1.0
    curve_every: int = 10
    curve_tasks: int = 48
    curve_split: str = "panel"
    eval_tasks: int = 100
    eval_samples: int = 1
    eval_splits: tuple[str, ...] = ("valid_seen", "valid_unseen")
    checkpoint_every: int = 10
    concurrency: int = 16


# Settings that runs did not always have. At these values a run is what it was without them, and has the same name and hash.
LATER = {"mini_batches": 1}


@dataclass(frozen=True)
class RunConfig:
    """One run: a method on a sandbox with a seed. `hash` names it by content."""

    method: str
    parameters: Mapping[str, Any]
    sandbox: str
    sandbox_options: Mapping[str, Any]
    policy: PolicySettings
    warm_start: WarmStart | None
    settings: Settings
    seed: int = 0

    def recipe(self) -> BuiltMethod:
        """The method with its parameters; a fresh selector each time."""
        return build(self.method, self.parameters)

    def plain(self) -> dict[str, Any]:
        """The configuration as plain values, the way it is written to config.yaml."""
        plain = json.loads(json.dumps(asdict(self)))
        for name, default in LATER.items():
            if plain["settings"][name] == default:
                del plain["settings"][name]
        return plain

    @property
    def hash(self) -> str:
        """Eight hex digits of the content, seed aside."""
        content = {**self.plain(), "seed": None, "parameters": dict(self.recipe().parameters)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """Folder name of the run: method, sandbox, seed, content hash."""
        return f"{self.method}-{self.sandbox}-s{self.seed}-{self.hash}"


@dataclass(frozen=True)
class Row:
    """One row of a sweep: a method with its parameters under the label that the table prints."""

    label: str
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """Rows times seeds, and how the gradient noise at the frozen warm start is measured (draws of noise_tasks tasks)."""

    seeds: tuple[int, ...]
    rows: tuple[Row, ...]
    noise_draws: int = 24
    noise_tasks: int = 4


@dataclass(frozen=True)
class SandboxSection:
    """What a preset says about one sandbox.

    scale     in words, how large model and tasks are: the first line of every table
    settings  values of Settings that are other ones here
    sweep     rows and seeds of its table, where they are not the preset's
    """

    scale: str
    options: Mapping[str, Any] = field(default_factory=dict)
    policy: PolicySettings = field(default_factory=PolicySettings)
    warm_start: WarmStart | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    sweep: Sweep | None = None


@dataclass(frozen=True)
class Preset:
    """A named set of runs: shared settings, a section per sandbox, parameters per method, and the sweep of the table.

    sections_of  the name under which the records of sandboxes hold what the preset says about them; "": they add nothing
    sandboxes    sections of its own, which go before those
    """

    name: str
    description: str
    settings: Settings
    methods: Mapping[str, Mapping[str, Any]]
    sweep: Sweep
    sections_of: str = ""
    sandboxes: Mapping[str, SandboxSection] = field(default_factory=dict)

    def section(self, sandbox: str) -> SandboxSection:
        """What the preset says about a sandbox; BadInput where it says nothing."""
        choose("sandbox", sandbox, SANDBOXES)
        if sandbox not in self.sandboxes:
            _brought(self.sections_of, sandbox)  # says what is wrong with it, where something is
            raise BadInput(
                f"preset {self.name!r} has no settings for sandbox {sandbox!r} (it has: {', '.join(self.sandboxes)})"
            )
        return self.sandboxes[sandbox]

    def settings_of(self, sandbox: str) -> Settings:
        """The settings of runs in a sandbox."""
        return _changed(self.settings, self.section(sandbox).settings, f"{self.name}: {sandbox}: settings")

    def sweep_of(self, sandbox: str) -> Sweep:
        """The rows and seeds of a sandbox's table."""
        return self.section(sandbox).sweep or self.sweep

    def run(self, method: str, sandbox: str, seed: int, parameters: Mapping[str, Any] | None = None) -> RunConfig:
        """The checked configuration of one run; BadInput names what is wrong."""
        section, settings = self.section(sandbox), self.settings_of(sandbox)
        merged = {**self.methods.get(method, {}), **(parameters or {})}
        build(method, merged)
        factory(sandbox, section.options)
        return RunConfig(method, merged, sandbox, section.options, section.policy, section.warm_start, settings, seed)


def preset_names() -> list[str]:
    """Names of the presets that come with the package."""
    return sorted(
        entry.name.removesuffix(".yaml") for entry in files("bpo").joinpath("presets").iterdir() if ".yaml" in entry.name
    )


def load_preset(name: str) -> Preset:
    """A preset of the package by name, or a YAML file by path; every unknown field and unusable value is refused.

    What it does not say about a sandbox itself is in the sandbox's record, under the name `sections_of`; another package's
    section that cannot be used is left out until it is asked for.
    """
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        if not path.is_file():
            raise BadInput(f"preset file {name!r} does not exist")
        text, where = path.read_text(), name
    else:
        choose("preset", name, preset_names())
        text, where = files("bpo").joinpath("presets", f"{name}.yaml").read_text(), f"preset {name}"
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadInput(f"{where} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(raw, Mapping):
        raise BadInput(f"{where} must be a mapping of fields, not {type(raw).__name__}")
    preset = read(Preset, {"name": Path(name).stem, **raw}, where)
    preset = replace(preset, sandboxes={**_all_brought(preset.sections_of), **preset.sandboxes})
    _check(preset, where)
    return preset


def _all_brought(preset: str) -> dict[str, SandboxSection]:
    sections: dict[str, SandboxSection] = {}
    for name in SANDBOXES.working():
        try:
            section = _brought(preset, name)
        except BadInput:
            if SANDBOXES.origin(name) == OWN:
                raise
        else:
            sections |= {} if section is None else {name: section}
    return sections


def _brought(preset: str, sandbox: str) -> SandboxSection | None:
    """What the record of a sandbox says about it for a preset of the package."""
    where = f"preset {preset}: sandboxes.{sandbox}"
    try:
        content = spec(sandbox).presets().get(preset)
    except Exception as error:
        raise BadInput(f"{where} cannot be read: {type(error).__name__}: {error}") from error
    if content is None:
        return None
    section = read(SandboxSection, content, where)
    _check_section(section, where)
    return section


def read(kind: Any, raw: Any, where: str) -> Any:
    """`raw` (plain YAML values) as an instance of the type `kind`; BadInput names the field, the value and what is right."""
    origin = typing.get_origin(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(raw, Mapping):
            raise BadInput(f"{where} is {raw!r}; it must be a mapping with the fields of {kind.__name__}")
        hints = typing.get_type_hints(kind)
        for key in raw:
            choose(f"field of {where}:", key, hints)
        needed = [f.name for f in fields(kind) if f.name not in raw and _required(f)]
        if needed:
            raise BadInput(f"{where}: the field {needed[0]!r} is missing")
        return kind(**{key: read(hints[key], value, f"{where}: {key}") for key, value in raw.items()})
    if origin is tuple:
        if not isinstance(raw, list | tuple):
            raise BadInput(f"{where} is {raw!r}; it must be a list")
        return tuple(read(typing.get_args(kind)[0], value, where) for value in raw)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(raw, Mapping):
            raise BadInput(f"{where} is {raw!r}; it must be a mapping")
        inner = typing.get_args(kind)[1]
        return {str(key): read(inner, value, f"{where}.{key}") for key, value in raw.items()}
    if isinstance(kind, types.UnionType):
        return None if raw is None else read(typing.get_args(kind)[0], raw, where)
    if kind is Any:
        return raw
    value = scalar(kind, raw, where)
    if kind is float and not math.isfinite(value):
        raise BadInput(f"{where} is {value!r}; it must be a finite number")
    return value


def _required(f: Any) -> bool:
    from dataclasses import MISSING

    return f.default is MISSING and f.default_factory is MISSING


def _changed(settings: Settings, changes: Mapping[str, Any], where: str) -> Settings:
    hints = typing.get_type_hints(Settings)
    for name in changes:
        choose(f"field of {where}:", name, hints)
    return replace(settings, **{name: read(hints[name], value, f"{where}: {name}") for name, value in changes.items()})


def _check_settings(s: Settings, where: str) -> None:
    choose(f"schedule in {where}: settings:", s.schedule, ("constant", "cosine"))
    least = {
        "updates": 0,
        "tasks_per_update": 1,
        "epochs": 1,
        "mini_batches": 1,
        "lr": 0.0,
        "beta": 0.0,
        "clip": 0.0,
        "max_grad_norm": 0.0,
    }
    least |= {
        "mini_batches": 1,
        "curve_every": 0,
        "curve_tasks": 1,
        "eval_tasks": 1,
        "eval_samples": 1,
        "checkpoint_every": 1,
        "concurrency": 1,
    }
    _check_least(s, least, f"{where}: settings: ")
    if not s.eval_splits:
        raise BadInput(f"{where}: settings: eval_splits is empty; a run is evaluated on one split at least")


def _check_least(record: Any, least: Mapping[str, float], where: str) -> None:
    for name, low in least.items():
        at_least(f"{where}{name}", getattr(record, name), low)


def _check_warm_start(start: WarmStart, where: str) -> None:
    where = f"{where}: warm_start: "
    choose(f"size in {where[:-1]}", start.size, SIZES)
    least = {"games": 1, "demonstrations": 1, "epochs": 0, "lr": 0.0, "batch_size": 1, "text_weight": 0.0, "seed": 0}
    # The bytes and the special tokens have an id each.
    _check_least(start, least | {"hesitation": 0.0, "vocab_size": 300}, where)
    if start.hesitation > 1:
        raise BadInput(f"{where}hesitation is {start.hesitation!r}; it must be a probability, from 0 to 1")


def _check_policy(policy: PolicySettings, where: str) -> None:
    where = f"{where}: policy: "
    known = {
        "kind": ("tiny", "hf", "tabular"),
        "prompt": ("transcript", "windowed"),
        "writing": ("constrained", "free"),
        "dtype": ("float32", "float64", "bfloat16", "float16"),
    }
    for name, values in known.items():
        choose(f"{name} in {where[:-1]}", getattr(policy, name), values)
    _check_least(policy, {"max_action_tokens": 1, "pause_tokens": 0, "adapter_rank": 0}, where)
    if policy.temperature <= 0:
        raise BadInput(f"{where}temperature is {policy.temperature!r}; it must be positive")
    if not all(policy.pause_at):
        raise BadInput(f"{where}pause_at is {list(policy.pause_at)}; none of its texts may be empty")
    if policy.writing != "free" and (policy.pause_tokens or policy.pause_at):
        raise BadInput(f"{where}pause_tokens and pause_at need writing: free")
    if policy.adapter_rank and policy.kind != "hf":
        raise BadInput(f"{where}adapter_rank is {policy.adapter_rank}; only a pretrained model (kind: hf) takes adapters")
    model = policy.model
    if model and policy.kind != "hf":
        raise BadInput(f"{where}model is {model!r}; only kind: hf reads one")
    if policy.kind == "hf" and not (model == "smollm2" or hub_name(model) or (model and Path(model).exists())):
        raise BadInput(
            f"{where}model is {model!r}; where kind is 'hf' it must be a folder that is here, "
            f"a hub name (owner/model), or smollm2"
        )


def _check_section(section: SandboxSection, here: str) -> None:
    _check_policy(section.policy, here)
    if section.warm_start is not None:
        _check_warm_start(section.warm_start, here)
    if section.policy.kind == "tiny" and section.warm_start is None:
        raise BadInput(f"{here}: policy: kind 'tiny' needs a warm_start section, which makes its model")


def _check(preset: Preset, where: str) -> None:
    _check_settings(preset.settings, where)
    for name, section in preset.sandboxes.items():
        choose(f"sandbox in {where}", name, SANDBOXES)
        here = f"{where}: sandboxes.{name}"
        _check_settings(_changed(preset.settings, section.settings, f"{here}: settings"), here)
        _check_section(section, here)
    for method, parameters in preset.methods.items():
        build(choose(f"method in {where}: methods:", method, METHODS), parameters, f"{where}: methods: ")
    for row in (
        *preset.sweep.rows,
        *(row for section in preset.sandboxes.values() if section.sweep for row in section.sweep.rows),
    ):
        build(row.method, {**preset.methods.get(row.method, {}), **row.parameters}, f"{where}: sweep: {row.label}: ")
