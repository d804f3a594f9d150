"""The state of all fights, advanced by one tick at a time.

Fighters of all matches lie side by side: fighter ``2 · row + seat``. Everything a tick decides is decided for both
fighters of a match at once, from the same state, so that neither seat has an advantage.
"""

from __future__ import annotations

import numpy as np

from ludus_duel.actions import NUMBER
from ludus_duel.blows import land
from ludus_duel.config import DuelConfig
from ludus_duel.moves import WINDOWS
from ludus_duel.tables import make_tables, ticks_of

__all__ = ["NEAREST_CM", "Fight"]

NEAREST_CM = 100.0  # fighters come no closer
_COUNTER_PUSH_CM = 40.0  # how far a counter moves each of the two back
_LONG_AGO = 1000
_ADVANCE, _RETREAT, _COUNTER = (NUMBER[name] for name in ("advance", "retreat", "counter"))
_STANCES = (NUMBER["stance-left"], NUMBER["stance-right"])


class Fight:
    """B fights of two fighters who face each other on a line between two walls. F = 2·B.

    Args:
        config: The game's options.
        num_matches: B.

    Attributes:
        tables: What moves do.
        other: ``[F] int64``: each fighter's opponent.
        move: ``[F] int64``: the animation; 0 is standing free.
        ticks: ``[F] int64``: how long it has lasted; at first negative for the attacks of the exhausted.
        age: ``[F] int64``: both in one, for the tables.
        done: ``[F] bool``: this attack has landed, or was blocked or parried: it lands no more.
        stance: ``[F] int64``: the side guarded; `wanted` is the side it is changing to.
        turning: ``[F] int64``: ticks until `stance` is `wanted`; until then there is no guard.
        health: ``[F] float64``; likewise `stamina`.
        pause: ``[F] int64``: ticks until stamina returns.
        exhausted: ``[F] bool``.
        room: ``[F] float64``: cm between the fighter and the wall behind.
        speed: ``[F] float64``: cm moved forward on the last tick.
        free: ``[F] int64``: ticks since the last animation ended; 0 during one.
        unhurt: ``[F] int64``: ticks since a blow or throw was suffered.
        given: ``[F] bool``: landed a blow or throw on the last tick.
    """

    def __init__(self, config: DuelConfig, num_matches: int) -> None:
        count = 2 * num_matches
        self.config, self.tables = config, make_tables(config)
        self.other = np.arange(count) ^ 1
        self.move = np.zeros(count, np.int64)
        self.ticks = np.zeros(count, np.int64)
        self.age = np.zeros(count, np.int64)
        self.done = np.zeros(count, bool)
        self.stance = np.ones(count, np.int64)
        self.wanted = np.ones(count, np.int64)
        self.turning = np.zeros(count, np.int64)
        self.health = np.full(count, config.health, np.float64)
        self.stamina = np.full(count, config.stamina, np.float64)
        self.pause = np.zeros(count, np.int64)
        self.exhausted = np.zeros(count, bool)
        self.room = np.zeros(count)
        self.speed = np.zeros(count)
        self.free = np.zeros(count, np.int64)
        self.unhurt = np.full(count, _LONG_AGO)
        self.given = np.zeros(count, bool)
        self._walk = np.zeros(count)
        self._set_up()

    def _set_up(self) -> None:
        """Work out what the options say per tick."""
        config = self.config
        seconds = config.tick_ms / 1000
        self._stance_ticks = ticks_of(config.stance_ms, config)
        self._slowdown = ticks_of(config.exhausted_slowdown_ms, config)
        self._pause_ticks = ticks_of(config.stamina_pause_ms, config)
        self._returns, self._breath = config.stamina_per_s * seconds, config.breath_per_s * seconds
        self._enough = config.exhausted_until * config.stamina
        self._steps = {_ADVANCE: config.walk_cm_s * seconds, _RETREAT: -config.retreat_cm_s * seconds}
        self._recoil, self._breathe = self.tables.number("recoil"), self.tables.number("breathe")

    def start(self, fighters: np.ndarray, *, room: np.ndarray, health: np.ndarray, stamina: np.ndarray) -> None:
        """Put fighters ``[n] int64`` at the start of a match, with what else they have, each ``[n] float64``."""
        self.room[fighters], self.health[fighters], self.stamina[fighters] = room, health, stamina
        self.exhausted[fighters] = stamina <= 0
        self.stance[fighters] = self.wanted[fighters] = 1
        for array in (self.move, self.ticks, self.done, self.turning, self.pause, self.free, self.speed, self.given):
            array[fighters] = 0
        self.unhurt[fighters] = _LONG_AGO
        self.age[fighters] = self.tables.offset

    def gap(self) -> np.ndarray:
        """Return ``[F] float64``: the distance between each fighter and the opponent in cm."""
        gap: np.ndarray = self.config.arena_cm - (self.room + self.room.take(self.other))
        return gap

    def windows(self) -> np.ndarray:
        """Return ``[F] int64``: rows of `Tables.legal`."""
        window = self.tables.window.take(self.age)
        grip = (self.move == 0) & self.tables.caught.take(self.move.take(self.other))
        np.copyto(window, WINDOWS.index("grip"), where=grip)
        window += len(WINDOWS) * self.exhausted
        return window

    def advance(self, actions: np.ndarray, going: np.ndarray) -> None:
        """Let one tick pass.

        Args:
            actions: ``[F] int64``: legal ones; 0 for those who do not decide.
            going: ``[F] bool``: whose match is played; the others neither strike nor suffer.
        """
        self._walk.fill(0.0)
        self._decide(np.flatnonzero(actions), actions)
        self.ticks += self.move > 0
        np.multiply(self.move, self.tables.width, out=self.age)
        self.age += self.ticks
        self.age += self.tables.offset
        self.free += 1
        self._turn()
        self._glide()
        self.given.fill(False)
        self.unhurt += 1
        due = self.tables.lands.take(self.age) & ~self.done & going
        if due.any():
            land(self, np.flatnonzero(due))
        self._breathe_in()
        self._release()

    def _decide(self, who: np.ndarray, actions: np.ndarray) -> None:
        """Begin what fighters ``who [n] int64`` have chosen."""
        chosen = actions.take(who)
        stances = (chosen >= _STANCES[0]) & (chosen <= _STANCES[1])
        if stances.any():
            turning, side = who[stances], chosen[stances] - _STANCES[0]
            again = (self.wanted[turning] == side) & (self.turning[turning] > 0)
            self.turning[turning] = np.where(
                again, self.turning[turning], self._stance_ticks * (self.stance[turning] != side)
            )
            self.wanted[turning] = side
        for action, step in self._steps.items():
            self._walk[who[chosen == action]] = step
        begin = self.tables.of_action.take(chosen)
        starting = begin > 0
        who, chosen, begin = who[starting], chosen[starting], begin[starting]
        if not who.size:
            return
        slow = self.exhausted[who] & self.tables.is_strike[begin]
        self.put(who, begin)
        self.ticks[who] = -self._slowdown * slow
        self.spend(who, self.tables.cost.take(chosen))
        side = self.tables.side.take(begin)
        self._face(who[side >= 0], side[side >= 0])
        self._counter(who[chosen == _COUNTER])

    def _face(self, who: np.ndarray, side: np.ndarray) -> None:
        """Change stances at once: a blow or parry brings its own."""
        self.stance[who] = self.wanted[who] = side
        self.turning[who] = 0

    def _counter(self, who: np.ndarray) -> None:
        """Push those away who hold the fighters ``who [n] int64``."""
        if who.size:
            for pushed in (who, self.other[who]):
                self.room[pushed] = np.maximum(self.room[pushed] - _COUNTER_PUSH_CM, 0.0)
            self.put(self.other[who], np.full(len(who), self._recoil))

    def put(self, who: np.ndarray, moves: np.ndarray) -> None:
        """Begin the moves ``[n] int64`` of fighters ``[n] int64``."""
        self.move[who] = moves
        self.ticks[who] = 0
        self.done[who] = False

    def spend(self, who: np.ndarray, cost: np.ndarray) -> None:
        """Take stamina ``cost [n] float64`` from fighters ``who [n] int64``; those who are exhausted pay nothing."""
        paid = np.where(self.exhausted[who], 0.0, cost)
        self.stamina[who] = np.maximum(self.stamina[who] - paid, 0.0)
        self.pause[who] = np.where(paid > 0, self._pause_ticks, self.pause[who])

    def _turn(self) -> None:
        """Bring stances that are being changed nearer to their end."""
        np.copyto(self.stance, self.wanted, where=self.turning == 1)
        self.turning -= self.turning > 0

    def _glide(self) -> None:
        """Move everybody; two who would meet share what lies between them in proportion to their speeds."""
        way = self.tables.glide.take(self.age)
        way += self._walk
        np.maximum(way, -self.room, out=way)  # the wall
        forward = np.maximum(way, 0.0)
        back = way - forward
        both, backs = forward + forward.take(self.other), back + back.take(self.other)
        free = np.maximum(self.gap() - backs - NEAREST_CM, 0.0)
        share = np.where(both > free, free / np.maximum(both, 1e-9), 1.0)
        forward *= share
        np.add(forward, back, out=self.speed)
        self.room += self.speed

    def _breathe_in(self) -> None:
        """Let stamina return, and see who is exhausted."""
        breathing = self.move == self._breathe
        resting = breathing | (self.pause <= 0)
        self.exhausted |= self.stamina <= 0
        self.stamina += self._returns * resting + self._breath * breathing
        np.minimum(self.stamina, self.config.stamina, out=self.stamina)
        self.pause -= self.pause > 0
        self.exhausted &= self.stamina < self._enough

    def _release(self) -> None:
        """Set those free whose animation is over."""
        self.free *= self.move == 0
        over = np.flatnonzero((self.move > 0) & (self.ticks >= self.tables.duration.take(self.move)))
        self.put(over, np.zeros(len(over), np.int64))
        np.multiply(self.move, self.tables.width, out=self.age)
        self.age += self.ticks
        self.age += self.tables.offset
