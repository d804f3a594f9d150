"""The engine's states as bytes: which of them this package changes, and where they are.

A state is a sequence of numbers without names or a version. Their positions are those of version 2.10.2, and are
checked before a state is changed: the engine ends the process when it reads a wrong one.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ludus.errors import ContractError, PluginError

from ludus_football.state import GameMode

#: Times of the next set piece before the first kick-off: stopped at 0, prepared at 0 and started at 2000 ms.
_BEFORE_KICKOFF = struct.pack("<QQQ", 0, 0, 2000)
#: Before these times: the kind of the set piece, and the number of the team that takes it, twice.
_SET_PIECE = struct.Struct("<iii")
#: Size of the numbers before the generator of random numbers: no text, the status of the game, ticks of a held-up game.
_RANDOM_START = 12
_CONSTANTS_START = 2524
_CONSTANTS = struct.Struct("<3f4i2?2f4?2i?")
#: Position after the constants, whether the game runs in real time, and the seed.
_SEED_END = _CONSTANTS_START + _CONSTANTS.size + 1 + 4


class _Constants(NamedTuple):
    """Numbers of a configuration that the engine compares when it reads a state."""

    ball_x: float
    ball_y: float
    ball_z: float
    left_players: int
    right_players: int
    left_agents: int
    right_agents: int
    use_magnet: bool
    offsides: bool
    left_difficulty: float
    right_difficulty: float
    deterministic: bool
    end_on_score: bool
    end_on_possession_change: bool
    end_on_out_of_play: bool
    game_duration: int
    second_half: int
    control_all_players: bool


def replace_set_piece(state: bytes, mode: GameMode) -> bytes:
    """Return the state of a match before its kick-off with another set piece in its place.

    Raises:
        PluginError: The state has another layout.
    """
    start = state.find(_BEFORE_KICKOFF) - _SET_PIECE.size
    if start < 0 or state.count(_BEFORE_KICKOFF) > 1 or _SET_PIECE.unpack_from(state, start)[0] != GameMode.KICK_OFF:
        raise _unknown_layout()
    _, *teams = _SET_PIECE.unpack_from(state, start)
    return state[:start] + _SET_PIECE.pack(mode, *teams) + state[start + _SET_PIECE.size :]


def replace_constants(saved: bytes, current: bytes) -> bytes:
    """Return a saved state with the rules, random numbers and seed of the match that has started.

    Args:
        saved: State of a match with equal numbers of players and agents.
        current: State of the match that has started.

    Raises:
        ContractError: The numbers of players or agents differ.
        PluginError: A state has another layout.
    """
    theirs, ours = _constants(saved), _constants(current)
    if theirs[3:7] != ours[3:7]:
        raise ContractError(
            f"the saved state is of a match of {theirs.left_players} against {theirs.right_players} players with "
            f"{theirs.left_agents} and {theirs.right_agents} seats; expected {ours.left_players} against "
            f"{ours.right_players} players with {ours.left_agents} and {ours.right_agents} seats"
        )
    return saved[:_RANDOM_START] + current[_RANDOM_START:_SEED_END] + saved[_SEED_END:]


def _constants(state: bytes) -> _Constants:
    if len(state) < _SEED_END:
        raise _unknown_layout()
    constants = _Constants._make(_CONSTANTS.unpack_from(state, _CONSTANTS_START))
    players_and_agents = constants[3:7]
    plausible = all(0 <= number <= 11 for number in players_and_agents) and constants.ball_z == 0
    if not plausible or not 0 <= constants.left_difficulty <= 1 or constants.game_duration < 1:
        raise _unknown_layout()
    return constants


def _unknown_layout() -> PluginError:
    return PluginError("a state of the football engine has an unknown layout; expected gfootball 2.10.2")
