"""All information states of a small game as one batch of observations, and the exploitability of a policy in them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import define, field, frozen
from ludus.errors import ConfigError

from ludus_openspiel.games import OpenSpielSpec, load_game, load_pyspiel, read_tensor


@frozen(kw_only=True)
class InformationStates:
    """The N information states of all players of a game; a parent comes before its children.

    Args:
        index: Number of each information state by OpenSpiel's string.
        player: ``[N] int64``: player to move.
        observation: ``[N, …] float32``: observation of that player.
        action_mask: ``[N, A] bool``: its legal actions.
        parent: ``[N] int64``: information state of its previous decision, -1 for none.
        parent_action: ``[N] int64``: its action there; 0 without a parent.
    """

    index: Mapping[str, int]
    player: np.ndarray
    observation: np.ndarray
    action_mask: np.ndarray
    parent: np.ndarray
    parent_action: np.ndarray

    @property
    def count(self) -> int:
        """Return N."""
        return len(self.index)

    def uniform(self) -> np.ndarray:
        """Return the uniform policy, ``[N, A] float64``."""
        return np.asarray(self.action_mask / self.action_mask.sum(axis=1, keepdims=True))


@functools.lru_cache(maxsize=16)
def turn_based_game(name: str) -> Any:
    """Load a ``pyspiel.Game``; simultaneous players move one after another and do not see each other's moves.

    Raises:
        PluginError: OpenSpiel is not installed.
        ConfigError: The game cannot be made.
    """
    game, pyspiel = load_game(name), load_pyspiel()
    is_sequential = game.get_type().dynamics == pyspiel.GameType.Dynamics.SEQUENTIAL
    return game if is_sequential else pyspiel.convert_to_turn_based(game)


def information_states(spec: OpenSpielSpec, *, max_positions: int = 1_000_000) -> InformationStates:
    """Enumerate the information states of a game.

    Raises:
        ConfigError: The game has no perfect recall, has more than `max_positions` positions, or OpenSpiel does not
            provide its information states.
    """
    game = turn_based_game(spec.game)
    if not game.get_type().provides_information_state_string:
        raise ConfigError(f"{spec.game}: OpenSpiel does not provide information states of this game; choose another")
    walk = _Walk(spec=spec, max_positions=max_positions)
    walk.visit(game.new_initial_state(), ((-1, 0),) * game.num_players())
    shape = spec.roles[0].observation_space.shape or ()
    parent = np.array(walk.parent, np.int64).reshape(-1, 2)
    return InformationStates(
        index=walk.index,
        player=np.array(walk.player, np.int64),
        observation=np.array(walk.observation, np.float32).reshape(-1, *shape),
        action_mask=np.array(walk.action_mask, np.bool_),
        parent=parent[:, 0],
        parent_action=parent[:, 1],
    )


@define(kw_only=True)
class _Walk:
    """Visits positions depth first; `last` holds the number and action of each player's last decision."""

    spec: OpenSpielSpec
    max_positions: int
    index: dict[str, int] = field(init=False, factory=dict)
    player: list[int] = field(init=False, factory=list)
    observation: list[np.ndarray] = field(init=False, factory=list)
    action_mask: list[list[int]] = field(init=False, factory=list)
    parent: list[tuple[int, int]] = field(init=False, factory=list)
    _visited: int = field(init=False, default=0)

    def visit(self, state: Any, last: tuple[tuple[int, int], ...]) -> None:
        self._visited += 1
        if self._visited > self.max_positions:
            raise ConfigError(f"{self.spec.game} has more than {self.max_positions} positions; expected a smaller game")
        if state.is_terminal():
            return
        player = state.current_player()
        number = self._number(state, player, last[player]) if player >= 0 else -1
        for action in state.legal_actions():
            decided = (*last[:player], (number, action), *last[player + 1 :]) if player >= 0 else last
            self.visit(state.child(action), decided)

    def _number(self, state: Any, player: int, parent: tuple[int, int]) -> int:
        key = state.information_state_string(player)
        number = self.index.setdefault(key, len(self.index))
        if number == len(self.player):
            self.player.append(player)
            self.observation.append(read_tensor(_original_state(state), self.spec, player=player))
            self.action_mask.append(state.legal_actions_mask(player))
            self.parent.append(parent)
        elif self.parent[number] != parent:
            raise ConfigError(f"{self.spec.game}: the game has no perfect recall, which is required")
        return number


def _original_state(state: Any) -> Any:
    """Return the state of the game as it is played, given one of `turn_based_game`."""
    is_converted = isinstance(state, load_pyspiel().TurnBasedSimultaneousState)
    return state.simultaneous_game_state() if is_converted else state


@frozen
class Exploitability:
    """Distance of a policy from an equilibrium, in utilities of the game.

    Args:
        improvements: Gain of each player's best response over the policy, with the other players fixed.
    """

    improvements: tuple[float, ...]

    @property
    def nash_conv(self) -> float:
        """Return the sum of the improvements; 0 at an equilibrium."""
        return sum(self.improvements)

    @property
    def exploitability(self) -> float:
        """Return the mean of the improvements: in a zero-sum game of two, the mean win of a perfect opponent."""
        return self.nash_conv / len(self.improvements)


def measure(spec: OpenSpielSpec, probabilities: np.ndarray, *, states: InformationStates) -> Exploitability:
    """Compute exact best responses to a policy that all players follow.

    Args:
        spec: Spec of the game.
        probabilities: ``[N, A]`` action probabilities.
        states: The N information states of the game.

    Raises:
        PluginError: OpenSpiel is not installed.
    """
    load_pyspiel()
    from open_spiel.python import policy  # noqa: PLC0415 - only if OpenSpiel is installed
    from open_spiel.python.algorithms import exploitability  # noqa: PLC0415

    class Table(policy.Policy):  # type: ignore[misc]
        """Policy by a table of probabilities."""

        def action_probabilities(self, state: Any, player_id: int | None = None) -> dict[int, float]:
            player = state.current_player() if player_id is None else player_id
            number = states.index[state.information_state_string(player)]
            return {action: float(probabilities[number, action]) for action in state.legal_actions(player)}

    game = turn_based_game(spec.game)
    table = Table(game, list(range(game.num_players())))
    result = exploitability.nash_conv(game, table, return_only_nash_conv=False)
    return Exploitability(tuple(float(gain) for gain in result.player_improvements))
