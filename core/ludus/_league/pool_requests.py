"""Changes of pools that other processes request while a run goes on: one file each in the folder ``requests``.

A process writes a request file and waits until it is gone. The writer of the league applies the change, commits it
together with the name of the file, and deletes the file. So a crash at any moment neither loses a request nor applies
it twice, and a request that a stopped run leaves is applied when the league is next opened for writing.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from pathlib import Path

from attrs import asdict, define, field

from ludus._league.league import League
from ludus._store.model_files import write_durably
from ludus.errors import StoreError
from ludus.matchmaker import PoolChange

_FOLDER = "requests"
_INTERVAL_S = 0.5  # between two looks into the folder
_META = "applied_requests"  # names of applied requests whose files may still exist

_log = logging.getLogger(__name__)


def write_request(run_dir: Path, change: PoolChange) -> Path:
    """Write a request, and return its file, which is deleted once the change is committed."""
    folder = run_dir / _FOLDER
    folder.mkdir(exist_ok=True)
    path = folder / f"{time.time_ns():020d}-{os.getpid()}-{threading.get_native_id()}.json"
    write_durably(path, json.dumps(asdict(change)).encode())
    return path


@define
class PoolRequests:
    """Applies requested changes of pools.

    Args:
        league: The league, open for writing.
    """

    league: League
    _due_s: float = field(init=False, default=-math.inf)
    _applied: list[Path] = field(init=False, factory=list)  # requests whose changes the next commit contains

    def is_due(self, now_s: float) -> bool:
        """Return whether there are requests; the folder is read every half second."""
        if now_s < self._due_s:
            return False
        self._due_s = now_s + _INTERVAL_S
        return bool(self._pending())

    def apply(self) -> None:
        """Apply the requests; the caller commits. One that cannot be read, or names an unknown model, is logged."""
        store, self._applied = self.league.store, self._pending()
        before = set(store.meta(_META, []))
        for path in self._applied:
            if path.name not in before:
                self._apply(path)
        if self._applied:
            store.set_meta(_META, [path.name for path in self._applied])

    def acknowledge(self) -> None:
        """Delete the files of the requests that the last commit contains."""
        for path in self._applied:
            path.unlink(missing_ok=True)
        self._applied = []

    def _pending(self) -> list[Path]:
        return sorted((self.league.store.run_dir / _FOLDER).glob("[0-9]*.json"))

    def _apply(self, path: Path) -> None:
        try:
            self.league.apply([PoolChange(**json.loads(path.read_bytes()))])
        except (ValueError, TypeError, StoreError) as error:
            _log.warning("ignored the request %s: %s", path, error)
