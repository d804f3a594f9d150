"""The evaluation at the end of a run: every newest model against anchors and earlier models."""

from __future__ import annotations

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
from ludus.matchmaker import PlayerView

_REASON = "final evaluation"
_PROGRESS_INTERVAL_S = 30.0


def play_final_evaluation(
    run: RunContext, coordinator: Coordinator, *, stop: Callable[[], object], print_line: Callable[[str], None]
) -> None:
    """Play the final matches on paired seeds, from every seat, and commit their results.

    A model plays in one team; its opponent fills all others that it can. No environment is made if there is nothing to
    play.

    Args:
        run: The run.
        coordinator: Its coordinator, whose workers have ended.
        stop: Called before every tick; a true value ends the evaluation, and drops the matches of the current pair.
        print_line: Prints one line for the user.
    """
    spec, league, matches = run.spec, coordinator.league, run.config.evaluation.final_matches
    rotations = spec.num_teams if coordinator.evaluation.rotates_teams else 1
    matches_per_fixture = -(-matches // rotations)
    pairs = list(_final_pairs(coordinator, matches_per_fixture)) if spec.num_teams > 1 else []
    if not pairs or stop():
        return
    num_matches = min(rotations * matches_per_fixture, run.config.evaluation_matches)
    environment = make_environment(run.config.environment, num_matches)
    cache = make_actor_cache(run, "final", spec, num_matches)
    try:
        for player, opponent in pairs:
            if stop():
                break
            subject = f"{_REASON}: {player.models[-1]} against {opponent}"
            print_line(f"{subject}, {matches} matches")
            by_team = _seat_all_teams(league, player, opponent)
            fixtures = coordinator.evaluation.create(by_team, matches_per_fixture, reason=_REASON)
            results = play_out(
                environment,
                fixtures,
                lambda fixture, seat: cache.resolve(fixture, seat, spec),
                stop=stop,
                on_progress=_Progress(subject, print_line).show,
            )
            if results:  # otherwise the fixtures are not committed either
                league.record({name: results[name] for name in ("fixture", "number", "ticks", "outcome")})
                coordinator.commit()
    except KeyboardInterrupt:  # between two starts of matches
        if not stop():
            raise
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


def _seat_all_teams(league: League, player: PlayerView, opponent: str) -> tuple[str, ...]:
    """Return the participant of every team: a player's newest model, and its opponent in all teams that it can fill."""
    newest = [view.models[-1] for view in league.players.values() if view.models]
    by_team = []
    for team in range(league.num_teams):
        first = player.models[-1] if team == (player.team or 0) else opponent
        candidates = (first, *newest, *league.anchors)
        by_team.append(next((name for name in candidates if league.team(name) in (None, team)), opponent))
    return tuple(by_team)


def _final_pairs(coordinator: Coordinator, matches: int) -> Iterator[tuple[PlayerView, str]]:
    """Yield players and opponents whose final matches have not been played by an earlier session."""
    if not matches:
        return
    league = coordinator.league
    fixtures = (record.fixture for record in league.store.fixtures.records(kind="eval") if record.played)
    played = {(frozenset(f.participants), f.matches) for f in fixtures if f.reason == _REASON}
    for player in league.players.values():
        for opponent in _final_opponents(player, league.anchors):
            if (frozenset(_seat_all_teams(league, player, opponent)), matches) not in played:
                yield player, opponent


def _final_opponents(player: PlayerView, anchors: Sequence[str]) -> Sequence[str]:
    """Return the anchors and, if the player can play any team, some of its earlier models."""
    if not player.models:
        return ()
    return (*anchors, *(earlier_models(player.models) if player.team is None else ()))
