"""The batch of matches: actions, observations, rewards and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, Scenario, Tick, allocate_tick
from ludus.errors import ContractError
from ludus.rendering import Scene
from ludus.spaces import legal_actions

from ludus_skirmish import actions, engine, scene, terminal
from ludus_skirmish.config import SkirmishConfig
from ludus_skirmish.kinds import BATTLES, TICK_S, Battle, ticks_of
from ludus_skirmish.layout import observation_space, privileged_space
from ludus_skirmish.rewards import PARTS, Rewards, is_zero_sum
from ludus_skirmish.scenario import SCENARIOS, new_world, scenario_values
from ludus_skirmish.view import View, update_masks
from ludus_skirmish.world import COLUMN, Indices, World, other

_ALL = slice(None)
STATISTICS = ("kills", "losses", "damage_dealt", "damage_taken", "units_left", "duration_s")


def _spec(config: SkirmishConfig, battle: Battle, max_ticks: int) -> EnvironmentSpec:
    slots, of_unit = battle.slots, config.seats == "unit"
    choices = actions.choices(slots)
    role = Role(
        name=config.seats,
        observation_space=observation_space(slots, of_unit=of_unit),
        action_space=spaces.Discrete(choices) if of_unit else spaces.MultiDiscrete([choices] * slots),
        teams=(0,) * slots + (1,) * slots if of_unit else (0, 1),
        privileged_space=privileged_space(slots),
        statistics=STATISTICS,
    )
    return EnvironmentSpec(
        name="skirmish",
        roles=(role,),
        turn="simultaneous",
        tick_s=TICK_S,
        max_ticks=max_ticks,
        scenarios=tuple(SCENARIOS),
        zero_sum=is_zero_sum(config),
        constant_sum=True,
        symmetric=True,
        perfect_information=config.sight == 0,
        outcome_rule="the army that is left, at the time limit the one with more value",
    )


class Skirmish:
    """Two armies. All living units decide on every tick: one seat decides for an army, or every unit is a seat.

    Args:
        config: Options of the game.
        num_matches: B, at least 1.
    """

    def __init__(self, config: SkirmishConfig, *, num_matches: int) -> None:
        self._config, self._battle = config, BATTLES[config.battle]
        self._limit = ticks_of(config.time_limit_s)
        self.spec = _spec(config, self._battle, self._limit)
        self.num_matches = num_matches
        slots, self._of_unit = self._battle.slots, config.seats == "unit"
        self._world = World.blank(num_matches, slots, size=self._battle.size, sight=config.sight)
        name = config.seats
        self._tick = allocate_tick(self.spec, num_matches, masked_roles=(name,), reward_parts={name: PARTS})
        self._role = self._tick.roles[name]
        assert self._role.action_mask is not None
        self._mask = self._role.action_mask.reshape(num_matches, 2, slots, actions.choices(slots))
        self._view, self._rewards = View(self._role, of_unit=self._of_unit), Rewards(config, num_matches)

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario or one of its parameters is unknown or out of range.
        """
        at: Indices = _ALL if indices is None else np.asarray(indices, np.int64)
        seeds = np.asarray(seeds, np.uint64)
        values = scenario_values(scenarios, len(seeds), self._battle)
        self._world.put(at, new_world(seeds, values, self._battle, sight=self._config.sight))
        self._rewards.start(at)
        self._tick.clear(at)
        self._show()
        return self._tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick; see `ludus.environment.Environment.step`.

        Raises:
            ContractError: An action is illegal; no match has been advanced.
        """
        choice = self._legal_choices(actions[self._config.seats])
        was_running = self._world.running.copy()
        engine.advance(self._world, choice)
        self._score(was_running)
        self._show()
        return self._tick

    def close(self) -> None:
        """Do nothing; there is nothing to free."""

    def _legal_choices(self, chosen: np.ndarray) -> np.ndarray:
        """Return ``[B, 2, N] int64``: the choices of units whose seats act, 0 for the others.

        Raises:
            ContractError: A choice is illegal.
        """
        acting = self._role.acting
        chosen = np.where(acting[:, :, None], np.asarray(chosen, np.int64), 0)
        illegal = acting & ~legal_actions(self.spec.roles[0].action_space, chosen, self._role.action_mask)
        if illegal.any():
            match, seat = map(int, np.argwhere(illegal)[0])
            raise self._illegal_action(match, seat, chosen[match, seat])
        return np.asarray(chosen.reshape(self._mask.shape[:3]))

    def _illegal_action(self, match: int, seat: int, chosen: np.ndarray) -> ContractError:
        """Return the error about the first illegal choice of a seat."""
        masks = self._mask[match].reshape(self._role.acting.shape[1], -1, self._mask.shape[3])[seat]
        label = next(at for at, choice in enumerate(chosen) if choice not in np.flatnonzero(masks[at]))
        legal = ", ".join(f"{n} ({actions.choice_name(n)})" for n in np.flatnonzero(masks[label]).tolist())
        return ContractError(
            f"skirmish: seat {seat} of role {self._config.seats!r} in match {match} chose {int(chosen[label])} for "
            f"label {label}; expected one of {legal}"
        )

    def _score(self, was_running: np.ndarray) -> None:
        """Write rewards and statistics, and end matches that are decided or whose time is over."""
        world, tick = self._world, self._tick
        alive = np.asarray(world.alive.any(axis=2))
        ended = was_running & (~alive.all(axis=1) | (world.ticks >= self._limit))
        value = engine.remaining_value(world)
        lead = np.sign(value - other(value))
        tick.terminated[:] = ended
        tick.outcome[:] = 0.5 + 0.5 * lead
        won = (lead * ended[:, None]).astype(np.float32)
        parts = self._rewards.score(world, won)
        for number, name in enumerate(PARTS):
            self._spread(self._role.reward_parts[name], parts[..., number])
        self._spread(self._role.reward, parts.sum(axis=2))
        tally = {name: world.tally[..., column] for name, column in COLUMN.items()}
        measured = (
            tally["kills"], tally["losses"], tally["dealt"], tally["taken"], world.alive.sum(axis=2),
            np.repeat(world.ticks[:, None] * TICK_S, 2, axis=1),
        )  # fmt: skip
        for name, values in zip(STATISTICS, measured, strict=True):
            self._spread(self._role.statistics[name], values)
        world.running &= ~ended

    def _spread(self, array: np.ndarray, values: np.ndarray) -> None:
        """Write numbers of sides ``[B, 2]`` to all of their seats."""
        array.reshape(self.num_matches, 2, -1)[:] = values[..., None]

    def _show(self) -> None:
        """Write observations, masks and acting seats."""
        world = self._world
        update_masks(world, self._mask)
        self._view.update(world, (1.0 - world.ticks / self._limit).astype(np.float32))
        acting = world.running[:, None]
        self._role.acting[:] = acting & world.alive.reshape(self.num_matches, -1) if self._of_unit else acting

    def render(self, match: int) -> str:
        """Return the match as text with ANSI colours."""
        return terminal.render(self._world, match)

    def render_frame(self, match: int) -> Scene:
        """Return the field of a match, see `ludus.rendering.Renderable`."""
        return scene.draw_scene(self._world, match)

    def action_name(self, role: str, action: np.ndarray) -> str:  # noqa: ARG002 - there is one role
        """Return the names of the choices of an action, separated by spaces."""
        return actions.action_name(action)

    def parse_action(self, role: str, text: str) -> np.ndarray:  # noqa: ARG002 - there is one role
        """Parse the choices of all units of a seat; a single one is that of all units.

        Raises:
            ValueError: The text is not an action; the message lists what is.
        """
        slots = self._battle.slots
        return actions.parse_action(text, 1 if self._of_unit else slots, slots)
