"""Checks of the files of a run folder, which another person may have made.

A link may lead out of the folder, and reading a named pipe or a device may never end.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path

from ludus.errors import RunError

__all__ = ["check_entries", "check_folder", "open_regular"]


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; never waits, as opening a named pipe does.

    Raises:
        OSError: The file cannot be opened, or is none.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(handle, "rb")


def check_folder(run_dir: Path) -> None:
    """Check that writing in a run folder writes nowhere else.

    Raises:
        RunError: A link leads out of the folder, or an entry is a named pipe or a device.
    """
    check_entries(run_dir, _find_special(run_dir))


def check_entries(run_dir: Path, paths: Iterable[Path]) -> None:
    """Check entries of a run folder, of which some may be missing; arguments and errors as for `check_folder`."""
    for path in paths:
        # `realpath` follows links and, unlike `resolve`, does not raise for loops of links
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(run_dir)):
            text = "a run writes in its own folder only; put what it links to in its place"
            raise RunError(f"{path} is a link to {path.readlink()}, outside of the run folder: {text}")
        if path.is_fifo() or path.is_char_device() or path.is_block_device():
            raise RunError(f"{path} is a named pipe or a device; expected a file: remove it")


def _find_special(folder: Path) -> Iterator[Path]:
    """Yield what is neither a file nor a folder below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _find_special(Path(entry.path))
            elif not entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
