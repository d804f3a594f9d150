"""``memory-game``: name in the end what was shown at the start. Only what remembers does better than guessing."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from ludus.agent import grow_states
from ludus.environment import EnvironmentSpec, Leaves, RoleTick
from ludus.random import random_bits, random_integers
from ludus.spaces import label_sizes

from ludus_probes.config import MemoryGameConfig
from ludus_probes.environment import Indices, ProbeEnvironment, highlight, probe_spec


def make_memory_game(config: MemoryGameConfig, *, num_matches: int) -> ProbeEnvironment:
    """Return a batch of matches."""
    return ProbeEnvironment(_MemoryGame(config), num_matches=num_matches)


class _MemoryGame:
    """The cue on the first tick, then `delay` ticks without it, then the question; only the answer to it counts.

    An observation is a symbol (one-hot or zeros), a flag "this is the cue", a flag "answer now". The answer is worth 1
    where it is the cue.
    """

    def __init__(self, config: MemoryGameConfig) -> None:
        self._choices, self._delay, self._distractor = config.choices, config.delay, config.distractor
        self.spec = probe_spec(
            "memory-game",
            observation_space=spaces.Box(0.0, 1.0, (config.choices + 2,), np.float32),
            action_space=spaces.Discrete(config.choices),
            max_ticks=config.delay + 2,
            reward_range=(0.0, 1.0),
        )
        self.choice_names = ([str(choice) for choice in range(config.choices)],)
        self._one_hot = np.eye(config.choices, dtype=np.float32)

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays, and allocate the state."""
        self._obs, self._reward = player.observation["obs"][:, 0], player.reward[:, 0]
        self._outcome = outcome[:, 0]
        self._seeds = np.zeros(len(outcome), np.uint64)
        self._cue = np.zeros(len(outcome), np.int64)
        self._clock = np.zeros(len(outcome), np.int64)

    def start(self, at: Indices, seeds: np.ndarray) -> None:
        """Show the cue."""
        self._seeds[at] = seeds
        self._cue[at] = random_integers(random_bits(seeds, 0), self._choices)
        self._clock[at] = 0
        self._obs[at, : self._choices] = self._one_hot[self._cue[at]]
        self._obs[at, -2:] = (1.0, 0.0)

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Show a distractor, the question, or the final observation."""
        self._clock[at] += 1
        clock = self._clock[at]
        waiting, ended = clock <= self._delay, clock == self._delay + 2
        right = ended & (actions[:, 0, 0] == self._cue[at])
        self._reward[at] = right
        self._outcome[at] = right
        symbols = np.zeros((len(clock), self._choices), np.float32)
        if self._distractor:
            drawn = random_integers(random_bits(self._seeds[at], clock), self._choices)
            symbols = self._one_hot[drawn] * waiting[:, None]
        self._obs[at, : self._choices] = symbols
        self._obs[at, -2] = 0.0
        self._obs[at, -1] = clock == self._delay + 1
        return np.asarray(ended)

    def render_match(self, match: int) -> str:
        """Return the observation as text."""
        symbol, (cue, asked) = self._obs[match, :-2], self._obs[match, -2:]
        if asked:
            return highlight("which was the cue?")
        shown = str(int(symbol.argmax())) if symbol.any() else "blank"
        return highlight(f"the cue is {shown}") if cue else shown


class MemoryAgent:
    """Remembers the cue of every seat and answers with it on every tick; see `ludus.agent.EvaluatingAgent`.

    Args:
        config: None; there are no options.
        spec: The environment's.
        role: Whose seats it fills.
    """

    def __init__(self, config: None, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - no options
        (self._choices,) = label_sizes(spec.role(role).action_space)
        self._cues = np.zeros(0, np.int64)  # by seat id, from 1; 0: not seen

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - every choice is legal
        seat_ids: np.ndarray,
        rng: np.random.Generator,  # noqa: ARG002 - there is one best action
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`. Without a cue it answers 0."""
        seen = observation["obs"]
        self._cues = grow_states(self._cues, seat_ids)
        shown = seen[:, -2] > 0
        self._cues[seat_ids[shown]] = 1 + seen[shown, : self._choices].argmax(axis=1)
        return np.asarray(np.maximum(self._cues[seat_ids] - 1, 0)[:, None])

    def act_and_evaluate(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Decide, and return 1 where the cue is known, else the chance of a guess, ``[n] float32``."""
        actions = self.act(observation, action_mask=action_mask, seat_ids=seat_ids, rng=rng)
        known = self._cues[seat_ids] > 0
        return actions, np.where(known, 1.0, 1.0 / self._choices).astype(np.float32)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the cues of these seats."""
        self._cues = grow_states(self._cues, seat_ids)
        self._cues[seat_ids] = 0
