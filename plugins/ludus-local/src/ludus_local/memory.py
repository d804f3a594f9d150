"""Shared memory of the processes of one host: files in a private folder, mapped by writer and readers.

A file has one writer, the process that created it, and any number of readers; its name starts with the writer's worker
name. Its header consists of eight machine words, ``magic | pid of the writer | digest of the layout | size in bytes``
and four words that depend on the kind of file. The arrays of its layout follow, each at a multiple of 64 bytes::

    block buffer    generation | state | - | -               one block of segments, written while it is played
    weight store    version of copy 0 | of copy 1 | - | -
    process group   - | - | - | -                            values of one process, and its slice of the sums

Readers check header and size of the file before they access an array. A writer could truncate its file afterwards; the
folder is private to one user, whose processes trust each other in this respect.
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

_MAGIC = int.from_bytes(b"LUDSHM\x00\x01", sys.byteorder)  # its last byte is the version of the format
_WORDS = 8
_ALIGNMENT = 64
_SPARE = 8  # 1/8 of the file system stays free
_SPARE_FILES = 16  # descriptors that stay free, for sockets, models and logs
_SHORT = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # a limit of the process is reached
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}", re.ASCII)
_MEMORY = Path("/dev/shm")  # noqa: S108 - only folders with mode 0700 are made there
_POPULATE = getattr(mmap, "MAP_POPULATE", 0)
_TEMPORARY = ".temporary"
_FOLDER = getattr(os, "O_DIRECTORY", 0) | os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_numbers = itertools.count()  # of the files that this process creates
_held: dict[Path, int] = {}  # locked folders and the descriptors of the locks
_log = logging.getLogger(__name__)


# -- folders ---------------------------------------------------------------------------------------------------------


def shared_path(sockets: Path) -> Path:
    """Return the shared memory folder of a private folder of sockets: in ``/dev/shm`` on Linux, else the same."""
    return _MEMORY / sockets.name if sys.platform == "linux" and os.access(_MEMORY, os.W_OK | os.X_OK) else sockets


def check_private(directory: Path) -> None:
    """Check that only this user can enter a directory.

    Raises:
        LinkError: Other users can, or it is not a directory.
    """
    try:
        status = directory.lstat()
    except OSError as error:
        raise LinkError(f"private directory {directory}: {error.strerror}") from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) != 0o700:
        raise LinkError(f"private directory {directory} must be owned by this user with mode 0700")


def hold(folder: Path) -> bool:
    """Lock a folder of this user, so that it is not removed as stale while this process lives or until `remove`.

    It is a shared file lock: unlike a process id it is valid in every container that sees the folder.

    Returns:
        False if the folder was removed before it was locked; the caller has to make it again.

    Raises:
        LinkError: The folder belongs to another user.
    """
    try:
        descriptor = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return False
    if os.fstat(descriptor).st_uid != os.getuid():  # which could block this process at the lock for ever
        os.close(descriptor)
        raise LinkError(f"private directory {folder} must be owned by this user")
    with suppress(OSError):  # a file system without locks; no process can take the folder for stale then
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits for a process that is removing it
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(descriptor), folder.lstat()):
            _unlock(folder)
            _held[folder] = descriptor
            return True
    os.close(descriptor)
    return False


def _unlock(folder: Path) -> None:
    if folder in _held:
        os.close(_held.pop(folder))


def remove(folder: Path) -> None:
    """Remove a folder and unlock it."""
    shutil.rmtree(folder, ignore_errors=True)
    _unlock(folder)


def remove_stale(place: Path) -> None:
    """Remove unlocked folders ``ludus-run-…`` from a directory, which killed processes of this user have left."""
    for stale in place.glob("ludus-run-*"):
        remove_unheld(stale)


def remove_unheld(folder: Path) -> None:
    """Remove a folder of this user unless a process has locked it."""
    with suppress(OSError):  # another process removes it at the same time, or it belongs to another user
        descriptor = os.open(folder, _FOLDER)
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if a process has locked it
                if os.path.samestat(os.fstat(descriptor), folder.lstat()):  # not a new folder of this name
                    shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


@contextmanager
def temporary_folder(name: str) -> Iterator[Path]:
    """Make a folder ``NAME-…`` that is removed at the end; if this process is killed, by the next call of that name.

    The file ``.temporary`` in it distinguishes it from folders that users have named so; without the file it is kept.
    """
    for stale in Path(tempfile.gettempdir()).glob(f"{name}-*/{_TEMPORARY}"):
        remove_unheld(stale.parent)
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
    """Return whether a process with this id exists."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


@frozen
class SharedFolder:
    """The shared memory folder of a run, as one worker uses it.

    Args:
        path: The folder: owned by this user, mode 0700.
        worker: Worker name.
    """

    path: Path
    worker: str

    @classmethod
    def beside(cls, sockets: Path, worker: str) -> SharedFolder | None:
        """Return the folder of a private folder of sockets, after removing files of the worker's predecessors.

        None, with a line in the log, if it cannot be made.
        """
        folder = cls(shared_path(sockets), worker)
        try:
            while not hold(folder.path):
                folder.path.mkdir(mode=0o700, exist_ok=True)
            check_private(folder.path)
        except (OSError, LinkError) as error:
            _log.warning("%s: no shared memory: %s; segments and weights are sent through sockets", worker, error)
            return None
        folder.sweep()
        return folder

    def sweep(self) -> None:
        """Remove the files that killed predecessors of this worker have left."""
        for stale in self.path.glob(f"{self.worker}.*"):
            pid, _, number = stale.name.removeprefix(f"{self.worker}.").partition(".")  # worker names may contain dots
            if pid.isdigit() and number.isdigit() and int(pid) != os.getpid() and not is_running(int(pid)):
                stale.unlink(missing_ok=True)

    def create(self, layout: Layout, *, copies: int = 1) -> SharedFile:
        """Create a file for so many copies of the arrays of a layout.

        Raises:
            LinkError: There is no space for it, or the folder is not writeable.
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
            LinkError: This process cannot open or map further files.
            WireError: The worker has no such file with this layout.
        """
        if not (_NAME.fullmatch(name) and name.startswith(f"{owner}.")):
            raise WireError(f"{name[:64]!r} is not the name of a shared memory file of {owner}")
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
    """Create a file and allocate its memory; writing to a sparse file on a full file system would raise a signal."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _check_descriptors(descriptor)
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


def _check_descriptors(descriptor: int) -> None:
    """Check that this process may open further files besides this one, which stays open while it is mapped.

    Raises:
        OSError: Too few descriptors are left.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and descriptor >= limit - _SPARE_FILES:  # the lowest free number
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def _map(path: Path, size: int) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_descriptors(descriptor)
        status = os.fstat(descriptor)
        if status.st_uid != os.getuid() or status.st_size != size:
            raise ValueError(f"{status.st_size} bytes, expected {size}")
        return mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED | _POPULATE, prot=mmap.PROT_READ)
    finally:
        os.close(descriptor)


# -- files -----------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class ArraySpec:
    """Dtype, as NumPy writes it, and shape of an array that is not in the message itself."""

    dtype: str
    shape: tuple[int, ...]


@frozen
class Layout:
    """The layout of a file: offsets of its arrays, in the order of their names.

    Args:
        specs: Dtype and shape by flat name.
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
            WireError: A dtype is not supported.
        """
        return cls({name: ArraySpec(dtype=dtype.str, shape=shape) for name, (shape, dtype) in shapes.items()})

    @property
    def digest(self) -> int:
        """Return a hash of the layout that fits into a header word."""
        return int.from_bytes(hashlib.blake2b(repr(self._places).encode(), digest_size=7).digest(), "little")

    def size(self, copies: int) -> int:
        """Return the size in bytes of a file for so many copies of the arrays."""
        return _WORDS * 8 + self._bytes * copies

    def arrays(self, memory: mmap.mmap, copy: int) -> dict[str, np.ndarray]:
        """Return the arrays of one copy as views of a mapped file."""
        start = _WORDS * 8 + self._bytes * copy
        return {
            name: np.frombuffer(memory, dtype, math.prod(shape), start + offset).reshape(shape)
            for name, dtype, shape, offset in self._places
        }


class SharedFile:
    """A mapped file; it stays mapped as long as any of its arrays is referenced.

    Attributes:
        path: Path of the file.
        name: Name of the file.
        words: ``[8] int64``: the header.
        copies: The arrays of each copy by flat name.
    """

    def __init__(self, path: Path, memory: mmap.mmap, layout: Layout, copies: int) -> None:
        self.path, self.name = path, path.name
        self.words = np.frombuffer(memory, np.int64, _WORDS)
        self.copies = [layout.arrays(memory, copy) for copy in range(copies)]
