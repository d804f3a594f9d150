"""Rock paper scissors as a batched environment: `num_matches` matches, one row of every array each.

Both seats choose at once in every round. The seat with more won rounds wins the match, which ends early once the lead
cannot be made up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from ludus import ContractError, EnvironmentSpec, Role, Scenario, Tick
from ludus.environment import allocate_tick

from ludus_rock_paper_scissors.config import Config

__all__ = ["Game"]

_NAMES = ("rock", "paper", "scissors")  # each beats the previous one


class Game:
    """Two seats of one role; each observes both last choices, its lead, and the share of rounds left.

    Args:
        config: The options of the TOML file.
        num_matches: B, the number of matches stepped at once.
    """

    def __init__(self, config: Config, *, num_matches: int) -> None:
        self.config = config
        self.num_matches = num_matches
        self.spec = EnvironmentSpec(
            name="rock-paper-scissors",
            roles=(
                Role(
                    name="player",
                    # Own and opposing last choice as one-hot (all 0 in the first round), lead, share of rounds left.
                    observation_space=spaces.Box(-1.0, 1.0, (8,), np.float32),
                    action_space=spaces.Discrete(3),
                    teams=(0, 1),
                ),
            ),
            turn="simultaneous",
            max_ticks=config.rounds,
            zero_sum=True,
            constant_sum=True,
            symmetric=True,
            reward_range=(-1.0, 1.0),
        )
        self._left = np.zeros(num_matches, np.int64)  # [B] rounds left
        self._lead = np.zeros((num_matches, 2), np.int64)  # [B, 2] rounds won minus rounds lost
        self._last = np.full((num_matches, 2), -1)  # [B, 2] last choice, -1 before the first
        self._running = np.zeros(num_matches, bool)  # [B]
        # The arrays are allocated once and overwritten by every step, as the contract requires.
        self._tick = allocate_tick(self.spec, num_matches)
        self._player = self._tick.roles["player"]

    def reset(
        self,
        seeds: np.ndarray,  # noqa: ARG002 - nothing is random
        *,
        indices: np.ndarray | None = None,
        scenarios: Sequence[Scenario] | None = None,
    ) -> Tick:
        """Start new matches at `indices` (None: all); the others are unchanged.

        Raises:
            ContractError: A scenario is not the default one.
        """
        if any(scenario != Scenario() for scenario in scenarios or ()):
            raise ContractError("rock-paper-scissors has the scenario 'default' only")
        rows = slice(None) if indices is None else indices
        self._left[rows] = self.config.rounds
        self._lead[rows] = 0
        self._last[rows] = -1
        self._running[rows] = True
        self._tick.clear(rows)
        return self._write_tick()

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Play one round in every running match.

        Args:
            actions: ``{"player": [B, 2, 1] int64}``: 0 rock, 1 paper, 2 scissors.

        Raises:
            ContractError: An action is invalid; no match has advanced.
        """
        running = self._running[:, None]
        choice = np.where(running, actions["player"][:, :, 0], 0)  # [B, 2]
        unknown = ((choice < 0) | (choice > 2)).any(axis=1)
        if unknown.any():
            row = int(unknown.argmax())
            raise ContractError(f"rock-paper-scissors: actions {choice[row]} in match {row}; expected 0, 1 or 2")
        beats = (choice - choice[:, ::-1]) % 3  # [B, 2]: 0 draw, 1 won, 2 lost
        self._lead += np.where(running, np.array([0, 1, -1])[beats], 0)
        self._last = np.where(running, choice, self._last)
        self._left -= self._running
        ended = self._running & ((self._left == 0) | (np.abs(self._lead[:, 0]) > self._left))
        result = np.where(ended[:, None], np.sign(self._lead), 0)  # [B, 2]
        self._player.reward[:] = result
        self._tick.terminated[:] = ended
        self._tick.outcome[:] = (result + 1) / 2
        self._running &= ~ended
        return self._write_tick()

    def close(self) -> None:
        """Do nothing: the environment owns no processes, files or windows."""

    def render(self, match: int) -> str:
        """Return the last round and the score as text, for ``ludus play`` and ``ludus watch``."""
        played = self.config.rounds - self._left[match]
        if not played:
            return f"best of {self.config.rounds}: rock, paper or scissors?"
        first, second = (_NAMES[choice] for choice in self._last[match])
        return f"round {played} of {self.config.rounds}: {first} - {second}; lead of seat 0: {self._lead[match, 0]:+d}"

    def action_name(self, role: str, action: np.ndarray) -> str:  # noqa: ARG002 - there is one role
        """Return ``"rock"``, ``"paper"`` or ``"scissors"``."""
        return _NAMES[int(action[0])]

    def parse_action(self, role: str, text: str) -> np.ndarray:  # noqa: ARG002 - there is one role
        """Parse an action ``[1] int64`` typed by a user; the first letter is enough.

        Raises:
            ValueError: The text is not one of the three names.
        """
        typed = text.strip().lower()
        for number, name in enumerate(_NAMES):
            if typed and name.startswith(typed):
                return np.array([number], np.int64)
        raise ValueError("type rock, paper or scissors; r, p or s is enough")

    def _write_tick(self) -> Tick:
        """Write the state into the arrays of the tick."""
        observation = self._player.observation["obs"]
        choices = self._last[:, :, None] == np.arange(3)  # [B, 2, 3]
        observation[:, :, :3] = choices
        observation[:, :, 3:6] = choices[:, ::-1]
        observation[:, :, 6] = self._lead / self.config.rounds
        observation[:, :, 7] = (self._left / self.config.rounds)[:, None]
        self._player.acting[:] = self._running[:, None]
        return self._tick
