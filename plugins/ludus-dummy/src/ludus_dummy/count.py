"""The environment ``dummy-count``: two seats take turns to add to a count.

A match starts at a small count drawn from its seed, or at the count that the scenario ``start-at`` names. Seat 0
moves first. The acting seat adds 1 to `most`; the seat that reaches `target` wins. A position is lost if the remainder
is a multiple of ``most + 1``, so that seat 0 can win three of four starts with the default options. The built-in bot
``perfect`` plays as the agent ``dummy-perfect``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from ludus import ContractError, EnvironmentSpec, Role, Scenario, Tick
from ludus.environment import allocate_tick, checked_scenarios

from ludus_dummy.config import CountConfig


class Count:
    """`num_matches` matches; all arrays are allocated once and overwritten by every step."""

    def __init__(self, config: CountConfig, *, num_matches: int) -> None:
        self.config = config
        self.num_matches = num_matches
        self.spec = _spec(config)
        self._count = np.zeros(num_matches, np.int64)
        self._ticks = np.zeros(num_matches, np.int64)
        self._running = np.zeros(num_matches, bool)
        self._is_bot = np.zeros((num_matches, 2), bool)
        self._rows = np.arange(num_matches)
        self._tick = allocate_tick(self.spec, num_matches, masked_roles=("player",))
        self._player = self._tick.roles["player"]

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.Environment`.

        Raises:
            ContractError: A scenario, one of its parameters or a built-in bot is unknown.
        """
        indices = self._rows if indices is None else indices
        counts = _start_counts(seeds, min(self.config.most + 1, self.config.target - 1))
        self._is_bot[indices] = False
        if scenarios is not None:
            known = {"start-at": ("count",)}
            checked = checked_scenarios(scenarios, len(indices), known=known, builtin=self.spec.builtin)
            for index, scenario in zip(indices, checked, strict=True):
                self._is_bot[index] = list(map(bool, scenario.builtin or ("", "")))
            starts = zip(checked, counts, strict=True)
            counts = np.array([self._start_count(scenario, int(count)) for scenario, count in starts], np.int64)
        self._count[indices] = counts
        self._ticks[indices] = 0
        self._running[indices] = True
        self._tick.clear(indices)
        self._tick.outcome[indices] = 0.0
        self._player.statistics["added"][indices] = 0.0
        return self._write_tick()

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Play one tick; see `ludus.Environment`.

        Raises:
            ContractError: An acting seat chose an illegal action.
        """
        mover = self._ticks % 2
        chosen = actions["player"][self._rows, mover, 0]
        missing = self.config.target - self._count
        chosen = np.where(self._is_bot[self._rows, mover], perfect_actions(missing, self.config.most), chosen)
        illegal = self._running & ((chosen < 0) | (chosen >= np.minimum(missing, self.config.most)))
        if illegal.any():
            row = int(illegal.argmax())
            raise ContractError(
                f"dummy-count: action {chosen[row]} in match {row} is illegal, {missing[row]} are missing"
            )
        added = np.where(self._running, chosen + 1, 0)
        self._count += added
        self._player.statistics["added"][self._rows, mover] += added
        self._ticks += self._running
        won = self._running & (self._count == self.config.target)
        late = self._running & ~won & (self._ticks == (self.config.tick_limit or -1))
        self._player.reward[self._rows, mover] = won
        self._player.reward[self._rows, 1 - mover] = np.where(won, -1.0, 0.0)
        self._tick.outcome[self._rows, mover] = np.where(late, 0.5, won)
        self._tick.outcome[self._rows, 1 - mover] = np.where(late, 0.5, 0.0)
        self._tick.terminated[:] = won
        self._tick.truncated[:] = late
        self._running &= ~(won | late)
        return self._write_tick()

    def close(self) -> None:
        """Do nothing: there are no resources."""

    def render(self, match: int) -> str:
        """Return the count and the acting seat as text."""
        return f"count {self._count[match]} of {self.config.target}, seat {self._ticks[match] % 2} to move"

    def action_name(self, role: str, action: np.ndarray) -> str:  # noqa: ARG002 - one role
        """Return the number that the action adds."""
        return str(int(action[0]) + 1)

    def parse_action(self, role: str, text: str) -> np.ndarray:  # noqa: ARG002 - one role
        """Parse the action that adds a typed number.

        Raises:
            ValueError: The text is not a number from 1 to `most`.
        """
        if not text.strip().isdecimal() or not 1 <= int(text) <= self.config.most:
            raise ValueError(f"type a number from 1 to {self.config.most}")
        return np.array([int(text) - 1], np.int64)

    def _write_tick(self) -> Tick:
        """Write the current state into the tick's arrays."""
        missing = self.config.target - self._count
        one_hot = self._player.observation["obs"]
        one_hot[:] = 0.0
        one_hot[self._rows, :, missing] = 1.0
        self._player.acting[:] = False
        self._player.acting[self._rows, self._ticks % 2] = self._running
        self._player.acting &= ~self._is_bot
        mask = self._player.action_mask
        assert mask is not None
        mask[:] = (np.arange(self.config.most) < missing[:, None])[:, None, :]
        return self._tick

    def _start_count(self, scenario: Scenario, default: int) -> int:
        if scenario.name == "default":
            return default
        count = scenario.parameters.get("count", 0)
        if not 0 <= count < self.config.target:
            raise ContractError(f"scenario start-at takes a count in [0, {self.config.target}); got {count}")
        return int(count)


def _spec(config: CountConfig) -> EnvironmentSpec:
    return EnvironmentSpec(
        name="dummy-count",
        roles=(
            Role(
                name="player",
                # The remainder as one-hot: entry r is 1 if r is missing to the target.
                observation_space=spaces.Box(0.0, 1.0, (config.target + 1,), np.float32),
                action_space=spaces.Discrete(config.most),  # action a adds a + 1
                teams=(0, 1),
                statistics=("added",),  # the sum of what a seat has added
                builtin=("perfect",),
            ),
        ),
        turn="turn-based",
        max_ticks=config.tick_limit or config.target,
        scenarios=("start-at",),
        zero_sum=True,
        constant_sum=True,
        perfect_information=True,
        reward_range=(-1.0, 1.0),
    )


def perfect_actions(missing: np.ndarray, most: int) -> np.ndarray:
    """Return the best actions ``[n]``.

    Leaving a multiple of ``most + 1`` wins; 1 is added where that is impossible.

    Args:
        missing: ``[n]``, what is missing to the target.
        most: Largest number that a seat may add.
    """
    surplus = missing % (most + 1)
    return np.asarray(np.where(surplus > 0, surplus - 1, 0))


def _start_counts(seeds: np.ndarray, choices: int) -> np.ndarray:
    """Return ``[n] int64`` in [0, choices), the high bits of a multiplicative hash of ``seeds [n] uint64``."""
    with np.errstate(over="ignore"):
        mixed = (seeds.astype(np.uint64) ^ (seeds.astype(np.uint64) >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(33)) % np.uint64(choices)).astype(np.int64)
