"""The environment ``openspiel``: matches of an OpenSpiel game."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from attrs import frozen
from ludus.environment import Scenario
from ludus_copies import Copies, MatchArrays, sign_points, winner_points

from ludus_openspiel.config import OpenSpielConfig
from ludus_openspiel.games import OpenSpielSpec, load_game, make_spec, read_tensor


def make_environment(config: OpenSpielConfig, *, num_matches: int) -> Copies:
    """Make `num_matches` matches of an OpenSpiel game.

    Raises:
        PluginError: OpenSpiel is not installed.
        ConfigError: The game cannot be made, or does not offer the observation.
        WorkerError: A worker process could not make it.
    """
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers"))
    return Copies("ludus_openspiel.environment:make_match", options, num_matches=num_matches, workers=config.workers)


_MASK_64 = 2**64 - 1


def make_match(**options: Any) -> Match:
    """Make one match; arguments as in `OpenSpielConfig`.

    Raises:
        PluginError: OpenSpiel is not installed.
        ConfigError: The game cannot be made, does not offer the observation, or the roles do not fit its players.
    """
    config = OpenSpielConfig(**options)
    spec = make_spec(
        config.game,
        observation=config.observation,
        max_ticks=config.max_ticks,
        roles=config.roles,
        score=config.score,
    )
    return Match(spec, max_ticks=config.max_ticks, terminates=config.time_limit == "terminates")


@frozen(eq=False)
class _Seat:
    """Views of the arrays of one player.

    Args:
        observation: ``[…] float32``.
        mask: ``[A] bool``.
        acting: ``[] bool``.
        reward: ``[] float32``.
        action: ``[1] int64``.
    """

    observation: np.ndarray
    mask: np.ndarray
    acting: np.ndarray
    reward: np.ndarray
    action: np.ndarray

    @classmethod
    def make(cls, arrays: MatchArrays, role: str, index: int) -> _Seat:
        """Return the views of a seat of a role."""
        tick, at = arrays.tick.roles[role], (index, ...)
        assert tick.action_mask is not None
        return cls(
            observation=tick.observation["obs"][at],
            mask=tick.action_mask[at],
            acting=tick.acting[at],
            reward=tick.reward[at],
            action=arrays.actions[role][at],
        )


class Match:
    """One match, see `ludus_copies.ScalarGame`.

    A tick is one move, or one joint move of simultaneous players, and the chance moves after it. A waiting seat keeps
    the observation of its last turn, zeros before the first one; at the end all seats observe the final state.

    Args:
        spec: Spec of the game.
        max_ticks: Number of ticks after which the time is over; 0 means never.
        terminates: Whether the match is terminated then, instead of truncated.
    """

    def __init__(self, spec: OpenSpielSpec, *, max_ticks: int, terminates: bool) -> None:
        self._spec = spec
        self._game = load_game(spec.game)
        self._players = range(self._game.num_players())
        self._max_ticks = max_ticks
        self._terminates = terminates
        self._rewards_at_the_end = spec.reward_range is not None
        self._state: Any = None
        self._seed = self._draws = self._ticks = 0
        self._returns = [0.0 for _ in self._players]
        self._acting_players = [False for _ in self._players]

    @property
    def spec(self) -> OpenSpielSpec:
        """Return the spec of the game."""
        return self._spec

    @property
    def masked_roles(self) -> frozenset[str]:
        """Return the roles that have action masks."""
        return frozenset(role.name for role in self._spec.roles)

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._tick = arrays.tick
        found = {
            player: _Seat.make(arrays, role.name, index)
            for role in self._spec.roles
            for index, player in enumerate(self._spec.players[role.name])
        }
        self._seats = [found[player] for player in self._players]

    def reset(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002 - there is only the default
        """Start a match."""
        self._seed, self._draws, self._ticks = seed, 0, 0
        self._returns = [0.0 for _ in self._players]
        self._state = self._game.new_initial_state()
        self._apply_chance()
        self._request_actions()

    def step(self) -> None:
        """Apply the action or the joint action in the arrays."""
        state = self._state
        player = state.current_player()
        if player >= 0:
            state.apply_action(self._seats[player].action.item())
        else:
            # OpenSpiel takes an action of every player, also of those without a choice
            state.apply_actions(
                [
                    seat.action.item() if moves else 0
                    for seat, moves in zip(self._seats, self._acting_players, strict=True)
                ]
            )
        self._apply_chance()
        self._ticks += 1
        over = bool(state.is_terminal())
        if over or not self._rewards_at_the_end:
            self._write_rewards()
        if over or self._ticks == self._max_ticks:
            self._end(terminated=over or self._terminates)
        else:
            self._request_actions()

    def _apply_chance(self) -> None:
        state = self._state
        while state.is_chance_node():
            outcomes = state.chance_outcomes()
            left = _uniform(self._seed, self._draws)
            self._draws += 1
            for outcome, probability in outcomes:  # noqa: B007 - the last outcome absorbs rounding errors
                left -= probability
                if left < 0:
                    break
            state.apply_action(outcome)

    def _request_actions(self) -> None:
        """Write observations and masks of the players to move, and mark their seats as acting."""
        state = self._state
        player = state.current_player()
        self._acting_players = [p == player or (player < 0 and bool(state.legal_actions(p))) for p in self._players]
        for mover in self._players:
            if self._acting_players[mover]:
                self._write_observation(mover)
                seat = self._seats[mover]
                seat.mask[:] = state.legal_actions_mask(mover)
                seat.acting[...] = True

    def _write_observation(self, player: int) -> None:
        self._seats[player].observation[...] = read_tensor(self._state, self._spec, player=player)

    def _write_rewards(self) -> None:
        returns = self._state.returns()
        for seat, now, before in zip(self._seats, returns, self._returns, strict=True):
            seat.reward[...] = now - before
        self._returns = returns

    def _end(self, *, terminated: bool) -> None:
        for player in self._players:
            self._write_observation(player)
            self._seats[player].mask[:] = False if terminated else self._state.legal_actions_mask(player)
        self._tick.terminated[...] = terminated
        self._tick.truncated[...] = not terminated
        self._tick.outcome[:] = self._outcome_points()

    def _outcome_points(self) -> list[float]:
        """Return the points per team: the highest return wins, ties share; a single team wins with a return over 0."""
        if self._spec.num_teams > 1:
            return winner_points(self._returns)
        return [0.5 if self._spec.score == "return" else sign_points(self._returns[0])]

    def render_frame(self) -> str:
        """Return OpenSpiel's text of the state, with the hidden information of all players."""
        return str(self._state)

    def close(self) -> None:
        """Do nothing; there is nothing to free."""


def _uniform(seed: int, number: int) -> float:
    """Return the random number of that index of a match, in [0, 1), by SplitMix64."""
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) & _MASK_64
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _MASK_64
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _MASK_64
    return ((z ^ z >> 31) >> 11) * 2.0**-53
