"""Files and folders: there whole or not at all; a full disk is one sentence; what killed processes leave is cleared away."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bpo import checkpoint, experiment
from bpo.config import load_preset
from bpo.errors import BadInput
from bpo.files import UNFINISHED, append, clean, published, unfinished_file, write_atomically
from bpo.policies.tabular import TabularPolicy
from bpo.sealed import is_whole


@pytest.fixture
def disk(tmp_path):
    """A disk of 256 kB of its own; skips where it cannot be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("the program mount is not there")
    if done.returncode:
        pytest.skip(f"a disk cannot be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path, left: int = 0) -> Path:
    """Leave so many bytes of a disk."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    os.truncate(ballast, ballast.stat().st_size - left)
    return ballast


def unfinished(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.startswith(UNFINISHED)]


def test_a_full_disk_is_one_sentence_that_names_file_and_disk(disk):
    write_atomically(disk / "a", "old")
    append(disk / "rows", "one\n")
    fill(disk)
    told = rf"cannot be written: the disk {disk} is full; what was there before is kept"
    with pytest.raises(BadInput, match=f"^{disk}/a {told}"):
        write_atomically(disk / "a", "n" * 9000)
    with pytest.raises(BadInput, match=f"^{disk}/rows {told}"):
        append(disk / "rows", "t" * 9000)
    with pytest.raises(BadInput, match=f"^{disk}/folder {told}"), published(disk / "folder") as made:
        (made / "b").write_text("n" * 9000)
    assert (disk / "a").read_text() == "old"
    assert (disk / "rows").read_text() == "one\n"
    assert sorted(path.name for path in disk.iterdir()) == ["a", "ballast", "rows"]


def test_a_full_disk_keeps_the_policy_that_was_saved(disk):
    policy = TabularPolicy({"s": [0.0, 1.0]})
    for room, saved in ((None, True), (0, False)):
        ballast = None if room is None else fill(disk)
        with contextlib.nullcontext() if saved else pytest.raises(BadInput, match="is full"), published(disk / "p") as made:
            policy.save(made)
        assert is_whole(disk / "p")
    assert ballast
    assert unfinished(disk) == []


@pytest.mark.parametrize("left", [0, 8192, 60_000])
def test_a_run_on_a_disk_that_fills_up_is_one_sentence_and_goes_on_once_there_is_room(left, disk, tmp_path):
    preset = load_preset("smoke")
    settings = replace(preset.settings, updates=20, lr=0.1, checkpoint_every=1, curve_every=0)
    run = replace(preset, settings=settings).run("rloo", "toy", 0)
    whole = experiment.run(run, tmp_path / "whole")
    fill(disk, left)
    with pytest.raises(BadInput, match=f"is full|{disk}") as error:
        experiment.run(run, disk / "run")
    assert "\n" not in str(error.value)
    assert str(disk) in str(error.value)
    assert unfinished(disk) == []
    subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
    again = experiment.run(run, disk / "run")
    assert again["metrics"] == whole["metrics"]
    assert again["evaluation"] == whole["evaluation"]
    assert len(checkpoint.paths(disk / "run")) == 2


KILLED = """
import sys, time
from pathlib import Path
from bpo.files import published, unfinished_file
folder = Path(sys.argv[1])
with unfinished_file(folder) as (handle, path), published(folder / "made") as made:
    (made / "half").write_text("x")
    print("there", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_has_left_is_deleted_and_what_is_being_written_is_not(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "there\n"
    assert len(unfinished(tmp_path)) == 2
    clean(tmp_path)
    assert len(unfinished(tmp_path)) == 2, "they are being written"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(unfinished(tmp_path)) == 2
    write_atomically(tmp_path / "other", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_many_writers_of_one_folder_do_not_clean_each_other_away(tmp_path):
    failed = []

    def write(number):
        try:
            for turn in range(60):
                write_atomically(tmp_path / f"{number}", str(turn))
                with published(tmp_path / f"folder{number}") as made:
                    (made / "x").write_text(str(turn))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [*"0123", *(f"folder{n}" for n in range(4))]
    assert all((tmp_path / f"{n}").read_text() == (tmp_path / f"folder{n}" / "x").read_text() == "59" for n in range(4))


def test_a_folder_is_replaced_whole_and_an_error_leaves_the_old_one(tmp_path):
    for text in ("one", "two"):
        with published(tmp_path / "f") as made:
            (made / text).write_text(text)
        assert [path.name for path in (tmp_path / "f").iterdir()] == [text]
    with pytest.raises(KeyError), published(tmp_path / "f"):
        raise KeyError
    assert [path.name for path in (tmp_path / "f").iterdir()] == ["two"]
    assert unfinished(tmp_path) == []


def test_an_unfinished_file_is_gone_after_its_block(tmp_path):
    with unfinished_file(tmp_path, ".so") as (handle, path):
        os.write(handle, b"x")
        assert path.name.endswith(".so")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"Not a directory|File exists") as error:
        write_atomically(tmp_path / "file" / "x", "x")
    assert str(tmp_path / "file") in str(error.value.filename)


def test_small_files_are_written_quickly(tmp_path):
    start = time.perf_counter()
    for number in range(100):
        write_atomically(tmp_path / str(number), "x" * 1000)
    assert time.perf_counter() - start < 5


def test_a_link_stays_and_what_is_no_file_is_refused(tmp_path):
    target, link, pipe = tmp_path / "target.json", tmp_path / "link.json", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    os.mkfifo(pipe)
    with pytest.raises(BadInput, match="pipe' is a folder or a device; it must be the name of a file"):
        write_atomically(pipe, "new")
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "pipe", "target.json"]


def test_a_file_that_cannot_be_begun_is_named_and_not_the_unfinished_one():
    with pytest.raises(OSError) as error:
        write_atomically(Path("/proc/nobody-writes-here"), "x")
    assert error.value.filename == "/proc/nobody-writes-here"
