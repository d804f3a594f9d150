"""Slots: files of shared memory in which blocks of segments are recorded and read, again and again.

The sampler that owns a slot writes it, seals it and says so in a message; it takes the slot for another block, which
gets the next generation, only when the learner has released that one.
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

__all__ = ["Slot", "SlotReader", "Slots"]

_GENERATION, _STATE = 4, 5  # of the words a shared file begins with
_WRITING, _READY = 1, 2
_MOST_SLOTS = 256  # of one sampler and player
_log = logging.getLogger(__name__)


@define(eq=False)
class Slot:
    """A file for one block of segments, used again and again.

    Attributes:
        layout: What is in it.
        arrays: By flat name; written by the recorder.
    """

    layout: Layout
    file: SharedFile
    free: bool = True

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Return its arrays."""
        return self.file.copies[0]

    @property
    def generation(self) -> int:
        """Return how often it was taken."""
        return int(self.file.words[_GENERATION])

    def holds(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Return whether arrays of the same names, or some of them, are parts of its own."""
        return any(np.may_share_memory(array, self.arrays[name]) for name, array in arrays.items() if array.size)

    def take(self) -> None:
        """Begin a new block."""
        self.free = False
        self.file.words[_STATE] = _WRITING
        self.file.words[_GENERATION] += 1

    def seal(self) -> None:
        """End the block: nothing is written from here on until `release`."""
        self.file.words[_STATE] = _READY

    def release(self) -> None:
        """Hear that nobody reads the block any more."""
        self.free = True


@define(eq=False)
class Slots:
    """The slots of one recorder: as many as are in use at once, never more than a part of the memory there is.

    Args:
        folder: Where they are made.
    """

    folder: SharedFolder
    _slots: list[Slot] = field(init=False, factory=list)
    _said: bool = field(init=False, default=False)

    def take(self, shapes: Shapes) -> Slot | None:
        """Return a slot that nobody uses, with whatever an earlier block left in it; None where there is no space.

        Args:
            shapes: The same in every call.
        """
        slot = next((slot for slot in self._slots if slot.free), None)
        if slot is None:
            try:
                if len(self._slots) >= _MOST_SLOTS:
                    raise LinkError(f"{_MOST_SLOTS} blocks wait to be learned from")
                layout = self._slots[0].layout if self._slots else Layout.of(shapes)
                slot = Slot(layout, self.folder.create(layout))
            except (LinkError, WireError) as error:
                self._say(str(error))
                return None
            self._slots.append(slot)
        slot.take()
        return slot

    def holding(self, arrays: Mapping[str, np.ndarray]) -> Slot | None:
        """Return the slot in which a block was recorded, None where it was not recorded in one."""
        return next((slot for slot in self._slots if not slot.free and slot.holds(arrays)), None)

    def _say(self, problem: str) -> None:
        if not self._said:
            self._said = True
            _log.warning("%s: %s; segments travel through sockets", self.folder.worker, problem)


@define(eq=False)
class SlotReader:
    """The slots of one other worker, mapped once each.

    Args:
        folder: Where they are.
        owner: The other worker.
    """

    folder: SharedFolder
    owner: str
    _mapped: dict[str, tuple[Mapping[str, ArraySpec], SharedFile]] = field(init=False, factory=dict)

    def read(self, name: str, generation: int, specs: Mapping[str, ArraySpec]) -> dict[str, np.ndarray]:
        """Return the arrays of a block as views that hold until the block is released.

        Args:
            name: Of the slot.
            generation: That the block was given.
            specs: Its layout.

        Raises:
            LinkError: This process may not open or map any more.
            WireError: The slot is not what it is said to be.
        """
        known, file = self._mapped.get(name, (None, None))
        if file is None or known != specs:
            if len(self._mapped) >= _MOST_SLOTS:
                raise WireError(f"{self.owner} has more than {_MOST_SLOTS} slots")
            file = self.folder.attach(self.owner, name, Layout(specs))
            self._mapped[name] = (specs, file)
        if tuple(file.words[[_GENERATION, _STATE]]) != (generation, _READY):
            raise WireError(f"slot {name} does not hold block {generation}")
        for leaf, array in file.copies[0].items():
            check_bools(leaf, array)
        return dict(file.copies[0])
