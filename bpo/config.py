"""What a run is: every setting in one frozen record, read from a preset, checked field by field before anything starts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Interval, MinLen

from bpo.errors import BadInput, choose, shown
from bpo.methods import METHODS, BuiltMethod, build
from bpo.plugins import OWN
from bpo.policies.settings import Count, CountOrNone, PolicySettings, Seed, WarmStart, hub_name
from bpo.reading import STRICT, from_yaml, plain, read_text, typed
from bpo.sandboxes import SANDBOXES, factory, spec

# The largest preset of the package has 4 kB.
MOST_BYTES = 200_000
# Names of presets are parts of folder names, labels of rows stand in tables.
LONGEST = 100
DEVICE = re.compile(r"(cpu|mps)|(cuda|xpu)(:[0-9]+)?")

NotNegative = Annotated[float, Ge(0.0)]


@dataclass(frozen=True)
class Settings:
    """Everything that methods of one comparison share.

    updates            policy updates
    train_tasks        training tasks of a run, drawn from the split train by its seed (see `bpo.pool`); 0: the whole split
    tasks_per_update   tasks per update, drawn fresh from the training tasks; the same for every method at equal seed
    epochs             passes over the trees of an update; above 1 the ratios leave 1 and clipping can become active
    mini_batches       optimiser steps of a pass; the trees are dealt to them at random
    lr, schedule       AdamW's learning rate, "constant" or "cosine" (to zero at the last update)
    beta, clip         KL weight (k3, to the frozen initial policy) and PPO clip range
    max_grad_norm      gradient clipping; statistics of the norm are taken before it
    curve_every        updates between points of the learning curve (0: none): curve_tasks tasks of curve_split, or all where it
                       has fewer, curve_samples episodes each
    eval_tasks         tasks per evaluation split, eval_samples episodes each, sampled at the policy's temperature. A split
                       named `pool` is the run's own training tasks. With train_tasks they are drawn by the seed as well
    checkpoint_every   updates between checkpoints; the last two are kept
    concurrency        most sandboxes that live at once
    """

    updates: CountOrNone = 60
    train_tasks: CountOrNone = 0
    tasks_per_update: Count = 4
    epochs: Count = 1
    mini_batches: Count = 1
    lr: NotNegative = 1e-4
    schedule: Literal["constant", "cosine"] = "constant"
    beta: NotNegative = 0.05
    clip: NotNegative = 0.2
    max_grad_norm: NotNegative = 1.0
    curve_every: CountOrNone = 10
    curve_tasks: Count = 48
    curve_samples: Count = 1
    curve_split: str = "panel"
    eval_tasks: Count = 100
    eval_samples: Count = 1
    eval_splits: Annotated[tuple[str, ...], MinLen(1)] = ("valid_seen", "valid_unseen")
    checkpoint_every: Count = 10
    concurrency: Annotated[int, Interval(ge=1, le=4096)] = 16


# Settings that runs did not always have. At these values a run is what it was without them, and has the same name and hash.
LATER: Mapping[str, Mapping[str, Any]] = {
    "settings": {"mini_batches": 1, "train_tasks": 0, "curve_samples": 1},
    "warm_start": {"per_seed": False},
}


@dataclass(frozen=True)
class RunConfig:
    """One run: a method on a sandbox with a seed. `hash` names it by content."""

    __pydantic_config__: ClassVar = STRICT

    method: str
    parameters: Mapping[str, Any]
    sandbox: str
    sandbox_options: Mapping[str, Any]
    policy: PolicySettings
    warm_start: WarmStart | None
    settings: Settings
    seed: Seed = 0

    def recipe(self) -> BuiltMethod:
        """The method with its parameters; a fresh selector each time."""
        return build(self.method, self.parameters)

    def plain(self) -> dict[str, Any]:
        """The configuration as plain values, the way it is written to config.yaml."""
        plain = json.loads(json.dumps(asdict(self), default=os.fspath))
        for section, defaults in LATER.items():
            for name, default in defaults.items():
                if plain[section] and plain[section][name] == default:
                    del plain[section][name]
        return plain

    @property
    def hash(self) -> str:
        """Eight hex digits of the content, seed aside."""
        content = {**self.plain(), "seed": None, "parameters": METHODS[self.method].naming(self.recipe().parameters)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        """Folder name of the run: method, sandbox, seed, content hash."""
        return f"{self.method}-{self.sandbox}-s{self.seed}-{self.hash}"


@dataclass(frozen=True)
class Row:
    """One row of a sweep: a method with its parameters, and settings that are other ones in it; its label is the table's."""

    label: str
    method: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """Rows times seeds, and how the gradient noise at the frozen warm start is measured (draws of noise_tasks tasks).

    reference  the label of the row that all others are compared with; "": the first
    equal      what rows are also compared at equal amounts of: a row that used less of it per update than the reference is run
               again with as many more tasks per update as it takes
    """

    seeds: Annotated[tuple[Seed, ...], MinLen(1)]
    rows: Annotated[tuple[Row, ...], MinLen(1)]
    reference: str = ""
    equal: tuple[Literal["env_steps", "computed"], ...] = ()
    noise_draws: CountOrNone = 24
    noise_tasks: Count = 4


@dataclass(frozen=True)
class SandboxSection:
    """What a preset says about one sandbox.

    scale     in words, how large model and tasks are: the first line of every table
    settings  values of Settings that are other ones here
    sweep     rows and seeds of its table, where they are not the preset's
    """

    __pydantic_config__: ClassVar = STRICT

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

    __pydantic_config__: ClassVar = STRICT

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
        return _changed(self.settings, self.section(sandbox).settings, f"preset {self.name}: sandboxes.{sandbox}.settings")

    def sweep_of(self, sandbox: str) -> Sweep:
        """The rows and seeds of a sandbox's table."""
        return self.section(sandbox).sweep or self.sweep

    def run(
        self,
        method: str,
        sandbox: str,
        seed: int,
        parameters: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> RunConfig:
        """The checked configuration of one run, with other `settings` than the preset's where some are given; BadInput names
        what is wrong.
        """
        section, shared = self.section(sandbox), self.settings_of(sandbox)
        merged_settings = _changed(shared, settings or {}, f"settings of a run of preset {self.name}")
        choose("method", method, METHODS)
        merged = {**self.methods.get(method, {}), **(parameters or {})}
        config = RunConfig(method, merged, sandbox, section.options, section.policy, section.warm_start, merged_settings, seed)
        return checked(config, f"preset {self.name}")


def checked(config: RunConfig, where: str = "the configuration") -> RunConfig:
    """The configuration itself where every value of it is one that a run can use; BadInput names what is not.

    Nothing is opened or made for it; `bpo.preflight` also asks sandbox and machine.
    """
    build(config.method, config.parameters)
    factory(config.sandbox, config.sandbox_options)
    typed(RunConfig, plain(config.plain(), where), where)
    _check_splits(config.settings, f"{where}: settings")
    _check_policy(config.policy, f"{where}: policy")
    return config


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
    if not isinstance(name, str | os.PathLike):
        raise BadInput(f"preset is {shown(name)}; it must be the name of a preset, or the path of a YAML file")
    name = os.fspath(name)
    if name.endswith((".yaml", ".yml")):
        text, where = read_text(name, "a preset in YAML", MOST_BYTES), name
    else:
        if name not in preset_names() and ("/" in name or Path(name).suffix or os.path.lexists(name)):
            raise BadInput(f"preset {shown(name)} is none of the package's, and a file of one must end with .yaml or .yml")
        choose("preset", name, preset_names())
        text, where = files("bpo").joinpath("presets", f"{name}.yaml").read_text(encoding="utf-8"), f"preset {name}"
    raw = from_yaml(text, where)
    if not isinstance(raw, Mapping):
        raise BadInput(f"{where} is {shown(raw)}; it must be a mapping of fields")
    preset = typed(Preset, {"name": Path(name).stem, **raw}, where)
    if preset.sections_of:
        known = sorted({key for one in SANDBOXES.working() for key in _sections(one)})
        choose(f"sections_of in {where}:", preset.sections_of, known)
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


def _sections(sandbox: str) -> list[str]:
    """The presets that the record of a sandbox says something for; none where it cannot be read, which `_brought` tells."""
    try:
        return list(spec(sandbox).presets())
    except Exception:
        return []


def _brought(preset: str, sandbox: str) -> SandboxSection | None:
    """What the record of a sandbox says about it for a preset of the package."""
    where = f"preset {preset}: sandboxes.{sandbox}"
    try:
        content = spec(sandbox).presets().get(preset)
    except Exception as error:
        raise BadInput(f"{where} cannot be read: {type(error).__name__}: {error}") from error
    if content is None:
        return None
    section = typed(SandboxSection, plain(content, where), where)
    _check_section(section, where)
    return section


def _changed(settings: Settings, changes: Mapping[str, Any], where: str) -> Settings:
    hints = typing.get_type_hints(Settings, include_extras=True)
    for name in changes:
        choose(f"field of {where}:", name, hints)
    return replace(settings, **{name: typed(hints[name], value, f"{where}.{name}") for name, value in changes.items()})


def _check_splits(settings: Settings, where: str) -> None:
    for split in settings.eval_splits:
        if settings.eval_splits.count(split) > 1:
            raise BadInput(f"{where}.eval_splits has {shown(split)} twice; every split is evaluated once")


def _check_policy(policy: PolicySettings, where: str) -> None:
    if not DEVICE.fullmatch(policy.device):
        raise BadInput(f"{where}.device is {shown(policy.device)}; it must be cpu, cuda, cuda:N, mps, xpu or xpu:N")
    if policy.writing != "free" and (policy.pause_tokens or policy.pause_at):
        raise BadInput(f"{where}: pause_tokens and pause_at need writing: free")
    if policy.adapter_rank and policy.kind != "hf":
        raise BadInput(f"{where}.adapter_rank is {policy.adapter_rank}; only a pretrained model (kind: hf) takes adapters")
    model = policy.model
    if model and policy.kind != "hf":
        raise BadInput(f"{where}.model is {shown(model)}; only kind: hf reads one")
    if "\0" in model or (
        policy.kind == "hf" and not (model == "smollm2" or hub_name(model) or (model and Path(model).exists()))
    ):
        raise BadInput(
            f"{where}.model is {shown(model)}; where kind is 'hf' it must be a folder that is here, "
            f"a hub name (owner/model), or smollm2"
        )


def _check_section(section: SandboxSection, here: str) -> None:
    _check_policy(section.policy, f"{here}.policy")
    if section.policy.kind == "tiny" and section.warm_start is None:
        raise BadInput(f"{here}.policy: kind 'tiny' needs a warm_start section, which makes its model")


def _check(preset: Preset, where: str) -> None:
    _check_name("name", preset.name, where)
    if preset.name.startswith(".") or set(preset.name) & set("/\\"):
        raise BadInput(f"{where}: name is {shown(preset.name)}; it names folders, so it has no / and no dot in front")
    for name, section in preset.sandboxes.items():
        choose(f"sandbox in {where}", name, SANDBOXES)
        here = f"{where}: sandboxes.{name}"
        _check_splits(_changed(preset.settings, section.settings, f"{here}.settings"), f"{where}: settings")
        _check_section(section, here)
        if section.sweep:
            _check_sweep(section.sweep, preset, f"{here}.sweep")
    for method, parameters in preset.methods.items():
        build(choose(f"method in {where}: methods:", method, METHODS), parameters, f"{where}: methods: ")
    _check_sweep(preset.sweep, preset, f"{where}: sweep")


def _check_sweep(sweep: Sweep, preset: Preset, where: str) -> None:
    for seed in sweep.seeds:
        if sweep.seeds.count(seed) > 1:
            raise BadInput(f"{where}.seeds has {seed} twice; every seed is one run of each row")
    for row in sweep.rows:
        _check_name("label", row.label, f"{where}.rows")
        build(row.method, {**preset.methods.get(row.method, {}), **row.parameters}, f"{where}: {row.label}: ")
        _changed(preset.settings, row.settings, f"{where}: {row.label}: settings")
    if sweep.reference:
        choose(f"reference of {where}:", sweep.reference, [row.label for row in sweep.rows])


def _check_name(field: str, name: str, where: str) -> None:
    if not (name.strip() and name.isprintable() and len(name) <= LONGEST):
        raise BadInput(f"{where}: {field} is {shown(name)}; it must be one line of 1 to {LONGEST} signs that can be printed")
