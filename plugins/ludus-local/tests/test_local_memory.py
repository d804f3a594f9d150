"""Shared memory is private, allocated in advance, checked before use, and removed afterwards."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from ludus.errors import LinkError
from ludus_local import memory
from ludus_local.memory import Layout, SharedFolder, hold, remove, remove_stale, shared_path, temporary_folder

# -- no space --------------------------------------------------------------------------------------------------------


def test_an_allocation_that_fails_leaves_no_file(folder, monkeypatch, shapes):
    """If another process takes the last space after the check."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(LinkError, match="No space left on device"):
        folder.create(Layout.of(shapes))
    assert not list(folder.path.iterdir())


@pytest.mark.parametrize(("size", "shown"), [(4_000, "4 kB"), (900_000, "900 kB"), (3_000_000, "3 MB")])
def test_missing_space_is_reported_in_a_suitable_unit(folder, monkeypatch, size, shown):
    """A small file may not fit either."""
    monkeypatch.setattr(memory, "_SPARE", 1)
    with pytest.raises(LinkError, match=f"no space for {shown} in "):
        folder.create(Layout.of({"x": ((size,), np.dtype(np.uint8))}))


def test_some_descriptors_stay_free(folder, shapes, files_run_out):
    """Mapped files are open files; sockets, models and logs need descriptors too."""
    layout = Layout.of(shapes)
    made = folder.create(layout)
    with files_run_out():
        with pytest.raises(LinkError, match=r"no shared memory in .*: Too many open files"):
            folder.create(layout)
        with pytest.raises(LinkError, match=rf"shared memory {made.name}: .*Too many open files"):
            folder.attach("sampler-0", made.name, layout)
        (folder.path.parent / "checkpoint").touch()
    assert [file.name for file in folder.path.iterdir()] == [made.name]
    folder.attach("sampler-0", made.name, layout)


def test_the_memory_of_a_file_is_allocated(folder):
    """The file is not sparse."""
    made = folder.create(Layout.of({"x": ((1 << 20,), np.dtype(np.uint8))}))
    assert made.path.stat().st_blocks * 512 >= 1 << 20


# -- folders ---------------------------------------------------------------------------------------------------------


def test_the_folder_belongs_to_that_of_the_sockets(monkeypatch, tmp_path):
    """In ``/dev/shm`` on Linux, else the same folder."""
    monkeypatch.setattr(memory, "_MEMORY", tmp_path)
    assert shared_path(Path("/run/ludus-1-x")) == (tmp_path / "ludus-1-x" if sys.platform == "linux" else "")
    monkeypatch.setattr(memory, "_MEMORY", tmp_path / "missing")
    assert shared_path(Path("/run/ludus-1-x")) == Path("/run/ludus-1-x")


def test_a_folder_that_others_can_enter_is_not_used(monkeypatch, tmp_path, caplog):
    """It is logged, and there is no shared memory."""
    monkeypatch.setattr(memory, "_MEMORY", tmp_path)
    (tmp_path / "ludus-1-x").mkdir(mode=0o755)
    assert SharedFolder.beside(Path("/run/ludus-1-x"), "sampler-0") is None
    assert "must be owned by this user with mode 0700" in caplog.text


def test_folders_of_other_users_are_not_locked(monkeypatch, tmp_path, caplog):
    """Another user could have made the folder and could hold the lock for ever."""
    monkeypatch.setattr(memory, "_MEMORY", tmp_path)
    (tmp_path / "ludus-1-x").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    monkeypatch.setattr(memory.fcntl, "flock", lambda *_: pytest.fail("waits for the lock"))
    assert SharedFolder.beside(Path("/run/ludus-1-x"), "sampler-0") is None
    assert "ludus-1-x must be owned by this user; segments and weights are sent through sockets" in caplog.text


def test_a_worker_makes_the_folder_private(monkeypatch, tmp_path):
    """The first one makes it."""
    monkeypatch.setattr(memory, "_MEMORY", tmp_path)
    for worker in ("sampler-0", "learner-main"):
        made = SharedFolder.beside(Path("/run/ludus-1-x"), worker)
    assert made.path.stat().st_mode & 0o777 == 0o700


def killed_writer(path):
    """Return the pid of a process that made a buffer and was killed."""
    code = (
        "import sys, time, numpy as np; from pathlib import Path\n"
        "from ludus_local.memory import SharedFolder; from ludus_local.buffers import BufferPool\n"
        f"BufferPool(SharedFolder(Path({str(path)!r}), 'sampler-0')).allocate({{'x': ((9,), np.dtype('f4'))}})\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    return process.pid


def test_files_of_a_killed_predecessor_are_removed(folder, shapes):
    """By its successor; files of other workers and of running processes stay."""
    pid = killed_writer(folder.path)
    own = folder.create(Layout.of(shapes))
    other = SharedFolder(folder.path, "sampler-01").create(Layout.of(shapes))
    dotted = SharedFolder(folder.path, f"sampler-0.{pid}").create(Layout.of(shapes))
    left = folder.path / f"sampler-0.{pid}.0"
    assert left.exists()
    folder.sweep()
    assert not left.exists()
    assert own.path.exists()
    assert other.path.exists()
    assert dotted.path.exists()


HOLD = """
import sys, time
from pathlib import Path
from ludus_local.memory import hold
assert hold(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@contextmanager
def holding(folder):
    """Let another process lock a folder; it is killed at the end."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"held\n"
            yield
        finally:
            process.kill()


def test_folders_of_killed_runs_are_removed(tmp_path):
    """By the next start of the same user, whatever process ids they name."""
    own, reused = tmp_path / "ludus-run-1-a", tmp_path / f"ludus-run-{os.getpid()}-a"
    other = tmp_path / "ludus-1-a"
    for folder in (own, reused, other):
        folder.mkdir(mode=0o700)
    with holding(own):
        pass
    remove_stale(tmp_path)
    assert list(tmp_path.iterdir()) == [other]


def test_locked_folders_stay(tmp_path):
    """Those of processes of another container too, whose ids mean nothing here."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    folder = tmp_path / f"ludus-run-{ended.pid}-a"
    folder.mkdir(mode=0o700)
    (folder / "sampler-0.7.0").touch()
    with holding(folder), holding(folder):
        remove_stale(tmp_path)
        assert (folder / "sampler-0.7.0").exists()
    remove_stale(tmp_path)
    assert not folder.exists()


TEMPORARY = """
import time
from ludus_local.memory import temporary_folder
with temporary_folder("ludus-x") as folder:
    print(folder, flush=True)
    time.sleep(60)
"""


def test_a_temporary_folder_of_a_killed_process_is_removed_by_the_next(monkeypatch, tmp_path):
    """Not before the process has ended, and no other folder of a similar name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "ludus-x-of-a-person").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", TEMPORARY], stdout=subprocess.PIPE, env=environment) as process:
        left = Path(process.stdout.readline().decode().strip())
        with temporary_folder("ludus-x") as own:
            assert left.exists()
        assert not own.exists()
        process.kill()
    with temporary_folder("ludus-x"):
        assert not left.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["ludus-x-of-a-person"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_temporary_folder_is_kept_without_its_mark(monkeypatch, tmp_path, kept):
    """For files that are to be read after a failure."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary_folder("ludus-x") as folder:
        if kept:
            (folder / ".temporary").unlink()
    with temporary_folder("ludus-x"):
        assert folder.exists() == kept


def test_a_worker_locks_the_folder(monkeypatch, tmp_path):
    """While it lives; its launcher removes the folder at the end."""
    monkeypatch.setattr(memory, "_MEMORY", tmp_path)
    for worker in ("sampler-0", "learner-main"):
        made = SharedFolder.beside(Path("/run/ludus-run-1-x"), worker)
    remove_stale(tmp_path)
    assert made.path.exists()
    remove(made.path)
    assert not made.path.exists()
    made.path.mkdir(mode=0o700)
    remove_stale(tmp_path)
    assert not made.path.exists()


def test_a_folder_that_was_removed_before_it_was_locked_is_made_again(monkeypatch, tmp_path):
    """Another start has removed it as stale."""
    monkeypatch.setattr(memory, "_MEMORY", tmp_path)
    folder, flock = tmp_path / "ludus-run-1-x", fcntl.flock
    assert not hold(folder)
    times = []

    def late(descriptor, how):
        times.append(how)
        if len(times) == 1:
            folder.rmdir()
        flock(descriptor, how)

    monkeypatch.setattr(memory.fcntl, "flock", late)
    made = SharedFolder.beside(Path("/run/ludus-run-1-x"), "sampler-0")
    assert len(times) == 2
    monkeypatch.setattr(memory.fcntl, "flock", flock)
    remove_stale(tmp_path)
    assert made.path.exists()
    remove(folder)
