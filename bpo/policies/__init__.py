"""The policies by kind; each is imported when it is made, so that `import bpo` needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bpo.errors import BadInput, require
from bpo.policies.settings import PolicySettings, WarmStart
from bpo.policy import Policy
from bpo.sandbox import Sandbox


def check_policy(settings: PolicySettings, *, table: bool = True) -> None:
    """Raise BadInput where the policy of these settings could not be made here; reads no weights.

    table  whether the sandbox's states can be listed, as a table of logits needs
    """
    check_kind(settings, table=table)
    check_device(settings.device)


def check_kind(settings: PolicySettings, *, table: bool = True) -> None:
    """As `check_policy`, for a machine that has the device."""
    require("torch", "lm")
    if settings.kind == "tabular":
        if not table:
            raise BadInput("policy kind 'tabular' needs a sandbox whose states can be listed, like toy")
        return
    require("transformers", "lm")
    model = settings.model
    if settings.adapter_rank:
        require("peft", "smollm")
    if settings.kind == "hf" and model.startswith(("/", ".", "~")) and not Path(model).expanduser().is_dir():
        raise BadInput(f"policy: no model folder {model!r}")
    if settings.kind == "hf" and model != "smollm2" and Path(model).exists() and not (Path(model) / "config.json").is_file():
        raise BadInput(f"policy: model {model!r} is no folder of a model, which holds a config.json")


def check_device(device: str) -> None:
    """Raise BadInput where this machine has no such device."""
    if device == "cpu":
        return
    import torch

    kind, _, number = device.partition(":")
    found = {"cuda": torch.cuda.device_count(), "xpu": torch.xpu.device_count(), "mps": int(torch.backends.mps.is_available())}
    if int(number or 0) >= found[kind]:
        raise BadInput(f"policy: device is {device!r}; this machine has {found[kind]} of this kind: name another, like cpu")


def make_policy(
    settings: PolicySettings,
    start: WarmStart | None = None,
    *,
    sandbox: Callable[[], Sandbox] | None = None,
    demonstrate: Callable[[Any, int], Sequence[str]] | None = None,
    table: Callable[[], Policy] | None = None,
    report: Callable[[str, int, int], None] | None = None,
) -> Policy:
    """The initial policy: loaded, and warm-started where `start` says so (from the cache if it can).

    sandbox, demonstrate  for a warm start: what makes the sandbox, and (game, seed) -> winning actions
    table                 for kind "tabular": makes a row of logits for every state of the sandbox
    report                called as report(what, done, total)
    """
    check_policy(settings, table=table is not None)
    if settings.kind == "tabular":
        assert table is not None
        return table()
    from bpo.policies.lm import LMPolicy
    from bpo.policies.warmstart import warm_start, writing

    if start is None:
        policy = LMPolicy.load(settings.model, **writing(settings))
    elif sandbox is None or demonstrate is None:
        raise BadInput("a warm start needs a sandbox and what plays it")
    else:
        policy = warm_start(sandbox, start, settings, demonstrate=demonstrate, progress=report)
    return policy.with_adapters(settings.adapter_rank) if settings.adapter_rank else policy
