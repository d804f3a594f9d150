"""One match of Honor of Kings, and the environment of many."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import attrs
import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, Scenario
from ludus_copies import Copies, MatchArrays

from ludus_hok.bridge import Bridge
from ludus_hok.config import HokConfig
from ludus_hok.hok_api import COMMON_AI, HEROES, LABEL_SIZES, LABELS_USED, OBSERVATION, REWARDS
from ludus_hok.seat import LegalActions, write_observation, write_rewards, write_statistics
from ludus_hok.settings import ServerSettings

ROLE = "player"
NUM_SEATS = 2
STATISTICS = ("kills", "deaths", "money", "hero_damage", "frames")
_IDLE = [0] * len(LABEL_SIZES)


def make_environment(config: HokConfig, *, num_matches: int) -> Copies:
    """Make `num_matches` matches.

    Raises:
        PluginError: hok_env is not installed, or no ports are free.
        ConfigError: A variable of the environment is malformed.
        WorkerError: A worker process could not make it.
    """
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers"))
    timeout_s = max(300.0, 2 * config.start_timeout_s)
    return Copies(
        "ludus_hok.game:make_game", options, num_matches=num_matches, workers=config.workers, timeout_s=timeout_s
    )


def make_game(**options: Any) -> HokGame:
    """Make one match; arguments as in `HokConfig`.

    Raises:
        PluginError: hok_env is not installed, or no ports are free.
        ConfigError: A variable of the environment is malformed.
    """
    options["heroes"] = tuple(options["heroes"])  # a list from worker processes
    return HokGame(HokConfig(**options))


def hero_pairs(heroes: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return the pairs of heroes of both camps by the names of their scenarios."""
    different = tuple(dict.fromkeys(heroes))
    return {f"{own}-{enemy}": (own, enemy) for own, enemy in itertools.product(different, repeat=2)}


def make_spec(config: HokConfig) -> EnvironmentSpec:
    """Return the spec of the game."""
    leaves: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(-np.inf, np.inf, shape, np.float32) for name, shape in OBSERVATION.items()
    }
    role = Role(
        name=ROLE,
        observation_space=spaces.Dict({**leaves, "hero": spaces.Box(0.0, 1.0, (len(HEROES),), np.float32)}),
        action_space=spaces.MultiDiscrete(list(LABEL_SIZES.values())),
        teams=(0, 1),
        labels_used=LABELS_USED,
        statistics=STATISTICS,
        builtin=(COMMON_AI,),
    )
    return EnvironmentSpec(
        name="hok",
        roles=(role,),
        turn="simultaneous",
        max_ticks=-(-config.max_frames // config.frame_interval) + 1,
        scenarios=tuple(hero_pairs(config.heroes)),
        constant_sum=True,
        outcome_rule="a camp whose crystal is destroyed loses; a match without that is a draw",
        repeatable=False,
    )


class HokGame:
    """One match, see `ludus_copies.ScalarGame`.

    hok_env reports nothing about a match in which its bot plays both camps, so such a match is not played: it is
    truncated on its first tick.

    Args:
        config: Options of the environment.

    Raises:
        PluginError: hok_env is not installed, or no ports are free.
        ConfigError: A variable of the environment is malformed.
    """

    masked_roles: ClassVar[frozenset[str]] = frozenset({ROLE})
    reward_parts: ClassVar[dict[str, tuple[str, ...]]] = {ROLE: (*REWARDS, "rest")}

    def __init__(self, config: HokConfig) -> None:
        self._config = config
        self.spec = make_spec(config)
        self._pairs = hero_pairs(config.heroes)
        self._bridge = Bridge(config, ServerSettings.read())
        self._is_prepared = False
        self._ticks = 0
        self._bots = [False] * NUM_SEATS
        self._heroes = ("", "")
        self._legal: list[LegalActions | None] = [None] * NUM_SEATS

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._tick = arrays.tick
        self._player = arrays.tick.roles[ROLE]
        self._actions = arrays.actions[ROLE]

    def prepare(self, seed: int, scenario: Scenario) -> None:
        """Send the request for a match, so that several matches start at the same time."""
        self._heroes = self._choose_heroes(seed, scenario)
        self._bots = [bool(bot) for bot in scenario.builtin] or [False] * NUM_SEATS
        self._is_prepared = True
        if all(self._bots):
            self._bridge.send({"do": "stop"})
        else:
            heroes = [HEROES[hero] for hero in self._heroes]
            self._bridge.send({"do": "reset", "heroes": heroes, "bots": self._bots})

    def _choose_heroes(self, seed: int, scenario: Scenario) -> tuple[str, str]:
        if scenario.name in self._pairs:
            return self._pairs[scenario.name]
        pairs = list(self._pairs.values())
        return pairs[int(np.random.default_rng(seed).integers(len(pairs)))]

    def reset(self, seed: int, scenario: Scenario) -> None:
        """Start a match.

        Raises:
            PluginError: hok_env has another interface than this package knows.
            WorkerError: hok_env or the game server failed, or did not start the match in time.
        """
        if not self._is_prepared:
            self.prepare(seed, scenario)
        self._is_prepared = False
        self._ticks = 0
        if not all(self._bots):
            self._observe(self._bridge.receive(self._config.start_timeout_s))
            self._player.acting[:] = np.logical_not(self._bots)

    def step(self) -> None:
        """Advance by one decision of both seats.

        Raises:
            PluginError: hok_env has another interface than this package knows.
            WorkerError: hok_env or the game server failed, or did not reply in time.
        """
        self._ticks += 1
        if all(self._bots):
            self._end([False, False])
            return
        actions = [
            _IDLE if legal is None else legal.choose_target(self._actions[seat])
            for seat, legal in enumerate(self._legal)
        ]
        self._bridge.send({"do": "step", "actions": actions})
        reply = self._bridge.receive(self._config.step_timeout_s)
        self._observe(reply)
        for seat, seen in enumerate(reply["seats"]):
            if seen is not None:
                write_rewards(self._player, seat, seen["rewards"])
        if reply["is_over"]:
            self._end(reply["has_lost"])
        elif self._ticks == self.spec.max_ticks:
            self._bridge.send({"do": "stop"})
            self._end([False, False])
        else:
            self._player.acting[:] = np.logical_not(self._bots)

    def _observe(self, reply: dict[str, Any]) -> None:
        for seat, seen in enumerate(reply["seats"]):
            self._legal[seat] = None
            if seen is not None:
                write_observation(self._player, seat, seen["observation"], self._heroes[seat])
                self._legal[seat] = legal = LegalActions(seen["legal"], seen["labels_used"])
                assert self._player.action_mask is not None
                legal.write_mask(self._player.action_mask[seat])
            write_statistics(self._player, seat, reply["statistics"][seat], reply["frame"])

    def _end(self, has_lost: list[bool]) -> None:
        is_decided = has_lost[0] != has_lost[1]
        self._tick.terminated[...] = is_decided
        self._tick.truncated[...] = not is_decided
        self._tick.outcome[:] = [float(not lost) if is_decided else 0.5 for lost in has_lost]

    def close(self) -> None:
        """End the match and the process of hok_env."""
        self._bridge.close()
