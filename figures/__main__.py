"""Draw the figures of this folder anew: `python -m figures [--out FOLDER]`, from the repository's root."""

from __future__ import annotations

import argparse
import lzma
from pathlib import Path

from bpo.tree_log import SavedTree
from bpo.viz import plots
from bpo.viz.trees import tree_figure

HERE = Path(__file__).parent


def trees() -> list[SavedTree]:
    """The trees that the figures show; README.md says which runs they are from."""
    path = HERE / "trees.jsonl.xz"
    with lzma.open(path, "rt") as lines:
        return [SavedTree.from_json(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def main() -> None:
    """Write one PNG per tree, named by its leaves."""
    parser = argparse.ArgumentParser(prog="python -m figures", description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="where the PNG files go (default: beside this file)")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for tree in trees():
        path = out / f"tree_{len(tree.tree.leaves)}_leaves.png"
        plots.save(tree_figure(tree), path)
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
