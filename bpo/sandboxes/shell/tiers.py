"""Which kind of box this host can have, found out by trying; opening a tree in one; the doctor and the cleaner."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bpo.errors import BadInput, choose
from bpo.sandboxes.shell import host, landlock_runner, syscalls
from bpo.sandboxes.shell.bubblewrap import Bubblewrap, find
from bpo.sandboxes.shell.containers import ContainerTier, engine
from bpo.sandboxes.shell.copies import CopyTier, copy
from bpo.sandboxes.shell.launch import Failure
from bpo.sandboxes.shell.limits import Limits
from bpo.sandboxes.shell.overlay import OverlayTier
from bpo.sandboxes.shell.store import LayerStore, leftovers, remove
from bpo.sandboxes.shell.workspace import Habits, Workspace

FOLDER = "/testbed"
# The version of Landlock that keeps signals among a box's own processes.
SCOPED = 6
# How a tier is tried.
TRIED = Habits(Limits(seconds=20))
TIERS = {
    "overlay": "overlays in namespaces: forks at once, nothing but the tree and /tmp can be written, no network",
    "landlock": "copies under Landlock and a system call filter: a fork copies the tree, no network",
    "copy": "copies without any confinement: commands can do what this user can (for root: another); only with allow_unsafe",
    "container": "containers of Docker or Podman: a command commits an image, a second; used only where an image is named",
}
# The letters that stood for the names, still understood wherever a tier is chosen.
ALIASES = {"A": "overlay", "B": "landlock", "C": "copy", "D": "container"}


# Boxes that this process has put trees into: tier, and what keeps it.
_USED: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class Finding:
    """What trying one tier has shown: it works by `how`, or does not for the reason `why`, and then `advice` may help.

    `open` says what commands in such boxes could still reach here, in words; then they run only where that is permitted.
    """

    tier: str
    works: bool
    how: str = ""
    why: str = ""
    advice: str = ""
    open: tuple[str, ...] = ()

    @property
    def safe(self) -> bool:
        """Whether boxes work and hold all that they are to hold."""
        return self.works and not self.open


@cache
def findings() -> tuple[Finding, ...]:
    """Every way to keep boxes here that needs no image, the preferred first, each one tried for real once per process."""
    if not sys.platform.startswith("linux"):
        why = f"boxes need Linux, this is {sys.platform}"
        return tuple(
            Finding(tier, False, why=why, advice="use Linux, or a Linux virtual machine") for tier in ("overlay", "landlock")
        )
    found = []
    store = LayerStore()
    try:
        programs = find(store)
        if not programs:
            found.append(
                Finding("overlay", False, why="bubblewrap is missing", advice="pip install 'bpo[code]', or install bubblewrap")
            )
        for program in programs:
            found.append(_overlay_works(program))
    finally:
        store.close()
    found.append(_landlock_works())
    return tuple(found)


def _overlay_works(program: Bubblewrap) -> Finding:
    try:
        with closing(_opened("overlay", None, host.Shown(), TRIED, origin=program.origin)) as workspace:
            _try(workspace)
    except (Failure, OSError) as error:
        return Finding("overlay", False, program.origin, str(error), _advice(str(error)))
    return Finding("overlay", True, program.origin, open=_unfiltered())


def _landlock_works() -> Finding:
    number = landlock_runner.version()
    if not number:
        return Finding(
            "landlock",
            False,
            why="this kernel has no Landlock, or it is switched off",
            advice="a kernel from 5.13 on, lsm=landlock",
        )
    try:
        with closing(_opened("landlock", None, host.Shown(), TRIED)) as workspace:
            _try(workspace)
    except (Failure, OSError) as error:
        return Finding("landlock", False, f"Landlock {number}", str(error))
    found = list(_unfiltered())
    if number < SCOPED:
        found.append(
            f"Landlock {number} lets signals through to this user's other processes (from version {SCOPED} on it does not)"
        )
    return Finding("landlock", True, f"Landlock {number}", open=tuple(found))


def _unfiltered() -> tuple[str, ...]:
    if syscalls.compiled("overlay") is not None:
        return ()
    return (f"the numbers of system calls on {platform.machine()} are not known, so that none is refused",)


def containers_work() -> Finding:
    """Whether a container engine answers; no box is tried, since that needs an image."""
    try:
        return Finding("container", True, engine()[1])
    except BadInput as error:
        return Finding(
            "container", False, why=str(error), advice="install podman, or start Docker; only for those who want that tier"
        )


def _try(workspace: Workspace) -> None:
    """Write, fork, remove, and look whether each box sees its own."""
    workspace.write("here", "a file\n")
    first = workspace.run("cat here && echo more >> here && mkdir -p new && echo x > new/file")
    (fork,) = workspace.fork(1)
    with closing(fork):
        second = fork.run("rm -r new here && ls -A")
        third = workspace.run("cat here new/file")
    seen = (first.output, second.output, third.output)
    if seen != ("a file\n", "", "a file\nmore\nx\n"):
        raise Failure(f"boxes do not keep their states apart: {seen}")


def _advice(why: str) -> str:
    if "uid map" in why or "Permission denied" in why or "Operation not permitted" in why:
        if os.path.exists("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"):
            return (
                "AppArmor keeps ordinary users from making namespaces: sudo sysctl -w "
                "kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile that allows them to this program"
            )
        if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
            return (
                "a container forbids namespaces by default: start it with --security-opt seccomp=unconfined "
                "--security-opt systempaths=unconfined, or run on its host"
            )
        return "user namespaces are refused: sudo sysctl -w user.max_user_namespaces=15000 kernel.unprivileged_userns_clone=1"
    if "No space left" in why or "max_*_namespaces" in why:
        return "no more user namespaces are allowed: sudo sysctl -w user.max_user_namespaces=15000"
    if "verlay" in why or "invalid argument" in why.lower():
        return "overlays in user namespaces need a kernel from 5.11 on, and TMPDIR on a disk, not on an overlay"
    return ""


def chosen(tier: str, allow_unsafe: bool = False) -> str:
    """The tier that is used: the one asked for or, for "auto", the best that is safe; BadInput says what is missing."""
    tier = named(tier)
    safe = [finding.tier for finding in findings() if finding.safe]
    works = [finding.tier for finding in findings() if finding.works]
    if tier == "auto":
        if safe or (works and allow_unsafe):
            return (safe or works)[0]
        if not allow_unsafe:
            raise BadInput(
                "no safe box works on this host (`bpo sandbox doctor` says why); allow_unsafe=True runs commands without any "
                "confinement, with all the rights of this user (of nobody, where this is root)"
            )
        return "copy"
    if tier == "copy":
        if allow_unsafe:
            return tier
        raise BadInput("tier copy runs commands without any confinement: it needs allow_unsafe=True")
    if tier not in works:
        reasons = "; ".join(f"{f.how or f.tier}: {f.why}" for f in findings() if f.tier == tier)
        raise BadInput(f"tier {tier} does not work on this host ({reasons}); `bpo sandbox doctor` says what to do")
    if tier not in safe and not allow_unsafe:
        holes = "; ".join(hole for finding in findings() if finding.tier == tier for hole in finding.open)
        raise BadInput(f"tier {tier} does not hold everything on this host ({holes}): it needs allow_unsafe=True")
    return tier


def named(tier: str) -> str:
    """A tier's name: what was asked for, or what its letter stands for; BadInput lists the names."""
    return choose("tier", ALIASES.get(tier, tier), ("auto", *TIERS))


def open_workspace(
    tree: str | os.PathLike | None,
    readable: Sequence[str | os.PathLike] = (),
    tier: str = "auto",
    limits: Limits | None = None,
    variables: Mapping[str, str] | None = None,
    paths: Sequence[str] = (),
    stateful: bool = False,
    folder: str = FOLDER,
    allow_unsafe: bool = False,
    image: str | None = None,
    hidden: Sequence[str | os.PathLike] = (),
) -> Workspace:
    """Put a folder into boxes.

    tree          the folder, None for an empty one; it is never written to, and must stay as it is while boxes stand on it.
                  It is copied where the boxes' user does not own it (which is so where the host is root)
    readable      further folders that commands may read, at their own paths: interpreters, environments (of an environment also
                  the folder of the Python that it is made of: `sys.base_prefix` in it). Of a program, the links that lead to it
    tier          a key of TIERS or its letter (A to D), or "auto": the first that holds everything here
    limits        of every command
    variables     further environment variables; paths: folders that are searched for programs first
    stateful      carry the shell's folder, variables, functions and options from command to command; else every command is a
                  fresh bash
    folder        where commands see the tree
    allow_unsafe  permit tier copy, and tiers that do not hold everything on this host (`bpo sandbox doctor` says what)
    image         tier container: the image that containers are made of; it must hold bash and coreutils
    hidden        folders in `readable` or in the system's that commands see as empty (tiers overlay and landlock)

    BadInput for a tree that is no folder, or a tier that does not work here.
    """
    base = None if tree is None else Path(os.path.realpath(tree))
    if base is not None and not base.is_dir():
        raise BadInput(f"the tree {os.fspath(tree)!r} is no folder")
    if not folder.startswith("/") or folder.rstrip("/") in ("", "/tmp", "/usr", "/etc", "/dev", "/proc"):
        raise BadInput(f"folder is {folder!r}; it must be an absolute path of its own, like {FOLDER!r}")
    habits = Habits(limits or Limits(), host.environment(dict(variables or {}), paths), stateful)
    shown = host.shown(readable, hidden)
    tier = named(tier)
    if (image is not None) != (tier == "container"):
        raise BadInput(
            f"tier {tier!r} with image {image!r}: tier 'container' needs the name of an image, and only tier 'container' "
            "uses one"
        )
    kind = "container" if image is not None else chosen(tier, allow_unsafe)
    workspace = _opened(kind, base, shown, habits, folder, image=image)
    _USED.add((workspace.tier.name, workspace.tier.origin))
    return workspace


def used() -> list[str]:
    """Every kind of box that `open_workspace` has made in this process, in words: what a result says of its origin."""
    return [f"tier {name}, by {origin}" for name, origin in sorted(_USED)]


def _opened(
    kind: str,
    base: Path | None,
    shown: host.Shown,
    habits: Habits,
    folder: str = FOLDER,
    origin: str | None = None,
    image: str | None = None,
) -> Workspace:
    """A workspace of one tier; overlays by the program of this origin, or the first that works."""
    store = LayerStore()
    try:
        if image is not None:
            return Workspace(ContainerTier(store, base, image, shown.folders, folder), habits)
        base = store.make("base") / "base" if base is None else base
        if kind == "overlay":
            origin = origin or next(finding.how for finding in findings() if finding.works and finding.tier == kind)
            program = next(one for one in find(store) if one.origin == origin)
            tier = OverlayTier(store, _owned(base, store), program, shown, folder)
        else:
            closed = [path for path in shown.folders if not host.open_to(path, store.user, store.group)]
            if closed:
                raise BadInput(
                    f"boxes of tier {kind} run as another user than root, who may not read {closed[0]!r}: use tier overlay, "
                    "or have it in a folder that everybody may read"
                )
            tier = CopyTier(store, base, shown, folder, confined=kind == "landlock")
    except BaseException:
        store.close()
        raise
    return Workspace(tier, habits)


def _owned(base: Path, store: LayerStore) -> Path:
    """The tree itself where the boxes' user may use it as if it were theirs, else a copy."""
    info = base.stat()
    if info.st_uid == store.user and host.open_to(base, store.user, store.group):
        return base
    target = store.make() / "base"
    copy(base, target, store)
    return target


def clean(parent: Path | None = None) -> tuple[list[Path], list[Path]]:
    """Remove what processes that are gone have left of their boxes; returns the folders, and those that stay."""
    removed: list[Path] = []
    stayed: list[Path] = []
    for folder in leftovers(parent):
        (removed if remove(folder) else stayed).append(folder)
    return removed, stayed
