"""Frozen models of a run on another machine: fetched by their hash when a fixture needs them, and kept for a while."""

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

from ludus_hosts.wire import ModelFile, ModelWanted

__all__ = ["Models"]

_ASK_AGAIN_S = 10.0  # and then twice as long every time: over a slow way a model is under way for minutes
_IN_USE_S = 600.0  # so long after a fixture named it, a sampler may still be about to read it
_log = logging.getLogger(__name__)


class Models:
    """The models that samplers of this host have been given fixtures for.

    Args:
        folder: Where samplers look for them. What another time has left there is believed as what comes: by its hash.
        budget_bytes: Of files kept, also from another time; the one that no fixture has named for the longest time goes
            first, and none that one has named just now.
        ask: Tells the run.
    """

    def __init__(self, folder: Path, budget_bytes: int, ask: Callable[[Message], None]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._budget, self._ask = folder, budget_bytes, ask
        for partial in folder.glob(".*.partial"):
            partial.unlink(missing_ok=True)
        left = sorted((path.stat().st_mtime, path) for path in folder.glob("*.safetensors"))
        self._sizes = OrderedDict((path.stem, path.stat().st_size) for _, path in left)
        self._unchecked = set(self._sizes)
        self._named_s: dict[str, float] = {}
        self._asked: dict[str, tuple[float, float]] = {}  # when to ask again, and after how long that was

    def has(self, message: Message) -> bool:
        """Return whether there are all models that a message names; those that are missing are asked for."""
        if not isinstance(message, Fixtures):
            return True
        named = {digest for fixture in message.fixtures for digest in fixture.models.values()}
        for digest in named & self._unchecked:
            self._check(digest)
        missing = named - self._sizes.keys()
        now = time.monotonic()
        self._named_s |= dict.fromkeys(named, now)
        for digest in named - missing:
            self._sizes.move_to_end(digest)
        for digest in sorted(missing):
            due_s, wait_s = self._asked.get(digest, (now, _ASK_AGAIN_S / 2))
            if now >= due_s:
                self._asked[digest] = (now + 2 * wait_s, 2 * wait_s)
                self._ask(ModelWanted(hash=digest))
        return not missing

    def _check(self, digest: str) -> None:
        """Forget a model that was left damaged; it is not missed before somebody needs it."""
        self._unchecked.discard(digest)
        path = self._path(digest)
        try:
            whole = hashlib.sha256(path.read_bytes()).hexdigest() == digest
        except OSError:
            whole = False
        if not whole:
            _log.warning("%s is damaged; fetched again", path)
            self._sizes.pop(digest, None)

    def keep(self, message: ModelFile) -> None:
        """Write a model's file; one that the run does not have either is left for the sampler to complain about.

        Raises:
            RunError: There is no room for it.
        """
        if message.hash not in self._asked:
            return
        data = b"".join(part.tobytes() for _, part in sorted(message.parts.items()))
        if data and hashlib.sha256(data).hexdigest() != message.hash:
            _log.warning("model %s came damaged; asked for again in a while", message.hash)
            return
        del self._asked[message.hash]
        if data:
            self._write(self._path(message.hash), data)
        self._sizes[message.hash] = len(data)
        self._make_room(time.monotonic())

    def _write(self, path: Path, data: bytes) -> None:
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            partial.write_bytes(data)
            partial.replace(path)  # not synced first: what a power failure makes of it is found by its hash
        except OSError as error:
            raise RunError(f"{self._folder}: {error.strerror}; make room there, or choose another --folder") from None

    def _make_room(self, now: float) -> None:
        for digest in list(self._sizes):
            in_use = now - self._named_s.get(digest, -_IN_USE_S) < _IN_USE_S
            if in_use or sum(self._sizes.values()) <= self._budget:
                return
            del self._sizes[digest]
            self._named_s.pop(digest, None)
            self._path(digest).unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self._folder / f"{digest}.safetensors"
