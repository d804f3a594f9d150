"""The batch of matches: who wins, and what seats see, do and receive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, Scenario, Tick, allocate_tick
from ludus.errors import ContractError

from ludus_duel import actions, terminal
from ludus_duel.actions import ACTIONS
from ludus_duel.config import DuelConfig
from ludus_duel.fight import Fight
from ludus_duel.scenario import SCENARIOS, starts
from ludus_duel.tables import ticks_of
from ludus_duel.view import SIZE, View

__all__ = ["Duel"]


def _spec(config: DuelConfig, max_ticks: int) -> EnvironmentSpec:
    fighter = Role(
        name="fighter",
        observation_space=spaces.Box(-1.0, 1.0, (SIZE,), np.float32),
        action_space=spaces.Discrete(len(ACTIONS)),
        teams=(0, 1),
    )
    return EnvironmentSpec(
        name="duel",
        roles=(fighter,),
        turn="asynchronous",
        tick_s=config.tick_ms / 1000,
        max_ticks=max_ticks,
        scenarios=tuple(SCENARIOS),
        zero_sum=config.hit_given == config.hit_taken,
        constant_sum=True,
        symmetric=True,
        perfect_information=True,
        reward_range=(-1.0 - config.hit_taken, 1.0 + config.hit_given),
    )


class Duel:
    """Two seats, one per team, each of which decides on the ticks where no animation binds it.

    Args:
        config: The options.
        num_matches: B, at least 1.
    """

    def __init__(self, config: DuelConfig, *, num_matches: int) -> None:
        self._config = config
        self._limit = ticks_of(1000 * config.time_limit_s, config)
        self.spec = _spec(config, self._limit)
        self.num_matches = num_matches
        self._all_rows = np.arange(num_matches)
        self._first = np.arange(2 * num_matches) * len(ACTIONS)  # where masks begin
        self._fight = Fight(config, num_matches)
        self._ticks = np.zeros(num_matches, np.int64)
        self._going = np.zeros(num_matches, bool)
        parts = ("win", "hit_given", "hit_taken")
        self._tick = allocate_tick(self.spec, num_matches, masked_roles=("fighter",), reward_parts={"fighter": parts})
        self._fighter = self._tick.roles["fighter"]
        self._view = View(self._fight, self._fighter)

    def reset(
        self,
        seeds: np.ndarray,
        *,
        indices: np.ndarray | None = None,
        scenarios: Sequence[Scenario] | None = None,
    ) -> Tick:
        """Start new matches in the given rows; see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario or one of its parameters is unknown or out of range.
        """
        indices = self._all_rows if indices is None else np.asarray(indices, np.int64)
        config = self._config
        start = starts(scenarios, np.asarray(seeds, np.uint64), rules=config)
        self._fight.start(
            (2 * indices[:, None] + np.arange(2)).ravel(),
            room=start.room.ravel(),
            health=config.health * start.health.ravel(),
            stamina=config.stamina * start.stamina.ravel(),
        )
        self._ticks[indices] = 0
        self._going[indices] = True
        self._tick.clear(indices)
        self._show()
        return self._tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick; see `ludus.environment.Environment.step`.

        Raises:
            ContractError: An action is illegal; no match has been advanced.
        """
        going = np.repeat(self._going, 2)
        self._fight.advance(self._chosen(actions["fighter"]), going)
        self._ticks += self._going
        self._score()
        self._show()
        return self._tick

    def close(self) -> None:
        """Do nothing: there is nothing to free."""

    def _chosen(self, given: np.ndarray) -> np.ndarray:
        """Return ``[F] int64``: the actions ``[B, 2, 1]`` of those who decide, 0 for the others.

        Raises:
            ContractError: One of them is illegal.
        """
        chosen = np.where(self._fighter.acting, np.asarray(given).reshape(self.num_matches, 2), 0).ravel()
        legal = self._view.mask.reshape(-1).take(self._first + chosen, mode="clip")
        known = (chosen >= 0) & (chosen < len(ACTIONS))
        acting = self._fighter.acting.ravel()
        if not (legal & known | ~acting).all():
            self._refuse(int(np.flatnonzero(acting & ~(legal & known))[0]), chosen)
        return chosen

    def _refuse(self, who: int, chosen: np.ndarray) -> None:
        """Say which action is illegal.

        Raises:
            ContractError: Always.
        """
        row, seat = divmod(who, 2)
        expected = ", ".join(f"{n} ({ACTIONS[n]})" for n in np.flatnonzero(self._view.mask[row, seat]))
        raise ContractError(
            f"duel: seat {seat} of role 'fighter' in row {row} chose {chosen[who]}; expected one of {expected}"
        )

    def _score(self) -> None:
        """Reward hits, and end the matches in which somebody fell or time is over."""
        config, parts = self._config, self._fighter.reward_parts
        given = self._fight.given.reshape(-1, 2)
        np.multiply(given, np.float32(config.hit_given), out=parts["hit_given"])
        np.multiply(given[:, ::-1], np.float32(-config.hit_taken), out=parts["hit_taken"])
        parts["win"].fill(0)
        health = self._fight.health.reshape(-1, 2)
        fallen = np.logical_or(*(health <= 0).T)
        ended = self._going & (fallen | (self._ticks >= self._limit))
        self._tick.terminated[:] = ended
        if ended.any():
            rows = np.flatnonzero(ended)
            lead = np.maximum(health[rows, 0], 0.0) - np.maximum(health[rows, 1], 0.0)
            lead[~fallen[rows] & (np.abs(lead) <= config.draw_margin)] = 0.0
            sign: np.ndarray = np.sign(np.stack([lead, -lead], axis=1))
            parts["win"][rows] = sign
            self._tick.outcome[rows] = 0.5 + 0.5 * sign
            self._going[rows] = False
        np.add(parts["hit_given"], parts["hit_taken"], out=self._fighter.reward)
        self._fighter.reward += parts["win"]

    def _show(self) -> None:
        self._view.show(left=np.repeat(1.0 - self._ticks / self._limit, 2))
        np.logical_and(self._view.opens, self._going[:, None], out=self._fighter.acting)

    def render(self, match: int) -> str:
        """Return the fight in row `match` as text with ANSI colours."""
        left = self._limit - int(self._ticks[match])
        return terminal.render(self._fight, match, left_s=left * self._config.tick_ms / 1000)

    def action_name(self, role: str, action: np.ndarray) -> str:  # noqa: ARG002 - there is one role
        """Return the action's name."""
        return ACTIONS[int(action[0])]

    def parse_action(self, role: str, text: str) -> np.ndarray:  # noqa: ARG002 - there is one role
        """Return the action ``[1] int64`` a person typed.

        Raises:
            ValueError: The text is not an action; the message says what is.
        """
        return np.array([actions.parse_action(text)], np.int64)
