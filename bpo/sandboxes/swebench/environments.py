"""Trees and environments of instances: made once, kept in the cache, without the future."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bpo import child
from bpo.cache import cache_dir, key_of
from bpo.errors import BadInput, ToolError, require
from bpo.files import locked
from bpo.git import AUTHOR, git, git_text
from bpo.provenance import code_of
from bpo.reading import from_yaml, read_text, typed
from bpo.sandboxes.shell import host
from bpo.sandboxes.shell.tiers import FOLDER
from bpo.sandboxes.swebench.hidden import FILE, PROGRAM, Entry, staged
from bpo.sandboxes.swebench.instances import Instance
from bpo.sandboxes.swebench.recipes import UNTIL, BuildRecipe, recipe
from bpo.sealed import is_whole, read_record, seal_folder, write_record

READY = "ready.json"


@dataclass(frozen=True)
class Prepared:
    """What boxes of an instance need.

    tree         the repository at the base commit, its history replaced by one commit
    environment  a virtual environment in which the repository is installed as it lies in a box
    hidden       what the test patch leaves of what it changes, by name; removed: what it takes away
    facts        what was used: Python, packages as installed, commit
    """

    instance: Instance
    recipe: BuildRecipe
    tree: Path
    environment: Path
    hidden: Mapping[str, Entry]
    removed: tuple[str, ...]
    facts: Mapping[str, Any]

    @property
    def tests(self) -> dict[str, bytes]:
        """The files among what is hidden, with what is in them."""
        return {name: entry.content for name, entry in self.hidden.items() if entry.kind in (FILE, PROGRAM)}

    @property
    def readable(self) -> tuple[str, ...]:
        """Folders that commands in a box must be able to read: the environment, and the Python it is made of.

        Where links lead from one to the other, boxes have them too.
        """
        program = self.environment / "bin" / "python"
        return (str(self.environment), *host.interpreter(program).folders, str(program))


def prepare(
    instance: Instance,
    clone: str | os.PathLike,
    commit: str | None = None,
    pins: str | os.PathLike | None = None,
    python: str | None = None,
) -> Prepared:
    """The tree and the environment of an instance, from the cache where they have been made before.

    clone   a git repository that holds the base commit; it is only read
    commit  another commit to start from, for trees that are no clone of the original (say, one made of a release)
    pins    exact versions: a requirements file, or a conda environment.yml whose list for pip is used, and those of its
            packages that the recipe names
    python  another version of Python than the recipe's

    The repository's own build code runs on the host, with the rights of the caller; nothing of an agent's does. BadInput where
    the clone lacks the commit or a patch does not fit; ToolError where the installation fails.
    """
    source = Path(clone).expanduser()
    revision = _commit(source, commit or instance.base_commit, instance)
    chosen = recipe(instance)
    requirements, pinned_python = ([], None) if pins is None else pinned(Path(pins), chosen)
    chosen = replace(chosen, python=python or pinned_python or chosen.python)
    folder = _cache() / f"{instance.name}-{_identity(instance, revision, chosen, requirements)}"
    with locked(folder.with_suffix(".lock")):
        if not is_whole(folder):
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, instance, chosen, source, revision, requirements)
    return _read(folder, instance, chosen)


def _identity(instance: Instance, revision: str, chosen: BuildRecipe, requirements: Sequence[str]) -> str:
    """A key of what tree and environment depend on. The function that reads logs is no part of it: it comes afterwards."""
    told = {field.name: getattr(chosen, field.name) for field in fields(chosen) if field.name != "parser"}
    wanted = [instance.name, instance.version, instance.test_patch, instance.patch]
    made_by = [code_of(_make), UNTIL, interpreter(chosen.python), platform.machine()]
    return key_of(wanted, revision, {**told, "variables": dict(chosen.variables)}, list(requirements), made_by)


def _read(folder: Path, instance: Instance, chosen: BuildRecipe) -> Prepared:
    facts = read_record(folder / READY)
    listed = facts.pop("hidden")
    hidden = {name: Entry(kind, (folder / "tests" / str(i)).read_bytes()) for i, (name, kind) in enumerate(listed)}
    return Prepared(instance, chosen, folder / "tree", folder / "env", hidden, tuple(facts.pop("removed")), facts)


def _make(
    folder: Path, instance: Instance, chosen: BuildRecipe, source: Path, revision: str, requirements: Sequence[str]
) -> None:
    """Make it all in its place, since environments name their own folder; the digests, written last, say that it is whole."""
    tree, environment, tests = folder / "tree", folder / "env", folder / "tests"
    tree.mkdir(parents=True)
    tests.mkdir()
    tracked = _checkout(source, revision, tree)
    hidden, removed = _with_tests(source, revision, instance, folder / "index")
    for number, entry in enumerate(hidden.values()):
        # By number: their names can be anything, also outside of this folder.
        (tests / str(number)).write_bytes(entry.content)
    for name, pattern, replacement in chosen.edits:
        if (tree / name).is_file():
            content = (tree / name).read_bytes()
            (tree / name).write_bytes(re.sub(pattern.encode(), replacement.encode(), content))
    _install(tree, environment, instance, chosen, requirements)
    _commit_all(tree, tracked)
    _moved(environment, tree)
    versions = _run([_uv(), "pip", "freeze", "--python", str(environment / "bin" / "python")]).splitlines()
    facts = {
        "commit": revision,
        "python": _run([str(environment / "bin" / "python"), "--version"]).strip(),
        "packages": [line for line in versions if not line.startswith("-e") and " @ " not in line],
        "removed": removed,
        "hidden": [[name, entry.kind] for name, entry in hidden.items()],
    }
    write_record(folder / READY, facts)
    seal_folder(folder)


def _commit(source: Path, revision: str, instance: Instance) -> str:
    if not source.is_dir():
        raise BadInput(f"the clone {str(source)!r} does not exist; it must be a folder with a clone of {instance.repo}")
    try:
        return git_text(source, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").strip()
    except ToolError:
        raise BadInput(
            f"{str(source)!r} holds no commit {revision}; {instance.name} needs a git clone of {instance.repo} with that commit"
        ) from None


def _checkout(source: Path, revision: str, tree: Path) -> list[str]:
    """Write a commit's files into `tree`; returns their names. The clone's own index and files are left alone."""
    index = {"GIT_INDEX_FILE": str(tree.parent / "index")}
    git(source, "read-tree", revision, variables=index)
    git(source, "--work-tree", str(tree), "checkout-index", "--all", "--force", variables=index)
    names = git_text(source, "ls-files", "-z", variables=index).split("\0")
    (tree.parent / "index").unlink()
    # Not the empty folders of submodules, which git refuses to be given.
    there = (tree / name for name in names if name)
    return [str(path.relative_to(tree)) for path in there if path.is_symlink() or path.is_file()]


def _with_tests(source: Path, revision: str, instance: Instance, index_file: Path) -> tuple[dict[str, Entry], tuple[str, ...]]:
    """What the test patch leaves of what it changes, and what it removes; BadInput where a patch does not fit."""
    index = {"GIT_INDEX_FILE": str(index_file)}
    try:
        git(source, "read-tree", revision, variables=index)
        for name, patch in (("test_patch", instance.test_patch), ("patch", instance.patch)):
            if not patch.strip():
                continue
            try:
                # The gold patch is only tried.
                check = ["--check"] if name == "patch" else []
                git(source, "apply", "--cached", *check, "-", variables=index, stdin=patch.encode(errors="surrogateescape"))
            except ToolError as error:
                raise BadInput(f"the {name} of {instance.name} does not fit commit {revision[:12]}: {error}") from None
        return staged(source, revision, index)
    finally:
        index_file.unlink(missing_ok=True)


def _install(tree: Path, environment: Path, instance: Instance, chosen: BuildRecipe, requirements: Sequence[str]) -> None:
    uv, python = _uv(), str(environment / "bin" / "python")
    until = ["--exclude-newer", UNTIL]
    _run([uv, "venv", "--quiet", *until, "--seed", "--python", interpreter(chosen.python), str(environment)])
    install = [uv, "pip", "install", "--quiet", "--python", python]
    here = {"SETUPTOOLS_SCM_PRETEND_VERSION": f"{'.'.join(re.findall(r'[0-9]+', instance.version))}.0"}
    packages = [*chosen.packages, *(part for name in chosen.required if (tree / name).is_file() for part in ("-r", name))]
    if requirements:
        # Exact versions of the caller's stand for the recipe's.
        listed = environment / "pins.txt"
        listed.write_text("\n".join(requirements) + "\n")
        packages = ["-r", str(listed)]
    if packages:
        _run([*install, *until, *packages], tree)
    isolation = [] if chosen.isolated else ["--no-build-isolation"]
    _run([*install, *until, *isolation, *packages, "-e", f".{chosen.extras}"], tree, here)


def interpreter(version: str) -> str:
    """What uv is told of a Python version: the path of one of pyenv's, which uv does not look for, or else the version."""
    root = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found = sorted(root.glob(f"{version}.*/bin/python"), key=lambda path: _order(path.parts[-3]))
    return str(found[-1]) if found else version


def _order(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def pinned(path: Path, chosen: BuildRecipe) -> tuple[list[str], str | None]:
    """Requirements, and the version of Python if any, from a requirements file or a conda environment.yml."""
    if not path.is_file():
        raise BadInput(f"{path} does not exist; it must be a requirements file or an environment.yml")
    if path.suffix not in (".yml", ".yaml"):
        lines = [line.strip() for line in read_text(path, "a requirements file or an environment.yml").split("\n")]
        return [line for line in lines if line and not line.startswith(("#", "-e"))], None
    content = from_yaml(read_text(path, "a requirements file or an environment.yml"), str(path))
    entries = content.get("dependencies") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise BadInput(f"{path} has no list of dependencies, as an environment.yml has")
    named = {re.split(r"[<>=!\[ ]", package)[0].lower() for package in chosen.packages}
    requirements, version = [], None
    for entry in entries:
        if isinstance(entry, dict):
            requirements += [str(line) for line in typed(list[str], entry.get("pip", []), f"{path}: dependencies: pip")]
            continue
        name, *rest = re.split("=+", str(entry))
        if name == "python" and rest:
            version = ".".join(rest[0].split(".")[:2])
        elif name.lower() in named and rest:
            requirements.append(f"{name}=={rest[0]}")
    return requirements, version


def _commit_all(tree: Path, tracked: Sequence[str]) -> None:
    """Give the tree a history of one commit, which holds all that the original tracked and what the installation changed."""
    listed = "\0".join(tracked).encode(errors="surrogateescape")
    git(tree, "init", "--quiet", "--initial-branch", "main")
    git(tree, "--literal-pathspecs", "add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=listed)
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--no-verify", "--message", "base", variables=AUTHOR)
    git(tree, "gc", "--quiet", "--prune=now")


def _moved(environment: Path, tree: Path) -> None:
    """Let the environment find the repository where boxes have it."""
    for path in environment.glob("lib/python*/site-packages/**/*"):
        if path.suffix in (".pth", ".egg-link", ".json", ".py") and path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if str(tree).encode() in content:
                path.write_bytes(content.replace(str(tree).encode(), FOLDER.encode()))


def _cache() -> Path:
    return cache_dir("swebench").resolve()


def _uv() -> str:
    found = shutil.which("uv")
    if found is None:
        require("uv", "swebench")
        import uv

        found = uv.find_uv_bin()
    return found


def _run(command: Sequence[str], folder: Path | None = None, variables: Mapping[str, str] | None = None) -> str:
    # What builds a package may ask git for its version: it must not find a repository above the folder.
    environment = child.environment({**(variables or {}), "GIT_CEILING_DIRECTORIES": str(folder.parent)} if folder else None)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise ToolError(f"{' '.join(map(str, command))} failed:\n{done.stderr.strip()[-3000:]}")
    return done.stdout
