"""Every call of git: in one named repository, blind to the caller's variables, settings, hooks and habits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bpo.errors import ToolError

# All that git is told of the caller's environment: where programs and temporary files are, and how the network is reached.
CALLER = (
    *("PATH", "LD_LIBRARY_PATH", "TMPDIR"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"),
)
OURS = {
    # No settings of the machine or of the user. Old versions of git know the home folder alone.
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "HOME": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    # Objects as their names say, whatever the repository has put in their place.
    "GIT_NO_REPLACE_OBJECTS": "1",
    # Looking at a repository writes nothing into it.
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
# Settings that a repository may have of its own and that would change what is read or written.
SETTINGS = (
    "safe.directory=*",  # a clone may belong to another user than the caller
    f"core.hooksPath={os.devnull}",
    f"core.excludesFile={os.devnull}",
    f"core.attributesFile={os.devnull}",
    "core.autocrlf=false",
    "core.eol=lf",
    "core.safecrlf=false",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.fsmonitor=false",
    "core.sparseCheckout=false",
    "core.splitIndex=false",
    "commit.gpgSign=false",
    "apply.whitespace=nowarn",
    "apply.ignoreWhitespace=no",
    "gc.auto=0",
    "maintenance.auto=false",
    "init.templateDir=",
)
# A date and an author of its own, so that a commit's hash says nothing of the day and the machine it was made on.
AUTHOR = {
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "bpo"), ("EMAIL", "bpo@localhost"))
    },
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z",
}


def environment(folder: str | os.PathLike) -> dict[str, str]:
    """The variables of a git command in `folder`, which is the repository itself: none above it is looked for."""
    kept = {name: os.environ[name] for name in CALLER if name in os.environ}
    return {**kept, **OURS, "GIT_CEILING_DIRECTORIES": os.path.dirname(os.path.realpath(folder))}


def git(
    folder: str | os.PathLike,
    *arguments: str,
    variables: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    seconds: float | None = None,
) -> bytes:
    """What a git command in the repository `folder` prints.

    variables  of git's that this command needs, such as GIT_INDEX_FILE; `seconds` after which it is given up

    ToolError where git is absent, fails, or takes too long; the message is git's own.
    """
    options = [part for setting in SETTINGS for part in ("-c", setting)]
    try:
        done = subprocess.run(
            ["git", *options, "-C", str(Path(folder)), *arguments],
            input=stdin,
            capture_output=True,
            env={**environment(folder), **(variables or {})},
            check=False,
            timeout=seconds,
        )
    except FileNotFoundError:
        raise ToolError("git is not on the search path: install it with the system's package manager") from None
    except subprocess.TimeoutExpired:
        raise ToolError(f"git {arguments[0]} has not ended after {seconds:g} seconds") from None
    if done.returncode:
        raise ToolError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def git_text(folder: str | os.PathLike, *arguments: str, **options) -> str:
    """What a git command prints as text (see `git`); bytes that are no UTF-8 come back as they were when it is encoded."""
    return git(folder, *arguments, **options).decode(errors="surrogateescape")
