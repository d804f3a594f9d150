"""The cache of frozen models on a remote host: fetched by hash when a fixture needs them, and kept for a while."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from ludus.errors import RunError
from ludus.wire import Fixtures, Message

from ludus_hosts.wire import ModelFile, ModelRequest

_FIRST_RETRY_S = 10.0  # doubled with every request: on a slow network a model takes minutes
_IN_USE_S = 600.0  # after a fixture named a model, a sampler may still be about to read it
_log = logging.getLogger(__name__)


class ModelCache:
    """The models of fixtures that samplers of this host play.

    Args:
        folder: Folder in which samplers read them. Files of earlier sessions are checked by their hash.
        max_bytes: Size limit of all files. The model that no fixture has named for the longest time is removed first,
            and none that is in use.
        send: Sends requests to the gateway.
    """

    def __init__(self, folder: Path, max_bytes: int, send: Callable[[Message], None]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._max_bytes, self._send = folder, max_bytes, send
        for partial in folder.glob(".*.partial"):
            partial.unlink(missing_ok=True)
        found = sorted((path.stat().st_mtime, path) for path in folder.glob("*.safetensors"))
        self._sizes = OrderedDict((path.stem, path.stat().st_size) for _, path in found)
        self._unchecked = set(self._sizes)
        self._named_s: dict[str, float] = {}
        self._requests: dict[str, tuple[float, float]] = {}  # time of the next request, and the delay before it

    def has_models(self, message: Message) -> bool:
        """Return whether all models that a message names are there; requests missing ones."""
        if not isinstance(message, Fixtures):
            return True
        named = {digest for fixture in message.fixtures for digest in fixture.models.values()}
        for digest in named & self._unchecked:
            self._check(digest)
        missing = named - self._sizes.keys()
        now_s = time.monotonic()
        self._named_s |= dict.fromkeys(named, now_s)
        for digest in named - missing:
            self._sizes.move_to_end(digest)
        for digest in sorted(missing):
            due_s, delay_s = self._requests.get(digest, (now_s, _FIRST_RETRY_S / 2))
            if now_s >= due_s:
                self._requests[digest] = (now_s + 2 * delay_s, 2 * delay_s)
                self._send(ModelRequest(hash=digest))
        return not missing

    def _check(self, digest: str) -> None:
        """Remove a damaged file of an earlier session from the index; it is fetched again."""
        self._unchecked.discard(digest)
        path = self._path(digest)
        try:
            intact = hashlib.sha256(path.read_bytes()).hexdigest() == digest
        except OSError:
            intact = False
        if not intact:
            _log.warning("%s is damaged; fetching it again", path)
            self._sizes.pop(digest, None)

    def add(self, message: ModelFile) -> None:
        """Write a model file; one that the run does not have is marked as there, and the sampler raises.

        Raises:
            RunError: The file cannot be written.
        """
        if message.hash not in self._requests:
            return
        data = b"".join(part.tobytes() for _, part in sorted(message.parts.items()))
        if data and hashlib.sha256(data).hexdigest() != message.hash:
            _log.warning("model %s arrived damaged; it is requested again", message.hash)
            return
        del self._requests[message.hash]
        if data:
            self._write(self._path(message.hash), data)
        self._sizes[message.hash] = len(data)
        self._remove_oldest(time.monotonic())

    def _write(self, path: Path, data: bytes) -> None:
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            partial.write_bytes(data)
            partial.replace(path)  # not synced: a damaged file is found by its hash
        except OSError as error:
            raise RunError(f"{self._folder}: {error.strerror}; make room there, or choose another --folder") from None

    def _remove_oldest(self, now_s: float) -> None:
        for digest in list(self._sizes):
            in_use = now_s - self._named_s.get(digest, -_IN_USE_S) < _IN_USE_S
            if in_use or sum(self._sizes.values()) <= self._max_bytes:
                return
            del self._sizes[digest]
            self._named_s.pop(digest, None)
            self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self._folder / f"{digest}.safetensors"
