"""One match of football, and the environment of many."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, Scenario
from ludus.rendering import Scene
from ludus_copies import Copies, MatchArrays, winner_points

from ludus_football.actions import NUM_ACTIONS, Action
from ludus_football.config import FootballConfig
from ludus_football.engine import Engine, load_library
from ludus_football.events import EventTracker
from ludus_football.features import FeatureEncoder
from ludus_football.formations import DIFFICULTIES, SETUPS
from ludus_football.masks import available
from ludus_football.match_end import MatchEnd
from ludus_football.match_plan import MatchPlan, MatchPlanner, seat_players
from ludus_football.representations import GlobalEncoder, MinimapEncoder, Simple115Encoder
from ludus_football.rewards import PARTS, RewardTracker
from ludus_football.scene import draw_scene
from ludus_football.state import LEFT, NOBODY, RIGHT, State
from ludus_football.statistics import STATISTICS, StatisticsTracker
from ludus_football.stored_states import StoredState, find_folder, read_folder, write_state

ROLE = "player"
STATE_LEAF = "state"
TICK_S = 0.1

Encoder = FeatureEncoder | Simple115Encoder | MinimapEncoder
_ENCODERS: dict[str, type[Encoder]] = {"dis": FeatureEncoder, "simple115": Simple115Encoder, "smm": MinimapEncoder}


def make_environment(config: FootballConfig, *, num_matches: int) -> Copies:
    """Make `num_matches` matches.

    Raises:
        PluginError: The engine is not installed.
        ConfigError: The folder of stored moments, or a file in it, is wrong.
        WorkerError: A worker process could not make it.
    """
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers"))
    return Copies("ludus_football.game:make_game", options, num_matches=num_matches, workers=config.workers)


def make_game(**options: Any) -> FootballGame:
    """Make one match; arguments as in `FootballConfig`. Its engine starts with the first match.

    Raises:
        PluginError: The engine is not installed.
        ConfigError: The folder of stored moments, or a file in it, is wrong.
    """
    return FootballGame(FootballConfig(**options))


def make_spec(
    config: FootballConfig, planner: MatchPlanner, encoder: Encoder, critics: GlobalEncoder
) -> EnvironmentSpec:
    """Return the spec of the game.

    Args:
        config: Options.
        planner: Knows the scenarios and the duration.
        encoder: Writes what seats observe.
        critics: Writes what critics read.
    """
    setup = SETUPS[config.scenario]
    low, high = (0, 255) if encoder.dtype is np.uint8 else (-np.inf, np.inf)
    is_academy = setup.num_teams == 1
    left, right = seat_players(setup, config.players)
    names = [f"left_{player}" for player in left] + [f"right_{player}" for player in right]
    role = Role(
        name=ROLE,
        observation_space=spaces.Box(low, high, encoder.shape, encoder.dtype),
        action_space=spaces.Discrete(NUM_ACTIONS),
        teams=(0,) * len(left) + (1,) * len(right),
        privileged_space=spaces.Dict({STATE_LEAF: spaces.Box(-np.inf, np.inf, critics.shape, np.float32)}),
        statistics=STATISTICS,
        seat_names=tuple(names) if config.players == "all" else (),
        builtin=tuple(DIFFICULTIES),
    )
    return EnvironmentSpec(
        name="football",
        roles=(role,),
        turn="simultaneous",
        tick_s=TICK_S,
        max_ticks=planner.duration,
        scenarios=planner.scenarios,
        constant_sum=not is_academy,
        outcome_rule="a goal wins the match" if is_academy else "the team with more goals wins",
    )


class FootballGame:
    """One match, see `ludus_copies.ScalarGame`.

    Args:
        config: Options of the environment.

    Raises:
        PluginError: The engine is not installed.
        ConfigError: The folder of stored moments, or a file in it, is wrong.
    """

    reward_parts: ClassVar[dict[str, tuple[str, ...]]] = {ROLE: PARTS}

    def __init__(self, config: FootballConfig) -> None:
        load_library()
        self._config = config
        self._setup = SETUPS[config.scenario]
        self._seats = seat_players(self._setup, config.players)
        self._team = np.repeat([0, 1], [len(players) for players in self._seats])
        self._planner = MatchPlanner(config, self._team, self._read_states())
        num_players, num_seats = self._setup.num_players, len(self._team)
        self._encoder = _ENCODERS[config.observation](num_players, num_seats)
        self._critics = GlobalEncoder(num_players)
        self._events = EventTracker()
        self._rewards = RewardTracker(config, self._team)
        self._statistics = StatisticsTracker(self._team)
        self.spec = make_spec(config, self._planner, self._encoder, self._critics)
        self.masked_roles = frozenset((ROLE,)) if config.mask == "rules" else frozenset()
        self._engine: Engine | None = None

    def _read_states(self) -> Mapping[str, StoredState]:
        config = self._config
        if not config.states:
            return {}
        return read_folder(find_folder(config.states), scenario=config.scenario, players=config.players)

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._tick = arrays.tick
        self._player = arrays.tick.roles[ROLE]
        self._actions = arrays.actions[ROLE]

    def reset(self, seed: int, scenario: Scenario) -> None:
        """Start a match.

        Raises:
            ContractError: A parameter of the scenario is unknown or out of range, or built-in bots of one team differ.
        """
        self._plan = self._planner.plan(seed, scenario)
        self._acting = np.array([not name for name in scenario.builtin] or np.ones(len(self._team)), bool)
        if self._engine is None:
            self._engine = Engine(self._seats, follows_ball=self._config.players == "active")
        self._state = self._start(self._engine, self._plan)
        self._ticks = 0
        self._end = MatchEnd(self._plan, self._state)
        self._events.start(self._state)
        self._rewards.start(self._state)
        self._statistics.start()
        self._observe()
        self._player.acting[:] = self._acting

    def _start(self, engine: Engine, plan: MatchPlan) -> State:
        return engine.load(plan.start, plan.saved) if plan.saved else engine.start(plan.start)

    def step(self) -> None:
        """Advance by one tick of 0.1 s."""
        assert self._engine is not None
        self._state = self._engine.step(self._actions[:, 0], self._acting)
        self._ticks += 1
        self._observe()
        is_decided = self._end.is_over(self._state)
        is_over = is_decided or self._ticks >= self._plan.max_ticks
        self._reward(is_over=is_over)
        if is_over:
            self._tick.terminated[...] = is_decided or not self._plan.is_drill
            self._tick.truncated[...] = not self._tick.terminated
            self._tick.outcome[:] = self._points()
        else:
            self._player.acting[:] = self._acting

    def _points(self) -> list[float]:
        goals = self._end.goals(self._state)
        return winner_points(goals) if self._setup.num_teams > 1 else [float(goals[0] > goals[1])]

    def _observe(self) -> None:
        state = self._state
        state.steps_left, state.game_duration = self._plan.clock - self._ticks, self._planner.duration
        player = self._player
        self._encoder.encode(state, player.observation["obs"])
        self._critics.encode(state, player.privileged[STATE_LEAF])
        if player.action_mask is not None:
            available(state, player.action_mask)

    def _reward(self, *, is_over: bool) -> None:
        """Write the rewards of a tick, and the statistics where the match ends with it."""
        player, state = self._player, self._state
        events = self._events.update(state, np.where(self._acting, self._actions[:, 0], Action.IDLE))
        self._rewards.write(events, state, player.reward_parts, winner=self._winner() if is_over else NOBODY)
        np.sum(list(player.reward_parts.values()), axis=0, out=player.reward)
        self._statistics.add(events, state)
        if is_over:
            self._statistics.write(player.statistics)

    def _winner(self) -> int:
        """Return the team that wins a whole match of two teams; -1: none."""
        left, right = self._end.goals(self._state)
        if left == right or self._plan.is_drill or self._setup.num_teams == 1:
            return NOBODY
        return LEFT if left > right else RIGHT

    def save_state(self, path: Path) -> None:
        """Store the moment of the match in a file ``NAME.state``, for the option `states`.

        Raises:
            ConfigError: The name of the file is wrong.
        """
        assert self._engine is not None
        config = self._config
        stored = StoredState(
            scenario=config.scenario,
            players=config.players,
            taker=self._plan.start.taker,
            engine=self._engine.save(),
        )
        write_state(path, stored)

    def render_frame(self) -> Scene:
        """Return the field from above."""
        return draw_scene(self._state)

    def close(self) -> None:
        """Give the engine to the next match of this process; closing twice is harmless."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
