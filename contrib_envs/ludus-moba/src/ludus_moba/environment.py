"""The batch of matches: actions, observations, rewards and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, Scenario, Tick, allocate_tick
from ludus.errors import ContractError
from ludus.rendering import Scene
from ludus.spaces import legal_actions

from ludus_moba import actions, engine, scene, terminal
from ludus_moba.config import MobaConfig
from ludus_moba.field_map import draw_maps
from ludus_moba.layout import observation_space, privileged_space
from ludus_moba.rewards import PARTS, Rewards
from ludus_moba.rules import STRUCTURES, TICK_S, ticks_of
from ludus_moba.scenario import SCENARIOS, new_world, scenario_values
from ludus_moba.view import View, skills_ready, update_masks
from ludus_moba.vision import perceive
from ludus_moba.world import COLUMN, Indices, World

_ALL = slice(None)
STATISTICS = ("kills", "deaths", "last_hits", "gold", "hero_damage", "structure_damage", "level")


def _spec(config: MobaConfig, max_ticks: int) -> EnvironmentSpec:
    hero = Role(
        name="hero",
        observation_space=observation_space(with_map=config.map),
        action_space=spaces.MultiDiscrete(list(actions.LABELS)),
        teams=(0, 1),
        privileged_space=privileged_space(),
        labels_used=actions.labels_used(),
        statistics=STATISTICS,
    )
    return EnvironmentSpec(
        name="moba",
        roles=(hero,),
        turn="simultaneous",
        tick_s=TICK_S,
        max_ticks=max_ticks,
        scenarios=tuple(SCENARIOS),
        zero_sum=True,
        constant_sum=True,
        symmetric=len(set(config.heroes)) == 1,
        outcome_rule="the crystal that falls, at the time limit more health of structures",
    )


class Moba:
    """Two seats, one hero each. Both decide on every tick; a dead or stunned hero can only do nothing.

    Args:
        config: Options of the game.
        num_matches: B, at least 1.
    """

    def __init__(self, config: MobaConfig, *, num_matches: int) -> None:
        self._config = config
        self._limit = ticks_of(config.time_limit_s)
        self.spec = _spec(config, self._limit)
        self.num_matches = num_matches
        self._world = World.blank(num_matches)
        self._tick = allocate_tick(self.spec, num_matches, masked_roles=("hero",), reward_parts={"hero": PARTS})
        self._hero = self._tick.roles["hero"]
        assert self._hero.action_mask is not None
        self._mask = self._hero.action_mask
        self._view, self._rewards = View(self._hero), Rewards(config, num_matches)
        self._left = np.zeros(num_matches, np.int64)

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario or one of its parameters is unknown or out of range.
        """
        at: Indices = _ALL if indices is None else np.asarray(indices, np.int64)
        seeds = np.asarray(seeds, np.uint64)
        started = new_world(seeds, scenario_values(scenarios, len(seeds)), self._config)
        perceive(started)
        self._world.put(at, started)
        self._left[at] = self._limit
        self._rewards.start(self._world, at)
        self._tick.clear(at)
        self._show()
        return self._tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick; see `ludus.environment.Environment.step`.

        Raises:
            ContractError: An action is illegal; no match has been advanced.
        """
        chosen = self._legal_actions(actions["hero"])
        was_running = self._world.running.copy()
        engine.advance(self._world, chosen)
        self._left -= was_running
        self._score(was_running)
        self._show()
        return self._tick

    def close(self) -> None:
        """Do nothing; there is nothing to free."""

    def _legal_actions(self, chosen: np.ndarray) -> np.ndarray:
        """Return ``[B, 2, 6] int64``: the actions of acting seats, 0 for the others.

        Raises:
            ContractError: An action is illegal.
        """
        acting = self._hero.acting
        chosen = np.where(acting[:, :, None], np.asarray(chosen, np.int64), 0)
        illegal = acting & ~legal_actions(self.spec.roles[0].action_space, chosen, self._mask)
        if illegal.any():
            match, seat = map(int, np.argwhere(illegal)[0])
            raise self._illegal_action(match, seat, chosen[match, seat])
        return np.asarray(chosen)

    def _illegal_action(self, match: int, seat: int, chosen: np.ndarray) -> ContractError:
        mask = self._mask[match, seat]
        buttons = ", ".join(f"{n} ({actions.BUTTONS[n]})" for n in np.flatnonzero(mask[: actions.OFFSETS[1]]))
        targets = ", ".join(map(str, np.flatnonzero(mask[actions.OFFSETS[5] :])))
        return ContractError(
            f"moba: seat {seat} of role 'hero' in match {match} chose {chosen.tolist()}; expected a button of "
            f"{buttons}, four directions from 0 to {actions.STEPS - 1}, and a target of {targets}"
        )

    def _score(self, was_running: np.ndarray) -> None:
        """Write rewards and statistics, and end matches whose crystal has fallen or whose time is over."""
        world, tick = self._world, self._tick
        fallen = engine.is_over(world)
        ended = was_running & (fallen.any(axis=1) | (self._left <= 0))
        structures = (world.health[:, :, STRUCTURES] / world.max_health[:, :, STRUCTURES]).sum(axis=2).round(5)
        lead = np.where(fallen.any(axis=1), 1.0 * fallen[:, 1] - fallen[:, 0], structures[:, 0] - structures[:, 1])
        sign = np.sign(np.stack([lead, -lead], axis=1)) * ended[:, None]
        tick.terminated[:] = ended
        tick.outcome[ended] = 0.5 + 0.5 * sign[ended]
        world.running &= ~ended
        self._rewards.score(world, self._hero.reward_parts, sign.astype(np.float32), was_running)
        self._hero.reward.fill(0.0)
        for part in self._hero.reward_parts.values():
            self._hero.reward += part
        for name, values in self._hero.statistics.items():
            values[:] = world.level if name == "level" else world.tally[..., COLUMN[name]]

    def _show(self) -> None:
        """Write observations, masks and acting seats."""
        ready = skills_ready(self._world)
        update_masks(self._world, ready, self._mask)
        self._view.update(self._world, ready, (self._left / self._limit).astype(np.float32))
        if self._config.map:
            draw_maps(self._world, self._hero.observation["map"])
        self._hero.acting[:] = self._world.running[:, None]

    def render(self, match: int) -> str:
        """Return the match as text with ANSI colours."""
        return terminal.render(self._world, match)

    def render_frame(self, match: int) -> Scene:
        """Return the field of a match, see `ludus.rendering.Renderable`."""
        return scene.draw_scene(self._world, match)

    def action_name(self, role: str, action: np.ndarray) -> str:  # noqa: ARG002 - there is one role
        """Return the name of the action."""
        return actions.action_name(action)

    def parse_action(self, role: str, text: str) -> np.ndarray:  # noqa: ARG002 - there is one role
        """Parse a typed action into ``[6] int64``.

        Raises:
            ValueError: The text is not an action; the message lists what is.
        """
        return actions.parse_action(text)
