"""The models of the server, once per content, in the slots of their architecture's runtime."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
from attrs import define, field
from ludus.inference import Inference
from ludus.network import NetworkRequest


def content_key(weights: Mapping[str, np.ndarray]) -> str:
    """Return a hash of names, shapes, dtypes and bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(weights.items()):
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@define(eq=False)
class Architecture:
    """A network with any number of models.

    Attributes:
        runtime: Evaluates the models.
        request: The request that the network was made for.
    """

    runtime: Inference
    request: NetworkRequest
    _free: list[int] = field(init=False, factory=list)
    _used: int = field(init=False, default=0)

    def load(self, weights: Mapping[str, np.ndarray]) -> int:
        """Load a model into a free slot of the runtime, and return the slot.

        Raises:
            ModelError: The weights do not fit the network.
        """
        slot = self._free[-1] if self._free else self._used
        self.runtime.load(weights, slot=slot)
        if self._free:
            self._free.pop()
        else:
            self._used += 1
        return slot

    def drop(self, slot: int) -> None:
        """Remove a model."""
        self.runtime.drop(slot)
        self._free.append(slot)


@define(eq=False)
class _Model:
    architecture: Architecture
    slot: int
    num_bytes: int
    users: int = 0


@define(eq=False)
class ModelCache:
    """All models. Unused ones are removed, least recently used first, once they exceed a size limit.

    Args:
        budget_bytes: Size limit of the unused models.
    """

    budget_bytes: int
    _models: OrderedDict[tuple[int, str], _Model] = field(init=False, factory=OrderedDict)
    _idle_bytes: int = field(init=False, default=0)

    def __len__(self) -> int:
        return len(self._models)

    def has(self, architecture: Architecture, key: str) -> bool:
        """Return whether a model is in the cache."""
        return (id(architecture), key) in self._models

    def add(self, architecture: Architecture, key: str, weights: Mapping[str, np.ndarray]) -> None:
        """Add a model; `hold` must follow.

        Raises:
            ModelError: The weights do not fit.
        """
        size = sum(array.nbytes for array in weights.values())
        self._models[id(architecture), key] = _Model(architecture, architecture.load(weights), size)
        self._idle_bytes += size

    def hold(self, architecture: Architecture, key: str) -> int:
        """Add a user of a model, and return its slot."""
        model = self._models[id(architecture), key]
        self._models.move_to_end((id(architecture), key))
        self._idle_bytes -= 0 if model.users else model.num_bytes
        model.users += 1
        return model.slot

    def release(self, architecture: Architecture, key: str) -> None:
        """Remove a user of a model."""
        model = self._models[id(architecture), key]
        model.users -= 1
        self._idle_bytes += 0 if model.users else model.num_bytes

    def shrink(self) -> None:
        """Remove unused models until the rest is within the size limit."""
        for name, model in list(self._models.items()) if self._idle_bytes > self.budget_bytes else ():
            if self._idle_bytes <= self.budget_bytes:
                return
            if not model.users:
                model.architecture.drop(model.slot)
                del self._models[name]
                self._idle_bytes -= model.num_bytes
