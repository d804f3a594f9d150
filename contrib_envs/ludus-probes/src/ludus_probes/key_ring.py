"""``key-ring``: many actions of which few are legal and one is right. Solved by use of the action mask."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Leaves, RoleTick
from ludus.errors import ConfigError
from ludus.random import random_bits, random_integers
from ludus.spaces import label_sizes

from ludus_probes.config import KeyRingConfig
from ludus_probes.environment import Indices, ProbeEnvironment, StatelessAgent, highlight, probe_spec


def fitting_keys(locks: int, keys: int) -> np.ndarray:
    """Return ``[locks, keys] int64``: for each lock the keys in order, the right one first, the same in every match."""
    numbers = random_bits(np.arange(locks, dtype=np.uint64)[:, None], np.arange(keys))
    return numbers.argsort(axis=1)


def make_key_ring(config: KeyRingConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches.

    Raises:
        ConfigError: `fit` is greater than the number of keys.
    """
    if config.fit > config.keys:
        raise ConfigError(f"fit: expected at most {config.keys}, the number of keys, got {config.fit}")
    return ProbeEnvironment(_KeyRing(config), num_matches=num_matches)


def make_key_ring_agent(config: None, *, spec: EnvironmentSpec, role: str) -> StatelessAgent:  # noqa: ARG001 - no options
    """Return a perfect agent."""
    (keys,) = label_sizes(spec.role(role).action_space)
    (locks,) = spec.role(role).observation_space.shape or ()
    right = fitting_keys(locks, keys)[:, 0]

    def decide(observation: Leaves) -> np.ndarray:
        return np.asarray(right[observation["obs"].argmax(axis=1)][:, None])

    return StatelessAgent(decide, value=1.0)


class _KeyRing:
    """One decision: the observation is the one-hot lock. `fit` of the keys fit, and one of these opens it: reward 1.

    Keys that do not fit are masked; without a mask, they have no effect.
    """

    def __init__(self, config: KeyRingConfig) -> None:
        self._locks, self._keys, self._masked = config.locks, config.keys, config.masked
        self.spec = probe_spec(
            "key-ring",
            observation_space=spaces.Box(0.0, 1.0, (config.locks,), np.float32),
            action_space=spaces.Discrete(config.keys),
            max_ticks=1,
            perfect_information=True,
            reward_range=(0.0, 1.0),
        )
        self.choice_names = ([str(key) for key in range(config.keys)],)
        self._one_hot = np.eye(config.locks, dtype=np.float32)
        order = fitting_keys(config.locks, config.keys)
        self._right = order[:, 0]
        self._fits = np.zeros((config.locks, config.keys), bool)
        np.put_along_axis(self._fits, order[:, : config.fit], values=True, axis=1)

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays, and allocate the state and the mask."""
        self._obs, self._reward = player.observation["obs"][:, 0], player.reward[:, 0]
        self._outcome = outcome[:, 0]
        self._lock = np.zeros(len(outcome), np.int64)
        self._mask = np.ones((len(outcome), self._keys), bool)
        if self._masked:
            player.action_mask = self._mask[:, None]

    def start(self, at: Indices, seeds: np.ndarray) -> None:
        """Draw a lock."""
        lock = random_integers(random_bits(seeds, 0), self._locks)
        self._lock[at] = lock
        self._obs[at] = self._one_hot[lock]
        if self._masked:
            self._mask[at] = self._fits[lock]

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Try the key."""
        opened = actions[:, 0, 0] == self._right[self._lock[at]]
        self._reward[at] = opened
        self._outcome[at] = opened
        return np.ones(len(opened), bool)

    def render_match(self, match: int) -> str:
        """Return the lock and the keys that fit."""
        lock = int(self._lock[match])
        return f"lock {highlight(str(lock))}, keys that fit: {' '.join(map(str, np.flatnonzero(self._fits[lock])))}"
