"""The batch of matches: actions, observations, rewards and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from ludus.controls import Controls
from ludus.environment import EnvironmentSpec, Role, Scenario, Tick, allocate_tick
from ludus.errors import ContractError
from ludus.rendering import Scene
from ludus.spaces import legal_actions

from ludus_chase import actions, engine, scene, terminal
from ludus_chase.config import ChaseConfig
from ludus_chase.controls import make_controls
from ludus_chase.game import Events, Game, make_rates
from ludus_chase.house import FloorPlan, build_houses
from ludus_chase.layout import observation_space, privileged_space
from ludus_chase.perception import perceive, record_first_sightings
from ludus_chase.reach import compute_reach, locate_rooms, update_masks
from ludus_chase.rewards import CAT_PARTS, FADING_PARTS, MOUSE_PARTS, ShapingRewards, score_cat, score_mice
from ludus_chase.scenario import FIRST_HOUSE_DRAW, SCENARIOS, handicaps, new_world
from ludus_chase.stages import find_endings
from ludus_chase.statistics import CAT_STATISTICS, MOUSE_STATISTICS, add_statistics
from ludus_chase.view import ChaseView, MiniImageView
from ludus_chase.world import MICE, Indices, Status, World

_ALL = slice(None)


def _spec(config: ChaseConfig, plan: FloorPlan, max_ticks: int) -> EnvironmentSpec:
    def role(name: str, teams: tuple[int, ...]) -> Role:
        return Role(
            name=name,
            observation_space=observation_space(name, plan, mini_image=config.mini_image),
            action_space=spaces.MultiDiscrete([18, 16]),
            teams=teams,
            privileged_space=privileged_space(),
            labels_used=actions.labels_used(name),
            statistics=CAT_STATISTICS if name == "cat" else MOUSE_STATISTICS,
            guidance=FADING_PARTS if name == "mouse" and config.fade_guidance else (),
        )

    return EnvironmentSpec(
        name="chase",
        roles=(role("cat", (0,)), role("mouse", (1,) * MICE)),
        turn="asynchronous",
        tick_s=config.tick_ms / 1000,
        max_ticks=max_ticks,
        scenarios=tuple(SCENARIOS),
        constant_sum=True,
    )


class Chase:
    """One cat, seat 0, against four mice, seats 1 to 4.

    Args:
        config: Options of the game.
        num_matches: B, at least 1.
    """

    def __init__(self, config: ChaseConfig, *, num_matches: int) -> None:
        self._config, self._rates = config, make_rates(config)
        self._plan = FloorPlan(columns=config.columns, rows=config.rows)
        self.num_matches = num_matches
        rates = self._rates
        self.spec = _spec(config, self._plan, rates.preparation + rates.push + rates.escape)
        self._world = World.blank(num_matches)
        seeds = np.zeros(num_matches, np.uint64)
        self._house = build_houses(self._plan, seeds, first=FIRST_HOUSE_DRAW, extra_doors=config.extra_doors)
        self._game = Game(
            config=config,
            rates=rates,
            plan=self._plan,
            house=self._house,
            world=self._world,
            events=Events(num_matches),
        )
        parts = {"cat": CAT_PARTS, "mouse": MOUSE_PARTS}
        self._tick = allocate_tick(self.spec, num_matches, masked_roles=parts, reward_parts=parts)
        self._cat, self._mouse = self._tick.roles["cat"], self._tick.roles["mouse"]
        self._view, self._shaping = ChaseView(self._game, self._tick.roles), ShapingRewards(self._world)
        self._image = self._make_image()
        self._actions = np.zeros((num_matches, 1 + MICE, 2), np.int64)

    def _make_image(self) -> MiniImageView | None:
        if not self._config.mini_image:
            return None
        return MiniImageView(self._plan, cat=self._cat.observation["image"], mouse=self._mouse.observation["image"])

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario or one of its parameters is unknown or out of range.
        """
        at: Indices = _ALL if indices is None else np.asarray(indices, np.int64)
        seeds, config = np.asarray(seeds, np.uint64), self._config
        handicap = handicaps(scenarios, len(seeds))
        house = build_houses(self._plan, seeds, first=FIRST_HOUSE_DRAW, extra_doors=config.extra_doors)
        self._house.put(at, house)
        self._world.put(at, new_world(self._plan, seeds, handicap, config=config, rates=self._rates))
        if self._image is not None:
            self._image.draw_house(house, at)
        self._observe(at, gains=False)
        self._tick.clear(at)
        for array in (*self._cat.statistics.values(), *self._mouse.statistics.values()):
            array[at] = 0
        return self._tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick; see `ludus.environment.Environment.step`.

        Raises:
            ContractError: An action is illegal; no match has been advanced.
        """
        chosen = self._legal_actions(actions)
        acting = np.concatenate([self._cat.acting, self._mouse.acting], axis=1)
        engine.advance(self._game, self._reach, action=chosen[:, :, 0], direction=chosen[:, :, 1], acting=acting)
        was_running = self._world.running.copy()
        ended, points = find_endings(self._world, self._config)
        self._world.running &= ~ended
        self._observe(_ALL, gains=True)
        self._score(was_running, ended, points)
        return self._tick

    def close(self) -> None:
        """Do nothing; there is nothing to free."""

    def _legal_actions(self, actions: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return ``[B, 5, 2] int64``: the actions of acting seats, 0 for the others.

        Raises:
            ContractError: An action is illegal.
        """
        first = 0
        for role in self.spec.roles:
            seen, seats = self._tick.roles[role.name], slice(first, first + role.num_seats)
            chosen = np.where(seen.acting[:, :, None], actions[role.name], 0)
            illegal = seen.acting & ~legal_actions(role.action_space, chosen, seen.action_mask)
            if illegal.any():
                match, seat = map(int, np.argwhere(illegal)[0])
                raise self._illegal_action(role.name, match, seat, chosen[match, seat])
            self._actions[:, seats] = chosen
            first += role.num_seats
        return self._actions

    def _illegal_action(self, role: str, match: int, seat: int, chosen: np.ndarray) -> ContractError:
        mask = self._tick.roles[role].action_mask
        names = actions.CAT_ACTIONS if role == "cat" else actions.MOUSE_ACTIONS
        legal = () if mask is None else np.flatnonzero(mask[match, seat, :18])
        expected = ", ".join(f"{n} ({names[n]})" for n in legal)
        return ContractError(
            f"chase: seat {seat} of role {role!r} in match {match} chose {chosen.tolist()}; "
            f"expected one of {expected}, and a direction from 0 to 15"
        )

    def _observe(self, at: Indices, *, gains: bool) -> None:
        """Update knowledge, observations, masks and acting seats of the matches `at`."""
        world = self._world
        selected = world.take(at)
        perceive(self._plan, selected, locate_rooms(self._plan, selected))
        if not isinstance(at, slice):
            world.put(at, selected)
        self._shaping.update(self._view.update(at), at, gains=gains)
        if self._image is not None:
            self._image.update(world)
        self._reach = compute_reach(world, locate_rooms(self._plan, world), config=self._config)
        assert self._cat.action_mask is not None
        assert self._mouse.action_mask is not None
        update_masks(world, self._reach, cat=self._cat.action_mask, mouse=self._mouse.action_mask)
        acting = (world.status == Status.FREE) & (world.bound == 0) & world.running[:, None]
        self._cat.acting[:], self._mouse.acting[:] = acting[:, :1], acting[:, 1:]

    def _score(self, was_running: np.ndarray, ended: np.ndarray, points: np.ndarray) -> None:
        """Write rewards, ended matches and outcomes."""
        tick = self._tick
        tick.terminated[:] = ended
        tick.outcome[ended, 0], tick.outcome[ended, 1] = 1.0 - points[ended], points[ended]
        won = np.where(ended, 2 * points - 1, np.float32(0))
        record_first_sightings(self._world, self._game.events)
        add_statistics(self._game.events, cat=self._cat.statistics, mouse=self._mouse.statistics, running=was_running)
        score_cat(self._game.events, self._cat.reward_parts, won=-won)
        score_mice(self._game.events, self._mouse.reward_parts, self._shaping, won=won)
        for role in tick.roles.values():
            role.reward.fill(0.0)
            for part in role.reward_parts.values():
                np.multiply(part, was_running[:, None], out=part)
                role.reward += part

    def render(self, match: int) -> str:
        """Return the match as text with ANSI colours."""
        return terminal.render(self._game, match)

    def render_frame(self, match: int) -> Scene:
        """Return the house of a match, see `ludus.rendering.Renderable`."""
        return scene.draw_scene(self._game, match)

    def controls(self, role: str, seat: int) -> Controls:
        """Return the controls of a seat, see `ludus.controls.Controllable`."""
        return make_controls(self._world, role, seat + (role == "mouse"))

    def action_name(self, role: str, action: np.ndarray) -> str:
        """Return the name of the action."""
        return actions.action_name(role, action)

    def parse_action(self, role: str, text: str) -> np.ndarray:
        """Parse a typed action into ``[2] int64``.

        Raises:
            ValueError: The text is not an action; the message lists what is.
        """
        return np.array(actions.parse_action(role, text), np.int64)
