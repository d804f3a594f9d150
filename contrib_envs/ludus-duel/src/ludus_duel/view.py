"""Observations: 160 named numbers per seat. ``python -m ludus_duel.view`` prints the names."""

from __future__ import annotations

import sys

import numpy as np
from ludus.environment import RoleTick

from ludus_duel.actions import ACTIONS, SIDES
from ludus_duel.fight import Fight
from ludus_duel.tables import ANIMATION_NAMES, ticks_of

_STANCE_NAMES = (
    *(f"stance-{side}" for side in SIDES),
    "turning",
    *(f"wanted-{side}" for side in SIDES),
    "until-turned",
)
_BODY_NAMES = ("health", "stamina", "exhausted", "stamina-pause", "guard", "landed", "speed", "free-for", "unhurt")
_FIGHTER_NAMES = (*ANIMATION_NAMES, *_STANCE_NAMES, *_BODY_NAMES)
_BETWEEN_NAMES = (
    *("distance", "own-room", "opponent-room", "time-left", "lead", "in-light-reach", "in-heavy-reach"),
    *("in-grab-reach", "threatened", "covered", "parry-now", "both-free"),
)

_ANIMATION = slice(0, len(ANIMATION_NAMES))
_STANCE = slice(_ANIMATION.stop, _ANIMATION.stop + len(_STANCE_NAMES))
_BODY = slice(_STANCE.stop, _STANCE.stop + len(_BODY_NAMES))
_FIGHTER = len(_FIGHTER_NAMES)
_BETWEEN = slice(2 * _FIGHTER, 2 * _FIGHTER + len(_BETWEEN_NAMES))
_MASK = slice(_BETWEEN.stop, _BETWEEN.stop + len(ACTIONS))

_LONG_S = 2.0  # a time of 1
_GLIDE_CM = 60.0  # distance that a strike may glide before it lands
_FAST_CM_S = 600.0  # a speed of 1


def layout() -> tuple[str, ...]:
    """Return the names of the numbers of an observation, in order."""
    return (
        *(f"own-{name}" for name in _FIGHTER_NAMES),
        *(f"opponent-{name}" for name in _FIGHTER_NAMES),
        *_BETWEEN_NAMES,
        *(f"legal-{action}" for action in ACTIONS),
    )


#: Length of an observation.
SIZE = len(layout())
#: Index of each name.
INDEX = {name: number for number, name in enumerate(layout())}


def table() -> str:
    """Return the layout as text, one number per line."""
    return "\n".join(f"{number:3d}  {name}" for number, name in enumerate(layout()))


class DuelView:
    """Writes the observations and action masks of all matches. F = 2·B fighters.

    Args:
        fight: State of all matches.
        fighter: Arrays to write to.

    Attributes:
        leaf: ``[B, 2, 160] float32`` in [-1, 1].
        mask: ``[B, 2, 36] bool``.
        opens: ``[B, 2] bool``: another action than to wait is legal.
    """

    def __init__(self, fight: Fight, fighter: RoleTick) -> None:
        assert fighter.action_mask is not None
        self.leaf, self.mask = fighter.observation["obs"], fighter.action_mask
        num_matches = len(self.leaf)
        count = 2 * num_matches
        self._fight = fight
        self._fighters = np.zeros((num_matches, 2, _FIGHTER), np.float32)
        self._between = np.zeros((len(_BETWEEN_NAMES), count), np.float32)
        self._body = np.zeros((len(_BODY_NAMES), count), np.float32)
        self.opens = np.zeros((num_matches, 2), bool)
        self._second = fight.config.tick_ms / 1000
        self._stances = self._stance_table()
        self._parry_ages = self._parry_table()
        names = ("light-top", "heavy-top", "guard-break")
        self._reaches = [fight.tables.reach[fight.tables.number(name)] for name in names]

    def _stance_table(self) -> np.ndarray:
        """Return ``[ticks · 9, 8] float32`` by ``(turn_ticks · 3 + stance) · 3 + new_stance``."""
        most = ticks_of(self._fight.config.stance_ms, self._fight.config)
        eye, entries = np.eye(3), []
        for left in range(most + 1):
            for stance in range(3):
                entries += [[*eye[stance], left > 0, *eye[new], left * self._second / _LONG_S] for new in range(3)]
        return np.array(entries, np.float32)

    def _parry_table(self) -> np.ndarray:
        """Return ``[ages] bool``: a parry that begins now would meet the strike."""
        tables = self._fight.tables
        begun = tables.number("parry-top") * tables.width + tables.offset
        parrying = np.flatnonzero(tables.parries[begun : begun + tables.width - tables.offset])
        ages: np.ndarray = np.isin(tables.landing, parrying) & np.repeat(tables.side >= 0, tables.width)
        return ages

    def update(self, *, left: np.ndarray) -> None:
        """Write the current observations and masks.

        Args:
            left: ``[F] float64``: share of the match's time that is left.
        """
        fight = self._fight
        body = self._update_body()
        self._update_between(left, guard=body[4] > 0)
        fighters = self._fighters.reshape(-1, _FIGHTER)
        fighters[:, _ANIMATION] = fight.tables.shown.take(fight.age, axis=0)
        fighters[:, _STANCE] = self._stances.take((fight.turn_ticks * 3 + fight.stance) * 3 + fight.new_stance, axis=0)
        fighters[:, _BODY] = body.T
        windows = fight.windows()
        self.mask.reshape(-1, len(ACTIONS))[:] = fight.tables.legal.take(windows, axis=0)
        self.opens.reshape(-1)[:] = fight.tables.opens.take(windows)
        self.leaf[:, :, :_FIGHTER] = self._fighters
        self.leaf[:, :, _FIGHTER : 2 * _FIGHTER] = self._fighters[:, ::-1]
        self.leaf.reshape(-1, SIZE)[:, _BETWEEN] = self._between.T
        self.leaf[:, :, _MASK] = self.mask

    def _update_body(self) -> np.ndarray:
        """Return ``[9, F] float32``, see `_BODY_NAMES`."""
        fight, body = self._fight, self._body
        rules = fight.config
        np.clip(fight.health / rules.health, 0.0, 1.0, out=body[0])
        np.clip(fight.stamina / rules.stamina, 0.0, 1.0, out=body[1])
        body[2] = fight.exhausted
        np.minimum(fight.stamina_pause * (self._second / _LONG_S), 1.0, out=body[3])
        body[4] = fight.tables.guards.take(fight.move) & (fight.turn_ticks == 0)
        body[5] = fight.resolved
        np.clip(fight.speed / (_FAST_CM_S * self._second), -1.0, 1.0, out=body[6])
        np.minimum(fight.free_ticks * (self._second / _LONG_S), 1.0, out=body[7])
        np.minimum(fight.unhurt_ticks * (self._second / _LONG_S), 1.0, out=body[8])
        return body

    def _update_between(self, left: np.ndarray, *, guard: np.ndarray) -> None:
        """Write ``[12, F] float32``, see `_BETWEEN_NAMES`; `guard` is True where the stance blocks."""
        fight, between, tables = self._fight, self._between, self._fight.tables
        arena, gap = fight.config.arena_cm, fight.gap()
        health, opponent = self._body[0], fight.opponent
        between[0] = gap / arena
        between[1] = fight.room / arena
        between[2] = between[1].take(opponent)
        between[3] = left
        np.subtract(health, health.take(opponent), out=between[4])
        for index, reach in enumerate(self._reaches, start=5):
            between[index] = gap <= reach
        age, move = fight.age.take(opponent), fight.move.take(opponent)
        landing = tables.landing.take(age)
        between[8] = (landing < tables.width) & (gap <= tables.reach.take(move) + _GLIDE_CM)
        between[9] = guard & (tables.side.take(move) == fight.stance) & tables.is_strike.take(move)
        between[10] = self._parry_ages.take(age)
        between[11] = (fight.move == 0) & (move == 0)


if __name__ == "__main__":
    sys.stdout.write(f"{table()}\n")
