"""The policies by kind; each is imported when it is made, so that `import bpo` needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bpo.errors import BadInput, require
from bpo.policy import Policy
from bpo.sandboxes import demonstration, factory

if TYPE_CHECKING:
    from bpo.config import RunConfig


def check_policy(config: RunConfig) -> None:
    """Raise BadInput where the policy of a configuration could not be made; reads no weights."""
    require("torch", "lm")
    if config.policy.kind == "tabular":
        if config.sandbox != "toy":
            raise BadInput(f"policy kind 'tabular' needs the toy sandbox, not {config.sandbox!r}")
        return
    require("transformers", "lm")
    model = config.policy.model
    if config.policy.adapter_rank:
        require("peft", "smollm")
    if config.policy.kind == "hf" and model.startswith(("/", ".", "~")) and not Path(model).expanduser().is_dir():
        raise BadInput(f"policy: no model folder {model!r}")
    if config.sandbox_options.get("queries") == "free" and config.policy.writing != "free":
        raise BadInput("queries 'free' lets the policy write its own searches, which needs policy: writing: free")


def make_policy(config: RunConfig, report: Callable[[str, int, int], None] | None = None) -> Policy:
    """The initial policy of a run: loaded, and warm-started where the configuration says so (from the cache if it can)."""
    check_policy(config)
    settings = config.policy
    if settings.kind == "tabular":
        from bpo.policies.tabular import TabularPolicy

        return TabularPolicy.uniform(config.sandbox_options["returns"], config.sandbox_options.get("width", 2))
    from bpo.policies.lm import LMPolicy
    from bpo.policies.warmstart import warm_start, writing

    if config.warm_start is None:
        policy = LMPolicy.load(settings.model, **writing(settings))
    else:
        make, demonstrate = factory(config.sandbox, config.sandbox_options), demonstration(config.sandbox)
        policy = warm_start(make, config.warm_start, settings, demonstrate=demonstrate, progress=report)
    return policy.with_adapters(settings.adapter_rank) if settings.adapter_rank else policy
