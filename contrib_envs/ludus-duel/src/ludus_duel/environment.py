"""The batch of matches: scenarios, actions, rewards and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen
from gymnasium import spaces
from ludus.controls import Controls
from ludus.environment import EnvironmentSpec, Role, Scenario, Tick, allocate_tick, checked_scenarios
from ludus.errors import ContractError
from ludus.rendering import Scene

from ludus_duel import actions, scene, terminal
from ludus_duel.actions import ACTIONS
from ludus_duel.config import DuelConfig, DuelRules
from ludus_duel.controls import make_controls
from ludus_duel.engine import Engine
from ludus_duel.fight import Fight
from ludus_duel.tables import ticks_of
from ludus_duel.view import SIZE, DuelView

#: Parameters of each scenario and their defaults. Health and stamina are shares of the maximum. `distance` and `room_0`
#: (from seat 0 to the wall behind it) are in cm; -1 means drawn by the seed, and in the middle of the arena.
SCENARIOS: Mapping[str, Mapping[str, float]] = {
    "low-health": {"health_0": 0.25, "health_1": 0.25},
    "no-stamina": {"stamina_0": 0.0, "stamina_1": 0.0},
    "handicap": {"health_0": 0.5, "health_1": 1.0, "stamina_0": 1.0, "stamina_1": 1.0},
    "close": {"distance": 150.0},
    "cornered": {"room_0": 50.0, "distance": 200.0},
    "custom": {"health_0": 1.0, "health_1": 1.0, "stamina_0": 1.0, "stamina_1": 1.0, "distance": -1.0, "room_0": -1.0},
}


@frozen(kw_only=True)
class StartStates:
    """Start of n matches, ``[n, 2] float64`` by seat: shares of health and stamina, and room behind in cm."""

    health: np.ndarray
    stamina: np.ndarray
    room: np.ndarray


def start_states(scenarios: Sequence[Scenario] | None, seeds: np.ndarray, *, rules: DuelRules) -> StartStates:
    """Return the start states of matches.

    Args:
        scenarios: One per match; None means the default scenario for all.
        seeds: ``[n] uint64``.
        rules: Rules of the game.

    Raises:
        ContractError: A scenario or parameter is unknown or out of range, or their number is wrong.
    """
    count = len(seeds)
    values = np.repeat(np.array([list(SCENARIOS["custom"].values())]), count, axis=0)
    for index, scenario in enumerate(checked_scenarios(scenarios, count, known=SCENARIOS)):
        if scenario.name != "default":
            values[index] = list(_values(scenario, rules).values())
    distance = np.where(values[:, 4] < 0, _drawn_distance(seeds, rules), values[:, 4])
    room = np.where(values[:, 5] < 0, (rules.arena_cm - distance) / 2, values[:, 5])
    rooms = np.stack([room, rules.arena_cm - distance - room], axis=1)
    if (rooms < 0).any():
        index = int(np.argwhere(rooms < 0)[0, 0])
        both = f"room_0 {room[index]:g} and distance {distance[index]:g}"
        raise ContractError(f"{both} together are more than the arena of {rules.arena_cm:g} cm")
    return StartStates(health=values[:, 0:2], stamina=values[:, 2:4], room=rooms)


def _drawn_distance(seeds: np.ndarray, rules: DuelRules) -> np.ndarray:
    """Return ``[n] float64``: the shortest distance plus whole centimetres drawn by the seed."""
    mixed = seeds.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    drawn: np.ndarray = rules.distance_cm + ((mixed >> np.uint64(40)) % np.uint64(rules.spread_cm + 1)).astype(
        np.float64
    )
    return drawn


def _values(scenario: Scenario, rules: DuelRules) -> dict[str, float]:
    """Return all parameters of a scenario, in the order of those of ``custom``."""
    known = SCENARIOS.get(scenario.name, {})
    for name, value in scenario.parameters.items():
        low, high = _range(name, rules)
        if not (low <= value <= high or (value == -1 and name in ("distance", "room_0"))):
            expected = f"expected a number from {low:g} to {high:g} for {name}"
            raise ContractError(f"scenario {scenario.name}: {expected}, got {value!r}")
    return {**SCENARIOS["custom"], **known, **scenario.parameters}


def _range(name: str, rules: DuelRules) -> tuple[float, float]:
    if name == "distance":
        return 100.0, rules.arena_cm
    if name == "room_0":
        return 0.0, rules.arena_cm - 100.0
    return (0.01 if name.startswith("health") else 0.0), 1.0


def _spec(config: DuelConfig, max_ticks: int) -> EnvironmentSpec:
    fighter = Role(
        name="fighter",
        observation_space=spaces.Box(-1.0, 1.0, (SIZE,), np.float32),
        action_space=spaces.Discrete(len(ACTIONS)),
        teams=(0, 1),
        statistics=("hits", "health", "room"),
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
        sparse_rewards=not (config.hit_taken or config.hit_given),
    )


class Duel:
    """Two seats, one per team. A seat decides on the ticks on which no animation binds its fighter.

    Args:
        config: Options of the game.
        num_matches: B, at least 1.
    """

    def __init__(self, config: DuelConfig, *, num_matches: int) -> None:
        self._config = config
        self._limit = ticks_of(1000 * config.time_limit_s, config)
        self.spec = _spec(config, self._limit)
        self.num_matches = num_matches
        self._all_matches = np.arange(num_matches)
        self._mask_starts = np.arange(2 * num_matches) * len(ACTIONS)  # index of each mask in the flat mask array
        self._fight = Fight(config, num_matches)
        self._engine = Engine(self._fight)
        self._ticks = np.zeros(num_matches, np.int64)
        self._running = np.zeros(num_matches, bool)
        parts = ("win", "hit_given", "hit_taken")
        self._tick = allocate_tick(self.spec, num_matches, masked_roles=("fighter",), reward_parts={"fighter": parts})
        self._fighter = self._tick.roles["fighter"]
        self._view = DuelView(self._fight, self._fighter)

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario or one of its parameters is unknown or out of range.
        """
        indices = self._all_matches if indices is None else np.asarray(indices, np.int64)
        config = self._config
        start = start_states(scenarios, np.asarray(seeds, np.uint64), rules=config)
        self._fight.start(
            (2 * indices[:, None] + np.arange(2)).ravel(),
            room=start.room.ravel(),
            health=config.health * start.health.ravel(),
            stamina=config.stamina * start.stamina.ravel(),
        )
        self._ticks[indices] = 0
        self._running[indices] = True
        self._tick.clear(indices)
        self._fighter.statistics["hits"][indices] = 0
        self._show()
        return self._tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick; see `ludus.environment.Environment.step`.

        Raises:
            ContractError: An action is illegal; no match has been advanced.
        """
        running = np.repeat(self._running, 2)
        self._engine.advance(self._legal_actions(actions["fighter"]), running)
        self._ticks += self._running
        self._score()
        self._show()
        return self._tick

    def close(self) -> None:
        """Do nothing; there is nothing to free."""

    def _legal_actions(self, actions: np.ndarray) -> np.ndarray:
        """Return ``[F] int64``: the actions ``[B, 2, 1]`` of acting seats, 0 for the others.

        Raises:
            ContractError: An action is illegal.
        """
        chosen = np.where(self._fighter.acting, np.asarray(actions).reshape(self.num_matches, 2), 0).ravel()
        legal = self._view.mask.reshape(-1).take(self._mask_starts + chosen, mode="clip")
        known = (chosen >= 0) & (chosen < len(ACTIONS))
        acting = self._fighter.acting.ravel()
        if not (legal & known | ~acting).all():
            raise self._illegal_action(int(np.flatnonzero(acting & ~(legal & known))[0]), chosen)
        return chosen

    def _illegal_action(self, fighter: int, chosen: np.ndarray) -> ContractError:
        match, seat = divmod(fighter, 2)
        expected = ", ".join(f"{n} ({ACTIONS[n]})" for n in np.flatnonzero(self._view.mask[match, seat]))
        return ContractError(
            f"duel: seat {seat} of role 'fighter' in match {match} chose {chosen[fighter]}; expected one of {expected}"
        )

    def _score(self) -> None:
        """Write rewards, and end matches in which a fighter has no health or the time is over."""
        config, parts = self._config, self._fighter.reward_parts
        scored = self._fight.scored.reshape(-1, 2)
        np.multiply(scored, np.float32(config.hit_given), out=parts["hit_given"])
        np.multiply(scored[:, ::-1], np.float32(-config.hit_taken), out=parts["hit_taken"])
        parts["win"].fill(0)
        statistics = self._fighter.statistics
        statistics["hits"] += scored
        health = self._fight.health.reshape(-1, 2).round(9)  # equal damage in another order may differ by rounding
        fallen = np.logical_or(*(health <= 0).T)
        ended = self._running & (fallen | (self._ticks >= self._limit))
        self._tick.terminated[:] = ended
        if ended.any():
            indices = np.flatnonzero(ended)
            lead = (np.maximum(health[indices, 0], 0.0) - np.maximum(health[indices, 1], 0.0)).round(9)
            lead[~fallen[indices] & (np.abs(lead) <= config.draw_margin)] = 0.0
            sign: np.ndarray = np.sign(np.stack([lead, -lead], axis=1))
            parts["win"][indices] = sign
            self._tick.outcome[indices] = 0.5 + 0.5 * sign
            self._running[indices] = False
            statistics["health"][indices] = np.maximum(health[indices], 0.0) / config.health
            statistics["room"][indices] = self._fight.room.reshape(-1, 2)[indices] / config.arena_cm
        np.add(parts["hit_given"], parts["hit_taken"], out=self._fighter.reward)
        self._fighter.reward += parts["win"]

    def _show(self) -> None:
        self._view.update(left=np.repeat(1.0 - self._ticks / self._limit, 2))
        np.logical_and(self._view.opens, self._running[:, None], out=self._fighter.acting)

    def render(self, match: int) -> str:
        """Return the match as text with ANSI colours."""
        return terminal.render(self._fight, match, left_s=self._left_s(match))

    def render_frame(self, match: int) -> Scene:
        """Return the fighters of a match, see `ludus.rendering.Renderable`."""
        return scene.draw_scene(self._fight, match, left_s=self._left_s(match))

    def _left_s(self, match: int) -> float:
        return (self._limit - int(self._ticks[match])) * self._config.tick_ms / 1000

    def controls(self, role: str, seat: int) -> Controls:  # noqa: ARG002 - there is one role
        """Return the controls of a seat, see `ludus.controls.Controllable`."""
        return make_controls(self._fight, seat)

    def action_name(self, role: str, action: np.ndarray) -> str:  # noqa: ARG002 - there is one role
        """Return the name of the action."""
        return ACTIONS[int(action[0])]

    def parse_action(self, role: str, text: str) -> np.ndarray:  # noqa: ARG002 - there is one role
        """Parse a typed action into ``[1] int64``.

        Raises:
            ValueError: The text is not an action; the message lists what is.
        """
        return np.array([actions.parse_action(text)], np.int64)
