"""Command lines for bash that do a little more than one command."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping

from bpo.errors import BadInput

# Where a shell leaves its state for the next one; part of the box's /tmp, hence of every snapshot.
STATE = '"$TMPDIR"/.shell'
# On leaving: variables but those that bash sets itself and those that name the box, functions, options, and the folder, seen
# from the tree, which lies elsewhere in a copy.
CARRY = f"""
__tree=$PWD
if [ -r {STATE} ]; then . {STATE} 2>/dev/null; fi
__leave() {{
  local code=$?
  {{ declare -p; declare -f; shopt -p; set +o;
    case $PWD/ in "$__tree"/*) printf 'cd -- "$__tree"%q\\n' "${{PWD#"$__tree"}}/";; *) printf 'cd -- %q\\n' "$PWD";; esac; }} 2>/dev/null |
    grep -vE '^declare -[a-zA-Z-]*r[a-zA-Z-]* |^declare -[a-zA-Z-]+ (BASH_[A-Z]+|BASHPID|COMP_WORDBREAKS|DIRSTACK|FUNCNAME|GROUPS|PIPESTATUS|RANDOM|SECONDS|SRANDOM|EPOCH[A-Z]+|LINENO|TMPDIR|HOME|PWD|OLDPWD|__tree|_)=|^declare -[a-zA-Z-]+ (FUNCNAME|BASH_[A-Z]+)$' > {STATE}.new &&
    mv -f {STATE}.new {STATE}
  exit $code
}}
trap __leave EXIT
eval "$1"
"""  # noqa: E501
FILL = """
set -e
while [ $# -gt 0 ]; do
  if [ -e "$1" ] && [ ! -f "$1" ]; then echo "$1 is there and is no file"; exit 1; fi
  if [ ! -d "${1%/*}" ]; then mkdir -p -- "${1%/*}"; fi
  head -c "$2" > "$1"
  shift 2
done
"""


# Files and bytes of names that are written by one command: so much is passed on with no trouble by all that stands between.
FILES, NAMES = 500, 32 * 1024
# Prints a file for `decoded`.
READ = """
if [ -f "$1" ]; then exec base64 --wrap=0 -- "$1"; fi
if [ -e "$1" ]; then echo "it is no file"; else echo "there is no such file"; fi
exit 1
"""


def carried(command: str) -> tuple[str, ...]:
    """Arguments that run a command with the state that the last one left: folder, variables, functions, options.

    A command that replaces the shell (exec) or its EXIT trap leaves the state as it was before.
    """
    return ("bash", "-c", CARRY, "bash", command)


def filled(files: Mapping[str, bytes]) -> tuple[tuple[str, ...], bytes]:
    """Arguments and standard input that write these files and the folders above them; permissions of old files stay."""
    pairs = [part for name, data in files.items() for part in (f"./{name}", str(len(data)))]
    return ("bash", "-c", FILL, "bash", *pairs), b"".join(files.values())


def batches(names: Iterable[str]) -> Iterator[list[str]]:
    """Names in groups that one command can be told."""
    group: list[str] = []
    length = 0
    for name in names:
        long = len(name.encode(errors="surrogateescape"))
        if group and (len(group) >= FILES or length + long > NAMES):
            yield group
            group, length = [], 0
        group.append(name)
        length += long
    if group:
        yield group


def encoded(length: float) -> int:
    """Characters that a file of this length takes as base64."""
    return 4 * (int(length) // 3 + 1)


def decoded(text: str) -> bytes:
    """Bytes that a command has printed in base64."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise BadInput(f"what a command printed is not base64: {text[:80]!r}") from None
