"""The batch of matches: actions, observations, rewards and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, Scenario, Tick, allocate_tick
from ludus.errors import ContractError
from ludus.rendering import Scene
from ludus.spaces import legal_actions

from ludus_pommerman import scene, terminal
from ludus_pommerman.config import PommermanConfig
from ludus_pommerman.engine import Engine
from ludus_pommerman.rules import ACTIONS, MAX_STRENGTH, SYMBOLS, VARIANTS, WORDS, Variant
from ludus_pommerman.scenario import SCENARIOS, new_world, scenario_values
from ludus_pommerman.view import View, observation_space, privileged_space
from ludus_pommerman.world import COLUMN, TALLIES, Indices, World

_ALL = slice(None)
STATISTICS = (*TALLIES, "length", "survived")
#: Parts of the reward. All but the first are 0 in the rules of the game.
PARTS = ("win", "kill", "wood", "item")
_COUNTED = {"kill": "kills", "wood": "wood", "item": "items"}


def _spec(config: PommermanConfig, variant: Variant) -> EnvironmentSpec:
    teams, is_shaped = variant.teams, any((config.kill, config.wood_reward, config.item))
    words = [SYMBOLS] * WORDS
    player = Role(
        name="player",
        observation_space=observation_space(variant, config.time_limit),
        action_space=spaces.MultiDiscrete([len(ACTIONS), *words]) if variant.radio else spaces.Discrete(len(ACTIONS)),
        teams=teams,
        privileged_space=privileged_space(variant) if config.privileged else None,
        seat_endings=variant.is_free_for_all,
        statistics=STATISTICS,
        guidance=PARTS[1:],
    )
    bound = abs(config.win)
    return EnvironmentSpec(
        name="pommerman",
        roles=(player,),
        turn="simultaneous",
        max_ticks=config.time_limit,
        scenarios=tuple(SCENARIOS),
        constant_sum=not variant.is_free_for_all,
        reward_range=None if is_shaped else (-bound, bound),
        sparse_rewards=not (is_shaped or variant.is_free_for_all),  # the dead have lost before the end
        outcome_rule="the last team alive wins; a tie if the last ones die at once, or at the time limit",
    )


class Pommerman:
    """Two or four seats, one agent each. All living agents act on every tick; moves into walls mean to stay.

    Args:
        config: Options of the game.
        num_matches: B, at least 1.
    """

    def __init__(self, config: PommermanConfig, *, num_matches: int) -> None:
        self._config, self._variant = config, VARIANTS[config.variant]
        view = self._variant.view if config.view < 0 else config.view
        self._max_strength = view or MAX_STRENGTH
        self.spec = _spec(config, self._variant)
        self.num_matches = num_matches
        self._teams = np.array(self._variant.teams)
        self._world = World.blank(num_matches, self._teams.size, self._variant.size)
        self._engine = Engine(self._variant, self._max_strength, config.time_limit, config.first_collapse)
        self._tick = allocate_tick(self.spec, num_matches, reward_parts={"player": PARTS})
        self._player = self._tick.roles["player"]
        self._view = View(self._variant, view, self._player)

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario or one of its parameters is unknown or out of range.
        """
        at: Indices = _ALL if indices is None else np.asarray(indices, np.int64)
        seeds = np.asarray(seeds, np.uint64)
        values = scenario_values(scenarios, len(seeds))
        self._world.put(at, new_world(seeds, values, self._config, self._variant, self._max_strength))
        self._tick.clear(at)
        self._show()
        return self._tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick; see `ludus.environment.Environment.step`.

        Raises:
            ContractError: A choice is out of range; no match has been advanced.
        """
        world = self._world
        chosen = self._legal_actions(actions["player"])
        acting, tally = world.acting, world.tally.copy()
        self._engine.advance(world, chosen)
        self._score(acting, world.tally - tally)
        self._show()
        return self._tick

    def close(self) -> None:
        """Do nothing; there is nothing to free."""

    def _legal_actions(self, chosen: np.ndarray) -> np.ndarray:
        acting = self._player.acting
        chosen = np.where(acting[:, :, None], np.asarray(chosen, np.int64), 0)
        illegal = ~legal_actions(self.spec.roles[0].action_space, chosen)
        if illegal.any():
            match, seat = map(int, np.argwhere(illegal)[0])
            words = f" and {WORDS} words from 0 to {SYMBOLS - 1}" if self._variant.radio else ""
            raise ContractError(
                f"pommerman: seat {seat} of role 'player' in match {match} chose {chosen[match, seat].tolist()}; "
                f"expected an action from 0 to {len(ACTIONS) - 1}{words}"
            )
        return np.asarray(chosen)

    def _score(self, acting: np.ndarray, counted: np.ndarray) -> None:
        """Write rewards, outcomes and statistics, and end matches.

        Args:
            acting: ``[B, A] bool``: agents that lived before the step.
            counted: ``[B, A, 5] float32``: what the step added to the tallies.
        """
        world, tick, player = self._world, self._tick, self._player
        lives = np.stack([world.alive[:, self._teams == t].any(axis=1) for t in range(self._teams.max() + 1)], axis=1)
        is_decided = lives.sum(axis=1) <= 1
        ended = world.running & (is_decided | (world.ticks >= self._config.time_limit))
        winners = lives & (is_decided & ended)[:, None] & (lives.sum(axis=1) == 1)[:, None]
        tick.terminated[:] = ended
        tick.outcome[ended] = np.where(winners.any(axis=1)[:, None], winners, 0.5)[ended]
        world.running &= ~ended
        result = np.where(winners[:, self._teams], 1.0, -1.0) * ended[:, None]
        if player.terminated is not None:  # in a free-for-all the dead have lost at once
            died = acting & ~world.alive
            player.terminated[:] = died
            result = np.where(died, -1.0, result * (acting & world.alive))
        player.reward_parts["win"][:] = self._config.win * result
        weights = {"kill": self._config.kill, "wood": self._config.wood_reward, "item": self._config.item}
        for part, weight in weights.items():
            player.reward_parts[part][:] = weight * counted[..., COLUMN[_COUNTED[part]]]
        player.reward.fill(0.0)
        for values in player.reward_parts.values():
            player.reward += values

    def _show(self) -> None:
        world, player = self._world, self._player
        self._view.update(world)
        player.acting[:] = world.acting
        for column, name in enumerate(TALLIES):
            player.statistics[name][:] = world.tally[..., column]
        player.statistics["length"][:] = world.ticks[:, None]
        player.statistics["survived"][:] = world.alive

    def render(self, match: int) -> str:
        """Return the match as text with ANSI colours."""
        return terminal.render(self._world, match)

    def render_frame(self, match: int) -> Scene:
        """Return the board of a match, see `ludus.rendering.Renderable`."""
        return scene.draw_scene(self._world, match)

    def action_name(self, role: str, action: np.ndarray) -> str:  # noqa: ARG002 - there is one role
        """Return the name of the action, such as ``"left"``; with radio, and the words: ``"left:3,5"``."""
        labels = [int(label) for label in np.ravel(action)]
        words = ",".join(map(str, labels[1:]))
        return f"{ACTIONS[labels[0]]}:{words}" if any(labels[1:]) else ACTIONS[labels[0]]

    def parse_action(self, role: str, text: str) -> np.ndarray:  # noqa: ARG002 - there is one role
        """Parse a typed action into ``[L] int64``.

        Raises:
            ValueError: The text is not an action; the message lists what is.
        """
        return parse_action(text, words=WORDS if self._variant.radio else 0)


def parse_action(text: str, *, words: int) -> np.ndarray:
    """Parse the name of an action, or its first letter, with or without words for the teammate.

    Raises:
        ValueError: The text is not an action; the message lists what is.
    """
    name, _, sent = text.strip().lower().partition(":")
    found = [number for number, known in enumerate(ACTIONS) if name and known.startswith(name)]
    symbols = _parse_words(sent, words)
    if len(found) != 1 or symbols is None:
        form = f", with {words} words from 0 to {SYMBOLS - 1} such as left:3,5" if words else ""
        raise ValueError(f"expected one of {', '.join(ACTIONS)}{form}; got {text.strip()!r}")
    return np.array([found[0], *symbols], np.int64)


def _parse_words(sent: str, count: int) -> list[int] | None:
    """Return the symbols of a message, zeros without one; None: it is not a message."""
    if not sent:
        return [0] * count
    symbols = sent.split(",")
    known = all(word.isdecimal() and int(word) < SYMBOLS for word in symbols)
    return [int(word) for word in symbols] if known and len(symbols) == count else None
