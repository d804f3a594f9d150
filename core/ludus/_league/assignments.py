"""Which fixtures are assigned to which worker, so that a worker can report results of its own fixtures only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from attrs import define, field

from ludus.errors import WireError

_ABANDON_S = 600.0  # after which an open fixture may be taken for lost, if its worker has too many
_MAX_REMEMBERED = 4096  # lost and finished fixtures of a worker, each; results may arrive late or twice
_MAX_WORKERS = 32_768  # that are remembered
_REPORT_ROWS = 4096  # rows of a report, besides those of matches that end on the same tick


@define
class _WorkerFixtures:
    """The fixtures of one worker by id; `opened` holds the time of assignment."""

    opened: dict[int, float] = field(factory=dict)
    lost: dict[int, None] = field(factory=dict)
    finished: dict[int, None] = field(factory=dict)


@define(kw_only=True)
class Assignments:
    """The fixtures that are assigned to workers.

    A fixture is *open* until all its matches are reported. It is *lost* when its worker has left or started again, or
    when its worker has too many open ones; late results of it are accepted. Results of a *finished* fixture are
    repetitions.

    Args:
        num_matches: Matches that a worker steps at once; each may play a fixture of its own.
        clock: Seconds.
    """

    num_matches: int
    clock: Callable[[], float]
    _workers: dict[str, _WorkerFixtures] = field(init=False, factory=dict)

    @property
    def max_open(self) -> int:
        """Return the number of fixtures that one worker may have open: those that it plays, and some in reserve."""
        return self.num_matches + 256

    @property
    def max_rows(self) -> int:
        """Return the number of matches that one report may hold."""
        return self.num_matches + _REPORT_ROWS

    def room(self, worker: str) -> int:
        """Return how many further fixtures a worker may get. Fixtures that it has had for very long count as lost."""
        fixtures = self._workers.get(worker)
        if fixtures is None:
            return self.max_open
        if len(fixtures.opened) >= self.max_open:
            expired_s = self.clock() - _ABANDON_S
            _move(fixtures.opened, fixtures.lost, [i for i, time_s in fixtures.opened.items() if time_s < expired_s])
        return self.max_open - len(fixtures.opened)

    def add(self, worker: str, fixture_id: int) -> None:
        """Assign a fixture to a worker."""
        fixtures = self._workers.get(worker)
        if fixtures is None:
            fixtures = self._workers[worker] = _WorkerFixtures()
            if len(self._workers) > _MAX_WORKERS:
                del self._workers[next(iter(self._workers))]
        fixtures.opened[fixture_id] = self.clock()

    def release(self, worker: str) -> None:
        """Take the open fixtures of a worker that has left or started again for lost."""
        if fixtures := self._workers.get(worker):
            _move(fixtures.opened, fixtures.lost, list(fixtures.opened))

    def finish(self, worker: str, fixture_id: int) -> None:
        """Record that all matches of a fixture are reported."""
        if fixtures := self._workers.get(worker):
            fixtures.lost.pop(fixture_id, None)
            fixtures.opened.setdefault(fixture_id, 0.0)
            _move(fixtures.opened, fixtures.finished, [fixture_id])

    def unfinished_rows(self, worker: str, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return ``[n] bool``: which rows of a report are about unfinished fixtures; the others are repetitions.

        The size is checked first, and the work does not depend on how many fixtures the league has.

        Args:
            worker: Worker that reports.
            arrays: Arrays of the report, as in `ludus._messaging.messages.Results`.

        Raises:
            WireError: The report is too large or malformed, or holds matches that were not assigned to the worker.
        """
        ids = arrays.get("fixture")
        if ids is None or ids.ndim != 1 or ids.dtype != np.int64 or ids.size > self.max_rows:
            raise WireError(f"results: expected [n] int64 fixtures, n at most {self.max_rows}")
        if any(array.shape[:1] != ids.shape for array in arrays.values()):
            raise WireError(f"results: expected arrays of {ids.size} rows")
        fixtures = self._workers.get(worker, _WorkerFixtures())
        known = set(np.unique(ids).tolist())
        unfinished = {i for i in known if i in fixtures.opened or i in fixtures.lost}
        for fixture_id in known - unfinished:
            if fixture_id not in fixtures.finished:
                raise WireError(f"results of fixture {fixture_id}, which was not assigned to {worker}")
        return np.isin(ids, list(unfinished)) if len(unfinished) < len(known) else np.ones(ids.size, bool)


def _move(source: dict[int, float], target: dict[int, None], fixture_ids: list[int]) -> None:
    """Move fixtures; the oldest of the target are forgotten."""
    for fixture_id in fixture_ids:
        del source[fixture_id]
        target[fixture_id] = None
    while len(target) > _MAX_REMEMBERED:
        del target[next(iter(target))]
