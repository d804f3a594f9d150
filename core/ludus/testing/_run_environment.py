"""Check the environment of a run: its ticks, its seeds, and what random matches show about its sides."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np
from attrs import field, frozen

from ludus._league.return_outcome import PLAIN_RULE, RELATIVE_RULE
from ludus._seeding import match_seeds
from ludus.environment import Environment, Tick
from ludus.matchmaker import team_sides
from ludus.testing._builtin_bots import bot_scenarios
from ludus.testing._finding import Finding
from ludus.testing._match_results import MatchResults
from ludus.testing._repeated_matches import RepeatedMatches, find_ignored_seed, find_indistinct_sides
from ludus.testing._run_participants import MAX_TICKS, describe_spaces, start_rollout
from ludus.testing._spec_checks import check_spec
from ludus.testing._tick_checks import TickChecker

_MIN_TICKS = 50
_ROLLOUT_S = 3.0  # time for more ticks, until enough matches have ended
_SLOW_RESET_S = 5.0
_BOT_S = 1.0  # time for the first match with a built-in bot to end


def check_run_environment(environment: Environment, seed: int) -> Iterator[str | Finding]:
    """Check the specification and random matches of an environment, and yield lines about them.

    Raises:
        ContractError: The environment breaks its contract.
    """
    num_matches, start_s = environment.num_matches, time.monotonic()
    environment.reset(match_seeds(seed, np.arange(num_matches)))  # spaces may be known only after the first reset
    reset_s = time.monotonic() - start_s
    spec = environment.spec
    check_spec(spec)
    results, deviations = MatchResults(spec), _Deviations()
    checker = TickChecker(spec=spec, num_matches=num_matches, max_idle_ticks=MAX_TICKS, warn=deviations.add)
    ticks = _play_random_matches(environment, seed, checker, results)
    yield (
        f"{spec.turn}, {len(spec.seats)} seats, {spec.num_teams} teams; "
        f"{ticks} ticks, {len(results.outcomes)} matches ended"
    )
    for role in spec.roles:
        yield f"role {role.name} {describe_spaces(role)}"
    if spec.compares_returns:
        yield f"score: returns; {RELATIVE_RULE if any(team_sides(spec.seats)) else PLAIN_RULE}"
    elif spec.outcome_rule:
        yield f"outcome: {spec.outcome_rule}"
    yield from spec.notes
    yield from _check_builtin_bots(environment, seed)
    warn = partial(Finding, "warn", f"environment {spec.name}")
    yield from map(warn, deviations.texts.values())
    yield from map(warn, results.find_one_sided_teams())
    if not spec.repeatable:
        yield "matches are not compared: the environment declares that equal seeds and actions may give different ones"
    elif reset_s > _SLOW_RESET_S:
        yield f"seeds and sides are not compared, because {num_matches} resets take {reset_s:.0f} s"
    else:
        yield from map(warn, _compare_matches(environment, seed, results))


def _play_random_matches(environment: Environment, seed: int, checker: TickChecker, results: MatchResults) -> int:
    """Play until enough matches have ended or the time is over, check every tick, and return the number of ticks."""

    def check(tick: Tick, indices: np.ndarray | None) -> None:
        checker(tick, indices)
        results.add(tick, indices)

    rollout = start_rollout(environment, seed, check)
    end_s = time.monotonic() + _ROLLOUT_S
    ticks = 0
    while ticks < _MIN_TICKS or not (ticks == MAX_TICKS or results.are_enough or time.monotonic() > end_s):
        rollout.step()
        rollout.restart_ended()
        ticks += 1
    checker.finish()
    return ticks


def _check_builtin_bots(environment: Environment, seed: int) -> Iterator[str]:
    """Play a match of every built-in bot in every team and yield a line for each role that has bots.

    Raises:
        ContractError: A seat of a bot acts, or a tick breaks the contract.
    """
    spec = environment.spec
    for scenario in bot_scenarios(spec):
        checker = TickChecker(
            spec=spec,
            num_matches=environment.num_matches,
            max_idle_ticks=MAX_TICKS,
            warn=lambda _kind, _problem: None,  # was reported for matches without bots
            is_bot=np.array(list(map(bool, scenario.builtin))),
        )
        rollout = start_rollout(environment, seed, checker, scenario=scenario)
        end_s = time.monotonic() + _BOT_S
        for _ in range(MAX_TICKS):
            rollout.step()
            if (rollout.tick.terminated | rollout.tick.truncated).any() or time.monotonic() > end_s:
                break
    for role in spec.roles:
        if role.builtin:
            yield f"role {role.name} has the built-in bots {', '.join(role.builtin)}"


def _compare_matches(environment: Environment, seed: int, results: MatchResults) -> Iterator[str]:
    matches = RepeatedMatches(environment, seed)
    first = matches.play()
    ignored = list(find_ignored_seed(first, matches.play()))
    yield from ignored or find_indistinct_sides(matches, first, results)


@frozen
class _Deviations:
    """The first deviation of each kind from the declared spaces, with which a run can go on."""

    texts: dict[str, str] = field(factory=dict)

    def add(self, kind: str, text: str) -> None:
        """Add a deviation unless there is one of its kind."""
        self.texts.setdefault(kind, text)
