"""Files of replays in ``RUN/replays``: written by workers, bounded in size, and read as untrusted data.

A file holds blocks, one after the other (`ludus._replays.block`). Every process of a worker writes files of its own, so
that no two processes write one file and a process that is killed leaves at most one cut block, at the end of a file.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from attrs import define, field, frozen

from ludus._replays.block import (
    HEADER_BYTES,
    BlockHeader,
    BlockIndex,
    Replay,
    ReplayBlock,
    decode_header,
    decode_index,
    decode_payload,
    encode_block,
    split_block,
)
from ludus._store.durable import make_folder
from ludus._store.foreign_files import open_regular
from ludus.errors import ReplayError

FOLDER = "replays"  #: Name of the folder in the run folder.

_SUFFIX = ".replays"
_FILES = 16  # into which the allowed space is divided; the oldest is deleted at once
_log = logging.getLogger("ludus.replays")


@define
class ReplayWriter:
    """Writes the blocks of one worker, and deletes the oldest files of all workers that exceed the allowed space.

    A failure to write is logged once; the matches go on without replays.

    Args:
        folder: ``RUN/replays``; made with the first block.
        worker: Name of the worker.
        max_bytes: Size of all files together.
    """

    folder: Path
    worker: str
    max_bytes: int
    _path: Path | None = field(init=False, default=None)
    _failed: bool = field(init=False, default=False)

    def write(self, block: ReplayBlock) -> None:
        """Write a block. It may be lost if the machine loses power soon after."""
        if self._failed:
            return
        try:
            self._append(encode_block(block))
        except (OSError, ReplayError) as error:
            self._failed = True
            _log.warning("%s: replays cannot be written (%s); matches go on without them", self.folder, error)

    def _append(self, data: bytes) -> None:
        if len(data) > self.max_bytes:
            raise ReplayError(f"a block of {len(data)} bytes does not fit into {self.max_bytes} bytes (replays.max_mb)")
        make_folder(self.folder) if self._path is None else None
        self._delete_oldest(self.max_bytes - len(data))
        size = _size_of(self._path)
        if self._path is None or size is None or (size and size + len(data) > self.max_bytes // _FILES):
            self._path = self._create_file()
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            with os.fdopen(handle, "ab", buffering=0) as file:
                file.write(data)
        except OSError:
            os.truncate(self._path, size or 0)
            raise

    def _create_file(self) -> Path:
        """Create the next file of the worker."""
        number = 1 + max((_number(path) for path in self.folder.glob(f"{self.worker}-*{_SUFFIX}")), default=0)
        path = self.folder / f"{self.worker}-{number:08d}{_SUFFIX}"
        path.touch(mode=0o644, exist_ok=False)
        return path

    def _delete_oldest(self, allowed_bytes: int) -> None:
        found = replay_files(self.folder)
        total = sum(size for _, size in found)
        for path, size in found:
            if total <= allowed_bytes:
                return
            with suppress(FileNotFoundError):  # another worker may delete it too
                path.unlink()
            total -= size


def _number(path: Path) -> int:
    number = path.stem.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def _size_of(path: Path | None) -> int | None:
    """Return the size of a file; None without one."""
    with suppress(FileNotFoundError):
        return None if path is None else path.stat().st_size
    return None


def replay_files(folder: Path) -> list[tuple[Path, int]]:
    """Return the files of a folder with their sizes, oldest first; links and other kinds of files are ignored."""
    found = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX) and entry.is_file(follow_symlinks=False):
                with suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    found.append((status.st_mtime_ns, entry.name, status.st_size))
    return [(folder / name, size) for _, name, size in sorted(found)]


@frozen(eq=False)
class StoredBlock:
    """A block in a file, of which the index was read.

    Attributes:
        path: The file.
        offset: Position of the block.
        header: Its header.
        index: Its index.
    """

    path: Path
    offset: int
    header: BlockHeader
    index: BlockIndex

    def read(self) -> ReplayBlock:
        """Read the replays.

        Raises:
            ReplayError: They do not match their hash, are malformed, or their file has been deleted.
        """
        try:
            with open_regular(self.path) as file:
                file.seek(self.offset + HEADER_BYTES + self.header.index_bytes)
                data = file.read(self.header.payload_bytes)
        except OSError as error:
            raise ReplayError(f"{self.path} cannot be read ({error.strerror})") from error
        try:
            return decode_payload(self.header, self.index, data)
        except ReplayError as error:
            raise ReplayError(f"{self.place}: {error}") from error

    def replays(self) -> Iterator[Replay]:
        """Yield the replays; errors as for `read`."""
        yield from split_block(self.read(), place=self.place)

    @property
    def place(self) -> str:
        """Return file and position, for messages."""
        return f"{self.path}, block at byte {self.offset}"


@define
class ReplayFolder:
    """The replays of a run.

    Args:
        folder: ``RUN/replays``.

    Attributes:
        problems: One line for everything that could not be read, filled by `blocks`.
    """

    folder: Path
    problems: list[str] = field(init=False, factory=list)

    def blocks(self) -> Iterator[StoredBlock]:
        """Yield all blocks, oldest file first; what cannot be read is skipped and added to `problems`."""
        self.problems.clear()
        for path, size in replay_files(self.folder):
            try:
                yield from self._blocks_of(path, size)
            except OSError as error:
                self.problems.append(f"{path} cannot be read ({error.strerror})")

    def _blocks_of(self, path: Path, size: int) -> Iterator[StoredBlock]:
        offset = 0
        with open_regular(path) as file:
            while offset < size:
                file.seek(offset)
                data = file.read(HEADER_BYTES)
                if len(data) < HEADER_BYTES:
                    self.problems.append(f"{path}: {len(data)} bytes at byte {offset} are no whole block: it was cut")
                    return
                try:
                    header = decode_header(data, remaining=size - offset - HEADER_BYTES)
                except ReplayError as error:  # where the next block starts is unknown
                    self.problems.append(f"{path}, block at byte {offset}: {error}; the rest of the file is skipped")
                    return
                try:
                    index = decode_index(header, file.read(header.index_bytes))
                except ReplayError as error:
                    self.problems.append(f"{path}, block at byte {offset}: {error}")
                else:
                    yield StoredBlock(path, offset, header, index)
                offset += HEADER_BYTES + header.index_bytes + header.payload_bytes
