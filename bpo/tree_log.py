"""Trees of a training run, kept to be looked at: a few per update, as lines of JSON in the run's folder."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bpo.credit import Credit, leave_one_out
from bpo.errors import BadInput, scalar
from bpo.files import append as append_text
from bpo.files import to_json, write_atomically
from bpo.policy import Decision
from bpo.reading import STRICT, from_json, read_text, typed
from bpo.sandbox import Observation
from bpo.sealed import FIELD, from_row, read_rows, to_row
from bpo.tree import FORMER, ROOT, Step, Tree

FILE = "trees.jsonl"
# What the text of the root begins with, before the task in words.
TASK = "Task: "
# Trees kept of an update, the first ones. One of 13 returns and 90 actions is some 30 kB, so two keep a long run small.
PER_UPDATE = 2
FIELDS = ("update", "method", "tree", "observations", "advantage", "weight", "has_signal")


@dataclass(frozen=True)
class SavedTree:
    """One tree as the update saw it.

    update        number of the update it was grown for, counted from 1 as in metrics.jsonl
    method        the method's key in the table of methods
    tree          the tree, its decisions without what belongs to single tokens, which would be most of the file: `log_probs`
                  holds the sum alone; contexts are None once it has been read from a file
    observations  n entries, what the sandbox showed in each state, at the root after the task; None where the policy's
                  contexts do not hold it
    credit        advantage, weight and has_signal of every edge, as the credit rule gave them
    """

    update: int
    method: str
    tree: Tree
    observations: tuple[str | None, ...]
    credit: Credit

    @cached_property
    def siblings(self) -> np.ndarray:
        """float64 [n], Q of the other children at the nearest branch point at or above the edge, weighted by mass.

        It is what the edge's Q is compared with, and the baseline of `bpo_split` without shrinkage; other rules have baselines
        of their own, which a Credit does not tell. nan above the first branch point.
        """
        tree = self.tree
        siblings = np.full(len(tree), np.nan)
        for node in range(len(tree)):
            children = list(tree.children[node])
            if not children:
                continue
            siblings[children] = siblings[node]
            if len(children) > 1:
                others = tree.value[children] - leave_one_out(tree.value[children], tree.weight[children])
                siblings[children] = np.where(np.isnan(others), siblings[node], others)
        return siblings

    @property
    def words(self) -> str:
        """The task in the sandbox's words, as one line; "" where it has none."""
        first, _, _ = (self.observations[ROOT] or "").partition("\n")
        return first if first.startswith(TASK) else ""

    def to_json(self) -> str:
        """The record as one line of JSON."""
        return to_json(
            {
                "update": self.update,
                "method": self.method,
                "tree": json.loads(self.tree.to_json()),
                "observations": self.observations,
                "advantage": self.credit.advantage.tolist(),
                "weight": self.credit.weight.tolist(),
                "has_signal": self.credit.has_signal.tolist(),
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str, where: str) -> SavedTree:
        """Inverse of `to_json`; BadInput that begins with `where` and names the field that is wrong."""
        raw = from_json(text, where, halves=True)
        if not isinstance(raw, dict):
            raise BadInput(f"{where}: an object with {', '.join(FIELDS)} is wanted")
        # Records of earlier runs have no digest.
        damaged = FIELD in raw and from_row(text) is None
        if "live" in raw:  # what records of earlier runs call it
            raw["has_signal"] = raw.pop("live")
        for field in FIELDS:
            if field not in raw:
                raise BadInput(f"{where}: {field} is missing")
        if unknown := sorted(raw.keys() - {*FIELDS, FIELD}):
            raise BadInput(f"{where}: {unknown[0]!r} is no field of a saved tree")
        update, method = scalar(int, raw["update"], f"{where}: update"), scalar(str, raw["method"], f"{where}: method")
        tree = _tree(raw["tree"], f"{where}: tree")

        def column(field: str, fits, kind: str) -> list[Any]:
            values = raw[field]
            if not isinstance(values, list) or len(values) != len(tree) or not all(map(fits, values)):
                raise BadInput(f"{where}: {field} must be a list of {len(tree)} entries, one per node of the tree, each {kind}")
            return values

        observations = column("observations", lambda x: x is None or isinstance(x, str), "text or null")
        advantage, weight = (np.array(column(field, _finite, "a number"), float) for field in ("advantage", "weight"))
        has_signal = np.array(column("has_signal", lambda x: isinstance(x, bool), "true or false"), bool)
        if damaged:
            raise BadInput(f"{where} is damaged: its digest is another")
        return cls(update, method, tree, tuple(observations), Credit(advantage, weight, has_signal))


def of_update(update: int, method: str, trees: Sequence[Tree], credits: Sequence[Credit]) -> list[SavedTree]:
    """The records of the first `PER_UPDATE` trees of an update, made while their contexts are still there."""
    pairs = list(zip(trees, credits, strict=True))[:PER_UPDATE]
    return [SavedTree(update, method, _thin(tree), observed(tree), credit) for tree, credit in pairs]


def observed(tree: Tree) -> tuple[str | None, ...]:
    """What the sandbox showed in every state of a grown tree; the contexts hold it, for a leaf the step that ended there.

    At the root the task comes first, in the sandbox's words where it has any.
    """
    texts: list[str | None] = []
    for node, children in enumerate(tree.children):
        step = tree.steps[children[0] if children else node]
        context = None if step is None else step.context
        observation = context if isinstance(context, Observation) else getattr(context, "observation", None)
        texts.append((step.end if step else None) if not children else observation.text if observation else None)
        if node == ROOT and observation is not None and observation.task:
            texts[ROOT] = f"{TASK}{observation.task}\n{observation.text}"
    return tuple(texts)


def append(path: Path, records: Iterable[SavedTree]) -> None:
    """Add records to the file's end."""
    append_text(path, "".join(to_row(json.loads(record.to_json())) for record in records))


def truncate(path: Path, update: int) -> None:
    """Forget the records of later updates than `update`, and a line that was cut off by a kill; makes the file if absent.

    Damaged for any other line that is not as it was written.
    """
    rows = read_rows(path) if path.exists() and update else []
    write_atomically(path, "".join(to_row(row) for row in rows if row["update"] <= update))


def read(folder: Path) -> list[SavedTree]:
    """The trees that a run has kept, oldest first; BadInput names file, line and field where one cannot be used.

    A last line without an end belongs to a run that is still writing, or was killed, and is left out.
    """
    path = folder / FILE
    if not path.is_file():
        what = "holds no saved trees" if folder.is_dir() else "is no folder"
        raise BadInput(f"{str(folder)!r} {what}: name the folder of a run, the one with config.yaml and {FILE}")
    found = _lines(path)
    lines = [line for line in found if line.endswith("\n")]
    if found and not lines:
        raise BadInput(
            f"{path}, line 1 has no end: the run is still writing it, or was killed; `bpo train` goes on with a run and writes "
            "its trees again"
        )
    return [SavedTree.from_json(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def _thin(tree: Tree) -> Tree:
    def thin(step: Step) -> Step:
        total = sum(step.decision.log_probs)
        return replace(step, decision=replace(step.decision, tokens=(), log_probs=(total,), choices=(), entropies=()))

    return replace(tree, steps=tuple(step and thin(step) for step in tree.steps))


def _lines(path: Path) -> list[str]:
    # Not splitlines(): it would also split at separators that JSON allows within a string.
    text = read_text(path, "the trees of a run, as JSON lines")
    return io.StringIO(text, newline="\n").readlines()


@dataclass
class _TreeRecord:
    """The types of what `Tree.to_json` writes."""

    __pydantic_config__: ClassVar = STRICT

    task: str
    index: int
    parent: list[int]
    sibling_index: list[int]
    weight: list[float]
    reward: list[float]
    actions: list[int]
    position: list[int]
    entropy: list[float | None]
    steps: list[Decision | None]
    outcome: list[dict[str, Any]]
    auxiliary: list[bool] | None = None
    ended: list[bool] | None = None


def _tree(raw: Any, where: str) -> Tree:
    renamed = {FORMER.get(key, key): value for key, value in raw.items()} if isinstance(raw, dict) else raw
    # Halves of surrogate pairs are no JSON; the kinds of the values are the same without them.
    whole = re.sub(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}", "?", json.dumps(renamed))
    typed(_TreeRecord, json.loads(whole), where)
    try:
        return Tree.from_json(json.dumps(renamed))
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"{where}: {error}") from None


def _finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
