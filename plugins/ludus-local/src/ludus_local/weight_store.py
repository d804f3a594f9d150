"""The weight store: shared memory in which a learner publishes weights to the samplers of its host.

It is a file with two copies of the weights. The learner always overwrites the older one; a header word per copy holds
its version, or -1 while it is being written. A sampler copies the newest weights straight into its policy and starts
over if the version has changed meanwhile, which takes two publications during one copy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np
from attrs import define, field
from ludus.algorithm import Weights
from ludus.errors import LinkError

from ludus_local.memory import ArraySpec, Layout, SharedFile, SharedFolder

_VERSIONS = slice(4, 6)  # header words of the file
_MAX_TRIES = 1000
_lock = threading.Lock()


def _fence() -> None:
    """Order memory accesses before this call before those after it, on processors that would reorder them."""
    for _ in range(2):
        with _lock:
            pass


def weights_layout(weights: Weights) -> Layout:
    """Return the layout of weights in a weight store.

    Raises:
        WireError: A dtype is not supported.
    """
    return Layout.of({name: (array.shape, array.dtype) for name, array in weights.items()})


@define(eq=False)
class WeightStore:
    """The writing side of a weight store.

    Args:
        layout: Layout of the weights.
        file: File with two copies.
    """

    layout: Layout
    file: SharedFile

    @classmethod
    def create(cls, folder: SharedFolder, weights: Weights) -> WeightStore:
        """Create a store for weights of these shapes.

        Raises:
            LinkError: There is no space for it.
            WireError: A dtype is not supported.
        """
        layout = weights_layout(weights)
        store = cls(layout, folder.create(layout, copies=2))
        store.file.words[_VERSIONS] = -1
        return store

    @property
    def version(self) -> int:
        """Return the newest version, -1 if there is none."""
        return int(self.file.words[_VERSIONS].max())

    def fits(self, weights: Weights) -> bool:
        """Return whether weights have the layout of this store."""
        specs = self.layout.specs
        return weights.keys() == specs.keys() and all(
            (array.dtype.str, array.shape) == (specs[name].dtype, specs[name].shape) for name, array in weights.items()
        )

    def publish(self, weights: Weights, version: int) -> None:
        """Overwrite the older copy by newer weights.

        Args:
            weights: Weights of the layout of this store.
            version: Greater than every earlier version.
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
class WeightStoreReader:
    """The reading side of a weight store.

    Args:
        folder: Folder of the file.
        owner: Worker name of the learner.
        name: Name of the file.
        specs: Layout of the weights.

    Raises:
        LinkError: This process cannot map further files.
        WireError: There is no such store.
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

    def load(self, copy: Callable[[Weights, int], None]) -> None:
        """Load the newest weights.

        Args:
            copy: Copies weights of a version; called again if they were overwritten during the copy.

        Raises:
            LinkError: The weights were overwritten during every copy, or there are none.
        """
        versions = self._file.words[_VERSIONS]
        for _ in range(_MAX_TRIES):
            newest = int(np.argmax(versions))
            version = int(versions[newest])
            if version < 0:
                continue
            _fence()
            copy(self._file.copies[newest], version)
            _fence()
            if versions[newest] == version:
                return
        raise LinkError(f"the weights of {self.owner} change faster than they can be copied, or there are none")
