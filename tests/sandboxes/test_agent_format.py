"""What an agent's message says is run whole or not at all."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpo.sandboxes.shell import agent_format
from bpo.sandboxes.shell.agent_format import commands
from bpo.sandboxes.shell.limits import Result
from bpo.sandboxes.shell.store import NOBODY, may_change_user
from bpo.sandboxes.shell.workspace import ARGUMENT

OPEN, README = "```mswea_bash_command\n", "cat > R.md <<'EOF'\n# Title\n```python\nx = 1\n```\nEOF"
BARE = "cat > R.md <<'EOF'\n```\nx\n```\nEOF"


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (f"Look.\n\n{OPEN}ls -la\n```\n", ["ls -la"]),
        (f"{OPEN}ls\n```\n{OPEN}rm x\n```", ["ls", "rm x"]),
        (f"{OPEN}{README}\n```\nDone.", [README]),
        (f"```python\nx\n```\n{OPEN}ls\n```", ["ls"]),
        # A longer fence leaves nothing in doubt.
        (f"````mswea_bash_command\n{BARE}\n````", [BARE]),
        (f"````mswea_bash_command\n{README}\n: '\n```\n'\n````", [f"{README}\n: '\n```\n'"]),
        # Everything else could be half a command.
        (f"{OPEN}{BARE}\n```", []),
        (f"{OPEN}cat > R.md <<'EOF'\n```\nEOF\n```", []),
        (f"{OPEN}cat > R.md <<'EOF'\n```python\nEOF\n```", []),
        (f"{OPEN}{README}\n", []),
        (f"{OPEN}rm -rf build", []),
        (f"{OPEN}ls\n```\n```python\nx", []),
        (f"{OPEN}ls\n```\nIt prints, as in:\n```text\nx\n```\n", []),
        (f"{OPEN}cat > R.md <<'EOF'\n# Title\n```", []),
        (f"{OPEN}echo $((1 << n)); cat <<-EOF\n\tx\n\tEOF\n```", ["echo $((1 << n)); cat <<-EOF\n\tx\n\tEOF"]),
        # Inside of another block it is a quotation.
        (f"````\n{OPEN}rm x\n```\n````", []),
        (f"~~~\n{OPEN}rm x\n```\n~~~", []),
        (f"{OPEN}```", []),
        ("```mswea_bash_command ls\n```", []),
        ("no command", []),
        # Lines end at newlines alone, and nothing is taken off a command.
        (f"{OPEN}  echo a\u2028```\x0b\\ \n```", ["  echo a\u2028```\x0b\\ "]),
    ],
)
def test_commands_of_a_message(message, found):
    assert commands(message) == found


pieces = st.sampled_from(
    ["```", "```python", "````", "~~~", "ls", "EOF", "", "  ```", "```mswea_bash_command", "a ``` b", "\u2028"]
)


@given(st.lists(pieces, max_size=7), st.data())
def test_a_command_is_read_whole_or_not_at_all(lines, data):
    """Whatever fences a command holds, and wherever its message is cut."""
    command = "\n".join(lines)

    def run(message):
        found = commands(message)
        return found[0] if len(found) == 1 else None

    for message in (f"{OPEN}{command}\n```", f"I look.\n\n{OPEN}{command}\n```\nThen I stop."):
        assert run(message) in (None, command)
    here = f"cat > f <<'END'\n{command}\nEND"
    message = f"{OPEN}{here}\n```"
    assert run(message[: data.draw(st.integers(0, len(message)))]) in (None, here)
    longer = f"`````mswea_bash_command\n{here}\n`````"
    assert run(longer) == here
    assert run(longer[: data.draw(st.integers(0, len(longer) - 1))]) is None


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat > f <<EOF", True),
        ("cat > f <<'end of it'\nx\n", True),
        ("rm -rf build\necho 'half", True),
        ("for x in 1 2; do\n  rm $x\n", True),
        ("cat > f <<EOF\nx\nEOF", False),
        ("cat <<-A <<B\n\tx\n\tA\ny\nB\necho done", False),
        ("grep '<<EOF' run.sh", False),
        ("echo $((1 << n))", False),
        ("cat <<< word", False),
        ("printf 'caf\udce9'\ntrue", False),
        ("echo )", False),
        ("ls -la", False),
    ],
)
def test_what_bash_would_wait_for_is_not_finished(command, expected):
    assert agent_format.waits(command) is expected


@given(st.binary(max_size=40))
def test_what_is_handed_in_comes_back_to_the_byte_and_what_is_shown_is_text(data):
    printed = f"{agent_format.SUBMIT}\n".encode() + data
    result = Result(0, printed.decode(errors="replace"), "exit", 0.1, printed)
    handed_in = agent_format.submission(result)
    assert handed_in.encode(errors="surrogateescape") == data
    agent_format.shown(result).encode()


def test_a_command_that_bash_cannot_read_is_not_run():
    assert agent_format.waits("echo " + "$(" * 5000 + "\n")
    assert not agent_format.waits("echo one\necho two\n")


def test_a_command_that_no_program_can_be_given_is_not_read_at_all(monkeypatch):
    """Boxes refuse it, whatever is in it."""
    monkeypatch.setattr(agent_format.subprocess, "run", None)
    assert not agent_format.waits("cat <<A\n" * ARGUMENT)


def test_the_shell_that_reads_a_command_outside_of_boxes_can_do_little(tmp_path, monkeypatch):
    """It is asked what it is, by a program in its place: no root, no files, seconds and not minutes."""
    tmp_path.chmod(0o777)
    for folder in tmp_path.parents[:-1]:
        folder.chmod(folder.stat().st_mode | 0o111)
    ask = 'id -u >&2; ulimit -c >&2; ulimit -f >&2; ulimit -t >&2; ulimit -v >&2; echo x > "$0" || echo refused >&2'
    seen = []
    run = subprocess.run

    def instead(words, **options):
        asked = (*words[:2], words[2].replace("exec bash -n", ask), str(tmp_path / "written"))
        seen.append(run(asked, **options))
        return seen[-1]

    monkeypatch.setattr(agent_format.subprocess, "run", instead)
    agent_format.waits("echo one\necho two\n")
    user, cores, written, seconds, memory, *rest = seen[0].stderr.decode().split("\n")
    assert int(user) == (NOBODY if may_change_user() else os.geteuid())
    assert (cores, written, seconds, memory) == ("0", "0", "5", "1048576")
    assert not (tmp_path / "written").exists() or not (tmp_path / "written").read_bytes()
    assert rest
