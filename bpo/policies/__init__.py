"""The policies by kind; each is imported when it is made, so that `import bpo` needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpo.errors import BadInput, require
from bpo.policy import Policy

if TYPE_CHECKING:
    from bpo.config import RunConfig


def make_policy(config: RunConfig, progress=None) -> Policy:
    """The initial policy of a run: warm-started where the configuration says so."""
    require("torch", "lm")
    settings = config.policy
    if settings.kind == "tabular":
        from bpo.policies.tabular import TabularPolicy

        if config.sandbox != "toy":
            raise BadInput(f"policy kind 'tabular' needs the toy sandbox, not {config.sandbox!r}")
        return TabularPolicy.uniform(config.sandbox_options["returns"], config.sandbox_options.get("width", 2))
    raise NotImplementedError
