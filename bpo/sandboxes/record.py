"""What the rest of the library knows about a sandbox: one record, which stands in the sandbox's own folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bpo.param import Param
from bpo.policy import Policy
from bpo.reading import from_yaml, read_text
from bpo.sandbox import Sandbox

Options = Mapping[str, Any]
# (game, seed) -> winning actions; [] where a game cannot be demonstrated.
Demonstrate = Callable[[Any, int], Sequence[str]]


@dataclass(frozen=True)
class Walk:
    """What `bpo check-fork` walks in: the sandbox, what replays its paths, and the tasks."""

    make: Callable[[], Sandbox]
    reference: Callable[[], Any]
    tasks: Sequence[str]


@dataclass(frozen=True)
class PaperColumn:
    """What the paper reports for a sandbox, the column beside every table of it (Table 1, mean ± std of 3 seeds).

    start    the figure of its warm start; methods: figures by method
    head     head of the column
    tasks    the paper's tasks and step limit, for the list of deviations
    updates  the paper's number of updates there
    others   what else the paper has there and our tables do not
    """

    start: str = "none"
    methods: Mapping[str, str] = field(default_factory=dict)
    head: str = "paper"
    tasks: str = ""
    updates: str = "3,000"
    others: str = ""


@dataclass(frozen=True)
class OfficialTasks:
    """A benchmark's own tasks, on which a table has extra rows where they are on this machine.

    label   what the rows are called
    folder  () -> the folder that the option `data` takes, None where there is none
    hint    how to get them, for whoever has none
    """

    label: str
    folder: Callable[[], Path | None]
    hint: str


def _accepts_all(options: Options) -> None:
    """For sandboxes all of whose combinations of options make sense."""


@dataclass(frozen=True)
class SandboxSpec:
    """One sandbox. Its name is the name that the record has in its module; nothing else in the library names it.

    make            (**options) -> a sandbox; imports what it needs when it is called
    options         every option; no others are accepted
    tasks           options -> what its tasks are, in the words of a table's heads
    packages        Python packages that it needs -> the extra of `bpo` that installs them
    check           options -> None: BadInput for combinations that make no sense
    needs_writing   options -> why the policy must write freely, as the beginning of a sentence; "" where it may choose
    demonstrations  options -> what plays it for a warm start, None where these options cannot be demonstrated; None where
                    nothing plays the sandbox
    table_of_logits options -> a policy with a row of logits per state; None where the states are too many to list
    walk            (games, steps, data) -> where `bpo check-fork` walks; None where random walks need a language of their own
    boxes           () -> the kinds of boxes that this process has made; None where files are kept in none
    presets         () -> preset name -> what that preset says about this sandbox (see `config.SandboxSection`)
    reference_rows  (sandbox, split -> tasks) -> rows of policies that need no model, and what splits share with training
    paper           what the paper reports
    differences     options -> how actions and what is read differ from the original's, as sentences
    official        the benchmark's own tasks
    """

    summary: str
    make: Callable[..., Sandbox]
    options: Mapping[str, Param]
    tasks: Callable[[Options], str]
    packages: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Options], None] = _accepts_all
    needs_writing: Callable[[Options], str] = lambda options: ""
    demonstrations: Callable[[Options], Demonstrate | None] | None = None
    table_of_logits: Callable[[Options], Policy] | None = None
    walk: Callable[[int, int, str | None], Walk] | None = None
    boxes: Callable[[], list[str]] | None = None
    presets: Callable[[], Mapping[str, Any]] = dict
    reference_rows: Callable[[Sandbox, Mapping[str, Sequence[str]]], dict[str, Any]] | None = None
    paper: PaperColumn = field(default_factory=PaperColumn)
    differences: Callable[[Options], list[str]] = lambda options: []
    official: OfficialTasks | None = None


def walk_limit(steps: int) -> int:
    """A step limit that does not cut random walks of this length short."""
    return max(50, 2 * steps)


def presets_beside(file: str) -> Callable[[], Mapping[str, Any]]:
    """What `presets.yaml` in the folder of the module `file` says, read when it is asked for."""

    def read() -> Mapping[str, Any]:
        path = Path(file).with_name("presets.yaml")
        return from_yaml(read_text(path, "what presets say about a sandbox"), str(path))

    return read
