"""The requests of other hosts for frozen models: each is sent once at a time, to the hosts in turn."""

from __future__ import annotations

import hashlib
import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import numpy as np
from attrs import define, field
from ludus.wire import Message
from ludus_local import codec

from ludus_hosts.host_registry import JoinedHost
from ludus_hosts.wire import ModelFile

_MAX_PENDING = 1024  # models that one host waits for; it requests again what it still needs
_REPEAT_S = 5.0  # a host that waits repeats a request after 10 s, then less often
_BYTES_AT_ONCE = 8 * 2**20  # between two looks at the sockets
_PART_BYTES = 2**20  # of a model file in one frame; a frame that takes too long ends the connection
_log = logging.getLogger(__name__)


@define
class ModelRequests:
    """The models that hosts have requested and were not sent.

    Repeated requests cost constant time. A file is read for one host at a time, and the last one is kept, because all
    hosts request a new model at once.

    Args:
        run_dir: The run folder.
        clock: Seconds.
    """

    run_dir: Path
    clock: Callable[[], float]
    _pending: OrderedDict[str, OrderedDict[str, None]] = field(init=False, factory=OrderedDict)  # hashes by host
    _sent_s: dict[str, OrderedDict[str, float]] = field(init=False, factory=dict)  # by host and hash
    _last: tuple[str, Mapping[str, np.ndarray]] = field(init=False, default=("", {}))

    def __bool__(self) -> bool:
        """Return whether a request waits."""
        return bool(self._pending)

    def add(self, host: str, digest: str) -> bool:
        """Add a request of a host; returns False if it repeats one, or the host waits for too many models."""
        pending = self._pending.get(host, ())
        sent_s = self._sent_s[host].get(digest, -math.inf) if host in self._sent_s else -math.inf
        if digest in pending or self.clock() - sent_s < _REPEAT_S or len(pending) >= _MAX_PENDING:
            return False
        self._pending.setdefault(host, OrderedDict())[digest] = None
        return True

    def send_some(self, hosts: Mapping[str, JoinedHost], send: Callable[[bytes, Message], bool]) -> None:
        """Send requested models, a limited number of bytes or one file, so that messages do not wait for many.

        Args:
            hosts: The hosts that take part.
            send: Sends a message to the relay at a route; returns whether it could.
        """
        num_bytes = 0
        while num_bytes < _BYTES_AT_ONCE and (requested := self.take(hosts)) is not None:
            host, digest, parts = requested
            num_bytes += sum(part.nbytes for part in parts.values())
            if send(hosts[host].bulk_route, ModelFile(hash=digest, parts=parts)):
                self.record_sent(host, digest)

    def take(self, hosts: Collection[str]) -> tuple[str, str, Mapping[str, np.ndarray]] | None:
        """Return host, hash and file of the next request, each host in turn; None if there is none.

        Args:
            hosts: The hosts that take part; requests of others are dropped.
        """
        for gone in (self._pending.keys() | self._sent_s.keys()) - set(hosts):
            self._pending.pop(gone, None)
            self._sent_s.pop(gone, None)
        if not self._pending:
            return None
        host, pending = self._pending.popitem(last=False)
        digest, _ = pending.popitem(last=False)
        if pending:
            self._pending[host] = pending  # at the end
        if self._last[0] != digest or not self._last[1]:
            self._last = (digest, read_model(self.run_dir, digest))
        return host, digest, self._last[1]

    def record_sent(self, host: str, digest: str) -> None:
        """Record that a host was answered, and has no reason to request the model again soon.

        A model without a file costs nothing, and may be there soon.
        """
        if not _path(self.run_dir, digest).exists():
            return
        sent_s = self._sent_s.setdefault(host, OrderedDict())
        sent_s[digest] = self.clock()
        sent_s.move_to_end(digest)
        if len(sent_s) > _MAX_PENDING:
            sent_s.popitem(last=False)


def _path(run_dir: Path, digest: str) -> Path:
    return run_dir / "models" / f"{digest}.safetensors"


def read_model(run_dir: Path, digest: str) -> dict[str, np.ndarray]:
    """Return a model file in parts, empty if it cannot be sent; the host compares its hash."""
    try:
        data = np.fromfile(_path(run_dir, digest), np.uint8)
    except OSError as error:
        _log.warning("model %s cannot be sent: %s", digest, error)
        return {}
    if data.size > codec.MAX_TOTAL_BYTES - codec.MAX_HEADER_BYTES:
        _log.warning("model %s of %d bytes cannot be sent: it is too large for a message", digest, data.size)
        return {}
    if hashlib.sha256(data.tobytes()).hexdigest() != digest:  # a sampler will report it
        _log.warning("model %s cannot be sent: its file is damaged", digest)
        return {}
    return {f"{start:012d}": data[start : start + _PART_BYTES] for start in range(0, data.size, _PART_BYTES)}
