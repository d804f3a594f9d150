"""The process that writes a run is found without touching its lock."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ludus._store.store import Store
from ludus.runs import running_pid


def test_a_writer_is_found(tmp_path):
    """Until it closes the store."""
    with Store.create(tmp_path, {}):
        assert running_pid(tmp_path) == os.getpid()
    assert running_pid(tmp_path) == 0


def test_looking_does_not_disturb_a_start(tmp_path):
    """A run can take the lock while another process looks."""
    Store.create(tmp_path, {}).close()
    assert running_pid(tmp_path) == 0
    with Store.open(tmp_path):
        assert running_pid(tmp_path) == os.getpid()


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "1", "99999999", "9" * 30])
def test_a_false_pid_is_no_writer(tmp_path, text):
    """A lock file of another person may name any process, which nothing may stop."""
    (tmp_path / "lock").write_text(text)
    assert running_pid(tmp_path) == 0


def test_a_process_that_has_ended_is_no_writer(tmp_path):
    """A crash leaves the file."""
    code = "import pathlib, sys, ludus._store.store as module; module.Store.create(pathlib.Path(sys.argv[1]), {})"
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
    assert (tmp_path / "lock").read_text()
    assert running_pid(tmp_path) == 0


def test_a_folder_without_a_lock(tmp_path):
    """A run that never started has none; a named pipe in its place is not opened."""
    assert running_pid(tmp_path) == 0
    os.mkfifo(tmp_path / "lock")
    assert running_pid(tmp_path) == 0
