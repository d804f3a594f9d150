"""One match of a scenario for one player, and the environment of many."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import attrs
import numpy as np
from ludus.environment import EnvironmentSpec, Role, Scenario
from ludus_copies import Copies, MatchArrays, fold_seed

from ludus_vizdoom.buttons import Buttons
from ludus_vizdoom.config import ScenarioConfig, with_tuples
from ludus_vizdoom.counters import Counters
from ludus_vizdoom.engine import Engine, PlayerThread, engine_errors, load_library, start_all
from ludus_vizdoom.observations import Observer, observation_space, privileged_space
from ludus_vizdoom.settings import GameSettings

ROLE = "player"
COUNTED_PARTS = ("kill", "death", "damage", "damage_taken", "health", "armor", "ammo")
PARTS = ("reward", *COUNTED_PARTS)
STATISTICS = ("kills", "damage", "tics")
TICS_PER_S = 35


def make_environment(config: ScenarioConfig, *, num_matches: int) -> Copies:
    """Make `num_matches` matches.

    Raises:
        PluginError: ViZDoom is not installed.
        ConfigError: There is no such scenario, button or variable.
        WorkerError: A worker process could not make it.
    """
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers"))
    return Copies("ludus_vizdoom.scenario_game:make_game", options, num_matches=num_matches, workers=config.workers)


def make_game(**options: Any) -> ScenarioGame:
    """Make one match; arguments as in `ScenarioConfig`. Its engine starts with the first match.

    Raises:
        PluginError: ViZDoom is not installed.
        ConfigError: There is no such scenario, button or variable.
    """
    return ScenarioGame(ScenarioConfig(**with_tuples(options)))


class ScenarioGame:
    """One match, see `ludus_copies.ScalarGame`.

    Args:
        config: Options of the environment.
    """

    masked_roles: ClassVar[frozenset[str]] = frozenset()
    reward_parts: ClassVar[dict[str, tuple[str, ...]]] = {ROLE: PARTS}

    def __init__(self, config: ScenarioConfig) -> None:
        self._config = config
        self._settings = GameSettings.of(config, config.scenario)
        example = load_library().DoomGame()
        example.load_config(str(self._settings.path))
        self._max_tics = config.max_tics or example.get_episode_timeout()
        self._settings.apply(example)
        self._buttons = Buttons([one.name for one in example.get_available_buttons()], config.actions)
        self._num_variables = example.get_available_game_variables_size()
        self._counters = Counters(config, COUNTED_PARTS)
        self._engine: Engine | None = None
        self._starter: PlayerThread | None = None
        self.spec = self._make_spec()

    def _make_spec(self) -> EnvironmentSpec:
        config = self._config
        role = Role(
            name=ROLE,
            observation_space=observation_space(self._settings, self._num_variables),
            action_space=self._buttons.space,
            teams=(0,),
            privileged_space=privileged_space(self._settings),
            statistics=STATISTICS,
        )
        return EnvironmentSpec(
            name="vizdoom",
            roles=(role,),
            turn="simultaneous",
            tick_s=config.frame_skip / TICS_PER_S,
            max_ticks=-(-self._max_tics // config.frame_skip) if self._max_tics else None,
            score="return",
        )

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._tick = arrays.tick
        self._player = arrays.tick.roles[ROLE]
        self._action = arrays.actions[ROLE][0]
        self._observer = Observer(
            self._settings,
            {name: leaf[0] for name, leaf in self._player.observation.items()},
            {name: leaf[0] for name, leaf in self._player.privileged.items()},
        )

    def prepare(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002 - there is only the default
        """Start the engine in the background, before the first match."""
        if self._engine is None:
            self._engine = Engine(self._settings.apply)
            self._starter = PlayerThread()
            self._starter.call(functools.partial(start_all, [self._engine], self._config.start_timeout_s))

    def reset(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002 - there is only the default
        """Start a match.

        Raises:
            WorkerError: The engine failed or did not start in time.
        """
        assert self._engine is not None
        if self._starter is not None:
            self._starter.wait(None)
            self._stop_starter()
        game = self._engine.game
        with engine_errors():
            game.set_seed(fold_seed(seed))
            game.new_episode()
            self._tics = 0
            self._counters.start(game)
            self._observer.write(game.get_state())
        self._player.acting[:] = True

    def step(self) -> None:
        """Hold the action for the tics of a decision.

        Raises:
            WorkerError: The engine failed.
        """
        assert self._engine is not None
        game = self._engine.game
        tics = self._config.frame_skip
        if self._max_tics:
            tics = min(tics, self._max_tics - self._tics)
        with engine_errors():
            reward = game.make_action(self._buttons.press(self._action), tics)
            self._tics += tics
            is_over = game.is_episode_finished()
            if not is_over:  # the engine draws nothing after the end
                self._observer.write(game.get_state())
            self._write_reward(self._config.reward * reward, self._counters.rewards(game))
            is_late = 0 < self._max_tics <= self._tics
            if is_over or is_late:
                self._write_statistics(game)
        self._tick.terminated[...] = is_over
        self._tick.truncated[...] = is_late and not is_over
        self._player.acting[:] = not (is_over or is_late)

    def _write_reward(self, reward: float, counted: dict[str, float]) -> None:
        player = self._player
        player.reward[0] = reward + sum(counted.values())
        player.reward_parts["reward"][0] = reward
        for part, value in counted.items():
            player.reward_parts[part][0] = value

    def _write_statistics(self, game: Any) -> None:
        statistics = self._player.statistics
        statistics["kills"][0] = self._counters.total(game, "kill")
        statistics["damage"][0] = self._counters.total(game, "damage")
        statistics["tics"][0] = self._tics

    def render_frame(self) -> np.ndarray:
        """Return the screen, ``[H, W, 3] uint8``."""
        return self._observer.frame()

    def _stop_starter(self) -> None:
        if self._starter is not None:
            self._starter.stop(self._config.start_timeout_s)
            self._starter = None

    def close(self) -> None:
        """Kill the engine."""
        if self._engine is not None:
            self._engine.kill()
            self._stop_starter()
            self._engine.close()
            self._engine = None
