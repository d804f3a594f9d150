"""Weights that a learner publishes to the samplers of its host.

The board is a shared file with two copies of the weights. The learner always writes the older one; a header word per
copy holds its version, or -1 while it is being written. A sampler copies the newest straight into its policy and
starts over if the version has changed meanwhile, which takes two publications during one copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np
from attrs import define, field
from ludus.algorithm import Weights
from ludus.errors import LinkError

from ludus_local.memory import ArraySpec, Layout, SharedFile, SharedFolder

__all__ = ["BoardReader", "WeightStore", "layout_of"]

_VERSIONS = slice(4, 6)  # of the words a shared file begins with
_TRIES = 1000
_lock = threading.Lock()


def _fence() -> None:
    """Keep what is written and read before from being seen after what follows, on processors that would reorder it."""
    for _ in range(2):
        with _lock:
            pass


def layout_of(weights: Weights) -> Layout:
    """Return how weights lie on a board.

    Raises:
        WireError: A dtype does not travel.
    """
    return Layout.of({name: (array.shape, array.dtype) for name, array in weights.items()})


@define(eq=False)
class WeightStore:
    """The learner's side.

    Args:
        layout: Of the weights.
        file: With two copies.
    """

    layout: Layout
    file: SharedFile

    @classmethod
    def of(cls, folder: SharedFolder, weights: Weights) -> WeightStore:
        """Make a board for weights like these.

        Raises:
            LinkError: There is no space for it.
            WireError: A dtype does not travel.
        """
        layout = layout_of(weights)
        made = cls(layout, folder.create(layout, copies=2))
        made.file.words[_VERSIONS] = -1
        return made

    @property
    def version(self) -> int:
        """Return the newest version, -1 if there is none."""
        return int(self.file.words[_VERSIONS].max())

    def publish(self, weights: Weights, version: int) -> None:
        """Show newer weights.

        Args:
            weights: Of the shapes the board was made for.
            version: Greater than every earlier one.
        """
        versions = self.file.words[_VERSIONS]
        older = int(np.argmin(versions))
        versions[older] = -1
        _fence()
        for name, array in self.file.copies[older].items():
            array[...] = weights[name]
        _fence()
        versions[older] = version


@define(eq=False)
class BoardReader:
    """A sampler's side.

    Args:
        folder: Where the board is.
        owner: The learner.
        name: Of the file.
        specs: What is on it.

    Raises:
        LinkError: It cannot be mapped here.
        WireError: There is no such board.
    """

    folder: SharedFolder
    owner: str
    name: str
    specs: Mapping[str, ArraySpec]
    _file: SharedFile = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._file = self.folder.attach(self.owner, self.name, Layout(self.specs), copies=2)

    @property
    def version(self) -> int:
        """Return the newest version, -1 if there is none."""
        return int(self._file.words[_VERSIONS].max())

    def load(self, take: Callable[[Weights, int], None]) -> None:
        """Hand over the newest weights.

        Args:
            take: Copies weights and is told their version; called again if they changed under its hands.

        Raises:
            LinkError: They never stay the same.
        """
        versions = self._file.words[_VERSIONS]
        for _ in range(_TRIES):
            newest = int(np.argmax(versions))
            version = int(versions[newest])
            if version < 0:
                continue
            _fence()
            take(self._file.copies[newest], version)
            _fence()
            if versions[newest] == version:
                return
        raise LinkError(f"the weights of {self.owner} change faster than they can be copied, or there are none")
