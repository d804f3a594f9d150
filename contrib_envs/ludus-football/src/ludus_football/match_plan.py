"""How a match starts and how long it lasts, by its seed and scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import evolve, frozen
from ludus.environment import Scenario
from ludus.errors import ContractError

from ludus_football.config import FootballConfig
from ludus_football.drills import DRILL_TICKS, DRILLS, make_drill
from ludus_football.engine import Start
from ludus_football.formations import DIFFICULTIES, SETUPS, MatchSetup, exchange_line_ups
from ludus_football.state import LEFT, RIGHT
from ludus_football.stored_states import StoredState

#: The scenario that draws a stored moment; ``state-NAME`` starts from one of them.
ANY_STATE = "state"
_LEAST_PLAYERS = 3  # of a team, in specific scenarios


@frozen(kw_only=True)
class MatchPlan:
    """The start and the length of a match.

    Args:
        start: Start of the engine.
        saved: State of the engine to go on from; empty: none.
        max_ticks: Ticks of the match.
        clock: Ticks that are left of a whole match when it starts, which seats observe.
        is_drill: Whether the match is a part of a whole one: a goal ends it, and the time limit cuts it off.
    """

    start: Start
    saved: bytes = b""
    max_ticks: int
    clock: int
    is_drill: bool = False


def seat_players(setup: MatchSetup, players: str) -> tuple[list[int], list[int]]:
    """Return the player of every seat of each team.

    Args:
        setup: The match.
        players: ``"all"``, or ``"active"`` for one seat a team, whose player changes.
    """
    teams = (setup.left, setup.right if setup.num_teams == 2 else ())
    left, right = ([index for index, place in enumerate(team) if place.controllable] for team in teams)
    return (left, right) if players == "all" else (left[:1], right[:1])


def scenario_names(setup: MatchSetup, stored: Mapping[str, StoredState]) -> tuple[str, ...]:
    """Return the names of the scenarios of a match besides the default."""
    drills = tuple(DRILLS) if setup.num_teams == 2 and min(setup.num_players) >= _LEAST_PLAYERS else ()
    states = tuple(f"{ANY_STATE}-{name}" for name in stored)
    return drills + ((ANY_STATE, *states) if states else ())


class MatchPlanner:
    """Plans matches.

    Args:
        config: Options.
        seat_teams: ``[S] int64``: team of each seat.
        stored: Stored moments by name.
    """

    def __init__(self, config: FootballConfig, seat_teams: np.ndarray, stored: Mapping[str, StoredState]) -> None:
        self._skill = config.skill
        self._setup = SETUPS[config.scenario]
        self._seat_teams = seat_teams
        self._stored = stored
        self.duration = config.max_ticks or self._setup.duration
        self.drill_ticks = min(DRILL_TICKS, self.duration)
        self.scenarios = scenario_names(self._setup, stored)

    def plan(self, seed: int, scenario: Scenario) -> MatchPlan:
        """Return the plan of a match.

        Args:
            seed: Seed of the match, in [0, 2⁶⁴).
            scenario: One of `scenarios` or the default, with its parameters and built-in bots.

        Raises:
            ContractError: A parameter is unknown or out of range, or built-in bots of one team differ.
        """
        rng = np.random.default_rng(seed)
        setup = self._rate_teams(scenario.builtin)
        agents = self._agents(scenario.builtin)
        engine_seed = int(rng.integers(1 << 32))
        if scenario.name in DRILLS:
            _check_parameters(scenario, ("attacker", "steps"))
            attacker = _whole(scenario, "attacker", low=LEFT, high=RIGHT, default=int(rng.integers(2)))
            drill = make_drill(scenario.name, setup, attacker, rng)
            start = Start(setup=drill.setup, agents=agents, seed=engine_seed, mode=drill.mode, taker=attacker)
            return self._plan_drill(scenario, start, rng)
        if scenario.name != "default":
            _check_parameters(scenario, ("steps",))
            stored = self._choose_stored(scenario.name, rng)
            start = Start(setup=setup, agents=self._agents(()), seed=engine_seed, taker=stored.taker)
            return self._plan_drill(scenario, start, rng, stored.engine)
        _check_parameters(scenario, ())
        taker = int(rng.integers(2)) if setup.draws_kickoff else LEFT
        lined_up = exchange_line_ups(setup) if taker == RIGHT else setup
        start = Start(setup=lined_up, agents=agents, seed=engine_seed, taker=taker)
        return MatchPlan(start=start, max_ticks=self.duration, clock=self.duration)

    def _rate_teams(self, builtin: Sequence[str]) -> MatchSetup:
        """Return the match with the skills of both teams."""
        left, right = self._setup.difficulties
        difficulties = {LEFT: left, RIGHT: right}
        for team in range(self._setup.num_teams):
            names = {name for name, of in zip(builtin, self._seat_teams, strict=False) if of == team and name}
            if len(names) > 1:
                raise ContractError(
                    f"team {team} has the built-in bots {', '.join(sorted(names))}; expected one kind, since a team "
                    "has one difficulty"
                )
            if names:
                difficulties[team] = DIFFICULTIES[names.pop()]
            elif self._skill is not None:
                difficulties[team] = self._skill
        return evolve(self._setup, difficulties=(difficulties[LEFT], difficulties[RIGHT]))

    def _agents(self, builtin: Sequence[str]) -> tuple[int, int]:
        """Return the seats of each team in the engine; a team of built-in bots only has none."""
        playing = np.array([not name for name in builtin]) if builtin else np.ones(len(self._seat_teams), bool)
        left, right = (
            int((self._seat_teams == team).sum()) if playing[self._seat_teams == team].any() else 0
            for team in (LEFT, RIGHT)
        )
        return left, right

    def _plan_drill(self, scenario: Scenario, start: Start, rng: np.random.Generator, saved: bytes = b"") -> MatchPlan:
        ticks = _whole(scenario, "steps", low=1, high=self.drill_ticks, default=self.drill_ticks)
        clock = int(rng.integers(ticks, self.duration, endpoint=True))
        return MatchPlan(start=start, saved=saved, max_ticks=ticks, clock=clock, is_drill=True)

    def _choose_stored(self, name: str, rng: np.random.Generator) -> StoredState:
        if name == ANY_STATE:
            return list(self._stored.values())[int(rng.integers(len(self._stored)))]
        return self._stored[name.removeprefix(f"{ANY_STATE}-")]


def _check_parameters(scenario: Scenario, known: Sequence[str]) -> None:
    for name in scenario.parameters:
        if name not in known:
            takes = f"the parameters {', '.join(known)}" if known else "no parameters"
            raise ContractError(f"scenario {scenario.name} takes {takes}; got {name!r}")


def _whole(scenario: Scenario, name: str, *, low: int, high: int, default: int) -> int:
    """Return a parameter that is a whole number.

    Raises:
        ContractError: It is not, or out of range.
    """
    value = scenario.parameters.get(name, default)
    if not low <= value <= high or value != int(value):
        raise ContractError(
            f"scenario {scenario.name}: {name}: expected a whole number from {low} to {high}, got {value}"
        )
    return int(value)
