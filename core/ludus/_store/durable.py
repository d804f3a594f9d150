"""Files and folders whose content and names survive a loss of power.

A file system may write the content of a file, its name in the folder, and the name of that folder in any order, unless
each is synced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ludus.errors import RunError

__all__ = ["make_folder", "moved_folder_error", "sync_folder", "write_durably"]


def write_durably(path: Path, data: bytes | Iterable[bytes]) -> None:
    """Write a file atomically, and sync its content and its name.

    Args:
        path: The file.
        data: Its content, or the parts of it.
    """
    parts = (data,) if isinstance(data, bytes) else data
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folder(path: Path, *, parents: bool = False) -> None:
    """Make a folder if it is missing, and sync its name.

    Args:
        path: The folder.
        parents: Make missing parents too; otherwise a missing parent is an error.
    """
    if parents and not path.parent.is_dir():
        make_folder(path.parent, parents=True)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def moved_folder_error(run_dir: Path) -> RunError:
    """Return the error of a run whose folder was moved or removed while the run wrote it."""
    return RunError(
        f"{run_dir} was moved or removed while the run wrote it; committed data is in the moved folder: "
        f"continue there with `ludus resume DIR`"
    )
