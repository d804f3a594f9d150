"""The moves as arrays, indexed by move and by the ticks since it began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen

from ludus_duel.actions import ACTIONS, NUMBER, SIDES
from ludus_duel.config import DuelConfig
from ludus_duel.moves import KINDS, PUSH_CM, WINDOWS, Move, legal_actions, make_moves

PHASES = ("startup", "active", "recovery")

#: The numbers of an observation that depend only on the animation of a fighter and how long it has lasted.
ANIMATION_NAMES = (
    *(f"animation-{kind}" for kind in KINDS),
    *(f"side-{side}" for side in SIDES),
    *(f"phase-{phase}" for phase in PHASES),
    *("progress", "elapsed", "remaining", "until-landing", "invulnerable", "may-feint", "may-counter"),
)
_HORIZON_S = 2.0  # a time of 1 in observations


@frozen(kw_only=True)
class Tables:
    """Properties of M moves. An *age* is the index ``move · width + ticks + offset``, where ticks may be negative.

    Attributes:
        names: Names of the moves, by number.
        width: Ages per move.
        offset: Attacks of exhausted fighters start at ``-offset`` ticks.
        of_action: ``[36] int64``: the move that an action starts, 0 where it starts none.
        cost: ``[36] float64``: stamina that an action costs.
        duration: ``[M] int64`` in ticks.
        side: ``[M] int64``; from here to `alert`, fields of `ludus_duel.moves.Move`, in which moves are numbers.
        push: ``[M] float64``: how far a throw moves its target in cm.
        is_strike: ``[M] bool``: by form; likewise `is_grab` and `is_throw`.
        dodge_side: ``[M] int64``: the side to which a dodge goes, -2 for other moves.
        caught: ``[M] bool``: a fighter in the move can be thrown.
        lands: ``[ages] bool``: may land on the opponent.
        attacks: ``[ages] bool``: may land on the opponent now or later.
        safe: ``[ages] bool``: is invulnerable.
        parries: ``[ages] bool``: parries.
        window: ``[ages] int64``: index in `WINDOWS`.
        glide: ``[ages] float64``: cm moved forward in this tick.
        landing: ``[ages] int64``: ticks until a strike may first land, 1000 where none comes.
        shown: ``[ages, 39] float32``: the numbers of an observation named `ANIMATION_NAMES`.
        legal: ``[16, 36] bool``: legal actions by ``window + 8 · exhausted``.
        opens: ``[16] bool``: another action than to wait is legal.
    """

    names: tuple[str, ...]
    width: int
    offset: int
    of_action: np.ndarray
    cost: np.ndarray
    duration: np.ndarray
    side: np.ndarray
    damage: np.ndarray
    chip: np.ndarray
    reach: np.ndarray
    push: np.ndarray
    stun: np.ndarray
    guard: np.ndarray
    recoil: np.ndarray
    parried: np.ndarray
    is_strike: np.ndarray
    is_grab: np.ndarray
    is_throw: np.ndarray
    dodgeable: np.ndarray
    guards: np.ndarray
    grabbable: np.ndarray
    alert: np.ndarray
    dodge_side: np.ndarray
    caught: np.ndarray
    lands: np.ndarray
    attacks: np.ndarray
    safe: np.ndarray
    parries: np.ndarray
    window: np.ndarray
    glide: np.ndarray
    landing: np.ndarray
    shown: np.ndarray
    legal: np.ndarray
    opens: np.ndarray

    def number(self, name: str) -> int:
        """Return the number of a move."""
        return self.names.index(name)


def ticks_of(ms: float, config: DuelConfig) -> int:
    """Convert a time to ticks, rounded up."""
    return int(-(-ms // config.tick_ms))


@frozen
class _Timeline:
    """One move by ticks since its begin: S ticks of startup, A active ticks, R ticks of recovery.

    Args:
        move: The move.
        config: Options of the game.
        ticks: ``[width] int64``.
    """

    move: Move
    config: DuelConfig
    ticks: np.ndarray

    @property
    def _startup(self) -> int:
        return ticks_of(self.move.startup_ms, self.config)

    @property
    def duration(self) -> int:
        """Return the number of ticks until the fighter is free; tick S is the first active tick."""
        if not self.move.form:
            return self._startup
        return self._startup + self._count(self.move.active_ms) - 1 + self._count(self.move.recovery_ms)

    def _count(self, ms: float) -> int:
        return ticks_of(ms, self.config)

    def _within(self, span_ms: tuple[int, int]) -> np.ndarray:
        low, high = self._count(span_ms[0]), self._count(span_ms[1])
        return (self.ticks >= low) & (self.ticks <= high) & (span_ms[1] > 0)

    @property
    def lands(self) -> np.ndarray:
        last = self._startup + self._count(self.move.active_ms) - 1
        return (self.ticks >= self._startup) & (self.ticks <= last) & bool(self.move.form)

    @property
    def attacks(self) -> np.ndarray:
        return np.asarray((self.ticks < self._startup) & bool(self.move.form) | self.lands)

    @property
    def safe(self) -> np.ndarray:
        return self._within(self.move.safe_ms)

    @property
    def parries(self) -> np.ndarray:
        return self._within(self.move.parries_ms)

    @property
    def landing(self) -> np.ndarray:
        left = self._startup - self.ticks
        return np.where((left > 0) & (self.move.form == "strike"), left, 1000)

    @property
    def window(self) -> np.ndarray:
        number = WINDOWS.index(self.move.window)
        if self.move.window == "free":
            return np.full(len(self.ticks), number)
        first = self._count(self.move.open_ms[0])
        last = self.move.open_ms[1] // self.config.tick_ms
        return np.where((self.ticks >= first) & (self.ticks <= last), number, 0)

    @property
    def glide(self) -> np.ndarray:
        moving = (self.ticks >= 1) & (self.ticks <= self._startup)
        return np.where(moving, self.move.glide_cm / max(self._startup, 1), 0.0)

    @property
    def shown(self) -> np.ndarray:
        second = self.config.tick_ms / 1000 / _HORIZON_S
        ticks, total = self.ticks, max(self.duration, 1)
        left = np.maximum(self.duration - ticks, 0)
        kind = np.eye(len(KINDS))[KINDS.index(self.move.kind)]
        side = np.eye(len(SIDES))[self.move.side] * (self.move.side >= 0)
        attacks = bool(self.move.form)
        startup = ticks < self._startup
        lasting = self.move.kind != "idle"
        columns = [
            *np.tile(np.concatenate([kind, side])[:, None], len(ticks)),
            attacks & startup,
            self.lands,
            attacks & ~startup & ~self.lands,
            np.clip(ticks / total, 0.0, 1.0) * lasting,
            np.clip(ticks * second, 0.0, 1.0) * lasting,
            np.clip(left * second, 0.0, 1.0),
            np.where(self.landing < 1000, np.clip(self.landing * second, 0.0, 1.0), 0.0),
            self.safe,
            self.window == WINDOWS.index("feint"),
            self.window == WINDOWS.index("counter"),
        ]
        return np.stack(columns, axis=1).astype(np.float32)


_BY_AGE = ("lands", "attacks", "safe", "parries", "window", "glide", "landing", "shown")
_BY_MOVE = ("side", "damage", "chip", "dodgeable", "guards", "grabbable", "alert")
_REACTIONS = ("stun", "guard", "recoil", "parried")  # fields of a move that name another move
_DODGE_SIDES = {"dodge-left": 0, "dodge-right": 2}


def make_tables(config: DuelConfig) -> Tables:
    """Return the tables for the given rules and length of a tick."""
    moves = make_moves(config)
    numbers = {move.name: number for number, move in enumerate(moves)}
    offset = ticks_of(config.exhausted_slowdown_ms, config)
    longest_ms = max(move.startup_ms + move.active_ms + move.recovery_ms for move in moves)
    width = offset + ticks_of(longest_ms, config) + 4
    timelines = [_Timeline(move, config, np.arange(width) - offset) for move in moves]
    of_action = np.array([numbers.get(action, 0) for action in ACTIONS])
    legal = [legal_actions(window, exhausted=exhausted) for exhausted in (False, True) for window in WINDOWS]
    return Tables(
        names=tuple(numbers),
        width=width,
        offset=offset,
        of_action=of_action,
        cost=np.array([moves[number].cost for number in of_action]),
        duration=np.array([timeline.duration for timeline in timelines]),
        legal=np.array(legal),
        opens=np.sum(legal, axis=1) > 1,
        **_move_columns(moves, numbers),
        **_age_columns(timelines),
    )


def _move_columns(moves: Sequence[Move], numbers: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Return the fields of `Tables` that hold a property of each move, ``[M]`` each."""
    forms, kinds = np.array([move.form for move in moves]), np.array([move.kind for move in moves])
    return {
        **{name: np.array([getattr(move, name) for move in moves]) for name in _BY_MOVE},
        **{name: np.array([numbers[getattr(move, name)] for move in moves]) for name in _REACTIONS},
        "reach": np.array([move.reach_cm for move in moves]),
        "push": np.array([PUSH_CM.get(move.name, 0.0) for move in moves]),
        "is_strike": forms == "strike",
        "is_grab": forms == "grab",
        "is_throw": forms == "throw",
        "caught": np.isin(kinds, ("held", "broken")),
        "dodge_side": np.array([_DODGE_SIDES.get(move.kind, -2) for move in moves]),
    }


def _age_columns(timelines: Sequence[_Timeline]) -> dict[str, np.ndarray]:
    """Return the fields of `Tables` that hold a property of each age, ``[ages, …]`` each."""
    return {name: np.concatenate([getattr(timeline, name) for timeline in timelines]) for name in _BY_AGE}


assert NUMBER["wait"] == 0, "masks and moves rely on waiting being action 0"
