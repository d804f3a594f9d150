"""What other processes request while a run goes on, a file each in folder ``requests``.

These are changes of pools and shares, and matches that people played, which are added to the log.

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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from attrs import asdict, define, evolve, field

from ludus._league.human_matches import HumanMatch, add_human_match
from ludus._league.league import League
from ludus._league.matchmaking_state import MatchmakingState
from ludus._store.database import DATABASE, RunInUse, wrap_database_errors
from ludus._store.durable import make_folder, write_durably
from ludus._store.foreign_files import check_folder
from ludus._store.store import Store
from ludus.errors import RunError, StoreError
from ludus.matchmaker import PoolChange
from ludus.records import HUMAN, FixtureSearch
from ludus.rule import Share

_FOLDER = "requests"
_INTERVAL_S = 0.5  # between two looks into the folder
_POLL_S = 0.1  # between two looks for an answer
_META = "applied_requests"  # names of applied requests whose files may still exist

_log = logging.getLogger(__name__)


def write_request(run_dir: Path, change: PoolChange | Share | HumanMatch) -> Path:
    """Write a request, and return its file, which is deleted once the change is committed.

    Raises:
        RunError: A link leads out of the run folder.
    """
    check_folder(run_dir)
    folder = run_dir / _FOLDER
    make_folder(folder)
    path = folder / f"{time.time_ns():020d}-{os.getpid()}-{threading.get_native_id()}.json"
    write_durably(path, json.dumps(asdict(change)).encode())
    return path


@define
class ChangeRequests:
    """Applies what was requested.

    Args:
        league: The league, open for writing.
        set_share: Sets the share of a player; None: changes the stored shares of a stopped run.
    """

    league: League
    set_share: Callable[[str, float], None] | None = None
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
            values = json.loads(path.read_bytes())
            if "share" in values:
                self._set_share(Share(**values))
            elif "outcome" in values:
                add_human_match(self.league.store, HumanMatch(**values))
            else:
                self.league.apply([PoolChange(**values)])
        except (ValueError, TypeError, StoreError) as error:  # a WireError is a ValueError
            _log.warning("ignored the request %s: %s", path, error)

    def _set_share(self, change: Share) -> None:
        """Set the share of a player.

        Raises:
            StoreError: There is no such player, or no other one that trains.
        """
        if problem := share_problem(self.league, change):
            raise StoreError(problem)
        if self.set_share is not None:
            self.set_share(change.player, change.share)
            return
        self.league.roster.update(change.player, share=change.share)
        shares = {name: view.share for name, view in self.league.players.items()}
        store = self.league.store
        evolve(MatchmakingState.load(store), shares=shares).save(store)


def share_problem(league: League, change: Share) -> str:
    """Return why a share cannot be set; empty if it can."""
    if change.player not in league.players:
        return f"there is no player {change.player!r}; the players are {', '.join(league.players)}"
    if MatchmakingState.load(league.store).rng is None:
        return "the run has assigned no match yet; set the share in its run.toml"
    others = sum(view.share for name, view in league.players.items() if name != change.player)
    if not change.share and not others:
        return f"{change.player} is the only player that trains; stop the run to pause it"
    return ""


def change_pool(folder: str | Path, change: PoolChange, *, timeout_s: float = 60.0) -> bool:
    """Add a model to a pool of a run, or remove it.

    While a run goes on, only its coordinator writes the league: a file in the run folder requests the change, and this
    function waits until the coordinator has committed it. A stopped run is changed here; it goes on with the changed
    pool when it is resumed.

    Args:
        folder: The run folder.
        change: The change.
        timeout_s: Seconds to wait for the coordinator.

    Returns:
        Whether the pool has changed.

    Raises:
        RunError: The folder holds no run, or the coordinator did not answer in time; the request is kept then.
        StoreError: The model is unknown, or the league is damaged.
    """
    path = Path(folder)
    with Store.read(path) as store:
        league = League.of(store)
        if change.model not in league.models:
            raise StoreError(f"pool {change.pool}: {change.model!r} is not a frozen model of this league")
        if (change.model in league.pool(change.pool)) == change.enters:
            return False
    _request(path, change, timeout_s=timeout_s)
    return True


def change_share(folder: str | Path, change: Share, *, timeout_s: float = 60.0) -> bool:
    """Set a player's share of the training ticks; with the share 0 it does not train. Otherwise as `change_pool`.

    A rule that changes shares may change it again.

    Returns:
        Whether the share has changed.

    Raises:
        RunError: The folder holds no run, or the coordinator did not answer in time; the request is kept then.
        StoreError: There is no such player, no other player trains, or the league is damaged.
    """
    path = Path(folder)
    with Store.read(path) as store:
        league = League.of(store)
        if problem := share_problem(league, change):
            raise StoreError(problem)
        if league.players[change.player].share == change.share:
            return False
    _request(path, change, timeout_s=timeout_s)
    return True


def record_human_match(folder: str | Path, match: HumanMatch, *, timeout_s: float = 60.0) -> int:
    """Add a match that people played to the log of a run, and return the id of its fixture. Otherwise as `change_pool`.

    Raises:
        RunError: The folder holds no run, it refused the match, or the coordinator did not answer in time; the request
            is kept then.
        StoreError: The league is damaged.
    """
    path = Path(folder)
    _request(path, match, timeout_s=timeout_s)
    with Store.read(path) as store, wrap_database_errors(path / DATABASE):
        last = store.fixtures.last_id()
        for record in store.fixtures.search(FixtureSearch(kind=HUMAN), before=last + 1, depth=last):
            if (record.fixture.seed, record.fixture.participants) == (match.seed, match.participants):
                return record.fixture.id
    raise RunError(f"{path}: the run did not accept the match; its log states why")


def _request(path: Path, change: PoolChange | Share | HumanMatch, *, timeout_s: float) -> None:
    """Request a change and wait until it is committed; apply it here if the run is stopped.

    Raises:
        RunError: The coordinator did not answer in time; the request is kept.
    """
    request, deadline_s = write_request(path, change), time.monotonic() + timeout_s
    while request.exists():
        with suppress(RunInUse), wrap_database_errors(path / DATABASE), Store.open(path) as store:
            requests = ChangeRequests(League.of(store))
            requests.apply()
            store.commit()
            requests.acknowledge()
        if time.monotonic() > deadline_s:
            raise RunError(
                f"{path}: the run has not answered within {timeout_s:.0f} s; the change is requested by {request}, and "
                f"is made as soon as the run answers or is resumed — delete this file to withdraw it"
            )
        time.sleep(_POLL_S)
