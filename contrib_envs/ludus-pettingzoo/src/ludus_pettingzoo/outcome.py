"""Rules for the outcome of a match: by rewards, by lifetimes, or as the game gives it.

A game gives its outcome as one of these:

* winners: the name of an agent or a team, or a list of them; None for a draw;
* for each agent or team, whether it won (booleans), or its points in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from statistics import mean
from typing import Any, Literal

import numpy as np
from attrs import define, field, frozen
from ludus.errors import ConfigError, ContractError
from ludus_copies import import_attribute, is_own_function, is_reached, sign_points, winner_points

from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.seating import Seating


@define(kw_only=True)
class MatchRecord:
    """What the outcome of a match depends on, by team.

    Attributes:
        total: Sum of the rewards of the match.
        last: Sum of the rewards of its last tick.
        ends: Tick on which the last agent was terminated; infinity where one was not.
        infos: Newest info of each agent.
    """

    total: list[float]
    last: list[float]
    ends: list[float]
    infos: Mapping[Hashable, Mapping[str, Any]] = field(factory=dict)


@frozen(kw_only=True)
class OutcomeRule:
    """A rule for the outcome of a match.

    Args:
        points: Returns the points of every team.
        description: The rule in words.
        is_constant_sum: Whether the points of all teams sum to 1.
        reads_infos: Whether the rule needs the infos of agents.
        score: What measures participants where the option `score` is auto.
    """

    points: Callable[[MatchRecord], list[float]]
    description: str
    is_constant_sum: bool = False
    reads_infos: bool = False
    score: Literal["outcome", "return"] = "outcome"


def make_rule(config: PettingZooConfig, seating: Seating, env: Any) -> OutcomeRule:
    """Make the rule that the option `outcome` chooses.

    Args:
        config: Options of the environment.
        seating: Agents and teams.
        env: The environment without wrappers, of which a method may give the outcome.

    Raises:
        ConfigError: The environment has no such method, there is no such function, or `win_return` has no effect.
    """
    kind, _, name = config.outcome.partition(":")
    one_team = len(seating.team_names) == 1
    if config.win_return is not None and (name or not one_team or kind == "positive"):
        raise ConfigError("win_return: expected a game of one team whose outcome is by total, last or survival")
    if name:
        return _game_rule(config, seating, env)
    if kind == "positive":
        return OutcomeRule(
            points=lambda record: [sign_points(total) for total in record.total],
            description="every team with a total reward above 0 wins",
        )
    if one_team:
        return _return_rule(config.win_return)
    best = {"total": _by_total, "last": _by_last, "survival": _by_survival}[kind]
    words = {
        "total": "the team with the highest total reward wins",
        "last": "the team with the highest reward on the last tick wins",
        "survival": "the team that survives longest wins, of several the one with the highest reward on the last tick",
    }
    return OutcomeRule(
        points=best,
        description=words[kind],
        is_constant_sum=len(seating.team_names) == 2,
        score=_score(kind, seating),
    )


def _score(rule: str, seating: Seating) -> Literal["outcome", "return"]:
    """Return what measures several teams: totals of different roles are not comparable."""
    roles: dict[int, set[str]] = {}
    for seat in seating.agent_seats:
        roles.setdefault(seat.team, set()).add(seat.role)
    sides_differ = len(set(map(frozenset, roles.values()))) > 1
    return "return" if rule == "total" and sides_differ else "outcome"


def _by_total(record: MatchRecord) -> list[float]:
    return winner_points(record.total)


def _by_last(record: MatchRecord) -> list[float]:
    return winner_points(record.last)


def _by_survival(record: MatchRecord) -> list[float]:
    end = max(record.ends)
    scores = zip(record.last, record.ends, strict=True)
    return winner_points([last if its_end == end else -float("inf") for last, its_end in scores])


def _return_rule(win_return: float | None) -> OutcomeRule:
    if win_return is None:
        words = "one team and no win_return, so every match is a draw; compare returns"
        return OutcomeRule(points=lambda _record: [0.5], description=words, score="return")
    return OutcomeRule(
        points=lambda record: [float(is_reached(record.total[0], win_return))],
        description=f"a total reward of at least {win_return:g} wins",
    )


def _game_rule(config: PettingZooConfig, seating: Seating, env: Any) -> OutcomeRule:
    kind, _, name = config.outcome.partition(":")
    reader = GivenOutcome(
        source=config.outcome,
        agents={seat.agent: seat.team for seat in seating.agent_seats},
        teams={team: number for number, team in enumerate(seating.team_names)},
    )
    if kind == "info":
        words = f"the infos of the game give it, under the key {name!r}"
        return OutcomeRule(
            points=lambda record: reader.points(reader.read_infos(record.infos, name)),
            description=words,
            reads_infos=True,
        )
    if kind == "method":
        method = getattr(env, name, None)
        if not callable(method):
            raise ConfigError(f"outcome: the game {config.id!r} has no method {name!r}")
        return OutcomeRule(
            points=lambda _record: reader.points(method()), description=f"the method {name!r} of the game gives it"
        )
    try:
        function = import_attribute(config.outcome)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"outcome: cannot import {config.outcome!r}: {error}") from error
    if not is_own_function(function):
        raise ConfigError(f"outcome: {config.outcome!r} is no function of a game; expected one that takes the game")
    return OutcomeRule(
        points=lambda _record: reader.points(function(env)), description=f"the function {config.outcome} gives it"
    )


@frozen(kw_only=True)
class GivenOutcome:
    """Reads an outcome that a game gives.

    Args:
        source: Option that names the source, for error messages.
        agents: Team of every agent.
        teams: Number of every team by its name.
    """

    source: str
    agents: Mapping[Hashable, int]
    teams: Mapping[Hashable, int]

    def read_infos(self, infos: Mapping[Hashable, Mapping[str, Any]], key: str) -> Any:
        """Return the value under a key of the infos: that of every agent, or one name of a winner that all share.

        Raises:
            ContractError: No info has the key.
        """
        values = {agent: info[key] for agent, info in infos.items() if key in info}
        if not values:
            raise ContractError(f"outcome {self.source!r}: no info has the key {key!r} at the end of a match")
        first = next(iter(values.values()))
        is_shared = not _is_number(first) or (self._team(first) is not None and len(set(values.values())) == 1)
        return first if is_shared else values

    def points(self, value: Any) -> list[float]:
        """Return the points of all teams; see the module for what a game may give.

        Raises:
            ContractError: The value is something else.
        """
        winners = self._winners(value)
        if winners is not None:
            return winner_points([float(team in winners) for team in range(self._num_teams)])
        if self._num_teams == 1 and _is_number(value):
            value = dict.fromkeys(self.agents, value)
        if isinstance(value, Mapping) and value and all(self._team(name) is not None for name in value):
            return self._points_by_name(value)
        names = ", ".join(map(repr, {**self.agents, **self.teams}))
        raise ContractError(
            f"outcome {self.source!r}: expected winners, or booleans or points by name, with names from {names}; "
            f"got {value!r:.80}"
        )

    @property
    def _num_teams(self) -> int:
        return 1 + max(self.agents.values())

    def _winners(self, value: Any) -> set[int | None] | None:
        """Return the teams of the winners that a value names; None if it is something else."""
        if value is None:
            return set()
        if self._team(value) is not None:
            return {self._team(value)}
        if not isinstance(value, list | tuple | set):
            return None
        teams = {self._team(name) for name in value}
        return None if None in teams else teams

    def _points_by_name(self, values: Mapping[Hashable, Any]) -> list[float]:
        given: dict[int | None, list[float]] = {}
        for name, value in values.items():
            if not _is_number(value) or not 0 <= value <= 1:
                raise ContractError(
                    f"outcome {self.source!r}: expected a boolean or points in [0, 1] for {name!r}, got {value!r:.80}"
                )
            given.setdefault(self._team(name), []).append(float(value))
        points = [mean(given.get(team, [0.0])) for team in range(self._num_teams)]
        if self._num_teams > 1 and all(isinstance(value, bool | np.bool_) for value in values.values()):
            return winner_points([float(share > 0) for share in points])
        return points

    def _team(self, name: Any) -> int | None:
        """Return the team of an agent, or the number of a team; None for anything else."""
        if isinstance(name, bool | np.bool_) or not isinstance(name, Hashable):
            return None
        return self.agents.get(name, self.teams.get(name))


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating)
