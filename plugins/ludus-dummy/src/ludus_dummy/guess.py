"""The environment ``dummy-guess``: a hider and a seeker choose places at once, for a few rounds.

The seeker earns 1 and the hider loses 1 if both choose the same place; otherwise the hider earns and the seeker loses
``1 / (places - 1)``, so that uniform play is fair. The role with the higher sum after the last round wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from ludus import ContractError, EnvironmentSpec, Role, Scenario, Tick
from ludus.environment import allocate_tick, checked_scenarios

from ludus_dummy.config import GuessConfig

_HIDER, _SEEKER = "hider", "seeker"


class Guess:
    """`num_matches` matches; the score is privileged, so only critics read it."""

    def __init__(self, config: GuessConfig, *, num_matches: int) -> None:
        self.config = config
        self.num_matches = num_matches
        self.spec = _spec(config)
        self._round = np.full(num_matches, config.rounds, np.int64)
        self._tick = allocate_tick(self.spec, num_matches)

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.Environment`.

        Raises:
            ContractError: A scenario or one of its parameters is unknown.
        """
        checked_scenarios(scenarios, len(seeds), known={})
        rows = slice(None) if indices is None else indices
        self._round[rows] = 0
        for role in self._tick.roles.values():
            role.observation["last"][rows] = 0
            role.privileged["score"][rows] = 0.0
        self._tick.clear(rows)
        self._tick.outcome[rows] = 0.0
        return self._write_tick()

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Play one round; see `ludus.Environment`.

        Raises:
            ContractError: A chosen place does not exist.
        """
        running = self._round < self.config.rounds
        hidden, sought = actions[_HIDER][:, 0, 0], actions[_SEEKER][:, 0, 0]
        chosen = np.stack([hidden, sought], axis=1)
        unknown = running & ((chosen < 0) | (chosen >= self.config.places)).any(axis=1)
        if unknown.any():
            row = int(unknown.argmax())
            raise ContractError(
                f"dummy-guess: places {chosen[row].tolist()} in match {row}; expected 0 to {self.config.places - 1}"
            )
        earned = np.where(hidden == sought, 1.0, -1.0 / (self.config.places - 1)) * running
        for name, gain, other in ((_HIDER, -earned, sought), (_SEEKER, earned, hidden)):
            role = self._tick.roles[name]
            role.reward[:, 0] = gain
            role.privileged["score"][:, 0, 0] += role.reward[:, 0]
            last = (other[:, None] == np.arange(self.config.places)).astype(np.int8)
            np.copyto(role.observation["last"][:, 0], last, where=running[:, None])
        self._round += running
        self._tick.terminated[:] = running & (self._round == self.config.rounds)
        score = self._tick.roles[_SEEKER].privileged["score"][:, 0, 0]
        self._tick.outcome[:, 1] = np.where(np.abs(score) < 1e-4, 0.5, score > 0)
        self._tick.outcome[:, 0] = 1.0 - self._tick.outcome[:, 1]
        return self._write_tick()

    def close(self) -> None:
        """Do nothing: there are no resources."""

    def _write_tick(self) -> Tick:
        for role in self._tick.roles.values():
            role.observation["left"][:, 0, 0] = 1.0 - self._round / self.config.rounds
            role.acting[:, 0] = self._round < self.config.rounds
        return self._tick


def _spec(config: GuessConfig) -> EnvironmentSpec:
    low, high = -float(config.rounds), float(config.rounds)
    # Rounds left, and the last place of the other role (all 0 in the first round).
    leaves = {"left": spaces.Box(0.0, 1.0, (1,), np.float32), "last": spaces.MultiBinary(config.places)}
    return EnvironmentSpec(
        name="dummy-guess",
        roles=tuple(
            Role(
                name=name,
                observation_space=spaces.Dict(leaves),
                action_space=spaces.Discrete(config.places),
                teams=(team,),
                privileged_space=spaces.Dict({"score": spaces.Box(low, high, (1,), np.float32)}),
            )
            for team, name in enumerate((_HIDER, _SEEKER))
        ),
        turn="simultaneous",
        max_ticks=config.rounds,
        zero_sum=True,
        constant_sum=True,
        reward_range=(-1.0, 1.0),
    )
