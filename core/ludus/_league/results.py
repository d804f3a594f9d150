"""Recording the results of matches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import define, field

from ludus._league.assignments import Assignments
from ludus._league.fixtures import EvaluationFixtures, ShareScheduler
from ludus._league.host_quarantine import HostQuarantine
from ludus._league.league import League
from ludus._league.outbox import Outbox
from ludus._messaging.messages import Results, ResultsAck
from ludus._store.match_log import FixtureSummary
from ludus.errors import WireError


@define
class MatchCounts:
    """Numbers of finished matches.

    Attributes:
        training: Training matches of the run.
        rating: Rating matches of the run.
        by_player: Training matches of this session by player.
        ticks_by_player: Their ticks.
    """

    training: int
    rating: int
    by_player: dict[str, int] = field(init=False, factory=dict)
    ticks_by_player: dict[str, int] = field(init=False, factory=dict)

    def add(self, summary: FixtureSummary) -> None:
        """Add the new matches of a fixture."""
        if summary.fixture.kind != "train":
            self.rating += summary.matches
            return
        player = summary.fixture.player
        self.training += summary.matches
        self.by_player[player] = self.by_player.get(player, 0) + summary.matches
        self.ticks_by_player[player] = self.ticks_by_player.get(player, 0) + summary.ticks


@define
class ResultRecorder:
    """Adds reported results to the league.

    Args:
        league: The league.
        counts: Counts the matches.
        scheduler: Needs to know how long a player's matches are.
        evaluation: Tracks unfinished rating fixtures.
        assignments: Fixtures that are assigned to workers.
        quarantine: Compares the results of other hosts.
        outbox: Queue of the answers.
    """

    league: League
    counts: MatchCounts
    scheduler: ShareScheduler
    evaluation: EvaluationFixtures
    assignments: Assignments
    quarantine: HostQuarantine
    outbox: Outbox

    def record(self, worker: str, message: Results) -> None:
        """Add results to the match log, and acknowledge them. Refused ones are acknowledged too, so none is repeated.

        Raises:
            WireError: The report is malformed, or holds matches that were not assigned to the worker. Nothing of it is
                added; its matches stay open, like those of a worker that left.
        """
        self.outbox.acknowledge(worker, ResultsAck(report=message.report))
        if self.quarantine.is_quarantined(worker):
            self.league.store.add_counter("reports_quarantined", 1)
            return
        try:
            for summary in self._record(worker, message.arrays):
                self._add(worker, summary)
        except WireError:
            self.league.store.add_counter("reports_refused", 1)
            raise

    def _record(self, worker: str, arrays: Mapping[str, np.ndarray]) -> tuple[FixtureSummary, ...]:
        rows = self.assignments.unfinished_rows(worker, arrays)
        if not rows.all():
            self.league.store.add_counter("results_duplicate", int(rows.size - rows.sum()))
            arrays = {name: array[rows] for name, array in arrays.items()}
        fixtures = self.league.record(arrays).fixtures
        self.quarantine.add_results(arrays)
        return fixtures

    def _add(self, worker: str, summary: FixtureSummary) -> None:
        fixture = summary.fixture
        self.counts.add(summary)
        if fixture.kind == "train":
            self.scheduler.record_matches(fixture.player, matches=summary.matches, ticks=summary.ticks)
        if summary.finished:
            self.evaluation.finish(fixture.id)
            self.assignments.finish(worker, fixture.id)
        self.outbox.emit(
            "ludus_match_ended",
            fixture=str(fixture.id),
            participants=fixture.participants,
            outcome=summary.outcome,
            matches=summary.matches,
        )
