"""The interfaces of Arena for Pommerman, by the names of the paper [Arena §A.4]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from attrs import define, field
from gymnasium import Space, spaces
from ludus.agent import grow_states
from ludus.environment import Leaves
from ludus.errors import ContractError
from ludus.interface import Identity, Interface, SeatView, Spaces
from ludus.spaces import label_sizes, leaf_spaces

from ludus_pommerman.config import ActMaskConfig, AttrConfig, BoardMapConfig
from ludus_pommerman.rules import (
    ACTIONS,
    AGENT,
    DOWN,
    LAY,
    LEFT,
    MAX_AMMO,
    MAX_STRENGTH,
    RIGHT,
    RIGID,
    SYMBOLS,
    UP,
    WOOD,
)
from ludus_pommerman.view import MAPS

#: Channels of ``board_map``: codes of cells below `NO_AGENT` but passages, then agents, then bombs and flames.
CHANNELS = (
    "rigid", "wood", "bomb", "flames", "fog", "extra-bomb", "range", "kick", "own", "teammate", "enemies",
    "bomb-strength", "bomb-life", "moves-up", "moves-down", "moves-left", "moves-right", "flame-life",
)  # fmt: skip
_CODES = 8  # channels that are codes of cells, from 1
#: Numbers of ``attr``; with radio, the words of the teammate follow, one-hot.
ATTRIBUTES = ("row", "column", "ammo", "blast-strength", "can-kick", "teammate-alive", "enemies-alive", "step")
_JOINED = ("position", "ammo", "blast_strength", "can_kick", "teammate", "enemies", "alive", "step_count", "message")
_BOARD, _SEATS = ("board", *MAPS), ("alive", "teammate", "enemies")
_STEPS = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}
#: What each action becomes when the board is turned a quarter against the clock.
_TURNED = np.array([0, LEFT, RIGHT, DOWN, UP, LAY])


def make_board_map(config: BoardMapConfig) -> Interface:
    """Make ``board-map``."""
    return BoardMap(keep=config.keep)


def make_attr(config: AttrConfig) -> Interface:
    """Make ``attr``."""
    return Attr(keep=config.keep)


def make_act_mask(config: ActMaskConfig) -> Interface:
    """Make ``act-mask``."""
    return ActMask(leaf=config.leaf, mask=config.mask)


def make_rotate(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``rotate``."""
    return Rotate()


def _leaves(raw: Spaces, interface: str, needed: Sequence[str]) -> dict[str, Space[Any]]:
    """Return the leaves of an observation of the game.

    Raises:
        ContractError: Some that the interface needs are missing.
    """
    leaves = leaf_spaces(raw.observation)
    missing = [name for name in needed if name not in leaves]
    if missing:
        raise ContractError(
            f"{interface}: the observation has no leaf {missing[0]!r}, it has {', '.join(leaves)}; the interface is "
            f"for pommerman, before those that remove leaves, and for each part of a joint seat by combine"
        )
    return leaves


def _labels(raw: Spaces, interface: str) -> tuple[int, ...]:
    """Return the sizes of the labels of an action of the game.

    Raises:
        ContractError: It is an action of another game.
    """
    sizes = label_sizes(raw.action)
    if sizes[:1] != (len(ACTIONS),):
        raise ContractError(f"{interface}: expected actions of pommerman, got {raw.action}")
    return sizes


def own_seats(observation: Leaves) -> np.ndarray:
    """Return the seat of each row, ``[n] int64``: the one that is neither teammate nor enemy."""
    codes = AGENT + np.arange(observation["alive"].shape[1])
    others = np.concatenate([observation["teammate"], observation["enemies"]], axis=1)
    return np.asarray((~(others[:, :, None] == codes).any(axis=1)).argmax(axis=1))


@define
class BoardMap(Identity):
    """Appends the leaf ``board_map``, an image with a channel for everything on the board, see `CHANNELS`.

    Args:
        keep: Whether the leaves that it shows stay.
    """

    keep: bool = True
    _kept: tuple[str, ...] = field(init=False, default=())

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with the leaf ``board_map [N, N, 18] float32``.

        Raises:
            ContractError: The observation is not that of the game.
        """
        leaves = _leaves(raw, "board-map", (*_BOARD, *_SEATS))
        self._kept = tuple(name for name in leaves if self.keep or name not in _BOARD)
        size = (leaves["board"].shape or ())[:2]
        changed = {name: leaves[name] for name in self._kept}
        changed["board_map"] = spaces.Box(0.0, 1.0, (*size, len(CHANNELS)), np.float32)
        return Spaces(spaces.Dict(changed), raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with ``board_map [n, N, N, 18] float32``, in [0, 1]."""
        seen = view.observation
        board = seen["board"]
        image = np.empty((*board.shape, len(CHANNELS)), np.float32)
        image[..., :_CODES] = board[..., None] == np.arange(1, 1 + _CODES)
        own = AGENT + own_seats(seen)
        image[..., _CODES] = board == own[:, None, None]
        image[..., _CODES + 1] = (board == seen["teammate"][..., None]) & (board >= AGENT)
        image[..., _CODES + 2] = (board >= AGENT) & ~image[..., _CODES : _CODES + 2].any(axis=3)
        image[..., 11], image[..., 12] = (seen[name] / np.float32(MAPS[name][1]) for name in list(MAPS)[:2])
        image[..., 13:17] = seen["bomb_moving_direction"][..., None] == np.arange(UP, RIGHT + 1)
        image[..., 17] = seen["flame_life"] / np.float32(MAPS["flame_life"][1])
        return attrs.evolve(view, observation={**{name: seen[name] for name in self._kept}, "board_map": image})


@define
class Attr(Identity):
    """Appends the leaf ``attr``, a vector of what the agent has and knows, see `ATTRIBUTES`.

    Args:
        keep: Whether the leaves that it holds stay.
    """

    keep: bool = True
    _kept: tuple[str, ...] = field(init=False, default=())
    _limit: float = field(init=False, default=1.0)
    _last: float = field(init=False, default=1.0)

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with the leaf ``attr [8] float32``, with radio ``[24]``.

        Raises:
            ContractError: The observation is not that of the game.
        """
        leaves = _leaves(raw, "attr", _JOINED[:-1])
        self._kept = tuple(name for name in leaves if self.keep or name not in _JOINED)
        self._last = float(np.max(getattr(leaves["position"], "high", 1)))
        self._limit = float(np.max(getattr(leaves["step_count"], "high", 1)))
        words = int(np.prod(leaves["message"].shape or ())) * SYMBOLS if "message" in leaves else 0
        changed = {name: leaves[name] for name in self._kept}
        changed["attr"] = spaces.Box(0.0, 1.0, (len(ATTRIBUTES) + words,), np.float32)
        return Spaces(spaces.Dict(changed), raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with ``attr [n, 8] float32`` or ``[n, 24]``, in [0, 1]."""
        seen, codes = view.observation, AGENT + np.arange(view.observation["alive"].shape[1])
        lives = seen["alive"].astype(bool)
        mates = (seen["teammate"] == codes) & lives
        enemies = (seen["enemies"][:, :, None] == codes).any(axis=1) & lives
        parts = [
            seen["position"] / self._last,
            seen["ammo"] / MAX_AMMO,
            seen["blast_strength"] / MAX_STRENGTH,
            seen["can_kick"],
            mates.any(axis=1, keepdims=True),
            enemies.sum(axis=1, keepdims=True) / 3,
            seen["step_count"] / self._limit,
        ]
        if "message" in seen:
            parts.append((seen["message"][:, :, None] == np.arange(SYMBOLS)).reshape(len(lives), -1))
        vector = np.concatenate(parts, axis=1, dtype=np.float32)
        return attrs.evolve(view, observation={**{name: seen[name] for name in self._kept}, "attr": vector})


@define
class ActMask(Identity):
    """Appends which actions are available, and makes the others illegal.

    Not available are moves off the board, into walls, and into bombs without the ability to kick; and laying a bomb
    without ammunition, or where one lies.

    Args:
        leaf: Whether the observation gets the leaf ``available``.
        mask: Whether only available actions are legal.
    """

    leaf: bool = True
    mask: bool = True
    _choices: int = field(init=False, default=len(ACTIONS))

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces, with the leaf ``available [6]`` if it is wanted.

        Raises:
            ContractError: The observation or action is not that of the game.
        """
        leaves = _leaves(raw, "act-mask", ("board", "bomb_life", "position", "ammo", "can_kick"))
        self._choices = sum(_labels(raw, "act-mask"))
        added: dict[str, Space[Any]] = {"available": spaces.MultiBinary(len(ACTIONS))} if self.leaf else {}
        return Spaces(spaces.Dict({**leaves, **added}), raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with ``available [n, 6] int8`` and a mask; words for the teammate stay legal."""
        found = available(view.observation)
        mask = view.action_mask
        if self.mask:
            legal = np.ones((len(found), self._choices), bool)
            legal[:, : len(ACTIONS)] = found
            mask = legal if mask is None else mask & legal
        added = {"available": found.astype(np.int8)} if self.leaf else {}
        return attrs.evolve(view, observation={**view.observation, **added}, action_mask=mask)


def available(observation: Leaves) -> np.ndarray:
    """Return which actions have an effect, ``[n, 6] bool``; to stop is always possible."""
    border = ((0, 0), (1, 1), (1, 1))
    board = np.pad(observation["board"], border, constant_values=RIGID)
    bomb = np.pad(observation["bomb_life"], border) > 0
    rows, (row, column) = np.arange(len(board)), observation["position"].astype(np.int64).T + 1
    found = np.ones((len(board), len(ACTIONS)), bool)
    kick = observation["can_kick"][:, 0] > 0
    for action, (down, right) in _STEPS.items():
        ahead = (rows, row + down, column + right)
        found[:, action] = (board[ahead] != RIGID) & (board[ahead] != WOOD) & (kick | ~bomb[ahead])
    found[:, LAY] = (observation["ammo"][:, 0] > 0) & ~bomb[rows, row, column]
    return found


@define
class Rotate(Identity):
    """Turns boards, positions and directions so that the own start is in the upper left corner, and actions back.

    It comes before the other interfaces of the game in a list.
    """

    _turns: np.ndarray = field(init=False, factory=lambda: np.zeros(0, np.int64))  # by seat id

    def bind(self, raw: Spaces) -> Spaces:
        """Return the raw spaces.

        Raises:
            ContractError: The observation is not that of the game, or has leaves of its other interfaces.
        """
        leaves = _leaves(raw, "rotate", (*_BOARD, *_SEATS, "position"))
        for name, interface in (("board_map", "board-map"), ("attr", "attr"), ("available", "act-mask")):
            if name in leaves:
                raise ContractError(f"rotate: expected to come before {interface}, whose leaf {name!r} it cannot turn")
        _labels(raw, "rotate")
        return raw

    def reset(self, seat_ids: np.ndarray) -> None:
        """Forget how the boards of these seats are turned."""
        self._turns = grow_states(self._turns, seat_ids)
        self._turns[seat_ids] = 0

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Return the turned view."""
        seen = dict(view.observation)
        seats = seen["alive"].shape[1]
        turns = -own_seats(seen) * (4 // seats) % 4
        self._turns = grow_states(self._turns, seat_ids)
        self._turns[seat_ids] = turns
        last = seen["board"].shape[1] - 1
        for name in (*_BOARD, "position"):
            seen[name] = seen[name].copy()
        mask = None if view.action_mask is None else view.action_mask.copy()
        for turn in (1, 2, 3):
            rows = np.flatnonzero(turns == turn)
            for name in _BOARD:
                seen[name][rows] = np.rot90(seen[name][rows], turn, axes=(1, 2))
            for _ in range(turn):
                row, column = seen["position"][rows].T
                seen["position"][rows] = np.stack([last - column, row], axis=1)
            directions = turned_actions(turn)
            seen["bomb_moving_direction"][rows] = directions[seen["bomb_moving_direction"][rows]]
            if mask is not None and view.action_mask is not None:
                mask[np.ix_(rows, directions)] = view.action_mask[rows, : len(ACTIONS)]
        return attrs.evolve(view, observation=seen, action_mask=mask)

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        """Return the actions ``[n, L]`` with their directions turned back."""
        raw = action.copy()
        back = np.stack([turned_actions(-turn % 4) for turn in range(4)])
        raw[:, 0] = back[grow_states(self._turns, seat_ids)[seat_ids], action[:, 0]]
        return raw


def turned_actions(turns: int) -> np.ndarray:
    """Return what each action becomes when the board is turned, ``[6] int64``.

    Args:
        turns: Quarters of a turn against the clock.
    """
    actions = np.arange(len(ACTIONS))
    for _ in range(turns):
        actions = _TURNED[actions]
    return actions
