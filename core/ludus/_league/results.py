"""Recording the results of matches."""

from __future__ import annotations

import logging

from attrs import define, field

from ludus._league.fixtures import EvaluationFixtures, ShareScheduler
from ludus._league.league import League
from ludus._league.outbox import Outbox
from ludus._messaging.messages import Results, ResultsAck
from ludus._store.match_log import FixtureSummary
from ludus.errors import WireError

_log = logging.getLogger(__name__)


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
        outbox: Queue of the answers.
    """

    league: League
    counts: MatchCounts
    scheduler: ShareScheduler
    evaluation: EvaluationFixtures
    outbox: Outbox
    _num_refused: int = field(init=False, default=0)

    def record(self, worker: str, message: Results) -> None:
        """Add results to the match log, or refuse a malformed report; acknowledge both, so that it is not repeated."""
        try:
            recorded = self.league.record(message.arrays)
        except WireError as error:  # from another host: a local sampler ends with an error of its environment
            self._refuse(worker, error)
        else:
            for summary in recorded.fixtures:
                self._add(summary)
        self.outbox.acknowledge(worker, ResultsAck(report=message.report))

    def _add(self, summary: FixtureSummary) -> None:
        fixture = summary.fixture
        self.counts.add(summary)
        if fixture.kind == "train":
            self.scheduler.record_matches(fixture.player, matches=summary.matches, ticks=summary.ticks)
        if summary.finished:
            self.evaluation.finish(fixture.id)
        self.outbox.emit(
            "ludus_match_ended",
            fixture=str(fixture.id),
            participants=fixture.participants,
            outcome=summary.outcome,
            matches=summary.matches,
        )

    def _refuse(self, worker: str, error: WireError) -> None:
        """Count a malformed report; its matches stay open, like those of a worker that left."""
        self.league.store.add_counter("reports_refused", 1)
        self._num_refused += 1
        if self._num_refused.bit_count() == 1:  # log reports 1, 2, 4, 8 …
            _log.warning("refused report %d, of %s: %s", self._num_refused, worker, error)
