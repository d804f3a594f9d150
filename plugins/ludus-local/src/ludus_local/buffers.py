"""Buffers: files of shared memory in which blocks of segments are recorded and read.

The sampler that owns a buffer writes a block into it, seals it, and sends a message that refers to it. It reuses the
buffer for another block, with the next generation number, only after the learner has released the block.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from attrs import define, field
from ludus.errors import LinkError, WireError
from ludus.launcher import Shapes

from ludus_local.codec import check_bools
from ludus_local.memory import ArraySpec, Layout, SharedFile, SharedFolder

_GENERATION, _STATE = 4, 5  # indices of header words of the file
_WRITING, _SEALED = 1, 2
_MAX_BUFFERS = 256  # of one sampler and player
_log = logging.getLogger(__name__)


@define(eq=False)
class BlockBuffer:
    """A file for one block of segments at a time.

    Attributes:
        layout: Layout of its arrays.
        file: The mapped file.
        free: Whether it may be used for another block.
    """

    layout: Layout
    file: SharedFile
    free: bool = True

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Return its arrays by flat name."""
        return self.file.copies[0]

    @property
    def generation(self) -> int:
        """Return how many blocks it has held."""
        return int(self.file.words[_GENERATION])

    def contains(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Return whether any of the arrays is a view of the array of the same name."""
        return any(np.may_share_memory(array, self.arrays[name]) for name, array in arrays.items() if array.size)

    def begin(self) -> None:
        """Begin a new block."""
        self.free = False
        self.file.words[_STATE] = _WRITING
        self.file.words[_GENERATION] += 1

    def seal(self) -> None:
        """End the block; the buffer is not written to again before `release`."""
        self.file.words[_STATE] = _SEALED

    def release(self) -> None:
        """Mark the buffer as free; the block is not read any more."""
        self.free = True


@define(eq=False)
class BufferPool:
    """The buffers of one recorder: as many as are in use at once, bounded by the free memory.

    Args:
        folder: Folder of the files.
    """

    folder: SharedFolder
    _buffers: list[BlockBuffer] = field(init=False, factory=list)
    _warned: bool = field(init=False, default=False)

    def allocate(self, shapes: Shapes) -> BlockBuffer | None:
        """Return a free buffer with undefined contents; None if there is no space.

        Args:
            shapes: Shapes of the arrays, the same in every call.
        """
        buffer = next((buffer for buffer in self._buffers if buffer.free), None)
        if buffer is None:
            try:
                if len(self._buffers) >= _MAX_BUFFERS:
                    raise LinkError(f"{_MAX_BUFFERS} blocks are not released by the learner")
                layout = self._buffers[0].layout if self._buffers else Layout.of(shapes)
                buffer = BlockBuffer(layout, self.folder.create(layout))
            except (LinkError, WireError) as error:
                self._warn(str(error))
                return None
            self._buffers.append(buffer)
        buffer.begin()
        return buffer

    def find(self, arrays: Mapping[str, np.ndarray]) -> BlockBuffer | None:
        """Return the buffer in which a block was recorded; None if it was recorded on the heap."""
        return next((buffer for buffer in self._buffers if not buffer.free and buffer.contains(arrays)), None)

    def _warn(self, problem: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("%s: %s; segments are sent through sockets", self.folder.worker, problem)


@define(eq=False)
class BufferReader:
    """Maps the buffers of another worker for reading, each once.

    Args:
        folder: Folder of the files.
        owner: Worker name of the owner.
    """

    folder: SharedFolder
    owner: str
    _mapped: dict[str, tuple[Mapping[str, ArraySpec], SharedFile]] = field(init=False, factory=dict)

    def read(self, name: str, generation: int, specs: Mapping[str, ArraySpec]) -> dict[str, np.ndarray]:
        """Return the arrays of a block as views that are valid until the block is released.

        Args:
            name: Name of the buffer.
            generation: Generation of the block.
            specs: Layout of the arrays.

        Raises:
            LinkError: This process cannot open or map further files.
            WireError: The buffer does not hold this block.
        """
        known_specs, file = self._mapped.get(name, (None, None))
        if file is None or known_specs != specs:
            if len(self._mapped) >= _MAX_BUFFERS:
                raise WireError(f"{self.owner} has more than {_MAX_BUFFERS} buffers")
            file = self.folder.attach(self.owner, name, Layout(specs))
            self._mapped[name] = (specs, file)
        if tuple(file.words[[_GENERATION, _STATE]]) != (generation, _SEALED):
            raise WireError(f"buffer {name} does not hold block {generation}")
        for leaf, array in file.copies[0].items():
            check_bools(leaf, array)
        return dict(file.copies[0])
