"""The tier "container": containers of Docker or Podman. A fork commits an image: it costs a second, not microseconds."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import subprocess
import tarfile
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from bpo.errors import BadInput
from bpo.sandboxes.shell import host
from bpo.sandboxes.shell.bubblewrap import AGENT
from bpo.sandboxes.shell.launch import Failure, Process
from bpo.sandboxes.shell.layers import Entry
from bpo.sandboxes.shell.limits import Limits, Result
from bpo.sandboxes.shell.store import Layer, LayerStore

ENGINES = ("docker", "podman")
# Engines allow some 125 layers of an image; a deeper one is written anew as one layer.
DEEPEST = 60
# Processes of the boxes' user in all containers together; those of one container are counted by the engine.
MOST = 8192
# What the engine's own program needs of the caller's variables; commands in a container see none of them.
CALLER = (
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "HOME",
    "PATH",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
)


def engine() -> tuple[str, str]:
    """The program of a container engine that answers, and its version; BadInput says what is missing."""
    why = []
    for name in ENGINES:
        path = host.program(name)
        if path is None:
            why.append(f"{name} is not installed")
            continue
        done = _asked(path, "version", "--format", "{{.Server.Version}}" if name == "docker" else "{{.Client.Version}}")
        if done.returncode == 0:
            return path, f"{name} {done.stdout.decode().strip()}"
        why.append(f"{name} does not answer: {_last(done.stderr)}")
    raise BadInput(f"no container engine works here: {'; '.join(why)}")


def _last(said: bytes) -> str:
    """The last line of what a program has said."""
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it gives no reason"


class Image(Layer):
    """A layer that is an image of the engine: made by the last command that ran in it, removed when nobody refers to it."""

    def __init__(self, folder: Path, below: Image | None, image: str, height: int):
        super().__init__(folder, below)
        self.image, self.height = image, height
        self.ran = False


class ContainerTier:
    """How boxes of one base are kept and run as containers; see `workspace.Tier`.

    The tree lies in an image made from `image`, which must hold bash and coreutils. Commands run as an ordinary user without
    capabilities and without a network; memory and processes are limited by the engine, for the container as a whole. While a
    command runs, the disk limit counts for each file alone; what it has written in all is looked at when it has ended.
    """

    name = "container"
    network = "none"

    def __init__(self, store: LayerStore, base: Path | None, image: str, readable: Sequence[str], folder: str):
        self.store, self.readable, self.folder = store, tuple(readable), folder
        self._engine, self.origin = engine()
        self._numbers = itertools.count()
        # Repositories of images are named in lower case.
        self._name = store.folder.name.lower().replace("_", "-")
        self._variables = self._made(base, image)
        # What lies in folders of the image that all began with; listings of other images are not kept.
        self._listed: dict[str, dict[str, Entry]] = {}

    def open(self, below: Image | None, scratch: bool = True) -> Image:
        """A layer to run commands in, on what is below; nothing is copied until one has run."""
        image, height = (self._base, 1) if below is None else (below.image, below.height)
        return Image(self.store.make(), below, image, height)

    def changed(self, layer: Image) -> bool:
        """A container that has been run in may differ in anything."""
        return layer.ran

    def execute(
        self, layer: Image, command: Sequence[str], limits: Limits, variables: Mapping[str, str], stdin: bytes
    ) -> Result:
        """Run a command in a fresh container of the layer's image, and commit what it leaves."""
        if layer.height >= DEEPEST:
            self._flatten(layer)
        name = self._new()
        arguments = [self._engine, "run", "--interactive", "--name", name, *self._confined(limits)]
        for path in self.readable:
            arguments += ["--volume", f"{path}:{path}:ro"]
        for key, value in {**self._variables, **variables}.items():
            arguments += ["--env", f"{key}={value}"]
        # Two streams of a container lose their order; one keeps it.
        arguments += [layer.image, "bash", "-c", 'exec "$@" 2>&1', "bash", *command]
        process = Process(arguments, stdin, (), end=lambda _: self._ask("kill", name), variables=_caller())
        try:
            result = process.run(limits, lambda _: 0, self.store.folder)
            state = self._state(name)
            if state is None or state["Status"] == "created" or state.get("Error"):
                raise Failure(f"the container could not be started: {result.output.strip()}")
            self._commit(name, layer)
            return self._ended(name, result, state, limits)
        finally:
            self._ask("rm", "--force", name)

    def changes(self, layer: Image | None) -> dict[str, Entry | None]:
        """What an image changes in the tree; both are read whole."""
        return self._differing(layer, self.folder)

    def scratch(self, layer: Image | None) -> dict[str, Entry | None]:
        """What lies in /tmp and was not there before."""
        return self._differing(layer, "/tmp")

    def close(self) -> None:
        """Remove the image that all began with, and what lies on disk; images of layers go with the layers."""
        self._forget()
        self.store.close()

    def _made(self, base: Path | None, image: str) -> dict[str, str]:
        """Make the image that all begin with, the tree owned by the boxes' user in it; returns the variables of `image`."""
        name = self._new()
        found = _asked(self._engine, "image", "inspect", "--format", "{{json .Config.Env}}", image)
        if found.returncode:
            raise BadInput(f"the engine has no image {image!r}: pull it first ({self._engine} pull {image})")
        variables = dict(entry.split("=", 1) for entry in json.loads(found.stdout) or [])
        prepare = f'mkdir -p "$1" && chown -R {AGENT}:{AGENT} "$1" && chmod 1777 /tmp'
        command = ["create", "--name", name, "--user", "0:0", "--network", "none", "--entrypoint", "bash"]
        self._must(*command, *_ulimits(Limits()), image, "-c", prepare, "bash", self.folder)
        try:
            if base is not None:
                self._fill(name, base)
            self._must("start", "--attach", name)
            tag = f"localhost/{self._name}:base"
            self._must("commit", "--change", "ENTRYPOINT []", name, tag)
        finally:
            self._ask("rm", "--force", name)
        self._base = tag
        self._forget = weakref.finalize(self, _remove, self._engine, tag)
        return variables

    def _fill(self, container: str, base: Path) -> None:
        """Put the tree into a container that has not run. A file with two names becomes two, as in an overlay."""
        inside = f"--transform=flags=rSH;s,^[.],{self.folder[1:]},"
        tar = ["tar", "--create", "--hard-dereference", inside, "--directory", str(base), "."]
        with subprocess.Popen(tar, stdout=subprocess.PIPE) as reading:
            copy = [self._engine, "cp", "-", f"{container}:/"]
            done = subprocess.run(copy, stdin=reading.stdout, capture_output=True, env=_caller(), check=False)
        if done.returncode or reading.returncode:
            raise Failure(
                f"the tree {base} could not be copied into a container: {done.stderr.decode(errors='replace').strip()}"
            )

    def _confined(self, limits: Limits) -> list[str]:
        memory = str(int(limits.memory))
        options = ["--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--hostname", "box"]
        options += ["--user", f"{AGENT}:{AGENT}", "--workdir", self.folder, "--pids-limit", str(int(limits.processes))]
        return [*options, "--memory", memory, "--memory-swap", memory, *_ulimits(limits)]

    def _commit(self, container: str, layer: Image) -> None:
        tag = f"localhost/{self._name}:{self._new()}"
        self._must("commit", container, tag)
        layer.ran = True
        weakref.finalize(layer, _remove, self._engine, tag)
        layer.image, layer.height = tag, layer.height + 1

    def _flatten(self, layer: Image) -> None:
        """Write an image anew as one layer."""
        name, tag = self._new(), f"localhost/{self._name}:{self._new()}"
        self._must("create", "--name", name, *_ulimits(Limits()), layer.image, "true")
        try:
            with tempfile.TemporaryFile(dir=self.store.folder) as archive:
                subprocess.run([self._engine, "export", name], stdout=archive, env=_caller(), check=True)
                archive.seek(0)
                command = [self._engine, "import", "-", tag]
                subprocess.run(command, stdin=archive, stdout=subprocess.DEVNULL, env=_caller(), check=True)
        finally:
            self._ask("rm", "--force", name)
        weakref.finalize(layer, _remove, self._engine, tag)
        layer.image, layer.height = tag, 1

    def _state(self, container: str) -> dict | None:
        done = self._ask("inspect", "--format", "{{json .State}}", container)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def _ended(self, container: str, result: Result, state: Mapping, limits: Limits) -> Result:
        """The result with the limits that the engine keeps or tells of."""
        ended = result.ended
        if ended == "exit" and state.get("OOMKilled"):
            ended = "memory"
        if ended == "exit":
            done = self._ask("inspect", "--size", "--format", "{{.SizeRw}}", container)
            if done.returncode == 0 and done.stdout.strip().isdigit() and int(done.stdout) > limits.disk:
                ended = "disk"
        return result if ended == result.ended else Result(-1, result.output, ended, result.seconds, result.raw)

    def _differing(self, layer: Image | None, folder: str) -> dict[str, Entry | None]:
        if layer is None:
            return {}
        if folder not in self._listed:
            self._listed[folder] = self._entries(self._base, folder)
        return _differences(self._listed[folder], self._entries(layer.image, folder))

    def _entries(self, image: str, folder: str) -> dict[str, Entry]:
        """All that lies in a folder of an image, by name; "." is the folder itself."""
        name = self._new()
        self._must("create", "--name", name, *_ulimits(Limits()), image, "true")
        try:
            command = [self._engine, "cp", f"{name}:{folder}", "-"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, env=_caller()) as copy:
                assert copy.stdout is not None
                with tarfile.open(fileobj=copy.stdout, mode="r|") as archive:
                    return {_inside(member.name): _entry(archive, member) for member in archive}
        finally:
            self._ask("rm", "--force", name)

    def _new(self) -> str:
        return f"{self._name}-{os.getpid()}-{next(self._numbers)}"

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess:
        return _asked(self._engine, *arguments)

    def _must(self, *arguments: str) -> None:
        done = self._ask(*arguments)
        if done.returncode:
            raise Failure(f"{Path(self._engine).name} {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")


def _ulimits(limits: Limits) -> list[str]:
    files = int(limits.disk)
    # Where nothing is said of processes, engines ask for more than a confined host may give.
    values = (("nofile", 1024), ("core", 0), ("fsize", files), ("nproc", MOST))
    return [part for name, value in values for part in ("--ulimit", f"{name}={value}:{value}")]


def _caller() -> dict[str, str]:
    return {name: os.environ[name] for name in CALLER if name in os.environ}


def _asked(program: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([program, *arguments], capture_output=True, stdin=subprocess.DEVNULL, env=_caller(), check=False)


def _remove(program: str, tag: str) -> None:
    with contextlib.suppress(OSError):
        _asked(program, "rmi", "--force", tag)


def _inside(name: str) -> str:
    """A name below the folder that an archive holds."""
    return name.strip("/").partition("/")[2] or "."


def _entry(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Entry:
    if member.issym():
        return Entry("link", 0, member.linkname)
    if member.isdir():
        return Entry("folder", member.mode & 0o7777, "")
    if member.isfile():
        content = archive.extractfile(member)
        return Entry("file", member.mode & 0o7777, hashlib.file_digest(content, "sha256").hexdigest())  # type: ignore[arg-type]
    if member.islnk():
        # A second name of a file that came before it; what it holds is told by that one.
        return Entry("file", member.mode & 0o7777, f"as {_inside(member.linkname)}")
    return Entry("other", member.mode & 0o7777, member.type.decode())


def _differences(base: Mapping[str, Entry], now: Mapping[str, Entry]) -> dict[str, Entry | None]:
    found: dict[str, Entry | None] = {name: entry for name, entry in now.items() if base.get(name) != entry}
    gone = set(base) - set(now)
    # Of a removed folder only the folder itself is named.
    found.update({name: None for name in gone if name.rpartition("/")[0] not in gone})
    return found
