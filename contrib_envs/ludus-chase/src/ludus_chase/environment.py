"""The batch of matches: what seats see, do and receive, and who wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, Scenario, Tick, allocate_tick
from ludus.errors import ContractError

from ludus_chase import actions, engine, terminal
from ludus_chase.blows import Game
from ludus_chase.columns import Rows
from ludus_chase.config import ChaseConfig
from ludus_chase.events import Events
from ludus_chase.house import Plan, build
from ludus_chase.image import Image
from ludus_chase.layout import observation_space, privileged_space
from ludus_chase.masks import show_masks
from ludus_chase.perception import find_first, perceive
from ludus_chase.reach import look_around, rooms_of
from ludus_chase.rewards import CAT_PARTS, MOUSE_PARTS, Guide, score_cat, score_mice
from ludus_chase.scenario import SCENARIOS, handicaps
from ludus_chase.stages import endings
from ludus_chase.start import FIRST_FREE_LOT, new_world
from ludus_chase.tuning import rates_of
from ludus_chase.view import View
from ludus_chase.world import FREE, MICE, World

__all__ = ["Chase"]

_ALL = slice(None)
_WIDTH = 18 + 16


def _spec(config: ChaseConfig, plan: Plan, max_ticks: int) -> EnvironmentSpec:
    def role(name: str, teams: tuple[int, ...]) -> Role:
        return Role(
            name=name,
            observation_space=observation_space(name, plan, mini_image=config.mini_image),
            action_space=spaces.MultiDiscrete([18, 16]),
            teams=teams,
            privileged_space=privileged_space(),
            labels_used=actions.labels_used(name),
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
        config: The options.
        num_matches: B, at least 1.
    """

    def __init__(self, config: ChaseConfig, *, num_matches: int) -> None:
        self._config, self._rates = config, rates_of(config)
        self._plan = Plan(columns=config.columns, rows=config.rows)
        self.num_matches = num_matches
        rates = self._rates
        self.spec = _spec(config, self._plan, rates.preparation + rates.push + rates.escape)
        self._world = World.blank(num_matches)
        seeds = np.zeros(num_matches, np.uint64)
        self._house = build(self._plan, seeds, first=FIRST_FREE_LOT, extra_doors=config.extra_doors)
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
        self._view, self._guide = View(self._game, self._tick.roles), Guide(self._world)
        self._image = self._make_image()
        self._chosen = np.zeros((num_matches, 1 + MICE, 2), np.int64)

    def _make_image(self) -> Image | None:
        if not self._config.mini_image:
            return None
        return Image(self._plan, cat=self._cat.observation["image"], mouse=self._mouse.observation["image"])

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
        at: Rows = _ALL if indices is None else np.asarray(indices, np.int64)
        seeds, config = np.asarray(seeds, np.uint64), self._config
        handicap = handicaps(scenarios, len(seeds))
        house = build(self._plan, seeds, first=FIRST_FREE_LOT, extra_doors=config.extra_doors)
        self._house.put(at, house)
        self._world.put(at, new_world(self._plan, seeds, handicap, config=config, rates=self._rates))
        if self._image is not None:
            self._image.draw_house(house, at)
        self._look(at, gains=False)
        self._tick.clear(at)
        return self._tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick; see `ludus.environment.Environment.step`.

        Raises:
            ContractError: An action is illegal; no match has been advanced.
        """
        chosen = self._choose(actions)
        acting = np.concatenate([self._cat.acting, self._mouse.acting], axis=1)
        engine.advance(self._game, self._reach, action=chosen[:, :, 0], direction=chosen[:, :, 1], acting=acting)
        was_going = self._world.going.copy()
        ended, points = endings(self._world, self._config)
        self._world.going &= ~ended
        self._look(_ALL, gains=True)
        self._score(was_going, ended, points)
        return self._tick

    def close(self) -> None:
        """Do nothing: there is nothing to free."""

    def _choose(self, given: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return ``[B, 5, 2] int64``: the actions of those who decide, 0 for the others.

        Raises:
            ContractError: One of them is illegal.
        """
        first = 0
        for role in self.spec.roles:
            seen, seats = self._tick.roles[role.name], slice(first, first + role.num_seats)
            chosen = np.where(seen.acting[:, :, None], given[role.name], 0)
            inside = (chosen >= 0) & (chosen < (18, 16))
            assert seen.action_mask is not None
            mask = seen.action_mask.reshape(-1, _WIDTH)
            action = np.where(inside[..., 0], chosen[..., 0], 0).ravel()
            legal = mask[np.arange(len(mask)), action].reshape(inside.shape[:2]) & inside.all(axis=2)
            if not (legal | ~seen.acting).all():
                row, seat = map(int, np.argwhere(~legal & seen.acting)[0])
                self._refuse(role.name, row, seat, chosen[row, seat])
            self._chosen[:, seats] = chosen
            first += role.num_seats
        return self._chosen

    def _refuse(self, role: str, row: int, seat: int, chosen: np.ndarray) -> None:
        """Say which action is illegal.

        Raises:
            ContractError: Always.
        """
        mask = self._tick.roles[role].action_mask
        names = actions.CAT_ACTIONS if role == "cat" else actions.MOUSE_ACTIONS
        legal = () if mask is None else np.flatnonzero(mask[row, seat, :18])
        expected = ", ".join(f"{n} ({names[n]})" for n in legal)
        raise ContractError(
            f"chase: seat {seat} of role {role!r} in row {row} chose {chosen.tolist()}; "
            f"expected one of {expected}, and a direction from 0 to 15"
        )

    def _look(self, at: Rows, *, gains: bool) -> None:
        """Let everybody look around in the matches `at`, and say who decides what."""
        world = self._world
        here = world.take(at)
        perceive(self._plan, here, rooms_of(self._plan, here))
        if not isinstance(at, slice):
            world.put(at, here)
        self._guide.look(self._view.show(at), at, gains=gains)
        if self._image is not None:
            self._image.paint(world)
        self._reach = look_around(world, rooms_of(self._plan, world), config=self._config)
        assert self._cat.action_mask is not None
        assert self._mouse.action_mask is not None
        show_masks(world, self._reach, cat=self._cat.action_mask, mouse=self._mouse.action_mask)
        acting = (world.status == FREE) & (world.bound == 0) & world.going[:, None]
        self._cat.acting[:], self._mouse.acting[:] = acting[:, :1], acting[:, 1:]

    def _score(self, was_going: np.ndarray, ended: np.ndarray, points: np.ndarray) -> None:
        """Write rewards and endings."""
        tick = self._tick
        tick.terminated[:] = ended
        tick.outcome[ended, 0], tick.outcome[ended, 1] = 1.0 - points[ended], points[ended]
        won = np.where(ended, 2 * points - 1, np.float32(0))
        find_first(self._world, self._game.events)
        score_cat(self._game.events, self._cat.reward_parts, won=-won)
        score_mice(self._game.events, self._mouse.reward_parts, self._guide, won=won)
        for role in tick.roles.values():
            role.reward.fill(0.0)
            for part in role.reward_parts.values():
                np.multiply(part, was_going[:, None], out=part)
                role.reward += part

    def render(self, match: int) -> str:
        """Return the match in row `match` as text with ANSI colours."""
        return terminal.render(self._game, match)

    def action_name(self, role: str, action: np.ndarray) -> str:
        """Return the action's name."""
        return actions.action_name(role, action)

    def parse_action(self, role: str, text: str) -> np.ndarray:
        """Return the action ``[2] int64`` a person typed.

        Raises:
            ValueError: The text is not an action; the message says what is.
        """
        return np.array(actions.parse_action(role, text), np.int64)
