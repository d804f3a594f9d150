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
from ludus._run.factories import make_environment
from ludus._run.metrics import earlier_models
from ludus._run.worker_factories import make_actor_cache
from ludus._sampling.evaluation import play_out
from ludus._sampling.match_engine import logged_results
from ludus.errors import DamagedFileError
from ludus.matchmaker import PlayerView
from ludus.records import Fixture
from ludus.signals import StopRequested

_REASON = "final evaluation"
_PROGRESS_INTERVAL_S = 30.0
_LIMIT_HINT = "as the time is over; evaluation.final_minutes limits the time of all final matches"


def play_final_evaluation(
    run: RunContext, coordinator: Coordinator, *, stop: Callable[[], object], print_line: Callable[[str], None]
) -> None:
    """Play the final matches on paired seeds, from every seat, and commit their results.

    A model plays in one team; its opponent fills all others that it can. In a game of one team every participant plays
    alone. Where the teams have different roles, the anchor ``random``, else the first one, plays the same matches in
    every role: the baseline of the models' scores. No environment is made if there is nothing to play.

    The pairs share the time of ``evaluation.final_minutes``. Of a pair that needs more, the matches count up to the
    first one that has not ended, so that short matches are not preferred.

    Args:
        run: The run.
        coordinator: Its coordinator, whose workers have ended.
        stop: Called before every tick; a true value ends the evaluation, and drops the matches of the current pair.
        print_line: Prints one line for the user.
    """
    spec, league, matches = run.spec, coordinator.league, run.config.evaluation.final_matches
    rotations = spec.num_teams if coordinator.evaluation.rotates_teams else 1
    matches_per_fixture = -(-matches // rotations)
    limit_s = 60 * run.config.evaluation.final_minutes or math.inf
    end_s = time.monotonic() + limit_s
    while (pairs := _pairs_to_play(league, matches_per_fixture)) and not stop():
        try:
            _play_pairs(run, coordinator, pairs, rotations, stop=stop, print_line=print_line, end_s=end_s)
        except DamagedFileError:
            if not coordinator.inspector.inspect_participants(name for pair in pairs for name in pair[2]):
                raise
            coordinator.commit()
        else:
            return


def _play_pairs(
    run: RunContext,
    coordinator: Coordinator,
    pairs: Sequence[tuple[str, str, tuple[str, ...]]],
    rotations: int,
    *,
    stop: Callable[[], object],
    print_line: Callable[[str], None],
    end_s: float,
) -> None:
    """Play the matches of pairs, until a time of the monotonic clock.

    Raises:
        DamagedFileError: The file of a model is damaged; earlier pairs are committed.
    """
    spec, league, matches = run.spec, coordinator.league, run.config.evaluation.final_matches
    matches_per_fixture = -(-matches // rotations)
    num_matches = min(rotations * matches_per_fixture, run.config.evaluation_matches)
    environment = make_environment(run.config.environment, num_matches)
    cache, fixtures = make_actor_cache(run, "final", spec, num_matches), list[Fixture]()
    try:
        for index, (first, opponent, by_team) in enumerate(pairs):
            if stop():
                break
            subject = f"{_REASON}: {first} against {opponent}" if opponent else f"{_REASON}: {first}"
            now_s = time.monotonic()
            pair_end_s = now_s + max(end_s - now_s, 0.0) / (len(pairs) - index)
            print_line(f"{subject}, {matches} matches")
            fixtures = coordinator.evaluation.create(by_team, matches_per_fixture, reason=_REASON)
            results = play_out(
                environment,
                fixtures,
                lambda fixture, seat: cache.resolve(fixture, seat, spec),
                stop=stop,
                end_s=pair_end_s,
                on_progress=_Progress(subject, print_line).show,
            )
            if stop() and not results:  # the fixtures are not committed either
                break
            if results:
                league.record(logged_results(results, kind="eval"))
            played = results["number"].size if results else 0
            if played < matches:
                print_line(f"{subject}: {played} of {matches} matches count, {_LIMIT_HINT}")
            for fixture in fixtures:
                league.store.fixtures.close(fixture.id)
            coordinator.commit()
    except DamagedFileError:
        for fixture in fixtures:
            league.store.fixtures.close(fixture.id)
        raise
    except StopRequested:  # in the middle of a game, or between two starts of matches
        return
    finally:
        close_environment(environment)


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
        if opponent and league.team(first) is not None and league.team(first) == league.team(opponent):
            continue  # both play this team only
        by_team = _seat_all_teams(league, first, opponent)
        participants = tuple(by_team[seat.team] for seat in league.seats)
        if participants not in played:
            pairs.append((first, opponent, by_team))
            played.add(participants)  # the baseline of one side may be that of another
    return pairs


def _final_pairs(league: League, matches: int) -> Iterator[tuple[str, str]]:
    """Yield every newest model with its opponents, and where sides differ the baseline of every side.

    In a game of one team, yield every participant without an opponent.

    A baseline that is known from as many evaluation matches is left out: anchors do not change.
    """
    if league.num_teams == 1:
        yield from ((name, "") for name in _alone(league))
        return
    for player in league.players.values():
        for opponent in _final_opponents(player, league.anchors):
            yield player.models[-1], opponent
    if league.rated_anchors != league.anchors:
        references: dict[str, str] = {}  # by side
        for name in sorted(league.rated_anchors, key=lambda name: not name.endswith("=random")):
            references.setdefault(name.rpartition("=")[0], name)
        for reference in references.values():
            played = league.payoff(reference, league.anchors, evaluated=True).sum(axis=1)
            yield from ((reference, anchor) for anchor, n in zip(league.anchors, played, strict=True) if n < matches)


def _alone(league: League) -> Iterator[str]:
    """Yield the participants that a game of one team compares: newest and earlier models, and anchors."""
    for player in league.players.values():
        yield from (*player.models[-1:], *earlier_models(player.models))
    yield from league.anchors


def _final_opponents(player: PlayerView, anchors: Sequence[str]) -> Sequence[str]:
    """Return the anchors and, if the player can play any team, some of its earlier models."""
    if not player.models:
        return ()
    return (*anchors, *(earlier_models(player.models) if player.team is None else ()))
