"""The state of all fights.

The fighters of all matches are stored side by side: fighter ``2 · match + seat``.
"""

from __future__ import annotations

import numpy as np

from ludus_duel.config import DuelConfig
from ludus_duel.moves import WINDOWS
from ludus_duel.tables import make_tables, ticks_of

_LONG_AGO = 1000


class Fight:
    """B fights of two fighters that face each other on a line between two walls. F = 2·B.

    Args:
        config: Options of the game.
        num_matches: B.

    Attributes:
        tables: Properties of the moves.
        opponent: ``[F] int64``: the opponent of each fighter.
        move: ``[F] int64``: the current animation; 0 is idle.
        move_ticks: ``[F] int64``: ticks since it began; starts below 0 for attacks of exhausted fighters.
        age: ``[F] int64``: index of move and ticks in `tables`.
        resolved: ``[F] bool``: the attack has hit, or was blocked or parried, and cannot land again.
        stance: ``[F] int64``: the side guarded.
        new_stance: ``[F] int64``: the side to which the stance is changing.
        turn_ticks: ``[F] int64``: ticks until `stance` becomes `new_stance`; there is no guard until then.
        health: ``[F] float64``.
        stamina: ``[F] float64``.
        stamina_pause: ``[F] int64``: ticks until stamina returns.
        exhausted: ``[F] bool``.
        room: ``[F] float64``: cm between the fighter and the wall behind.
        walk: ``[F] float64``: cm walked forward on this tick.
        speed: ``[F] float64``: cm moved forward on the last tick.
        free_ticks: ``[F] int64``: ticks since the last animation ended; 0 during one.
        unhurt_ticks: ``[F] int64``: ticks since the last hit or throw suffered.
        scored: ``[F] bool``: landed a hit or throw on the last tick.
    """

    def __init__(self, config: DuelConfig, num_matches: int) -> None:
        count = 2 * num_matches
        self.config, self.tables = config, make_tables(config)
        self.opponent = np.arange(count) ^ 1
        self._counters = np.zeros((5, count), np.int64)
        self.move, self.move_ticks, self.turn_ticks, self.stamina_pause, self.free_ticks = self._counters
        self.resolved, self.exhausted, self.scored = np.zeros((3, count), bool)
        self.room, self.walk, self.speed = np.zeros((3, count))
        self.age = np.zeros(count, np.int64)
        self.stance = np.ones(count, np.int64)
        self.new_stance = np.ones(count, np.int64)
        self.health = np.full(count, config.health, np.float64)
        self.stamina = np.full(count, config.stamina, np.float64)
        self.unhurt_ticks = np.full(count, _LONG_AGO)
        self._pause_ticks = ticks_of(config.stamina_pause_ms, config)

    def start(self, fighters: np.ndarray, *, room: np.ndarray, health: np.ndarray, stamina: np.ndarray) -> None:
        """Start new matches of fighters ``[n] int64`` with the given values, each ``[n] float64``."""
        self.room[fighters], self.health[fighters], self.stamina[fighters] = room, health, stamina
        self.exhausted[fighters] = stamina <= 0
        self.stance[fighters] = self.new_stance[fighters] = 1
        self._counters[:, fighters] = 0
        for array in (self.resolved, self.speed, self.scored):
            array[fighters] = 0
        self.unhurt_ticks[fighters] = _LONG_AGO
        self.age[fighters] = self.tables.offset

    def gap(self) -> np.ndarray:
        """Return ``[F] float64``: the distance between each fighter and the opponent in cm."""
        gap: np.ndarray = self.config.arena_cm - (self.room + self.room.take(self.opponent))
        return gap

    def windows(self) -> np.ndarray:
        """Return ``[F] int64``: indices of `Tables.legal`."""
        window = self.tables.window.take(self.age)
        grip = (self.move == 0) & self.tables.caught.take(self.move.take(self.opponent))
        np.copyto(window, WINDOWS.index("grip"), where=grip)
        window += len(WINDOWS) * self.exhausted
        return window

    def begin(self, fighters: np.ndarray, moves: np.ndarray) -> None:
        """Begin the moves ``[n] int64`` of fighters ``[n] int64``."""
        self.move[fighters] = moves
        self.move_ticks[fighters] = 0
        self.resolved[fighters] = False

    def spend_stamina(self, fighters: np.ndarray, cost: np.ndarray) -> None:
        """Take stamina ``cost [n] float64`` from fighters ``[n] int64``; exhausted fighters pay nothing."""
        paid = np.where(self.exhausted[fighters], 0.0, cost)
        self.stamina[fighters] = np.maximum(self.stamina[fighters] - paid, 0.0)
        self.stamina_pause[fighters] = np.where(paid > 0, self._pause_ticks, self.stamina_pause[fighters])

    def update_ages(self) -> None:
        """Compute `age` from `move` and `move_ticks`."""
        np.multiply(self.move, self.tables.width, out=self.age)
        self.age += self.move_ticks
        self.age += self.tables.offset
