"""Play the final evaluation: each player's newest model against the anchors and some of its earlier models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ludus._league.coordinator import Coordinator
from ludus._plugins.error_wrapping import close_environment
from ludus._run.context import RunContext
from ludus._run.factories import make_environment
from ludus._run.sampler_factory import make_actor_cache
from ludus._run.status import earlier_models
from ludus._sampling.evaluation import play_out
from ludus.matchmaker import PlayerView

_REASON = "final evaluation"


def play_final_evaluation(
    run: RunContext, coordinator: Coordinator, *, stop: Callable[[], object], print_line: Callable[[str], None]
) -> None:
    """Play the final matches on paired seeds, from every seat, and commit their results.

    Args:
        run: The run.
        coordinator: Its coordinator, whose workers have ended.
        stop: Called before every tick; a true value ends the evaluation, and drops the matches of the current pair.
        print_line: Prints one line for the user.
    """
    evaluation, league = run.config.evaluation, coordinator.league
    matches_per_fixture = -(-evaluation.final_matches // (2 if coordinator.evaluation.rotates_teams else 1))
    environment = make_environment(run.config.environment, max(1, min(evaluation.final_matches, evaluation.matches)))
    spec = environment.spec
    cache = make_actor_cache(run, "final", spec, environment.num_matches)
    try:
        for player, opponent in _final_pairs(coordinator, matches_per_fixture) if spec.num_teams == 2 else ():
            if stop():
                break
            pair = (player.models[-1], opponent)
            print_line(f"{_REASON}: {pair[0]} against {opponent}, {evaluation.final_matches} matches")
            by_team = pair[::-1] if player.team else pair
            fixtures = coordinator.evaluation.create(by_team, matches_per_fixture, reason=_REASON)
            results = play_out(
                environment,
                fixtures,
                lambda fixture, seat: cache.resolve(fixture, seat, spec),
                stop=stop,
            )
            if results:  # otherwise the fixtures are not committed either
                league.record({name: results[name] for name in ("fixture", "number", "ticks", "outcome")})
                coordinator.commit()
    finally:
        close_environment(environment)


def _final_pairs(coordinator: Coordinator, matches: int) -> Iterator[tuple[PlayerView, str]]:
    """Yield players and opponents whose final matches have not been played by an earlier session."""
    if not matches:
        return
    league = coordinator.league
    fixtures = (record.fixture for record in league.store.fixtures.records(kind="eval") if record.played)
    played = {(frozenset(f.participants), f.matches) for f in fixtures if f.reason == _REASON}
    for player in league.players.values():
        for opponent in _final_opponents(player, league.anchors):
            if (frozenset({player.models[-1], opponent}), matches) not in played:
                yield player, opponent


def _final_opponents(player: PlayerView, anchors: Sequence[str]) -> Sequence[str]:
    """Return the anchors and, if the player can play any team, some of its earlier models."""
    if not player.models:
        return ()
    return (*anchors, *(earlier_models(player.models) if player.team is None else ()))
