"""Boxes as containers: the same states as in the other tiers, confined, and nothing left.

A real engine is needed, and an image with bash and coreutils whose name is in $BPO_TEST_IMAGE; without them the tests skip, but
for one that asks a stand-in what it is told.
"""

import json
import os
import subprocess

import pytest

from bpo.errors import BadInput
from bpo.sandboxes.shell import Limits, Shell, containers, open_workspace

IMAGE = os.environ.get("BPO_TEST_IMAGE", "")


@pytest.fixture(scope="module")
def real():
    """The program of an engine that answers; skips where there is none."""
    if not IMAGE:
        pytest.skip("BPO_TEST_IMAGE does not name an image with bash and coreutils")
    try:
        return containers.engine()[0]
    except BadInput as error:
        pytest.skip(str(error))


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    (folder / "d").mkdir(parents=True)
    (folder / "a").write_text("a\n")
    (folder / "d" / "x").write_text("x\n")
    (folder / "link").symlink_to("a")
    return folder


def listed(program, what):
    return set(subprocess.run([program, *what], capture_output=True, text=True, check=True).stdout.split())


def test_states_are_those_of_the_other_tiers(real, tree):
    scripts = ["echo 1 > new; chmod 600 a", "rm -r d; mkdir d; echo f > d/f", "ln -sfn d link; mv a b", "echo t > /tmp/t"]
    found = []
    for tier, image in (("container", IMAGE), ("auto", None)):
        with open_workspace(tree, tier=tier, image=image) as workspace:
            states = []
            for script in scripts:
                (fork,) = workspace.fork()
                fork.run(script)
                states.append((fork.changes(), fork.digest(), fork.run("find . | sort; cat a b new d/* 2>/dev/null").output))
                fork.close()
            assert workspace.changes() == {}
            found.append(states)
    assert found[0] == found[1]
    assert found[0][1][0]["d/x"] is None


def test_a_tree_with_a_file_of_two_names(real, tree):
    os.link(tree / "a", tree / "second")
    with open_workspace(tree, tier="container", image=IMAGE) as workspace:
        assert workspace.run("ls | tr '\\n' ' '; cat second d/x; readlink link").output == "a d link second a\nx\na\n"
        assert workspace.changes() == {}


def test_a_session_forks_restores_and_is_judged(real):
    with Shell(tier="container", image=IMAGE, limits={"seconds": 20}) as sandbox:
        sandbox.reset("tree")
        start = sandbox.snapshot()
        left, right = sandbox.fork(2)
        left.step("rm -rf *; ls")
        assert right.workspace.run("ls").output != ""
        key = sandbox.state_key()
        sandbox.step("touch new")
        assert sandbox.state_key() != key
        sandbox.restore(start)
        assert sandbox.state_key() == key
        assert sandbox.step("true").info["tier"] == "container"
        left.close()
        right.close()


def test_commands_are_confined(real, tree):
    limits = Limits(seconds=20, memory=256 * 2**20, disk=8 * 2**20, processes=40)
    with open_workspace(tree, tier="container", image=IMAGE, limits=limits) as workspace:
        assert workspace.run("id -u").output == "1000\n"
        assert workspace.run("echo x > /etc/x").code == 1
        assert workspace.run("exec 3<>/dev/tcp/1.1.1.1/80").code != 0
        assert "CapEff:\t0000000000000000" in workspace.run("cat /proc/self/status").output
        # What a bomb has started is counted by the engine; it ends with the container.
        bomb = workspace.run("for i in {1..200}; do sleep 60 & done; jobs -p | wc -l; exit 0", seconds=15)
        assert "Resource temporarily unavailable" in bomb.output or bomb.code != 0
        assert workspace.run("sleep 60", seconds=1).ended == "timeout"
        assert workspace.run("yes", seconds=20).ended == "output"
        assert workspace.run("head -c 20000000 /dev/zero > big").code != 0
        assert workspace.run("for i in 1 2 3; do head -c 6000000 /dev/zero > f$i; done").ended == "disk"
        assert workspace.run("(setsid sleep 300 >/dev/null 2>&1 &) ; echo done").output == "done\n"
        assert workspace.run("exit 125").code == 125


def test_deep_stacks_are_written_anew_and_nothing_is_left(real, tree, monkeypatch):
    monkeypatch.setattr(containers, "DEEPEST", 3)
    before = listed(real, ["ps", "-aq"]), listed(real, ["images", "-aq"])
    with open_workspace(tree, tier="container", image=IMAGE) as workspace:
        for number in range(8):
            workspace.run(f"echo {number} >> log")
        assert workspace.read("log") == b"".join(b"%d\n" % number for number in range(8))
        held = workspace.snapshot()
        workspace.run("rm log")
        workspace.restore(held)
        assert workspace.run("wc -l < log").output == "8\n"
        del held
    assert (listed(real, ["ps", "-aq"]), listed(real, ["images", "-aq"])) == before


STAND_IN = """#!/usr/bin/env python3
import json, os, sys
with open({log!r}, "a") as file:
    file.write(json.dumps(dict(arguments=sys.argv[1:], variables=sorted(os.environ))) + "\\n")
command = sys.argv[1]
if command == "version":
    print("1.0")
elif command == "image":
    print('["PATH=/opt/bin", "IN_IMAGE=1"]')
elif command == "inspect" and "--size" in sys.argv:
    print(5)
elif command == "inspect":
    print('{{"Status": "exited", "OOMKilled": {killed}}}')
elif command == "run":
    print("said")
    sys.exit(137 if {killed!r} == "true" else 3)
"""


@pytest.mark.parametrize("killed", ["false", "true"])
def test_what_an_engine_is_told(killed, tmp_path, monkeypatch, tree):
    log = tmp_path / "log"
    program = tmp_path / "docker"
    program.write_text(STAND_IN.format(log=str(log), killed=killed))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("A_SECRET", "of the caller")
    with open_workspace(
        tree, [tmp_path], "container", Limits(memory=2**28, processes=7), {"MINE": "2"}, image="an/image:1"
    ) as workspace:
        assert workspace.tier.origin == "docker 1.0"
        result = workspace.run("ls")
    assert (result.code, result.ended) == ((-1, "memory") if killed == "true" else (3, "exit"))
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    run = next(call["arguments"] for call in calls if call["arguments"][0] == "run")
    told = " ".join(run)
    for part in (
        "--network none --cap-drop ALL --security-opt no-new-privileges",
        "--user 1000:1000 --workdir /testbed --pids-limit 7 --memory 268435456 --memory-swap 268435456",
        f"--volume {tmp_path}:{tmp_path}:ro",
        "--env IN_IMAGE=1",
        "--env MINE=2",
    ):
        assert part in told
    assert run[-3:] == ["bash", "-c", "ls"]
    assert not any("A_SECRET" in call["variables"] for call in calls)
    # Every container that was made is removed, and every image that was committed.
    made = {a[a.index("--name") + 1] for a in (c["arguments"] for c in calls) if a[0] in ("run", "create")}
    assert made == {a[-1] for a in (c["arguments"] for c in calls) if a[0] == "rm"}
    committed = {a[-1] for a in (c["arguments"] for c in calls) if a[0] == "commit"}
    assert committed == {a[-1] for a in (c["arguments"] for c in calls) if a[0] == "rmi"}


def test_bad_input(tree, monkeypatch):
    with pytest.raises(BadInput, match="tier 'container' needs the name of an image"):
        open_workspace(tree, tier="container")
    with pytest.raises(BadInput, match="only tier 'container' uses one"):
        open_workspace(tree, tier="overlay", image="x")
    monkeypatch.setattr(containers.host, "program", lambda name: None)
    with pytest.raises(BadInput, match="no container engine works here: docker is not installed; podman is not installed"):
        open_workspace(tree, tier="container", image="x")


def test_an_unknown_image_is_named(real, tree):
    with pytest.raises(BadInput, match="the engine has no image 'none/such:9'"):
        open_workspace(tree, tier="container", image="none/such:9")
