"""The animations as arrays, looked up by animation and by the ticks it has lasted."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from ludus_duel.actions import ACTIONS, NUMBER, SIDES
from ludus_duel.config import DuelConfig
from ludus_duel.moves import KINDS, PUSH_CM, WINDOWS, Move, actions_open, moves

__all__ = ["ANIMATION_NAMES", "PHASES", "Tables", "make_tables", "ticks_of"]

PHASES = ("startup", "active", "recovery")

#: The part of an observation that only depends on a fighter's animation and how long it has lasted.
ANIMATION_NAMES = (
    *(f"animation-{kind}" for kind in KINDS),
    *(f"side-{side}" for side in SIDES),
    *(f"phase-{phase}" for phase in PHASES),
    "progress",
    "elapsed",
    "remaining",
    "until-landing",
    "invulnerable",
    "may-feint",
    "may-counter",
)
_HORIZON_S = 2.0  # times in observations are shares of this


@frozen(kw_only=True)
class Tables:
    """What moves do. M moves; an *age* is a number ``move · width + ticks + offset``, where ticks may be negative.

    Attributes:
        names: Of the moves, by number.
        width: Ages per move.
        offset: See above: an exhausted fighter's attack starts at -offset ticks.
        of_action: ``[36] int64``: the move an action starts, 0 where it starts none; `cost` ``[36]`` is its stamina.
        duration: ``[M] int64``: in ticks. So are the following, see `ludus_duel.moves.Move`; moves are numbers.
            `caught`: can be thrown.
        lands: ``[ages] bool``: may land on the opponent. `attacks`: is about to, or does. `safe`: is invulnerable.
            `parries`: turns blows aside. `window`: number in `WINDOWS`. `glide`: cm forward in this tick.
        landing: ``[ages] int64``: ticks until a strike may first land, large where none comes.
        shown: ``[ages, 39] float32``: the part of an observation called `ANIMATION_NAMES`.
        legal: ``[16, 36] bool``: by ``window + 8 · exhausted``.
        opens: ``[16] bool``: whether there is more to choose than to wait.
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
    """Return a time in ticks, rounded up."""
    return int(-(-ms // config.tick_ms))


@frozen
class _Frames:
    """One move over time: S ticks of startup, A active, R of recovery; frame t is what it is after t ticks."""

    move: Move
    config: DuelConfig
    ticks: np.ndarray  # [width]

    def _count(self, ms: float) -> int:
        return ticks_of(ms, self.config)

    @property
    def startup(self) -> int:
        return self._count(self.move.startup_ms)

    @property
    def duration(self) -> int:
        """Return after how many ticks the fighter is free; a blow that lands at tick S has lasted one tick of A."""
        if not self.move.form:
            return self.startup
        return self.startup + self._count(self.move.active_ms) - 1 + self._count(self.move.recovery_ms)

    def within(self, span_ms: tuple[int, int]) -> np.ndarray:
        low, high = (self._count(ms) for ms in (span_ms[0], span_ms[1]))
        return (self.ticks >= low) & (self.ticks <= high) & (span_ms[1] > 0)

    @property
    def active(self) -> np.ndarray:
        last = self.startup + self._count(self.move.active_ms) - 1
        return (self.ticks >= self.startup) & (self.ticks <= last) & bool(self.move.form)

    @property
    def landing(self) -> np.ndarray:
        left = self.startup - self.ticks
        return np.where((left > 0) & (self.move.form == "strike"), left, 1000)

    @property
    def window(self) -> np.ndarray:
        number = WINDOWS.index(self.move.window)
        if self.move.window == "free":
            return np.full(len(self.ticks), number)
        last = self.move.open_ms[1] // self.config.tick_ms
        first = self._count(self.move.open_ms[0])
        return np.where((self.ticks >= first) & (self.ticks <= last), number, 0)

    @property
    def glide(self) -> np.ndarray:
        moving = (self.ticks >= 1) & (self.ticks <= self.startup)
        return np.where(moving, self.move.glide_cm / max(self.startup, 1), 0.0)

    @property
    def shown(self) -> np.ndarray:
        """Return ``[width, 39] float32``; see `ANIMATION_NAMES`."""
        second = self.config.tick_ms / 1000 / _HORIZON_S
        ticks, total = self.ticks, max(self.duration, 1)
        left = np.maximum(self.duration - ticks, 0)
        kind = np.eye(len(KINDS))[KINDS.index(self.move.kind)]
        side = np.eye(len(SIDES))[self.move.side] * (self.move.side >= 0)
        attacks = bool(self.move.form)
        phases = [attacks & (ticks < self.startup), self.active, attacks & (ticks >= self.startup) & ~self.active]
        lasting = self.move.kind != "idle"
        columns = [
            *np.tile(np.concatenate([kind, side])[:, None], len(ticks)),
            *phases,
            np.clip(ticks / total, 0.0, 1.0) * lasting,
            np.clip(ticks * second, 0.0, 1.0) * lasting,
            np.clip(left * second, 0.0, 1.0),
            np.where(self.landing < 1000, np.clip(self.landing * second, 0.0, 1.0), 0.0),
            self.within(self.move.safe_ms),
            self.window == WINDOWS.index("feint"),
            self.window == WINDOWS.index("counter"),
        ]
        return np.stack(columns, axis=1).astype(np.float32)


def make_tables(config: DuelConfig) -> Tables:
    """Return the tables for the rules and the length of a tick."""
    every = moves(config)
    offset = ticks_of(config.exhausted_slowdown_ms, config)
    longest = max(move.startup_ms + move.active_ms + move.recovery_ms for move in every)
    width = offset + ticks_of(longest, config) + 4
    frames = [_Frames(move, config, np.arange(width) - offset) for move in every]
    numbers = {move.name: number for number, move in enumerate(every)}
    dodges = {"dodge-left": 0, "dodge-right": 2}
    masks = [actions_open(window, exhausted=tired) for tired in (False, True) for window in WINDOWS]
    of_action = np.array([numbers.get(action, 0) for action in ACTIONS])
    return Tables(
        names=tuple(numbers),
        width=width,
        offset=offset,
        of_action=of_action,
        cost=np.array([every[number].cost for number in of_action]),
        duration=np.array([each.duration for each in frames]),
        side=np.array([move.side for move in every]),
        damage=np.array([move.damage for move in every]),
        chip=np.array([move.chip for move in every]),
        reach=np.array([move.reach_cm for move in every]),
        push=np.array([PUSH_CM.get(move.name, 0.0) for move in every]),
        stun=np.array([numbers[move.stun] for move in every]),
        guard=np.array([numbers[move.guard] for move in every]),
        recoil=np.array([numbers[move.recoil] for move in every]),
        parried=np.array([numbers[move.parried] for move in every]),
        is_strike=np.array([move.form == "strike" for move in every]),
        is_grab=np.array([move.form == "grab" for move in every]),
        is_throw=np.array([move.form == "throw" for move in every]),
        dodgeable=np.array([move.dodgeable for move in every]),
        guards=np.array([move.guards for move in every]),
        grabbable=np.array([move.grabbable for move in every]),
        alert=np.array([move.alert for move in every]),
        caught=np.array([move.kind in ("held", "broken") for move in every]),
        dodge_side=np.array([dodges.get(move.kind, -2) for move in every]),
        lands=np.concatenate([each.active for each in frames]),
        attacks=np.concatenate([(each.ticks < each.startup) & bool(each.move.form) | each.active for each in frames]),
        safe=np.concatenate([each.within(each.move.safe_ms) for each in frames]),
        parries=np.concatenate([each.within(each.move.parries_ms) for each in frames]),
        window=np.concatenate([each.window for each in frames]),
        glide=np.concatenate([each.glide for each in frames]),
        landing=np.concatenate([each.landing for each in frames]),
        shown=np.concatenate([each.shown for each in frames]),
        legal=np.array(masks),
        opens=np.array([sum(mask) > 1 for mask in masks]),
    )


assert NUMBER["wait"] == 0, "masks and moves count on waiting being number 0"
