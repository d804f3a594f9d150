"""Quarantine of other hosts whose results differ from those of the run's own host.

A share of the fixtures of every other host is played again by a sampler of the run's host, and `PairedTest` compares
the results. A host that is found to differ is quarantined: it gets no fixtures, its results and segments are dropped,
and it cannot join until a user releases it (`ludus release`). Which fixtures are compared is random and unknown to it.
"""

from __future__ import annotations

import logging
import math
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from attrs import define, field, frozen

from ludus._league.paired_test import PairedTest
from ludus._store.foreign_files import check_folder
from ludus._store.store import Store
from ludus.environment import Seat
from ludus.launcher import sampler_host
from ludus.records import Fixture

_META = "quarantined_hosts"  # hosts and reasons
_REQUEST = "release-"  # first part of the names of request files; the host follows
_INTERVAL_S = 0.5  # between two looks for requests
_MAX_WAITING = 64  # fixtures that wait for a sampler of the run's host
_MAX_WAIT_S = 60.0  # live weights have changed too much after that
_MAX_PAIRS = 1024  # pairs of fixtures whose results are awaited
_MAX_HOSTS = 4096
_log = logging.getLogger(__name__)


def request_release(run_dir: Path, host: str) -> Path:
    """Request that a host be released, and return the file of the request, which the run deletes once it is done.

    Raises:
        RunError: A link leads out of the run folder.
    """
    check_folder(run_dir)
    folder = run_dir / "requests"
    folder.mkdir(exist_ok=True)
    path = folder / f"{_REQUEST}{host}"
    path.touch()
    return path


@frozen
class _Pair:
    """A fixture of another host and its repetition: points ``[teams]`` by number of the match, for either."""

    host: str
    fixture: Fixture
    remote: dict[int, np.ndarray] = field(factory=dict)
    local: dict[int, np.ndarray] = field(factory=dict)


@define(kw_only=True)
class HostQuarantine:
    """Compares the results of other hosts with those of the run's host.

    Args:
        store: The store, open for writing; keeps which hosts are quarantined.
        seats: The seats of a match.
        players: Names of the players.
        share: Share of the fixtures of other hosts that are compared.
        repeat: Creates a fixture equal to another one; returns None if its participants cannot play any more.
        clock: Seconds.

    Attributes:
        hosts: Quarantined hosts, and why, in one line.
    """

    store: Store
    seats: Sequence[Seat]
    players: Sequence[str]
    share: float
    repeat: Callable[[Fixture], Fixture | None]
    clock: Callable[[], float]
    hosts: dict[str, str] = field(init=False)
    _tests: dict[str, PairedTest] = field(init=False, factory=dict)  # by host
    _waiting: deque[tuple[float, _Pair]] = field(init=False, factory=lambda: deque(maxlen=_MAX_WAITING))
    _pairs: dict[int, _Pair] = field(init=False, factory=dict)  # by id of either fixture
    _random: random.Random = field(init=False, factory=random.SystemRandom)
    _due_s: float = field(init=False, default=-math.inf)
    _news: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.hosts = dict(self.store.meta(_META, {}))
        self._news = bool(self.hosts)

    def is_quarantined(self, worker: str) -> bool:
        """Return whether the host of a worker is quarantined."""
        return bool(self.hosts) and sampler_host(worker) in self.hosts

    # -- fixtures ----------------------------------------------------------------------------------------------

    def next_fixture(self, worker: str) -> Fixture | None:
        """Return the repetition of a fixture of another host, for a worker of the run's host; None if none waits."""
        while self._waiting and not sampler_host(worker):
            assigned_s, pair = self._waiting.popleft()
            repeated = self.repeat(pair.fixture) if self.clock() - assigned_s < _MAX_WAIT_S else None
            if repeated is not None:
                self._add(repeated.id, pair)
                return repeated
            self._pairs.pop(pair.fixture.id, None)
        return None

    def _add(self, fixture_id: int, pair: _Pair) -> None:
        """Await the results of a fixture of a pair; the oldest are forgotten."""
        self._pairs[fixture_id] = pair
        if len(self._pairs) > 2 * _MAX_PAIRS:
            del self._pairs[next(iter(self._pairs))]

    def assigned(self, worker: str, fixture: Fixture) -> None:
        """Choose some of the fixtures of another host for comparison."""
        host = sampler_host(worker)
        if host and self._random.random() < self.share:
            pair = _Pair(host, fixture)
            self._add(fixture.id, pair)
            self._waiting.append((self.clock(), pair))

    # -- results -----------------------------------------------------------------------------------------------

    def add_results(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Compare results that were accepted, and quarantine the host if they differ too much.

        Args:
            arrays: As in `ludus._messaging.messages.Results`.
        """
        if not self._pairs:
            return
        touched: dict[int, _Pair] = {}
        for row in np.flatnonzero(np.isin(arrays["fixture"], list(self._pairs))).tolist():
            fixture_id, number = int(arrays["fixture"][row]), int(arrays["number"][row])
            pair = self._pairs[fixture_id]
            touched[pair.fixture.id] = pair
            if 0 <= number < pair.fixture.matches:
                own = pair.remote if fixture_id == pair.fixture.id else pair.local
                own.setdefault(number, arrays["outcome"][row])
        for pair in touched.values():
            self._compare(pair)

    def _compare(self, pair: _Pair) -> None:
        """Add a pair once both hosts have played all its matches."""
        fixture = pair.fixture
        if min(len(pair.remote), len(pair.local)) < fixture.matches or pair.host in self.hosts:
            return
        self._pairs = {key: other for key, other in self._pairs.items() if other is not pair}
        points = np.stack([pair.remote[i].astype(np.float64) - pair.local[i] for i in range(fixture.matches)])
        test = self._tests.setdefault(pair.host, PairedTest(("the player", "the first team", *self.players)))
        if len(self._tests) > _MAX_HOSTS:
            del self._tests[next(iter(self._tests))]
        own = points[:, self._team(fixture)]
        test.add({"the player": own, "the first team": points[:, 0], fixture.player: own})
        if test.differs:
            self._quarantine(pair.host, test)

    def _team(self, fixture: Fixture) -> int:
        """Return the team of the player that a fixture was made for."""
        live = f"{fixture.player}@"
        teams = zip(fixture.participants, self.seats, strict=True)
        return next(seat.team for name, seat in teams if name.startswith(live) and name.endswith("+"))

    # -- quarantine --------------------------------------------------------------------------------------------

    def _quarantine(self, host: str, test: PairedTest) -> None:
        view = test.strongest_view
        self.hosts[host] = (
            f"{host} is quarantined: over {test.matches:,} matches it gave {view} {test.mean(view):+.3f} points per "
            f"match more than this host did in the same matches — `ludus release RUN HOST` lets it join again"
        )
        del self._tests[host]
        self._save()

    def _save(self) -> None:
        self.store.set_meta(_META, self.hosts)
        self._news = True

    def apply_requests(self, now_s: float) -> bool:
        """Release hosts as other processes request; returns whether there is something to commit.

        A request is deleted after the commit of its release.
        """
        if now_s < self._due_s:
            return False
        self._due_s = now_s + _INTERVAL_S
        changed = False
        for path in (self.store.run_dir / "requests").glob(f"{_REQUEST}*"):
            if self.hosts.pop(path.name.removeprefix(_REQUEST), None) is None:
                path.unlink(missing_ok=True)
            else:
                changed = True
        if changed:
            self._save()
        return changed

    def take_news(self) -> dict[str, str] | None:
        """Return all quarantined hosts if they have changed since the last call, else None."""
        if not self._news:
            return None
        self._news = False
        return dict(self.hosts)
