"""The tier "overlay": layers of overlayfs in a user namespace. A snapshot is a reference, a fork two and later five folders."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from bpo.sandboxes.shell import host, layers, syscalls
from bpo.sandboxes.shell.bubblewrap import BoxGate, Bubblewrap, Overlay, View
from bpo.sandboxes.shell.launch import Failure, Process
from bpo.sandboxes.shell.layers import Entry
from bpo.sandboxes.shell.limits import Limits, Result
from bpo.sandboxes.shell.store import Layer, LayerStore
from bpo.sandboxes.shell.walk import Walk, remove, size

# Parts of a layer: changes of the tree and of /tmp, the folder that overlayfs asks for beside each, and /dev/shm.
TREE, TREE_WORK, TMP, TMP_WORK, SHARED = "u", "w", "s", "x", "h"
DEEPEST = 64
# The kernel reads all layers of a mount from one page of text; bubblewrap puts /oldroot before each.
PAGE, SPARE = 4096, 512


class OverlayTier:
    """How boxes of one base are kept and run by overlays; see `workspace.Tier`.

    A file with two names (a hard link) that lies below a fork becomes two files there as soon as one of them is written to:
    overlayfs copies it up under that name alone.
    """

    name = "overlay"
    network = "none"

    def __init__(self, store: LayerStore, base: Path, program: Bubblewrap, shown: host.Shown, folder: str):
        self.store, self.base, self.shown, self.folder = store, base, shown, folder
        self.doors = host.doors(shown.places)
        self.program = program
        self.origin = program.origin
        self.filter = syscalls.compiled(self.name)
        self._empty = store.make()
        for name, text in (("passwd", "agent:x:1000:1000:agent:/tmp:/bin/bash\n"), ("group", "agent:x:1000:\n")):
            (store.folder / f"_{name}").write_text(text)
        host.identity(store.folder)
        for number in range(2):
            (store.folder / f"_m{number}").mkdir()
        per_layer = len(f"/oldroot{store.folder}/zzzz/{TREE}:")
        self.deepest = max(2, min(DEEPEST, (PAGE - SPARE - len(str(base))) // per_layer))

    def open(self, below: Layer | None, scratch: bool = True) -> Layer:
        """A new layer to write in, on what is below; a stack that has become too deep is merged first."""
        if below is not None and below.depth >= self.deepest:
            below = self._merged(below)
        layer = Layer(self.store.make(TREE, TREE_WORK, TMP, TMP_WORK, SHARED), below, scratch)
        for part in (TREE, TMP):
            # The topmost layer says what the permissions of the mounted folder are.
            shutil.copymode(self._under(layer, part), layer.folder / part)
        return layer

    def changed(self, layer: Layer) -> bool:
        """Whether anything has been written to a layer, or the permissions of its folders changed."""
        return any(
            os.stat(layer.folder / part).st_mode != os.stat(self._under(layer, part)).st_mode or _holds(layer.folder / part)
            for part in (TREE, TMP)
        )

    def _under(self, layer: Layer, part: str) -> Path:
        """What a part of a layer lies on."""
        if layer.below and (part == TREE or layer.scratch):
            return layer.below.folder / part
        return {TREE: self.base, TMP: self._empty}[part]

    def execute(
        self, layer: Layer, command: Sequence[str], limits: Limits, variables: Mapping[str, str], stdin: bytes
    ) -> Result:
        """Run a command in a layer that nothing stands on."""
        below = layer.below.stack() if layer.below else []
        mounts = [
            Overlay((*(each.folder / part for each in under), base), layer.folder / part, layer.folder / work, at)
            for part, work, under, base, at in (
                (TREE, TREE_WORK, below, self.base, self.folder),
                (TMP, TMP_WORK, below if layer.scratch else [], self._empty, "/tmp"),
            )
        ]
        shared = layer.folder / SHARED
        # Into a folder that a command has closed to its own user, no other can start.
        mode = os.stat(layer.folder / TREE).st_mode
        start = self.folder if mode & stat.S_IRUSR and mode & stat.S_IXUSR else "/"
        view = View(mounts, shared, self.shown.places, self.shown.hidden, self.doors, self.shown.links, start)
        with BoxGate(self.filter) as gate:
            arguments = self.program.arguments(self.store, view, variables, limits, command, gate)
            process = Process(arguments, stdin, gate.fds, gate=gate)
            written = lambda most: sum(size(layer.folder / part, most) for part in (TREE, TMP, SHARED))  # noqa: E731
            result = process.run(limits, written, layer.folder)
            if result.ended == "exit" and not gate.ran():
                raise Failure(f"the box could not be set up: {result.output.strip() or f'exit status {result.code}'}")
        if _holds(shared):
            remove(shared)
            os.mkdir(shared)
            os.chown(shared, self.store.user, self.store.group)
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
        merged = Layer(self.store.make(TREE, TREE_WORK, TMP, TMP_WORK, SHARED), None)
        for part in (TREE, TMP):
            layers.merge([each.folder / part for each in layer.stack()], merged.folder / part)
        return merged


def _holds(folder: Path) -> bool:
    with Walk(folder) as walk:
        return bool(walk.names())
