"""What people do with boxes: large files, many files, git, a Python behind links, a judge that is not to be led astray."""

import os
import signal
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="boxes need Linux")

from bpo.errors import BadInput  # noqa: E402
from bpo.sandboxes.shell import Limits, Shell, clean, host, open_workspace, tiers  # noqa: E402
from bpo.sandboxes.shell import store as stores  # noqa: E402
from bpo.sandboxes.shell.limits import MiB  # noqa: E402

WORKING = {finding.tier for finding in tiers.findings() if finding.works}
every_tier = pytest.mark.parametrize(
    "tier",
    [
        pytest.param(tier, marks=pytest.mark.skipif(tier not in WORKING, reason=f"tier {tier} does not work here"))
        for tier in ("overlay", "landlock")
    ],
)


@every_tier
def test_a_file_larger_than_the_limit_on_output_is_read(tier):
    with open_workspace(None, tier=tier, limits=Limits(output=MiB, disk=32 * MiB)) as box:
        content = bytes(range(256)) * (4 * MiB // 256)
        box.write("large", content)
        assert box.run("wc -c < large").output == f"{len(content)}\n"
        assert box.read("large") == content
        box.run("truncate -s 100M sparse; mkdir folder")
        with pytest.raises(BadInput, match=r"'folder' cannot be read: it is no file$"):
            box.read("folder")


@every_tier
def test_thousands_of_files_are_written_at_once(tier):
    with open_workspace(None, tier=tier, limits=Limits(seconds=120)) as box:
        for number in range(4600):
            box.write(f"d{number % 7}/a-name-that-is-somewhat-longer-{number}", str(number))
        assert box.run("find . -type f | wc -l; cat d3/*-3").output == "4600\n3"


@every_tier
def test_an_agent_can_commit_and_what_it_sets_counts_more(tier):
    with open_workspace(None, tier=tier) as box:
        box.write("a", "a\n")
        command = "git init -q && git add a && git commit -qm first && git log --format='%an %ae' && git branch --show-current"
        assert box.run(command).output == "agent agent@localhost\nmain\n"
        box.run("git config user.name other; git commit -qm second --allow-empty")
        assert box.run("git log -1 --format=%an").output == "other\n"


@every_tier
def test_letters_are_still_understood(tier, tmp_path):
    letter = next(letter for letter, name in tiers.ALIASES.items() if name == tier)
    with open_workspace(None, tier=letter) as box:
        assert box.tier.name == tier
    with Shell(tier=letter) as shell:
        shell.reset("tree")
        assert shell.step("true").info["tier"] == tier


def test_boxes_that_do_not_hold_everything_are_refused_unless_told(monkeypatch):
    hole = "Landlock 4 lets signals through to this user's other processes"
    leaky = tiers.Finding("landlock", True, "Landlock 4", open=(hole,))
    monkeypatch.setattr(tiers, "findings", lambda: (tiers.Finding("overlay", False, why="refused"), leaky))
    assert not leaky.safe
    with pytest.raises(BadInput, match="no safe box works on this host"):
        tiers.chosen("auto")
    with pytest.raises(
        BadInput, match=f"tier landlock does not hold everything on this host \\({hole}\\): it needs allow_unsafe"
    ):
        tiers.chosen("B")
    assert tiers.chosen("auto", allow_unsafe=True) == "landlock"
    assert tiers.chosen("landlock", allow_unsafe=True) == "landlock"


LAYOUTS = (
    "venv",
    "venv behind a link",
    "venv behind links in links",
    "program behind links",
    "versions behind a link",
    "copied program",
)


@pytest.fixture
def layout(request, tmp_path):
    """A virtual environment, reached in one of the ways that tools make; its program."""
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o111)
    python = Path(host.interpreter().program)
    place = tmp_path / "real"
    if request.param == "versions behind a link":
        # As pyenv, uv and conda have it: a name without the last digits that leads to the folder with them.
        (tmp_path / "versions").mkdir()
        (tmp_path / "versions" / "3.x").symlink_to(python.parent.parent)
        (place / "bin").mkdir(parents=True)
        (place / "bin" / "python").symlink_to(tmp_path / "versions" / "3.x" / "bin" / python.name)
        (place / "pyvenv.cfg").write_text(f"home = {tmp_path}/versions/3.x/bin\n")
        return place / "bin" / "python"
    venv.create(place, symlinks=request.param != "copied program", with_pip=False)
    if request.param == "venv behind a link":
        (tmp_path / ".venv").symlink_to(place)
        return tmp_path / ".venv" / "bin" / "python"
    if request.param == "venv behind links in links":
        (tmp_path / "one").symlink_to(tmp_path / "two")
        (tmp_path / "two").symlink_to(".")
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / ".venv").symlink_to("../one/real")
        return tmp_path / "deep" / ".venv" / "bin" / "python"
    if request.param == "program behind links":
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "python").symlink_to("../python")
        (tmp_path / "python").symlink_to(place / "bin" / "python")
        return tmp_path / "bin" / "python"
    return place / "bin" / "python"


@pytest.mark.skipif("overlay" not in WORKING, reason="overlay boxes do not work here")
@pytest.mark.parametrize("layout", LAYOUTS, indirect=True)
def test_an_environment_behind_links_runs_in_a_box_by_its_own_name(layout):
    python = host.interpreter(layout)
    assert python.program == host.interpreter().program or "copied" in str(layout) or python.program.startswith("/")
    readable = [layout.parent.parent, *python.folders, layout]
    with open_workspace(None, readable, tier="overlay") as box:
        result = box.execute((str(layout), "-c", "import sys, json; print(sys.version_info[:2], sys.prefix)"))
        assert result.code == 0, result.output
        assert result.output.startswith(f"({sys.version_info[0]}, {sys.version_info[1]})")
        (fork,) = box.fork()
        with fork:
            assert fork.execute((str(layout), "-c", "print(1)")).output == "1\n"


@pytest.mark.skipif("overlay" not in WORKING, reason="overlay boxes do not work here")
def test_whoever_listens_in_a_readable_folder_is_not_spoken_to(tmp_path):
    """A read-only mount leaves sockets and pipes open, which the control shows: here they cannot be opened."""
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o111)
    place = tmp_path / "shown" / "deep"
    place.mkdir(parents=True)
    (tmp_path / "link").symlink_to("shown")
    os.mkfifo(place / "pipe")
    with socket.socket(socket.AF_UNIX) as server, open(os.open(place / "pipe", os.O_RDWR | os.O_NONBLOCK), "rb") as pipe:
        server.bind(str(place / "socket"))
        server.listen()
        server.setblocking(False)
        for path in place.iterdir():
            path.chmod(0o777)
        speak = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('heard')"
        outside = subprocess.run([sys.executable, "-c", speak, place / "socket"], capture_output=True, text=True, check=True)
        assert outside.stdout == "heard\n"
        server.accept()[0].close()
        with open_workspace(None, [tmp_path / "link"], tier="overlay") as box:
            for seen in (place, tmp_path / "link" / "deep"):
                result = box.execute(("python3", "-c", speak, str(seen / "socket")))
                assert (result.code, "heard" in result.output) == (1, False)
                assert box.run(f"echo heard > {seen}/pipe || cat {seen}/pipe").code != 0
            with pytest.raises(BlockingIOError):
                server.accept()
            assert not pipe.read(1)
            # One that goes away does not keep a box from starting.
            (place / "socket").unlink()
            assert box.run(f"ls {place}").output == "pipe\n"


@every_tier
def test_a_check_is_not_led_astray_by_what_a_session_leaves(tier, tmp_path):
    """A function in the shell's state, programs and packages in the home, start files: the check sees the tree alone."""
    (tmp_path / "answer").write_text("no\n")
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents[:-1]:
        folder.chmod(folder.stat().st_mode | 0o111)
    check = "grep -q yes answer && python3 -c 'import json; json.dumps(1)'"
    options = {"tree": tmp_path, "check": check, "tier": tier, "stateful": True, "limits": {"seconds": 20}}
    tricks = (
        "grep() { return 0; }; python3() { return 0; }; export -f grep python3; alias grep=true; export PATH=/tmp/bin:$PATH",
        "mkdir -p $TMPDIR/bin && ln -s /bin/true $TMPDIR/bin/grep",
        "for f in .bashrc .bash_profile .profile; do echo 'grep() { return 0; }' > $HOME/$f; done",
        "export BASH_ENV=$HOME/.bashrc ENV=$HOME/.profile",
        "for v in 3.9 3.10 3.11 3.12 3.13; do mkdir -p $HOME/.local/lib/python$v/site-packages; done; "
        "for d in $HOME/.local/lib/python3*/site-packages; do echo 'import os; os._exit(0)' > $d/usercustomize.py; done",
    )
    with Shell(**options) as shell:
        shell.reset("tree")
        for trick in tricks:
            shell.step(trick)
        (fork,) = shell.fork(1)
        with fork:
            lost = fork.step("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
            assert (lost.done, lost.reward) == (True, 0.0)
        shell.step("echo yes > answer")
        assert shell.step("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT").reward == 1.0


def doctor(**variables):
    command = [sys.executable, "-m", "bpo", "sandbox", "doctor"]
    return subprocess.run(command, capture_output=True, check=False, env={**os.environ, "COLUMNS": "200", **variables})


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
def test_the_doctor_speaks_on_every_terminal(encoding, tmp_path):
    """Also of a program that complains in letters that the terminal lacks."""
    fake = tmp_path / "podman"
    fake.write_text("#!/bin/sh\necho 'erreur\n« délai dépassé → 中 »' >&2\nexit 1\n")
    fake.chmod(0o755)
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    done = doctor(PYTHONIOENCODING=encoding, PATH=f"{tmp_path}:{os.environ['PATH']}")
    text = done.stdout.decode(encoding)
    assert done.returncode == (0 if WORKING else 1), done.stderr
    assert b"Traceback" not in done.stderr
    assert "overlay" in text
    assert "landlock" in text
    assert "['" not in text, "a sentence and no list"
    assert "it gives no reason" in " ".join(text.replace("│", " ").replace("|", " ").split())


def test_a_pipe_for_an_owner_and_a_damaged_store_do_not_stop_the_cleaner(tmp_path):
    def left(name):
        folder = tmp_path / f"{stores.PREFIX}{name}"
        folder.mkdir()
        (folder / stores.OWNER).write_text("")
        (folder / "deep").mkdir()
        return folder

    os.mkfifo(left("a") / "pipe")
    (tmp_path / f"{stores.PREFIX}b").mkdir()
    os.mkfifo(tmp_path / f"{stores.PREFIX}b" / stores.OWNER)
    (tmp_path / f"{stores.PREFIX}c").symlink_to("/usr")
    (left("d") / "closed").mkdir(mode=0)
    last = left("e")
    signal.alarm(20)
    removed, stayed = clean(tmp_path)
    signal.alarm(0)
    assert [path.name for path in removed] == [f"{stores.PREFIX}{name}" for name in "ade"]
    assert stayed == []
    assert not last.exists()
    assert (tmp_path / f"{stores.PREFIX}b").exists()
    assert Path("/usr/bin").is_dir()


def test_a_killed_sandbox_leaves_nothing_that_clean_does_not_find(tmp_path):
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents[:-1]:
        folder.chmod(folder.stat().st_mode | 0o111)
    program = (
        "from bpo.sandboxes.shell import Shell\ns = Shell(); s.reset('tree'); s.step('echo x > y')\n"
        "print('ready', flush=True)\n"
        "s.step('sleep 20')"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert child.stdout.readline() == b"ready\n"
    time.sleep(0.2)
    child.kill()
    child.wait()
    deadline = time.monotonic() + 10
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        clean(tmp_path)
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []
