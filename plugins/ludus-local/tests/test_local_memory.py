"""Shared memory is private, checked before use, never promised where there is none, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from ludus.errors import LinkError
from ludus_local import memory
from ludus_local.memory import Layout, SharedFolder, remove_stale, shared_path

# -- no space --------------------------------------------------------------------------------------------------------


def test_space_that_vanishes_leaves_no_file(folder, monkeypatch, shapes):
    """When somebody else takes the last of it between the question and the answer."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(LinkError, match="No space left on device"):
        folder.create(Layout.of(shapes))
    assert not list(folder.path.iterdir())


def test_the_memory_of_a_file_is_real(folder):
    """Not a hole that is filled when it is written."""
    made = folder.create(Layout.of({"x": ((1 << 20,), np.dtype(np.uint8))}))
    assert made.path.stat().st_blocks * 512 >= 1 << 20


# -- folders ---------------------------------------------------------------------------------------------------------


def test_the_folder_goes_with_the_sockets(monkeypatch, tmp_path):
    """In memory where there is such, beside the sockets elsewhere."""
    monkeypatch.setattr(memory, "_MEMORY", tmp_path)
    assert shared_path(Path("/run/ludus-1-x")) == (tmp_path / "ludus-1-x" if sys.platform == "linux" else "")
    monkeypatch.setattr(memory, "_MEMORY", tmp_path / "missing")
    assert shared_path(Path("/run/ludus-1-x")) == Path("/run/ludus-1-x")


def test_a_folder_that_others_can_enter_is_not_used(monkeypatch, tmp_path, caplog):
    """There is a line about it and no shared memory."""
    monkeypatch.setattr(memory, "_MEMORY", tmp_path)
    (tmp_path / "ludus-1-x").mkdir(mode=0o755)
    assert SharedFolder.beside(Path("/run/ludus-1-x"), "sampler-0") is None
    assert "must be owned by this user with mode 0700" in caplog.text


def test_a_worker_makes_the_folder_private(monkeypatch, tmp_path):
    """Whoever comes first."""
    monkeypatch.setattr(memory, "_MEMORY", tmp_path)
    for worker in ("sampler-0", "learner-main"):
        made = SharedFolder.beside(Path("/run/ludus-1-x"), worker)
    assert made.path.stat().st_mode & 0o777 == 0o700


def killed_writer(path):
    """Return the pid of a process that made a slot and was killed."""
    code = (
        "import sys, time, numpy as np; from pathlib import Path\n"
        "from ludus_local.memory import SharedFolder; from ludus_local.slots import Slots\n"
        f"Slots(SharedFolder(Path({str(path)!r}), 'sampler-0')).take({{'x': ((9,), np.dtype('f4'))}})\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    return process.pid


def test_files_of_a_killed_predecessor_are_removed(folder, shapes):
    """By the worker that takes its place; files of others and of running processes stay."""
    pid = killed_writer(folder.path)
    own = folder.create(Layout.of(shapes))
    other = SharedFolder(folder.path, "sampler-01").create(Layout.of(shapes))
    left = folder.path / f"sampler-0.{pid}.0"
    assert left.exists()
    folder.sweep()
    assert not left.exists()
    assert own.path.exists()
    assert other.path.exists()


def test_folders_of_killed_runs_are_removed():
    """As with sockets: by the next start of the same user."""
    place = Path(tempfile.mkdtemp(prefix="t-"))
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    names = {
        f"ludus-{ended.pid}-a": False,
        f"ludus-{os.getpid()}-a": True,
        "ludus-1x-a": True,
        f"ludus-{10**30}-a": False,
    }
    for name in names:
        (place / name).mkdir()
    remove_stale(place)
    assert {name: (place / name).exists() for name in names} == names
    shutil.rmtree(place)
