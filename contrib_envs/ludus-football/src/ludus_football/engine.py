"""One match in Google Research Football's engine: start, actions, steps, and what it reports as a `State`.

The library's Python environment is not used: the engine alone needs no other package, and is faster. What the engine
does, and what this module does about it:

- It changes the configuration that it is given, so every start makes a new one.
- Positions and directions of both teams are reported, and actions are taken, in the coordinates of the left team.
- A seat of the right team sees the field turned by 180 degrees, so the directions of its actions are turned back here.
- A match starts with a kick-off only. Other set pieces start from the state of a match before its kick-off, in which
  the kind of the set piece is replaced.
- A state of another configuration ends the process; `Engine.load` raises an error instead.
- The memory of a game is never freed, 50 MB. `Engine.close` keeps the game for the next engine of the process.
- The engine lets other Python threads run while it steps, but keeps which game it steps in a variable of the process:
  engines of one process must be used by one thread.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen
from ludus.errors import PluginError

from ludus_football.actions import TURNED_ACTIONS, Action
from ludus_football.engine_states import replace_constants, replace_set_piece
from ludus_football.formations import MatchSetup, Team
from ludus_football.held_game import overrule
from ludus_football.state import DRIBBLE, NUM_DIRECTIONS, RIGHT, SPRINT, GameMode, State

_INSTALL = "the README of ludus-football lists the packages that it needs"
_PHYSICS_STEPS = 10  # of 10 ms, in a tick
#: What an action switches on (True) or off: indices of sticky actions.
_HELD: dict[int, tuple[int, bool]] = {
    Action.SPRINT: (SPRINT, True),
    Action.RELEASE_SPRINT: (SPRINT, False),
    Action.DRIBBLE: (DRIBBLE, True),
    Action.RELEASE_DRIBBLE: (DRIBBLE, False),
}
_PLAYER_NUMBERS = 8  # see `_player_numbers`

#: Games of closed engines, for the next engines of the process.
_free_games: list[Any] = []


@functools.cache
def load_library() -> Any:
    """Import the engine.

    Raises:
        PluginError: It is not installed, or was built for other libraries.
    """
    try:
        return importlib.import_module("gfootball_engine")
    except ImportError as error:
        raise PluginError(f"Google Research Football's engine cannot be imported: {error}; {_INSTALL}") from error


@functools.cache
def _backend_actions() -> tuple[int, ...]:
    backend = load_library().e_BackendAction
    return tuple(int(getattr(backend, action.name.lower())) for action in Action)


@frozen(kw_only=True)
class Start:
    """How a match starts.

    Args:
        setup: Players and rules.
        agents: Seats of each team in the engine; 0: the built-in AI plays the team.
        seed: Seed of the engine, below 2³².
        mode: Set piece; `GameMode.KICK_OFF` or another one, which the team of `taker` takes at the ball's position.
        taker: Team that takes the set piece; at a kick-off only the order in which the engine processes the teams.
    """

    setup: MatchSetup
    agents: tuple[int, int]
    seed: int
    mode: GameMode = GameMode.KICK_OFF
    taker: int = 0


class Engine:
    """The engine of one match at a time.

    Args:
        seats: By team, the player that each seat controls.
        follows_ball: Whether the seat of a team has the player that the engine selects, mostly that next to the ball.

    Raises:
        PluginError: The engine is not installed.
    """

    def __init__(self, seats: tuple[Sequence[int], Sequence[int]], *, follows_ball: bool) -> None:
        self._library = load_library()
        self._backend = _backend_actions()
        self._controlled = np.concatenate([np.array(players, np.int64) for players in seats])
        self._follows_ball = follows_ball
        self._team = np.repeat([0, 1], [len(players) for players in seats])
        self._seats = [(team, index) for team, players in enumerate(seats) for index in range(len(players))]
        self._sticky = np.zeros((len(self._team), NUM_DIRECTIONS + 2), bool)
        self._game = _free_games.pop() if _free_games else self._make_game()
        self._is_closed = False

    def _make_game(self) -> Any:
        game = self._library.GameEnv()
        game.game_config.physics_steps_per_frame = _PHYSICS_STEPS
        game.start_game()
        return game

    def start(self, start: Start) -> State:
        """Start a match, and return its first moment.

        Raises:
            PluginError: States of the engine have another layout than this module knows.
        """
        self._reset(start)
        if start.mode != GameMode.KICK_OFF:
            self._game.set_state(replace_set_piece(self._game.get_state(b""), start.mode))
        self._sticky[:] = False
        self._state = self._read(self._skip_pauses())
        if start.mode != GameMode.KICK_OFF:
            self._state.mode = start.mode  # the engine reports it from the next tick on
        return self._state

    def save(self) -> bytes:
        """Return the state of the match, from which `load` goes on."""
        state: bytes = self._game.get_state(b"")
        return state

    def load(self, start: Start, saved: bytes) -> State:
        """Start a match at a saved moment, with the seed and rules of `start`.

        Args:
            start: With as many players, seats and the same `taker` as in the match that was saved.
            saved: What `save` returned.

        Raises:
            ContractError: The players or seats differ.
            PluginError: States of the engine have another layout than this module knows.
        """
        self._reset(start)
        self._game.set_state(replace_constants(saved, self._game.get_state(b"")))
        builtin = int(self._library.e_BackendAction.builtin_ai)
        for team, index in self._seats:
            self._game.perform_action(builtin, team != RIGHT, index)  # the first action of a seat ends it
        self._sticky[:] = False
        self._state = self._read(self._skip_pauses())
        return self._state

    def _reset(self, start: Start) -> None:
        setup = start.setup
        self._start = start
        config = self._library.ScenarioConfig.make()
        config.game_duration = setup.duration
        config.left_team_difficulty, config.right_team_difficulty = setup.difficulties
        config.left_agents, config.right_agents = start.agents
        config.deterministic = False
        config.game_engine_random_seed = start.seed
        config.reverse_team_processing = start.taker == RIGHT
        config.offsides = setup.offsides
        config.ball_position[0], config.ball_position[1] = setup.ball
        self._add_players(config.left_team, setup.left)
        self._add_players(config.right_team, setup.right)
        self._num_players = setup.num_players
        self._game.state = self._library.GameState.game_running
        self._game.reset(config, False)

    def _add_players(self, team: Any, places: Team) -> None:
        for place in places:
            role = getattr(self._library.e_PlayerRole, f"e_PlayerRole_{place.role}")
            team.append(self._library.FormationEntry(place.x, place.y, role, place.lazy, place.controllable))

    def step(self, actions: np.ndarray, acting: np.ndarray) -> State:
        """Advance by a tick, and return the moment that it leads to. Pauses of the game take no ticks.

        Args:
            actions: ``[S] int64``: numbers of `Action`; directions are in the view of the team.
            acting: ``[S] bool``: the other seats are played by the built-in AI.
        """
        overruled = overrule(actions, self._state, int(self._game.waiting_for_game_count))
        taken = np.where(self._team == RIGHT, TURNED_ACTIONS[overruled], overruled)
        for seat in acting.nonzero()[0].tolist():
            action = int(taken[seat])
            self.take(seat, action)
            self._hold(seat, action)
        self._state = self._read(self.advance())
        is_held = self._state.mode != GameMode.NORMAL
        self._game.waiting_for_game_count = self._game.waiting_for_game_count + 1 if is_held else 0
        return self._state

    def close(self) -> None:
        """Give the game to the next engine of this process; closing twice is harmless."""
        if not self._is_closed:
            self._is_closed = True
            _free_games.append(self._game)

    def take(self, seat: int, action: int) -> None:
        """Choose the action of a seat for the next tick, with directions in the coordinates of the left team."""
        team, index = self._seats[seat]
        self._game.perform_action(self._backend[action], team != RIGHT, index)

    def advance(self) -> Any:
        """Advance by a tick, and return what the engine reports after it."""
        self._game.step()
        return self._skip_pauses()

    def _hold(self, seat: int, action: int) -> None:
        """Note which sticky actions of a seat hold on after an action."""
        sticky = self._sticky[seat]
        if 1 <= action <= NUM_DIRECTIONS or action == Action.RELEASE_DIRECTION:
            sticky[:NUM_DIRECTIONS] = False
            if action != Action.RELEASE_DIRECTION:
                sticky[action - 1] = True
        elif action in _HELD:
            held, value = _HELD[action]
            sticky[held] = value

    def _skip_pauses(self) -> Any:
        """Step until the game is in play, and return what the engine reports then."""
        info = self._game.get_info()
        while not info.is_in_play:
            self._game.step()
            info = self._game.get_info()
        return info

    def _selected(self, info: Any, team: int) -> int:
        """Return the player that the engine selects for the seat of a team, or for the built-in AI; -1: none."""
        if self._start.agents[team]:
            controllers = info.right_controllers if team == RIGHT else info.left_controllers
            return int(controllers[0].controlled_player)
        players = info.right_team if team == RIGHT else info.left_team
        return next((index for index, player in enumerate(players) if player.designated_player), -1)

    def _read(self, info: Any) -> State:
        ball, movement, rotation = info.ball_position, info.ball_direction, info.ball_rotation
        numbers = np.zeros((2, max(self._num_players), _PLAYER_NUMBERS), np.float32)
        selected = [-1, -1]
        for index, players in enumerate((info.left_team, info.right_team)):
            numbers[index, : self._num_players[index]] = [_player_numbers(player) for player in players]
        if self._follows_ball:
            selected = [self._selected(info, team) for team in (0, 1)]
        return State(
            ball=np.array([ball[0], ball[1], ball[2]], np.float32),
            ball_direction=np.array([movement[0], movement[1], movement[2]], np.float32),
            ball_rotation=np.array([rotation[0], rotation[1], rotation[2]], np.float32),
            owner_team=info.ball_owned_team,
            owner_player=info.ball_owned_player,
            position=numbers[..., 0:2],
            direction=numbers[..., 2:4],
            tired=numbers[..., 4],
            active=numbers[..., 5] > 0,
            yellow=numbers[..., 6] > 0,
            role=numbers[..., 7].astype(np.int64),
            num_players=self._num_players,
            controlled=np.array(selected)[self._team] if self._follows_ball else self._controlled,
            team=self._team,
            sticky=self._sticky.copy(),
            score=(info.left_goals, info.right_goals),
            mode=int(info.game_mode),
        )


def _player_numbers(player: Any) -> tuple[float, ...]:
    position, direction = player.position, player.direction
    return (
        position[0],
        position[1],
        direction[0],
        direction[1],
        player.tired_factor,
        player.is_active,
        player.has_card,
        player.role,
    )
