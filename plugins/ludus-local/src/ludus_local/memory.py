"""Memory that the processes of one host share: files in a private folder, mapped by whoever writes and reads them.

A file has one writer, the process that made it, and any number of readers; its name starts with the writer's worker
name. It begins with eight machine words, ``magic | pid of the writer | digest of the layout | size in bytes``, and
four words that its kind defines; the arrays of its layout follow, each at a multiple of 64 bytes::

    slot            generation | state | - | -       one block of segments, written while it is played
    weights board   version of copy 0 | of copy 1 | - | -
    group           - | - | - | -                    what a process gives to the others of its group, and what it added

Readers check everything against the size of the file before they look at an array. Nothing keeps a writer from cutting
its file short afterwards; the folder is private to one user, whose processes trust each other so far.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import logging
import math
import mmap
import os
import re
import resource
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from attrs import field, frozen
from ludus.errors import LinkError, WireError
from ludus.launcher import Shapes

from ludus_local.codec import DTYPES, MAX_DIMENSIONS

__all__ = [
    "ArraySpec",
    "Layout",
    "SharedFile",
    "SharedFolder",
    "check_private",
    "hold",
    "is_running",
    "remove",
    "remove_stale",
    "remove_unheld",
    "shared_path",
    "temporary_folder",
]

_MAGIC = int.from_bytes(b"LUDSHM\x00\x01", sys.byteorder)  # its last byte is the version of the format
_WORDS = 8
_ALIGNMENT = 64
_SPARE = 8  # so much of the file system, 1/8, stays free
_SPARE_FILES = 16  # so many descriptors stay free, for sockets, models and logs
_SHORT = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # what a process says that may have no more of something
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}", re.ASCII)
_MEMORY = Path("/dev/shm")  # noqa: S108 - only folders with mode 0700 are made there
_POPULATE = getattr(mmap, "MAP_POPULATE", 0)
_TEMPORARY = ".temporary"
_FOLDER = getattr(os, "O_DIRECTORY", 0) | os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_numbers = itertools.count()  # of the files this process makes
_held: dict[Path, int] = {}  # folders that this process keeps from being removed, and the descriptors by which it does
_log = logging.getLogger(__name__)


# -- folders ---------------------------------------------------------------------------------------------------------


def shared_path(sockets: Path) -> Path:
    """Return the folder of shared memory that goes with a private folder of sockets: in memory where there is such."""
    return _MEMORY / sockets.name if sys.platform == "linux" and os.access(_MEMORY, os.W_OK | os.X_OK) else sockets


def check_private(directory: Path) -> None:
    """Check that only this user can enter a directory.

    Raises:
        LinkError: Others can, or it is none.
    """
    try:
        status = directory.lstat()
    except OSError as error:
        raise LinkError(f"private directory {directory}: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) != 0o700:
        raise LinkError(f"private directory {directory} must be owned by this user with mode 0700")


def hold(folder: Path) -> bool:
    """Keep a folder of this user from being taken for stale while this process lives, or until it calls `remove`.

    That is a shared lock on the folder: unlike the id of a process it means the same in every container that sees it.

    Returns:
        False where somebody has removed the folder before it was held; then it is to be made again.

    Raises:
        LinkError: It belongs to another user.
    """
    try:
        descriptor = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return False
    if os.fstat(descriptor).st_uid != os.getuid():  # who could keep this process waiting for the lock for ever
        os.close(descriptor)
        raise LinkError(f"private directory {folder} must be owned by this user")
    with suppress(OSError):  # a file system without locks; there nobody can take the folder for stale either
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits for who is removing it just now
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(descriptor), folder.lstat()):
            _let_go(folder)
            _held[folder] = descriptor
            return True
    os.close(descriptor)
    return False


def _let_go(folder: Path) -> None:
    if folder in _held:
        os.close(_held.pop(folder))


def remove(folder: Path) -> None:
    """Remove a folder, and hold it no longer."""
    shutil.rmtree(folder, ignore_errors=True)
    _let_go(folder)


def remove_stale(place: Path) -> None:
    """Remove what killed processes of this user have left in a directory: folders ``ludus-run-…`` that nobody holds."""
    for left in place.glob("ludus-run-*"):
        remove_unheld(left)


def remove_unheld(folder: Path) -> None:
    """Remove a folder of this user unless a process holds it."""
    with suppress(OSError):  # somebody else removes it at the same time, or it belongs to somebody else
        descriptor = os.open(folder, _FOLDER)
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error while anybody holds it
                if os.path.samestat(os.fstat(descriptor), folder.lstat()):  # not one made anew since
                    shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Provide a folder ``NAME-…`` that is removed in the end, by the next one of that name if this process is killed.

    The file ``.temporary`` in it tells it from what a person has called so; where that is removed, the folder is kept.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{name}-*/{_TEMPORARY}"):
        remove_unheld(left.parent)
    place = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    hold(place)
    mark = place / _TEMPORARY
    mark.touch()
    try:
        yield place
    finally:
        if mark.exists():
            remove(place)


def is_running(pid: int) -> bool:
    """Return whether there is a process of that id."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


@frozen
class SharedFolder:
    """A private folder as one worker uses it.

    Args:
        path: Owned by this user, mode 0700.
        worker: The worker's name.
    """

    path: Path
    worker: str

    @classmethod
    def beside(cls, sockets: Path, worker: str) -> SharedFolder | None:
        """Return the folder that goes with a private folder of sockets, without what the worker's predecessors left.

        Where there cannot be one it is None, after a line in the log.
        """
        folder = cls(shared_path(sockets), worker)
        try:
            while not hold(folder.path):
                folder.path.mkdir(mode=0o700, exist_ok=True)
            check_private(folder.path)
        except (OSError, LinkError) as error:
            _log.warning("%s: no shared memory: %s; segments and weights travel through sockets", worker, error)
            return None
        folder.sweep()
        return folder

    def sweep(self) -> None:
        """Remove the files of this worker's predecessors, which ended without doing so."""
        for left in self.path.glob(f"{self.worker}.*"):
            pid, _, number = left.name.removeprefix(f"{self.worker}.").partition(".")  # names have points, too
            if pid.isdigit() and number.isdigit() and int(pid) != os.getpid() and not is_running(int(pid)):
                left.unlink(missing_ok=True)

    def create(self, layout: Layout, *, copies: int = 1) -> SharedFile:
        """Make a file for so many copies of the arrays of a layout.

        Raises:
            LinkError: There is no space for it, or the folder cannot be written.
        """
        name = f"{self.worker}.{os.getpid()}.{next(_numbers)}"
        size = layout.size(copies)
        try:
            free = os.statvfs(self.path)
            if size > free.f_bavail * free.f_frsize - free.f_blocks * free.f_frsize // _SPARE:
                amount = f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"
                raise LinkError(f"no space for {amount} in {self.path}")
            memory = _make(self.path / name, size)
        except LinkError:
            raise
        except OSError as error:
            raise LinkError(f"no shared memory in {self.path}: {error.strerror}") from None
        made = SharedFile(self.path / name, memory, layout, copies)
        made.words[:] = (_MAGIC, os.getpid(), layout.digest, size, 0, 0, 0, 0)
        return made

    def attach(self, owner: str, name: str, layout: Layout, *, copies: int = 1) -> SharedFile:
        """Map a file of another worker for reading.

        Raises:
            LinkError: This process may not open or map any more.
            WireError: There is no such file of that worker with that layout.
        """
        if not (_NAME.fullmatch(name) and name.startswith(f"{owner}.")):
            raise WireError(f"{name[:64]!r} is no name of shared memory of {owner}")
        size = layout.size(copies)
        try:
            made = SharedFile(self.path / name, _map(self.path / name, size), layout, copies)
        except (OSError, ValueError) as error:
            short = isinstance(error, OSError) and error.errno in _SHORT
            raise (LinkError if short else WireError)(f"shared memory {name}: {error}") from None
        if made.words[0] != _MAGIC or made.words[1] <= 0 or tuple(made.words[2:4]) != (layout.digest, size):
            raise WireError(f"shared memory {name} does not begin as declared")
        return made


def _make(path: Path, size: int) -> mmap.mmap:
    """Make a file of real, not promised, memory: on a full file system a mapping would end in a signal."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _leave_files(descriptor)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            chunk = bytes(1024 * 1024)
            while (missing := size - os.lseek(descriptor, 0, os.SEEK_CUR)) > 0:
                os.write(descriptor, chunk[:missing])
        return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | _POPULATE)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _leave_files(descriptor: int) -> None:
    """Check that a file, which stays open while it is mapped, is none of the last that this process may open.

    Raises:
        OSError: It is.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and descriptor >= limit - _SPARE_FILES:  # the lowest number that is free
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def _map(path: Path, size: int) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _leave_files(descriptor)
        status = os.fstat(descriptor)
        if status.st_uid != os.getuid() or status.st_size != size:
            raise ValueError(f"{status.st_size} bytes, declared are {size}")
        return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | _POPULATE, prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)


# -- files -----------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class ArraySpec:
    """An array that does not travel in the message itself: its dtype, as NumPy writes it, and its shape."""

    dtype: str
    shape: tuple[int, ...]


@frozen
class Layout:
    """Where the arrays of a file lie: in the order of their names, as they are declared in messages.

    Args:
        specs: Flat name to dtype and shape.
    """

    specs: Mapping[str, ArraySpec]
    _places: tuple[tuple[str, np.dtype[np.generic], tuple[int, ...], int], ...] = field(init=False)
    _bytes: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        places, end = [], 0
        for name, spec in sorted(self.specs.items()):
            if spec.dtype not in DTYPES or len(spec.shape) > MAX_DIMENSIONS or min(spec.shape, default=0) < 0:
                raise WireError(f"shared array {name[:64]!r}: impossible dtype or shape")
            places.append((name, np.dtype(spec.dtype), spec.shape, end))
            end += math.prod(spec.shape) * np.dtype(spec.dtype).itemsize
            end = -(-end // _ALIGNMENT) * _ALIGNMENT
        object.__setattr__(self, "_places", tuple(places))
        object.__setattr__(self, "_bytes", end)

    @classmethod
    def of(cls, shapes: Shapes) -> Layout:
        """Return the layout of arrays of these shapes and dtypes.

        Raises:
            WireError: A dtype does not travel.
        """
        return cls({name: ArraySpec(dtype=dtype.str, shape=shape) for name, (shape, dtype) in shapes.items()})

    @property
    def digest(self) -> int:
        """Return a word that differs between layouts."""
        return int.from_bytes(hashlib.blake2b(repr(self._places).encode(), digest_size=7).digest(), "little")

    def size(self, copies: int) -> int:
        """Return the size in bytes of a file for so many copies of the arrays."""
        return _WORDS * 8 + self._bytes * copies

    def arrays(self, memory: mmap.mmap, copy: int) -> dict[str, np.ndarray]:
        """Return the arrays of one copy as views on a mapped file."""
        start = _WORDS * 8 + self._bytes * copy
        return {
            name: np.frombuffer(memory, dtype, math.prod(shape), start + offset).reshape(shape)
            for name, dtype, shape, offset in self._places
        }


class SharedFile:
    """A mapped file; it stays mapped for as long as something refers to its arrays.

    Attributes:
        path: Where it is.
        name: Its name within the folder.
        words: ``[8] int64``: what it begins with.
        copies: The arrays of each copy by flat name.
    """

    def __init__(self, path: Path, memory: mmap.mmap, layout: Layout, copies: int) -> None:
        self.path, self.name = path, path.name
        self.words = np.frombuffer(memory, np.int64, _WORDS)
        self.copies = [layout.arrays(memory, copy) for copy in range(copies)]
