"""The evaluation at the end of a run: every newest model against anchors and earlier models."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

from attrs import define, field

from ludus._league.coordinator import Coordinator
from ludus._league.league import League
from ludus._plugins.error_wrapping import close_environment
from ludus._run.context import RunContext
from ludus._run.evaluation_replays import make_evaluation_environment, make_replay_recorder
from ludus._run.metrics import earlier_models
from ludus._run.worker_factories import make_actor_cache
from ludus._sampling.evaluation import play_out
from ludus._sampling.match_engine import reported_results
from ludus._sampling.opponents import ActorCache
from ludus.environment import Environment
from ludus.errors import DamagedFileError
from ludus.matchmaker import PlayerView
from ludus.records import Fixture
from ludus.signals import StopRequested

_REASON = "final evaluation"
_PROGRESS_INTERVAL_S = 30.0
_DEFAULT_MINUTES = 10.0
_LIMIT_HINT = "as the time is over; evaluation.final_minutes limits the time of all final matches"


def play_final_evaluation(
    run: RunContext, coordinator: Coordinator, *, stop: Callable[[], object], print_line: Callable[[str], None]
) -> None:
    """Play the final matches on paired seeds, from every seat, and commit their results.

    A model plays in one team; its opponent fills all others that it can. In a game of one team every participant plays
    alone. Where the teams have different roles, or returns are the score, the anchor ``random``, else the first one,
    plays the same matches in every role: the baseline of the models. No environment is made if nothing is to be played.

    The pairs share the time of ``evaluation.final_minutes``. Of a pair that needs more, the matches count up to the
    first one that has not ended, so that short matches are not preferred.

    Args:
        run: The run.
        coordinator: Its coordinator, whose workers have ended.
        stop: Called before every tick; a true value ends the evaluation, and drops the matches of the current pair.
        print_line: Prints one line for the user.
    """
    league, limit_s = (
        coordinator.league,
        60 * limit_minutes(run.config.evaluation.final_minutes, run.config.run.minutes),
    )
    final = _FinalMatches(run, coordinator, stop, print_line, end_s=time.monotonic() + (limit_s or math.inf))
    while (pairs := _pairs_to_play(league, final.matches_per_fixture)) and not stop():
        try:
            final.play(pairs)
        except DamagedFileError:
            if not coordinator.inspector.inspect_participants(name for pair in pairs for name in pair[2]):
                raise
            coordinator.commit()
        else:
            return


def limit_minutes(final_minutes: float | None, run_minutes: float) -> float:
    """Return the minutes that all final matches may take, 0 for no limit, from the options of both names."""
    return min(_DEFAULT_MINUTES, run_minutes or math.inf) if final_minutes is None else final_minutes


@define
class _FinalMatches:
    """Plays the matches of pairs, until a time of the monotonic clock; arguments as of `play_final_evaluation`."""

    run: RunContext
    coordinator: Coordinator
    stop: Callable[[], object]
    print_line: Callable[[str], None]
    end_s: float
    matches_per_fixture: int = field(init=False)
    _matches: int = field(init=False)
    _batch: int = field(init=False)  # matches that are played at the same time

    def __attrs_post_init__(self) -> None:
        config, rotates = self.run.config, self.coordinator.evaluation.rotates_teams
        rotations = self.run.spec.num_teams if rotates else 1
        self._matches = config.evaluation.final_matches
        self.matches_per_fixture = -(-self._matches // rotations)
        self._batch = min(rotations * self.matches_per_fixture, config.evaluation_matches)

    def play(self, pairs: Sequence[tuple[str, str, tuple[str, ...]]]) -> None:
        """Play pairs and commit each; a pair gets its share of the time that is left.

        Raises:
            DamagedFileError: The file of a model is damaged; earlier pairs are committed.
        """
        environment = make_evaluation_environment(self.run, self._batch)
        cache = make_actor_cache(self.run, "final", self.run.spec, self._batch)
        try:
            for index, (first, opponent, by_team) in enumerate(pairs):
                if self.stop():
                    break
                now_s = time.monotonic()
                end_s = now_s + max(self.end_s - now_s, 0.0) / (len(pairs) - index)
                subject = f"{_REASON}: {first} against {opponent}" if opponent else f"{_REASON}: {first}"
                self._play_pair(environment, cache, subject, by_team, end_s=end_s)
        except StopRequested:  # in the middle of a game, or between two starts of matches
            return
        finally:
            close_environment(environment)

    def _play_pair(
        self, environment: Environment, cache: ActorCache, subject: str, by_team: tuple[str, ...], *, end_s: float
    ) -> None:
        self.print_line(f"{subject}, {self._matches} matches")
        league = self.coordinator.league
        fixtures = self.coordinator.evaluation.create(by_team, self.matches_per_fixture, reason=_REASON)
        replays = make_replay_recorder(self.run, "final", environment, kind="eval")
        try:
            results = play_out(
                environment,
                fixtures,
                lambda fixture, seat: cache.resolve(fixture, seat, self.run.spec),
                stop=self.stop,
                end_s=end_s,
                on_progress=_Progress(subject, self.print_line).show,
                replays=replays,
            )
        except DamagedFileError:
            self._close(fixtures)
            raise
        if self.stop() and not results:  # the fixtures are not committed either
            return
        if results:
            returned = self.run.spec.compares_returns
            league.record(reported_results(results, kind="eval", with_returns=returned))
        played = results["number"].size if results else 0
        if played < self._matches:
            self.print_line(f"{subject}: {played} of {self._matches} matches count, {_LIMIT_HINT}")
        self._close(fixtures)
        self.coordinator.commit()
        if replays is not None:
            replays.flush()

    def _close(self, fixtures: Sequence[Fixture]) -> None:
        for fixture in fixtures:
            self.coordinator.league.store.fixtures.close(fixture.id)


@define
class _Progress:
    """Prints from time to time how many matches of a pair have ended."""

    subject: str
    print_line: Callable[[str], None]
    _started_s: float = field(init=False, factory=time.monotonic)
    _printed_s: float = field(init=False, factory=time.monotonic)

    def show(self, ended: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._printed_s >= _PROGRESS_INTERVAL_S:
            self._printed_s = now_s
            self.print_line(f"{self.subject}: {ended} of {total} matches after {now_s - self._started_s:.0f} s")


def _seat_all_teams(league: League, first: str, opponent: str) -> tuple[str, ...]:
    """Return the participant of every team: the first in one team, its opponent in all others that it can fill."""
    newest = [view.models[-1] for view in league.players.values() if view.models]
    by_team = []
    for team in range(league.num_teams):
        chosen = first if team == (league.team(first) or 0) else opponent
        candidates = (chosen, *newest, *league.anchors)
        by_team.append(next((name for name in candidates if league.team(name) in (None, team)), opponent))
    return tuple(name.rpartition("=")[2] for name in by_team)


def _pairs_to_play(league: League, matches: int) -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the pairs whose final matches have not been played by an earlier session, with their seating by team."""
    if not (league.num_teams and matches):
        return []
    fixtures = (record.fixture for record in league.store.fixtures.records(kind="eval") if record.played)
    played = {f.participants for f in fixtures if (f.reason, f.matches) == (_REASON, matches)}
    pairs = []
    for first, opponent in _final_pairs(league, matches):
        if opponent and _share_team(league, first, opponent):
            continue
        by_team = _seat_all_teams(league, first, opponent)
        participants = tuple(by_team[seat.team] for seat in league.seats)
        if participants not in played:
            pairs.append((first, opponent, by_team))
            played.add(participants)  # the baseline of one side may be that of another
    return pairs


def _share_team(league: League, one: str, other: str) -> bool:
    """Return whether both participants play the same team only, so that they never meet."""
    return league.team(one) is not None and league.team(one) == league.team(other)


def _final_pairs(league: League, matches: int) -> Iterator[tuple[str, str]]:
    """Yield every newest model with its opponents, and the baseline of every side where sides differ or returns count.

    In a game of one team, yield every participant without an opponent. A baseline that is known from as many evaluation
    matches is left out: anchors do not change.
    """
    if league.num_teams == 1:
        yield from ((name, "") for name in _alone(league))
        return
    for player in league.players.values():
        for opponent in _final_opponents(league, player):
            yield player.models[-1], opponent
    if league.rated_anchors != league.anchors or league.return_outcome is not None:
        yield from _baseline_pairs(league, matches)


def _baseline_pairs(league: League, matches: int) -> Iterator[tuple[str, str]]:
    """Yield the reference anchor of every side with all anchors."""
    references: dict[str, str] = {}  # by side
    for name in sorted(league.rated_anchors, key=lambda name: name.rpartition("=")[2] != "random"):
        references.setdefault(name.rpartition("=")[0], name)
    for reference in references.values():
        played = league.payoff(reference, league.anchors, evaluated=True).sum(axis=1)
        yield from ((reference, anchor) for anchor, n in zip(league.anchors, played, strict=True) if n < matches)


def _alone(league: League) -> Iterator[str]:
    """Yield the participants that a game of one team compares: newest and earlier models, and anchors."""
    for player in league.players.values():
        yield from (*player.models[-1:], *earlier_models(player.models))
    yield from league.anchors


def _final_opponents(league: League, player: PlayerView) -> Sequence[str]:
    """Return the anchors, and some earlier models of the player, or the newest models of the other sides."""
    if not player.models:
        return ()
    if player.team is None:
        return (*league.anchors, *earlier_models(player.models))
    rivals = (view.models[-1] for view in league.players.values() if view.models and view.team != player.team)
    return (*league.anchors, *rivals)
