"""A stand-in for a clone: the source of a release on PyPI, for rows whose patches fit one.

A release is not the base commit. For some rows it lies close enough that the hidden tests fail without the gold patch and pass
with it; `bpo swebench check` says so. Where it does not, only a clone helps.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from bpo.cache import cache_dir, key_of
from bpo.errors import BadInput, ToolError
from bpo.files import locked, published
from bpo.git import AUTHOR, git
from bpo.provenance import code_of
from bpo.sandboxes.swebench.instances import Instance
from bpo.sealed import DIGESTS, is_whole, seal_folder

# Among git's own files, so that the repository holds nothing that it does not know.
PLACE = f".git/{DIGESTS}"
INDEX = "https://pypi.org/simple/{project}/"
# What a repository's tests are started by and its releases leave out. Ours, with the options that the recipe uses.
SYMPY_TEST = """#!/usr/bin/env python
import os, sys
os.environ["SYMPY_USE_CACHE"] = "no"
sys.path.insert(0, os.getcwd())
import sympy
files = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
sys.exit(not sympy.test(*files, verbose=True, colors=False))
"""
ADDED = {"sympy/sympy": (("bin/test", SYMPY_TEST),)}


def release(instance: Instance, version: str) -> Path:
    """A git repository of one commit, `HEAD`, with a release's source; from the cache where it has been fetched before.

    BadInput where PyPI has no such release, or no source of it; ToolError where PyPI cannot be reached.
    """
    project = instance.repo.split("/")[1]
    if not version or not set(version.lower()) <= set("0123456789abcdefghijklmnopqrstuvwxyz.+-"):
        raise BadInput(f"the release {version!r} is no version, like 2.27.0")
    added = ADDED.get(instance.repo, ())
    key = key_of(instance.repo, version, added, AUTHOR, code_of(_unpack, _source))
    folder = cache_dir("swebench").resolve() / "releases" / f"{project}-{version}-{key}"
    folder.parent.mkdir(exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not is_whole(folder, PLACE):
            archive = _source(project, version)
            with published(folder) as made:
                _unpack(archive, made)
                for name, text in added:
                    if not (made / name).exists():
                        (made / name).parent.mkdir(exist_ok=True)
                        (made / name).write_text(text)
                        (made / name).chmod(0o755)
                git(made, "init", "--quiet", "--initial-branch", "main")
                git(made, "add", "--all", "--force")
                git(made, "commit", "--quiet", "--no-verify", "--message", f"{project} {version}", variables=AUTHOR)
                seal_folder(made, PLACE)
    return folder


def _source(project: str, version: str) -> bytes:
    address = INDEX.format(project=project)
    files = json.loads(_fetched(address, {"Accept": "application/vnd.pypi.simple.v1+json"}))["files"]
    wanted = f"{project}-{version}.tar.gz".lower()
    file = next((file for file in files if file["filename"].lower() == wanted), None)
    if file is None:
        raise BadInput(f"PyPI has no source ({wanted}) of a release {version} of {project}")
    content = _fetched(urllib.parse.urljoin(address, file["url"]), {})
    if hashlib.sha256(content).hexdigest() != file["hashes"]["sha256"]:
        raise ToolError(f"{file['filename']} is not what PyPI says it is: its SHA-256 differs")
    return content


def _fetched(address: str, headers: Mapping[str, str]) -> bytes:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=dict(headers)), timeout=120) as answer:
            return answer.read()
    except (urllib.error.URLError, TimeoutError) as error:
        raise ToolError(f"{address} cannot be read: {error}") from None


def _unpack(archive: bytes, target: Path) -> None:
    """Write what lies in the archive's one folder."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar.getmembers():
            name = member.name.partition("/")[2]
            if name:
                tar.extract(member.replace(name=name, deep=False), target, filter="data")
