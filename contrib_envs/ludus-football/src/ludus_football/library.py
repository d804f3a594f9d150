"""Random play of the engine alone, which `ludus bench env` compares with the environment."""

from __future__ import annotations

import numpy as np
from ludus.environment import Scenario

from ludus_football.actions import NUM_ACTIONS
from ludus_football.config import FootballConfig
from ludus_football.engine import Engine
from ludus_football.formations import SETUPS
from ludus_football.match_plan import MatchPlanner, seat_players
from ludus_football.state import GameMode


def make_library(config: FootballConfig) -> LibraryMatch:
    """Make random play of the same scenario.

    Raises:
        PluginError: The engine is not installed.
    """
    return LibraryMatch(config)


class LibraryMatch:
    """Matches of the engine, one after another: actions and steps, without reading positions.

    Args:
        config: Options of the environment.
    """

    def __init__(self, config: FootballConfig) -> None:
        self._setup = SETUPS[config.scenario]
        seats = seat_players(self._setup, config.players)
        team = np.repeat([0, 1], [len(players) for players in seats])
        self._planner = MatchPlanner(config, team, {})
        self._engine = Engine(seats, follows_ball=config.players == "active")
        self._rng = np.random.default_rng(0)
        self._actions = np.zeros(len(team), np.int64)
        self._matches = 0
        self.description = f"the engine of gfootball alone, {config.scenario}"
        self._start()

    def _start(self) -> None:
        self._engine.start(self._planner.plan(self._matches, Scenario()).start)
        self._matches += 1
        self._ticks = 0

    def choose(self) -> None:
        """Choose random actions."""
        self._actions = self._rng.integers(NUM_ACTIONS, size=len(self._actions))

    def advance(self) -> None:
        """Play a tick, and start a new match after a goal or a stop that ends this one, or after its duration."""
        for seat, action in enumerate(self._actions.tolist()):
            self._engine.take(seat, action)
        info = self._engine.advance()
        self._ticks += 1
        is_scored = self._setup.ends_on_goal and info.left_goals + info.right_goals > 0
        is_out = self._setup.ends_on_out and int(info.game_mode) != GameMode.NORMAL
        if is_scored or is_out or self._ticks >= self._planner.duration:
            self._start()

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
