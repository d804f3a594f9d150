"""The weights of a learner, as the gateway reads them from its weight store for other hosts."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import numpy as np
import zmq
from attrs import define, field
from ludus.algorithm import Weights
from ludus.errors import LinkError, WireError
from ludus.option import name as valid_name
from ludus_local import codec
from ludus_local.codec import Frame
from ludus_local.link import LinkCapabilities
from ludus_local.memory import SharedFolder
from ludus_local.transport import FORWARDER, Sockets, ipc_address
from ludus_local.weight_store import WeightStoreReader

from ludus_hosts.wire import WeightsUpdate

_REQUEST_INTERVAL_S = 1.0
_log = logging.getLogger(__name__)


@define(eq=False)
class WeightSource:
    """The weight store of one learner.

    Args:
        learner: Worker name of the learner.
        socket: Connection to the learner.

    Attributes:
        encoded: Name of the weight store and version of the encoded weights.
    """

    learner: str
    socket: zmq.Socket[bytes]
    encoded: tuple[str, int] = field(init=False, default=("", -1))
    _store: WeightStoreReader | None = field(init=False, default=None)
    _requested_s: float = field(init=False, default=-math.inf)
    _frames: list[Frame] = field(init=False, factory=list)

    def request_due(self, now_s: float) -> bool:
        """Return whether the learner's capabilities are to be requested; counts as a request if so."""
        due = now_s - self._requested_s >= _REQUEST_INTERVAL_S
        if due:
            self._requested_s = now_s
        return due

    def map(self, folder: SharedFolder | None, capabilities: LinkCapabilities) -> None:
        """Map the weight store that a learner has named.

        Args:
            folder: Shared memory of the gateway; None without. Weights then come in messages of the learner.
            capabilities: Answer of the learner.
        """
        if folder is None or not capabilities.weight_store:
            self._store = None
        elif self._store is None or self._store.name != capabilities.weight_store:
            try:
                self._store = WeightStoreReader(folder, self.learner, capabilities.weight_store, capabilities.layout)
            except (LinkError, WireError) as error:  # the learner was restarted, or no more files may be opened
                _log.warning("%s: %s", self.learner, error)
                self._store = None

    @property
    def newest(self) -> tuple[str, int] | None:
        """Return name of the weight store and version of the newest weights; None if there are none."""
        if self._store is None or self._store.version < 0:
            return None
        return (self._store.name, self._store.version)

    def encode(self) -> list[Frame]:
        """Return the newest weights as an encoded `WeightsUpdate`; they are copied once per version.

        Raises:
            LinkError: The weights cannot be read.
            WireError: The weights are too large for a message.
        """
        assert self._store is not None
        name, version = self._store.name, self._store.version
        if self.encoded[0] != name or self.encoded[1] < version:
            self._encode(self._store)
        return self._frames

    def _encode(self, store: WeightStoreReader) -> None:
        copy: dict[str, np.ndarray] = {}
        version = -1

        def load(weights: Weights, loaded_version: int) -> None:
            nonlocal version
            copy.update({name: array.copy() for name, array in weights.items()})
            version = loaded_version

        store.load(load)
        update = WeightsUpdate(learner=self.learner, weight_store=store.name, version=version, weights=copy)
        self._frames = codec.encode(update)
        self.encoded = (store.name, version)


def find_source(sources: dict[str, WeightSource], learner: str, folder: Path, sockets: Sockets) -> WeightSource | None:
    """Return the source of a learner; None if it does not listen.

    Args:
        sources: Known sources by learner; a new one is added.
        learner: Worker name of the learner, as another host sent it.
        folder: Folder of the sockets of the run's workers.
        sockets: Makes the connection.
    """
    kind, _, player = learner.partition("-")
    if learner not in sources and kind == "learner" and valid_name().accepts(player):
        address = ipc_address(folder, learner)
        if Path(address.removeprefix("ipc://")).exists():
            sources[learner] = WeightSource(learner, sockets.dealer(FORWARDER, address))
    return sources.get(learner)
