"""Which kind of box this host can have, found out by trying; opening a tree in one; the doctor and the cleaner."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bpo.errors import BadInput, choose
from bpo.sandboxes.shell import host, landlock_runner
from bpo.sandboxes.shell.bubblewrap import Bubblewrap, find
from bpo.sandboxes.shell.containers import ContainerTier, engine
from bpo.sandboxes.shell.copies import CopyTier, copy
from bpo.sandboxes.shell.launch import Failure
from bpo.sandboxes.shell.limits import Limits
from bpo.sandboxes.shell.overlay import OverlayTier
from bpo.sandboxes.shell.store import LayerStore, leftovers, remove
from bpo.sandboxes.shell.workspace import Habits, Workspace

FOLDER = "/testbed"
# How a tier is tried.
TRIED = Habits(Limits(seconds=20))
TIERS = {
    "A": "overlays in namespaces: forks at once, nothing but the tree and /tmp can be written, no network",
    "B": "copies under Landlock: a fork copies the tree; other processes can be seen, UDP is open",
    "C": "copies without any confinement: commands can do all that this user (nobody, for root) can; only with allow_unsafe",
    "D": "containers of Docker or Podman: a command commits an image, about a second; used only where an image is named",
}

# Boxes that this process has put trees into: tier, and what keeps it.
_USED: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class Finding:
    """What trying one tier has shown: it works by `how`, or does not for the reason `why`, and then `advice` may help."""

    tier: str
    works: bool
    how: str = ""
    why: str = ""
    advice: str = ""


@cache
def findings() -> tuple[Finding, ...]:
    """Every way to keep boxes here that needs no image, the preferred first, each one tried for real once per process."""
    if not sys.platform.startswith("linux"):
        why = f"boxes need Linux, this is {sys.platform}"
        return tuple(Finding(tier, False, why=why, advice="use Linux, or a Linux virtual machine") for tier in "AB")
    found = []
    store = LayerStore()
    try:
        programs = find(store)
        if not programs:
            found.append(
                Finding("A", False, why="bubblewrap is missing", advice="pip install 'bpo[code]', or install bubblewrap")
            )
        for program in programs:
            found.append(_overlay_works(program))
    finally:
        store.close()
    found.append(_landlock_works())
    return tuple(found)


def _overlay_works(program: Bubblewrap) -> Finding:
    try:
        with closing(_opened("A", None, (), TRIED, origin=program.origin)) as workspace:
            _try(workspace)
    except (Failure, OSError) as error:
        return Finding("A", False, program.origin, str(error), _advice(str(error)))
    return Finding("A", True, program.origin)


def _landlock_works() -> Finding:
    number = landlock_runner.version()
    if not number:
        return Finding(
            "B", False, why="this kernel has no Landlock, or it is switched off", advice="a kernel from 5.13 on, lsm=landlock"
        )
    try:
        with closing(_opened("B", None, (), TRIED)) as workspace:
            _try(workspace)
    except (Failure, OSError) as error:
        return Finding("B", False, f"Landlock {number}", str(error))
    return Finding("B", True, f"Landlock {number}")


def containers_work() -> Finding:
    """Whether a container engine answers; no box is tried, since that needs an image."""
    try:
        return Finding("D", True, engine()[1])
    except BadInput as error:
        return Finding("D", False, why=str(error), advice="install podman, or start Docker; only for those who want tier D")


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
    """The tier that is used: the one asked for or, for "auto", the best that works; BadInput says what is missing."""
    choose("tier", tier, ("auto", *TIERS))
    works = [finding.tier for finding in findings() if finding.works]
    if tier == "auto":
        if works:
            return min(works)
        if not allow_unsafe:
            raise BadInput(
                "no safe box works on this host (`bpo sandbox doctor` says why); allow_unsafe=True runs commands without any "
                "confinement, with all the rights of this user (of nobody, where this is root)"
            )
        return "C"
    if tier == "C":
        if allow_unsafe:
            return tier
        raise BadInput("tier C runs commands without any confinement: it needs allow_unsafe=True")
    if tier not in works:
        reasons = "; ".join(f"{f.how or f.tier}: {f.why}" for f in findings() if f.tier == tier)
        raise BadInput(f"tier {tier} does not work on this host ({reasons}); `bpo sandbox doctor` says what to do")
    return tier


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
) -> Workspace:
    """Put a folder into boxes.

    tree          the folder, None for an empty one; it is never written to, and must stay as it is while boxes stand on it.
                  It is copied where the boxes' user does not own it (which is so where the host is root)
    readable      further folders that commands may read, at their own paths: interpreters, environments (of an environment also
                  the folder of the Python that it is made of: `sys.base_prefix` in it)
    tier          a key of TIERS, or "auto": the safest that works here
    limits        of every command
    variables     further environment variables; paths: folders that are searched for programs first
    stateful      carry the shell's folder, variables, functions and options from command to command; else every command is a
                  fresh bash
    folder        where commands see the tree
    allow_unsafe  permit tier C
    image         tier D: the image that containers are made of; it must hold bash and coreutils

    BadInput for a tree that is no folder, or a tier that does not work here.
    """
    base = None if tree is None else Path(os.path.realpath(tree))
    if base is not None and not base.is_dir():
        raise BadInput(f"the tree {os.fspath(tree)!r} is no folder")
    if not folder.startswith("/") or folder.rstrip("/") in ("", "/tmp", "/usr", "/etc", "/dev", "/proc"):
        raise BadInput(f"folder is {folder!r}; it must be an absolute path of its own, like {FOLDER!r}")
    habits = Habits(limits or Limits(), host.environment(dict(variables or {}), paths), stateful)
    shown = host.readable(readable)
    if (image is not None) != (tier == "D"):
        raise BadInput(f"tier {tier!r} with image {image!r}: tier 'D' needs the name of an image, and only tier 'D' uses one")
    kind = "D" if image is not None else chosen(tier, allow_unsafe)
    workspace = _opened(kind, base, shown, habits, folder, image=image)
    _USED.add((workspace.tier.name, workspace.tier.origin))
    return workspace


def used() -> list[str]:
    """Every kind of box that `open_workspace` has made in this process, in words: what a result says of its origin."""
    return [f"tier {name}, by {origin}" for name, origin in sorted(_USED)]


def _opened(
    kind: str,
    base: Path | None,
    readable: Sequence[str],
    habits: Habits,
    folder: str = FOLDER,
    origin: str | None = None,
    image: str | None = None,
) -> Workspace:
    """A workspace of tier A (by the program of this origin, or the best that works), B, C or D."""
    store = LayerStore()
    try:
        if image is not None:
            return Workspace(ContainerTier(store, base, image, readable, folder), habits)
        base = store.make("base") / "base" if base is None else base
        if kind == "A":
            origin = origin or next(finding.how for finding in findings() if finding.works and finding.tier == "A")
            program = next(one for one in find(store) if one.origin == origin)
            tier = OverlayTier(store, _owned(base, store), program, readable, folder)
        else:
            closed = [path for path in readable if not host.open_to(path, store.user, store.group)]
            if closed:
                raise BadInput(
                    f"boxes of tier {kind} run as another user than root, who may not read {closed[0]!r}: use tier A, "
                    "or have it in a folder that everybody may read"
                )
            tier = CopyTier(store, base, readable, folder, confined=kind == "B")
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


def clean(parent: Path | None = None) -> list[Path]:
    """Remove what processes that are gone have left of their boxes; returns the folders."""
    found = leftovers(parent)
    for folder in found:
        remove(folder)
    return found
