"""The agent ``openspiel-cfr``: an approximate equilibrium of a small game."""

from __future__ import annotations

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves
from ludus.errors import ConfigError

from ludus_openspiel.config import CFRConfig
from ludus_openspiel.games import OpenSpielSpec, load_game, load_pyspiel, require_spec
from ludus_openspiel.tree import InformationStates, information_states, turn_based_game


def make_agent(config: CFRConfig, *, spec: EnvironmentSpec, role: str) -> TableAgent:  # noqa: ARG001 - there is one role
    """Compute the average policy of CFR and return an agent that plays it in any seat.

    Raises:
        PluginError: OpenSpiel is not installed.
        ConfigError: The game is too large or not supported, or its tensor does not distinguish information states.
    """
    game = require_spec(spec)
    states = information_states(game)
    _require_distinct(states, game)
    return TableAgent(solve(game.game, states, iterations=config.iterations, variant=config.variant), states=states)


def _require_distinct(states: InformationStates, spec: OpenSpielSpec) -> None:
    """Raise ConfigError if different information states have equal tensors."""
    if len({seen.tobytes() for seen in states.observation}) == states.count:
        return
    has_better = spec.tensor == "observation" and load_game(spec.game).get_type().provides_information_state_tensor
    advice = 'use observation = "information_state"' if has_better else "expected another game"
    raise ConfigError(
        f"openspiel-cfr: different information states of {spec.game} have equal {spec.tensor} tensors; {advice}"
    )


def solve(game: str, states: InformationStates, *, iterations: int, variant: str) -> np.ndarray:
    """Return the average policy ``[N, A] float64`` of OpenSpiel's counterfactual regret minimization.

    Args:
        game: Name and parameters of the game.
        states: The N information states of the game.
        iterations: Number of passes over the game tree.
        variant: ``"cfr"`` or ``"cfr+"``.
    """
    pyspiel = load_pyspiel()
    solver = (pyspiel.CFRPlusSolver if variant == "cfr+" else pyspiel.CFRSolver)(turn_based_game(game))
    for _ in range(iterations):
        solver.evaluate_and_update_policy()
    average, found = solver.tabular_average_policy(), np.zeros(states.action_mask.shape)
    for key, number in states.index.items():
        for action, probability in average.get_state_policy(key):
            found[number, action] = probability
    return found


class TableAgent:
    """Plays from a table of action probabilities, indexed by observation.

    Args:
        probabilities: ``[N, A]``.
        states: The N information states of the table, whose observations are distinct.
    """

    def __init__(self, probabilities: np.ndarray, *, states: InformationStates) -> None:
        self._probabilities = probabilities
        self._number = {seen.tobytes(): number for number, seen in enumerate(states.observation)}

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        seat_ids: np.ndarray,  # noqa: ARG002 - it has no state
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Draw an action for every row, see `ludus.agent.Agent`."""
        cumulative = self.probabilities(observation, action_mask=action_mask, state={}).cumsum(axis=1)
        drawn = rng.random((len(cumulative), 1)) * cumulative[:, -1:]
        return np.asarray((cumulative <= drawn).sum(axis=1, keepdims=True))

    def probabilities(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - the table holds legal actions only
        state: Leaves,  # noqa: ARG002 - it has none
    ) -> np.ndarray:
        """Return the action probabilities ``[n, A] float64``, see `ludus_openspiel.participants.ProbabilityPolicy`."""
        return self._probabilities[[self._number[seen.tobytes()] for seen in observation["obs"]]]

    def initial_state(self, rows: int) -> Leaves:  # noqa: ARG002 - it has no state
        """Return no leaves; the policy has no state."""
        return {}

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""
