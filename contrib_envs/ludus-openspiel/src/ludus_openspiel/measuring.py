"""How much perfect opponents gain against a policy, by OpenSpiel's own calculator."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen

from ludus_openspiel.games import OpenSpielSpec, load_game, load_pyspiel
from ludus_openspiel.tree import InformationStates

__all__ = ["Exploitability", "measure"]


@frozen
class Exploitability:
    """How far a policy is from an equilibrium, in utilities of the game.

    Args:
        improvements: Per player, how much more than the policy itself its best response gets, the others given.
    """

    improvements: tuple[float, ...]

    @property
    def nash_conv(self) -> float:
        """Return the sum of the improvements; 0 at an equilibrium."""
        return sum(self.improvements)

    @property
    def exploitability(self) -> float:
        """Return the mean of the improvements: in a zero-sum game of two, what a perfect opponent wins on average."""
        return self.nash_conv / len(self.improvements)


def measure(spec: OpenSpielSpec, probabilities: np.ndarray, *, states: InformationStates) -> Exploitability:
    """Compute exact best responses to a policy that all players follow.

    Args:
        spec: The game's.
        probabilities: ``[N, A]`` action probabilities.
        states: Its N information states.

    Raises:
        PluginError: OpenSpiel is not installed.
    """
    load_pyspiel()
    from open_spiel.python import policy  # noqa: PLC0415 - only where OpenSpiel is there
    from open_spiel.python.algorithms import exploitability  # noqa: PLC0415

    class Table(policy.Policy):  # type: ignore[misc]
        """Looks the probabilities up."""

        def action_probabilities(self, state: Any, player_id: int | None = None) -> dict[int, float]:
            player = state.current_player() if player_id is None else player_id
            number = states.index[state.information_state_string(player)]
            return {action: float(probabilities[number, action]) for action in state.legal_actions(player)}

    game = load_game(spec.game)
    table = Table(game, list(range(game.num_players())))
    result = exploitability.nash_conv(game, table, return_only_nash_conv=False)
    return Exploitability(tuple(float(gain) for gain in result.player_improvements))
