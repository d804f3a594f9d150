"""``matrix-game``: both seats choose at once, and a matrix defines their rewards."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves, RoleTick
from ludus.errors import ConfigError
from ludus.spaces import label_sizes

from ludus_probes.config import MatrixFixedConfig, MatrixGameConfig
from ludus_probes.environment import Indices, ProbeEnvironment, highlight, probe_spec

_NAMES = {
    "rock-paper-scissors": ("rock", "paper", "scissors"),
    "matching-pennies": ("heads", "tails"),
    "prisoners-dilemma": ("silent", "confess"),
}
_PAYOFFS = {
    "rock-paper-scissors": ((0, -1, 1), (1, 0, -1), (-1, 1, 0)),
    "matching-pennies": ((1, -1), (-1, 1)),
    "prisoners-dilemma": ((3, 0), (5, 1)),
}
_EQUAL = 1e-9  # of two totals: sums of decimal fractions in different order


def make_matrix_game(config: MatrixGameConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches.

    Raises:
        ConfigError: The two payoff matrices do not fit together.
    """
    return ProbeEnvironment(_MatrixGame(config), num_matches=num_matches)


def _payoffs(config: MatrixGameConfig) -> np.ndarray:
    """Return ``[2, n, n] float64``: payoffs of each seat by the choices of seat 0 and seat 1."""
    first = np.array(config.payoff or _PAYOFFS[config.preset], np.float64)
    if not config.payoff and config.preset == "prisoners-dilemma" and not config.payoff_second:
        return np.stack([first, first.T])
    second = np.array(config.payoff_second, np.float64) if config.payoff_second else -first
    if first.shape != second.shape:
        raise ConfigError(f"payoff_second: expected {len(first)} rows as in payoff, got {len(second)}")
    return np.stack([first, second])


def _spec(config: MatrixGameConfig, payoffs: np.ndarray) -> EnvironmentSpec:
    choices = payoffs.shape[1]
    return probe_spec(
        "matrix-game",
        observation_space=spaces.Box(0.0, 1.0, (2 * choices + 2,), np.float32),
        action_space=spaces.Discrete(choices),
        teams=(0, 1),
        max_ticks=config.rounds,
        zero_sum=not payoffs.sum(axis=0).any(),
        constant_sum=True,
        symmetric=np.array_equal(payoffs[0], payoffs[1].T),
        reward_range=(min(0.0, float(payoffs.min())), max(0.0, float(payoffs.max()))),
    )


class _MatrixGame:
    """Seats observe both last choices (one-hot, zeros at first), the share of rounds left, and their seat.

    In a symmetric game the seat's number is 0 for both: it makes no difference. The seat with the larger total
    wins. Nothing is random.
    """

    def __init__(self, config: MatrixGameConfig) -> None:
        self._payoffs = _payoffs(config)
        self.spec = _spec(config, self._payoffs)
        self._choices = self._payoffs.shape[1]
        self._rounds = config.rounds
        named = not config.payoff
        self.choice_names = (_NAMES[config.preset] if named else [str(choice) for choice in range(self._choices)],)
        self._one_hot = np.eye(self._choices, dtype=np.float32)

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays, and allocate the counters."""
        self._obs, self._reward, self._outcome = player.observation["obs"], player.reward, outcome
        self._obs[:, 1, -1] = not self.spec.symmetric
        self._left = np.zeros(len(outcome), np.int64)
        self._lead = np.zeros(len(outcome))  # of seat 0

    def start(self, at: Indices, seeds: np.ndarray) -> None:  # noqa: ARG002 - nothing is random
        """Clear the last choices."""
        self._left[at] = self._rounds
        self._lead[at] = 0.0
        self._obs[at, :, :-2] = 0.0
        self._obs[at, :, -2] = 1.0

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Reward both seats."""
        first, second = actions[:, 0, 0], actions[:, 1, 0]
        paid = self._payoffs[:, first, second]  # [2, n]
        self._reward[at] = paid.T
        self._lead[at] += paid[0] - paid[1]
        self._left[at] -= 1
        shown = self._one_hot[actions[:, :, 0]]  # [n, 2, n_choices]
        self._obs[at, :, : self._choices] = shown
        self._obs[at, :, self._choices : -2] = shown[:, ::-1]
        self._obs[at, :, -2] = (self._left[at] / self._rounds)[:, None]
        lead = self._lead[at]
        points = 0.5 + 0.5 * ((lead > _EQUAL) * 1.0 - (lead < -_EQUAL))
        self._outcome[at, 0] = points
        self._outcome[at, 1] = 1.0 - points
        ended: np.ndarray = self._left[at] == 0
        return ended

    def render_match(self, match: int) -> str:
        """Return the last choices and the lead as text."""
        if self._left[match] == self._rounds:
            return f"choose: {', '.join(self.choice_names[0])}"
        first, second = (self.choice_names[0][int(one)] for one in self._obs[match, :, : self._choices].argmax(axis=1))
        lead = self._lead[match]
        score = f"seat {int(lead < 0)} leads by {abs(lead):g}; {self._left[match]} rounds left"
        return f"{highlight(first)} against {highlight(second)}; {score}"


class MatrixFixedAgent:
    """Draws choices from a fixed mixture.

    Args:
        config: The mixture.
        spec: The environment's.
        role: Whose seats it fills.

    Raises:
        ConfigError: The mixture has not one probability per choice.
    """

    def __init__(self, config: MatrixFixedConfig, *, spec: EnvironmentSpec, role: str) -> None:
        (choices,) = label_sizes(spec.role(role).action_space)
        mixture = config.mixture or (1.0 / choices,) * choices
        if len(mixture) != choices:
            raise ConfigError(f"mixture: expected {choices} probabilities, one per choice, got {len(mixture)}")
        self._ends = np.cumsum(mixture)[:-1]

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - it does not look
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - every choice is legal
        seat_ids: np.ndarray,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        drawn = np.searchsorted(self._ends, rng.random(len(seat_ids)), side="right")
        return np.expand_dims(drawn.astype(np.int64), 1)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""
