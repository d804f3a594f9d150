"""One deathmatch, and the environment of many."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
from ludus.environment import EnvironmentSpec, Role, Scenario
from ludus_copies import Copies, MatchArrays, fold_seed, winner_points

from ludus_vizdoom.buttons import Buttons
from ludus_vizdoom.config import DeathmatchConfig, with_tuples
from ludus_vizdoom.counters import Counters
from ludus_vizdoom.engine import engine_errors, load_library
from ludus_vizdoom.observations import Observer, observation_space, privileged_space
from ludus_vizdoom.party import RULES, Party
from ludus_vizdoom.settings import GameSettings

ROLE = "player"
BOT = "bot"
PARTS = ("frag", "death", "damage", "damage_taken", "health", "armor", "ammo")
STATISTICS = ("frags", "deaths", "damage")
TICS_PER_S = 35


def make_environment(config: DeathmatchConfig, *, num_matches: int) -> Copies:
    """Make `num_matches` matches.

    Raises:
        PluginError: ViZDoom is not installed.
        ConfigError: There is no such scenario, button or variable.
        WorkerError: A worker process could not make it.
    """
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers"))
    return Copies("ludus_vizdoom.deathmatch:make_game", options, num_matches=num_matches, workers=config.workers)


def make_game(**options: Any) -> DeathmatchGame:
    """Make one match; arguments as in `DeathmatchConfig`. Its engines start with the match.

    Raises:
        PluginError: ViZDoom is not installed.
        ConfigError: There is no such scenario, button or variable.
    """
    return DeathmatchGame(DeathmatchConfig(**with_tuples(options)))


def bot_names() -> list[str]:
    """Return the names of ViZDoom's bots."""
    text = (Path(load_library().__file__).parent / "bots.cfg").read_text(encoding="utf-8")
    return [words[1] for words in map(str.split, text.splitlines()) if len(words) > 1 and words[0] == "name"]


class DeathmatchGame:
    """One match, see `ludus_copies.ScalarGame`.

    The engines are started for every match. The state of the server after a restart of the map depends on the match
    before, so that equal seeds would give different matches.

    Args:
        config: Options of the environment.
    """

    masked_roles: ClassVar[frozenset[str]] = frozenset()
    reward_parts: ClassVar[dict[str, tuple[str, ...]]] = {ROLE: PARTS}

    def __init__(self, config: DeathmatchConfig) -> None:
        self._config = config
        self._settings = GameSettings.of(config, config.scenario)
        example = load_library().DoomGame()
        self._settings.apply(example)
        self._buttons = Buttons([one.name for one in example.get_available_buttons()], config.actions)
        self._num_variables = example.get_available_game_variables_size()
        self._max_tics = round(config.time_limit_s * TICS_PER_S)
        self._counters = [Counters(config, PARTS) for _ in range(config.players)]
        self._bot_names = bot_names()
        self._party: Party | None = None
        self.spec = self._make_spec()

    def _make_spec(self) -> EnvironmentSpec:
        config = self._config
        alone = config.players == 1
        role = Role(
            name=ROLE,
            observation_space=observation_space(self._settings, self._num_variables + 1),
            action_space=self._buttons.space,
            teams=tuple(range(config.players)),
            privileged_space=privileged_space(self._settings),
            statistics=STATISTICS,
            guidance=tuple(part for part in PARTS if part != "frag"),
            builtin=() if alone else (BOT,),
        )
        return EnvironmentSpec(
            name="vizdoom-deathmatch",
            roles=(role,),
            turn="simultaneous",
            tick_s=config.frame_skip / TICS_PER_S,
            max_ticks=-(-self._max_tics // config.frame_skip),
            constant_sum=config.players == 2,
            score="return" if alone else "outcome",
            outcome_rule="the player with the most frags, which are kills minus suicides, wins"
            + (", bots included" if alone else ""),
        )

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._tick = arrays.tick
        self._player = arrays.tick.roles[ROLE]
        self._actions = arrays.actions[ROLE]
        player = self._player
        self._observers = [
            Observer(
                self._settings,
                {name: leaf[seat] for name, leaf in player.observation.items()},
                {name: leaf[seat] for name, leaf in player.privileged.items()},
            )
            for seat in range(self._config.players)
        ]

    def prepare(self, seed: int, scenario: Scenario) -> None:
        """Start the engines of a match in the background."""
        if self._party is not None:
            self._party.close()
        config = self._config
        names = scenario.builtin or ("",) * config.players
        self._seats = [seat for seat in range(config.players) if not names[seat]]
        bots = config.bots + config.players - len(self._seats)
        drawn = np.random.default_rng(seed).permutation(self._bot_names)[:bots]
        self._bots = [str(name) for name in drawn]  # first those that play seats
        self._party = Party(
            lambda game, index: self._configure(game, index, fold_seed(seed)),
            max(1, len(self._seats)),
            rules=" ".join((RULES, *config.arguments)),
            start_timeout_s=config.start_timeout_s,
            step_timeout_s=config.step_timeout_s,
            is_async=config.mode == "async",
            first_color=config.color_of_player,
        )

    def _configure(self, game: Any, index: int, seed: int) -> None:
        self._settings.apply(game)
        if self._config.mode == "async":
            game.set_mode(load_library().Mode.ASYNC_PLAYER)
        game.set_seed((seed + index) & 0x7FFFFFFF)
        if not self._seats:  # the engine of a match between bots only watches
            game.add_game_args("+viz_spectator 1")

    def reset(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002 - see `prepare`
        """Start a match.

        Raises:
            WorkerError: An engine failed or did not start in time.
        """
        assert self._party is not None
        self._party.wait_for_start()
        self._tics = 0
        games = self._party.games
        with engine_errors():
            for name in self._bots:
                games[0].send_game_command(f"addbot {name}")
            for seat, game in zip(self._seats, games, strict=False):
                self._counters[seat].start(game)
        self._bot_frags = np.zeros(self._config.players)
        self._observe()
        self._player.acting[self._seats] = True

    def _observe(self) -> None:
        assert self._party is not None
        left = 1.0 - self._tics / self._max_tics
        self._player.observation["variables"][self._seats, -1] = left
        with engine_errors():
            for seat, game in zip(self._seats, self._party.games, strict=False):
                state = game.get_state()
                if state is not None:  # the engine draws nothing while a map changes
                    self._observers[seat].write(state)

    def step(self) -> None:
        """Hold the actions for the tics of a decision.

        Raises:
            WorkerError: An engine failed, or did not advance in time.
        """
        assert self._party is not None
        tics = min(self._config.frame_skip, self._max_tics - self._tics)
        actions = [self._buttons.press(self._actions[seat]) for seat in self._seats]
        self._party.advance(actions or [self._buttons.idle], tics)
        self._tics += tics
        self._observe()
        self._reward()
        with engine_errors():
            is_over = self._tics >= self._max_tics or self._party.games[0].is_episode_finished()
        if is_over:
            self._write_statistics()
            self._tick.terminated[...] = True
            self._tick.outcome[:] = winner_points(self._final_frags())[: self._config.players]
        else:
            self._player.acting[self._seats] = True

    def _reward(self) -> None:
        assert self._party is not None
        player, games = self._player, self._party.games
        with engine_errors():
            for seat, game in zip(self._seats, games, strict=False):
                rewards = self._counters[seat].rewards(game)
                player.reward[seat] = sum(rewards.values())
                for part, value in rewards.items():
                    player.reward_parts[part][seat] = value
            self._reward_bots()

    def _write_statistics(self) -> None:
        assert self._party is not None
        statistics = self._player.statistics
        with engine_errors():
            for seat, game in zip(self._seats, self._party.games, strict=False):
                for name, part in (("frags", "frag"), ("deaths", "death"), ("damage", "damage")):
                    statistics[name][seat] = self._counters[seat].total(game, part)

    def _reward_bots(self) -> None:
        """Reward the bots that play seats for their frags, the only thing that the server counts for them."""
        seats = [seat for seat in range(self._config.players) if seat not in self._seats]
        if not seats:
            return
        frags = self._frags_of(self._bots[: len(seats)])
        change = frags - self._bot_frags[seats]
        self._bot_frags[seats] = frags
        self._player.reward_parts["frag"][seats] = self._config.frag * change
        self._player.reward[seats] = self._config.frag * change
        self._player.statistics["frags"][seats] = frags

    def _frags_of(self, names: list[str]) -> np.ndarray:
        assert self._party is not None
        server = self._party.games[0].get_server_state()
        by_name = dict(zip(server.players_names, server.players_frags, strict=False))
        return np.array([by_name.get(name, 0) for name in names], float)

    def _final_frags(self) -> list[float]:
        """Return the frags of all seats, and those of the bots behind them where one player is alone."""
        frags = list(map(float, self._player.statistics["frags"]))
        if self._config.players > 1:
            return frags
        with engine_errors():
            return [*frags, *self._frags_of(self._bots).tolist()]

    def render_frame(self) -> np.ndarray:
        """Return the screens of all seats from left to right, ``[H, W, 3] uint8``."""
        return np.concatenate([self._observers[seat].frame() for seat in self._seats or [0]], axis=1)

    def close(self) -> None:
        """Kill the engines."""
        if self._party is not None:
            self._party.close()
            self._party = None
