"""Tier A: layers of overlayfs in a user namespace. A snapshot is a reference, a fork two references and later five folders."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from bpo.sandboxes.shell import layers
from bpo.sandboxes.shell.bubblewrap import Bubblewrap, Overlay, end, leader, ran
from bpo.sandboxes.shell.launch import Failure, Process, size
from bpo.sandboxes.shell.layers import Entry
from bpo.sandboxes.shell.limits import Limits, Result
from bpo.sandboxes.shell.store import Layer, LayerStore

# Parts of a layer: changes of the tree and of /tmp, and the folder that overlayfs asks for beside each.
TREE, TREE_WORK, TMP, TMP_WORK = "u", "w", "s", "x"
DEEPEST = 64
# The kernel reads all layers of a mount from one page of text; bubblewrap puts /oldroot before each.
PAGE, SPARE = 4096, 512


class OverlayTier:
    """How boxes of one base are kept and run by overlays; see `workspace.Tier`.

    A file with two names (a hard link) that lies below a fork becomes two files there as soon as one of them is written to:
    overlayfs copies it up under that name alone.
    """

    name = "A"
    network = "none"

    def __init__(self, store: LayerStore, base: Path, program: Bubblewrap, readable: Sequence[str], folder: str):
        self.store, self.base, self.readable, self.folder = store, base, tuple(readable), folder
        self.program = program
        self.origin = program.origin
        self._empty = store.make()
        for name, line in (("passwd", "agent:x:1000:1000::/tmp:/bin/bash"), ("group", "agent:x:1000:")):
            (store.folder / f"_{name}").write_text(line + "\n")
        for number in range(2):
            (store.folder / f"_m{number}").mkdir()
        per_layer = len(f"/oldroot{store.folder}/zzzz/{TREE}:")
        self.deepest = max(2, min(DEEPEST, (PAGE - SPARE - len(str(base))) // per_layer))

    def open(self, below: Layer | None) -> Layer:
        """A new layer to write in, on what is below; a stack that has become too deep is merged first."""
        if below is not None and below.depth >= self.deepest:
            below = self._merged(below)
        layer = Layer(self.store.make(TREE, TREE_WORK, TMP, TMP_WORK), below)
        for part in (TREE, TMP):
            # The topmost layer says what the permissions of the mounted folder are.
            shutil.copymode(self._under(layer, part), layer.folder / part)
        return layer

    def changed(self, layer: Layer) -> bool:
        """Whether anything has been written to a layer, or the permissions of its folders changed."""
        return any(
            os.listdir(layer.folder / part) or os.stat(layer.folder / part).st_mode != os.stat(self._under(layer, part)).st_mode
            for part in (TREE, TMP)
        )

    def _under(self, layer: Layer, part: str) -> Path:
        """What a part of a layer lies on."""
        return layer.below.folder / part if layer.below else {TREE: self.base, TMP: self._empty}[part]

    def execute(
        self, layer: Layer, command: Sequence[str], limits: Limits, variables: Mapping[str, str], stdin: bytes
    ) -> Result:
        """Run a command in a layer that nothing stands on."""
        below = layer.below.stack() if layer.below else []
        mounts = [
            Overlay((*(each.folder / part for each in below), base), layer.folder / part, layer.folder / work, at)
            for part, work, base, at in ((TREE, TREE_WORK, self.base, self.folder), (TMP, TMP_WORK, self._empty, "/tmp"))
        ]
        with _Status() as status:
            arguments = self.program.arguments(
                self.store, mounts, self.readable, variables, self.folder, limits, command, status.writing
            )
            process = Process(arguments, stdin, (status.writing,), end=lambda pid: end(pid, leader(status.read())))
            result = process.run(limits, lambda: sum(size(layer.folder / part) for part in (TREE, TMP)), layer.folder)
            if result.ended == "exit" and not ran(status.read()):
                raise Failure(f"the box could not be set up: {result.output.strip() or f'exit status {result.code}'}")
        return result

    def changes(self, layer: Layer | None) -> dict[str, Entry | None]:
        """What a layer and those below it change in the base."""
        return self._changes(layer, TREE, self.base)

    def scratch(self, layer: Layer | None) -> dict[str, Entry | None]:
        """What lies in /tmp."""
        return self._changes(layer, TMP, self._empty)

    def close(self) -> None:
        """Remove all that lies on disk."""
        self.store.close()

    def _changes(self, layer: Layer | None, part: str, base: Path) -> dict[str, Entry | None]:
        if layer is None:
            return {}
        merged = self._merged(layer)  # held until it has been read
        return layers.changes(merged.folder / part, base)

    def _merged(self, layer: Layer) -> Layer:
        if layer.below is None:
            return layer
        merged = Layer(self.store.make(TREE, TREE_WORK, TMP, TMP_WORK), None)
        for part in (TREE, TMP):
            layers.merge([each.folder / part for each in layer.stack()], merged.folder / part)
        return merged


class _Status:
    """A pipe for what bubblewrap says of itself."""

    def __enter__(self) -> _Status:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._text = b""
        return self

    def read(self) -> str:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._reading, 4096):
                self._text += chunk
        return self._text.decode()

    def __exit__(self, *_) -> None:
        os.close(self._reading)
        os.close(self.writing)
