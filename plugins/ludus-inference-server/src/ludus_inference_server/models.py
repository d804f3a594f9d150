"""The models that the server holds: once per content, in the slots of the runtime of their architecture."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
from attrs import define, field
from ludus.inference import Inference
from ludus.network import NetworkRequest

__all__ = ["Architecture", "ModelCache", "content_key"]


def content_key(weights: Mapping[str, np.ndarray]) -> str:
    """Return a hash of names, shapes, dtypes and bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(weights.items()):
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@define(eq=False)
class Architecture:
    """A network of which there may be many models.

    Attributes:
        runtime: Holds them.
        request: What the network was made for.
    """

    runtime: Inference
    request: NetworkRequest
    _free: list[int] = field(init=False, factory=list)
    _used: int = field(init=False, default=0)

    def load(self, weights: Mapping[str, np.ndarray]) -> int:
        """Put a model into a free slot of the runtime and return the slot.

        Raises:
            ModelError: The weights do not fit.
        """
        slot = self._free[-1] if self._free else self._used
        self.runtime.load(weights, slot=slot)
        if self._free:
            self._free.pop()
        else:
            self._used += 1
        return slot

    def drop(self, slot: int) -> None:
        """Forget a model."""
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
    """All models. Those that nobody uses leave, the least recently used first, when there are too many of them.

    Args:
        budget_bytes: Weights kept of models that nobody uses.
    """

    budget_bytes: int
    _models: OrderedDict[tuple[int, str], _Model] = field(init=False, factory=OrderedDict)
    _idle_bytes: int = field(init=False, default=0)

    def __len__(self) -> int:
        return len(self._models)

    def has(self, architecture: Architecture, key: str) -> bool:
        """Return whether a model is here."""
        return (id(architecture), key) in self._models

    def add(self, architecture: Architecture, key: str, weights: Mapping[str, np.ndarray]) -> None:
        """Take in a model that is not here yet; `hold` follows.

        Raises:
            ModelError: The weights do not fit.
        """
        size = sum(array.nbytes for array in weights.values())
        self._models[id(architecture), key] = _Model(architecture, architecture.load(weights), size)
        self._idle_bytes += size

    def hold(self, architecture: Architecture, key: str) -> int:
        """Count one more user of a model and return its slot."""
        model = self._models[id(architecture), key]
        self._models.move_to_end((id(architecture), key))
        self._idle_bytes -= 0 if model.users else model.num_bytes
        model.users += 1
        return model.slot

    def release(self, architecture: Architecture, key: str) -> None:
        """Count one user of a model less."""
        model = self._models[id(architecture), key]
        model.users -= 1
        self._idle_bytes += 0 if model.users else model.num_bytes

    def shrink(self) -> None:
        """Let models go that nobody uses until the rest is within the budget."""
        for name, model in list(self._models.items()) if self._idle_bytes > self.budget_bytes else ():
            if self._idle_bytes <= self.budget_bytes:
                return
            if not model.users:
                model.architecture.drop(model.slot)
                del self._models[name]
                self._idle_bytes -= model.num_bytes
