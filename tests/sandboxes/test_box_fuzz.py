"""Random sequences of commands that deal with modes, links, mounts, signals, names and depths: boxes take them all."""

import os
import random
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="boxes need Linux")

from bpo.sandboxes.shell import Shell, tiers  # noqa: E402
from bpo.sandboxes.shell.layers import compared, digest  # noqa: E402
from bpo.sandboxes.shell.limits import MiB  # noqa: E402

WORKING = {finding.tier for finding in tiers.findings() if finding.works}
NAMES = (
    "a",
    "b",
    "d",
    "d/x",
    "d/y",
    "new",
    "new/deep",
    "'odd \\n name'",
    "$'\\xff\\xfe'",
    "-rf",
    ".",
    "..",
    "$TMPDIR",
    "$TMPDIR/t",
    "/",
    "~",
)
PARTS = (
    "chmod {mode} {name}",
    "chmod -R {mode} {name}",
    "mkdir -p {name}/{other}",
    "rm -rf -- {name}",
    "mv -- {name} {other}",
    "ln -sfn -- {name} {other}",
    "ln -- {name} {other}",
    "ln -sfn /proc/self/fd {name}",
    "ln -sfn / {name}",
    "mkfifo {name}",
    "mknod {name} c 0 0",
    "mknod {name} b 8 0",
    "touch -h -d @{number} -- {name}",
    "truncate -s {number}M {name}",
    "echo {number} > {name}",
    "cat {name}",
    "(sleep 30 > {name} 2>&1 &)",
    "setsid sleep 30 &",
    "kill -{signal} -1",
    "kill -{signal} $$",
    "kill -{signal} $PPID",
    "trap '' TERM HUP INT; kill -TERM $$",
    "mount -t tmpfs none {name}",
    "unshare -Urm mount --bind / {name}",
    "umount -l {name}",
    "chroot {name} true",
    "ulimit -n 3; cat {name}",
    "ulimit -f 0; echo x > {name}",
    "exec 1>&-; echo x",
    "exec 0<{name}",
    "cd {name} && mkdir -p d && cd d && rm -rf ../d; echo x > here",
    "for i in $(seq 60); do mkdir d$i && cd d$i || break; done",
    "setfattr -n user.overlay.opaque -v y {name}",
    "setfattr -n user.overlay.redirect -v /etc {name}",
    "python3 -c 'import os; os.mkdir(\"s\" * 255)'",
    "python3 -c 'import socket; socket.socket(1).bind(\"sock\")'",
    "tar -C / -cf {name} etc/alternatives",
    "cp -a /etc/alternatives {name}",
    "find {name} -maxdepth 3 -exec chmod {mode} {{}} +",
    "export HOME=/{name} TMPDIR={name} PATH=; cd",
    "printf '\\0\\377%s' {name}",
    "false",
)


def command(rng):
    """One to three parts, joined as a shell has it."""
    parts = [
        rng.choice(PARTS).format(
            name=rng.choice(NAMES),
            other=rng.choice(NAMES),
            mode=rng.choice(("0", "000", "111", "222", "444", "700", "755", "1777", "4755", "u-rwx", "a=", "+t")),
            number=rng.choice((0, 1, 3, 7)),
            signal=rng.choice(("KILL", "STOP", "TERM", "HUP", "CONT", "ALRM")),
        )
        for _ in range(rng.randint(1, 3))
    ]
    return rng.choice(("; ", " && ", " || ", "\n")).join(parts)


def held():
    """What may not grow: children, descriptors, System V objects, keys, and processes of boxes."""
    boxes = [pid for pid in filter(str.isdecimal, os.listdir("/proc")) if _of_a_box(pid)]
    tables = [Path(f"/proc/sysvipc/{name}").read_text().count("\n") for name in ("shm", "sem", "msg")]
    return len(os.listdir("/proc/self/fd")), boxes, tables, Path("/proc/keys").read_text().count("\n")


def _of_a_box(pid):
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"sleep\x0030" in words


def played(tier, rounds, seed):
    """Sequences of commands with snapshots, restores and forks between them; nothing is raised and nothing is left."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o755)
        tree = place / "tree"
        (tree / "d").mkdir(parents=True)
        for name in ("a", "b", "d/x"):
            (tree / name).write_text(name)
        (place / "outside").write_text("x")
        before, start = digest(compared(place, None)), held()
        limits = {"seconds": 3, "memory": 512 * MiB, "disk": 24 * MiB, "processes": 24, "output": MiB}
        rng = random.Random(seed)
        with Shell(tree=tree, tier=tier, limits=limits, max_steps=10**6, check="true", stateful=bool(seed % 2)) as shell:
            for _ in range(rounds):
                shell.reset("tree")
                kept = [shell.snapshot()]
                for _ in range(rng.randint(1, 4)):
                    shell.step(command(rng))
                    what = rng.random()
                    if what < 0.3:
                        kept.append(shell.snapshot())
                    elif what < 0.4:
                        shell.restore(rng.choice(kept))
                    elif what < 0.5:
                        (fork,) = shell.fork(1)
                        fork.step(command(rng))
                        fork.close()
                    elif what < 0.6:
                        shell.state_key()
        assert digest(compared(place, None)) == before
        assert held() == start


every_tier = pytest.mark.parametrize(
    "tier",
    [
        pytest.param(tier, marks=pytest.mark.skipif(tier not in WORKING, reason=f"tier {tier} does not work here"))
        for tier in ("overlay", "landlock")
    ],
)


@every_tier
@pytest.mark.parametrize("seed", [0, 1])
def test_random_commands_raise_nothing_and_leave_nothing(tier, seed):
    played(tier, int(os.environ.get("BPO_FUZZ", "15")), seed)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@every_tier
@pytest.mark.parametrize("seed", range(2, 12))
def test_thousands_of_random_sequences_raise_nothing_and_leave_nothing(tier, seed):
    """Ten times two hundred sequences for each kind of box."""
    played(tier, 200, seed)
