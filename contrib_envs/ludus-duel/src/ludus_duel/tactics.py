"""What a scripted fighter may do in a situation, one question at a time, for n fighters at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from attrs import field, frozen

from ludus_duel.actions import NUMBER, SIDES
from ludus_duel.sight import KIND, Sight, among

__all__ = ["BLOCK", "DODGE", "EVADE", "IGNORE", "INTERRUPT", "PARRY", "Answer", "Skill", "Tactics"]

#: Plans against an attack.
IGNORE, BLOCK, PARRY, DODGE, INTERRUPT, EVADE = range(6)

_LIGHT, _HEAVY, _PARRIES, _STANCE, _LUNGE, _QUICK = (
    NUMBER[f"{action}-left"] for action in ("light", "heavy", "parry", "stance", "lunge", "feint-light")
)
_GUARD_BREAK = NUMBER["guard-break"]
_STRIKES = among("light", "heavy", "lunge", "feint-light", "strike", "sweep")
_ATTACKS = _STRIKES | among("bash", "guard-break")
_HEAVY_ATTACKS = among("heavy", "lunge")
_BEATEN = among("hurt", "recoil", "parried", "held", "broken", "thrown", "fallen")
_HELD = among("held", "broken")
_MISTAKES = among("parry", "breathe")
_CATCHABLE = _MISTAKES | among("dodge-left", "dodge-right", "dodge-back", "dodge-forward")
_EPSILON_S = 0.01  # times come as float32


@frozen(kw_only=True)
class Skill:
    """How well a bot fights; everything but `delay_s` is a chance in [0, 1].

    Args:
        delay_s: How old an animation of the opponent must be before it is noticed.
        plans: Of each plan against an attack, but EVADE; they sum to 1.
        learn: How much of what it expects is what it saw last: whether the opponent's heavy attacks are feints. Where
            it expects one it leaves at once.
        punish: Using an opening that the opponent leaves, on each tick of it.
        counter: Countering a guard break, on each tick of the window.
        attack: Attacking when both are free, on each tick.
        feint: Turning a heavy attack into something else, on each tick.
        follow: Striking out of a dodge, on each tick.
        read: Attacking where the opponent's stance is not.
        wander: Changing the stance, on each tick.
    """

    delay_s: float
    plans: tuple[float, ...]
    learn: float
    punish: float
    counter: float
    attack: float
    feint: float
    follow: float
    read: float
    wander: float


class Answer(NamedTuple):
    """Where there is something to do, ``[n] bool``, and what, ``[n] int64``."""

    where: np.ndarray
    action: np.ndarray


@frozen
class Tactics:
    """The situation of n fighters and the chances drawn for it.

    Args:
        skill: How well they fight.
        sight: What they see.
        rng: The only source of randomness.
    """

    skill: Skill
    sight: Sight
    rng: np.random.Generator
    noticed: np.ndarray = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "noticed", self.sight.elapsed >= self.skill.delay_s - _EPSILON_S)

    def _chance(self, probability: float) -> np.ndarray:
        drawn: np.ndarray = self.rng.random(len(self.sight.kind)) < probability
        return drawn

    def _one_of(self, *actions: np.ndarray | int) -> np.ndarray:
        """Return one of the actions, each of which is ``[n] int64`` or the same for all."""
        count = len(self.sight.kind)
        columns = np.stack([np.broadcast_to(action, count) for action in actions], axis=1)
        drawn = self.rng.integers(len(actions), size=count)
        chosen: np.ndarray = columns[np.arange(count), drawn]
        return chosen

    def _side(self) -> np.ndarray:
        """Return the side to attack, ``[n] int64``: often not the one that the opponent guards."""
        any_side = self.rng.integers(len(SIDES), size=len(self.sight.kind))
        elsewhere = (self.sight.stance + self.rng.integers(1, len(SIDES), size=len(any_side))) % len(SIDES)
        return np.where(self._chance(self.skill.read), elsewhere, any_side)

    def neutral(self) -> np.ndarray:
        """Return ``[n] int64``: come closer, guard, attack."""
        sight, side = self.sight, self._side()
        near = self._one_of(
            _LIGHT + side,
            _LIGHT + side,
            _HEAVY + side,
            _HEAVY + side,
            _GUARD_BREAK,
            NUMBER["dodge-forward"],
            NUMBER["sweep"],
        )
        far = np.where(self._chance(0.1), self._one_of(_LUNGE + side, NUMBER["dodge-forward"]), NUMBER["advance"])
        stance = self.rng.integers(len(SIDES), size=len(side)) + _STANCE
        idle = np.where(self._chance(self.skill.wander), stance, NUMBER["wait"])
        attack = np.where(self._chance(self.skill.attack), near, idle)
        chosen = np.where(sight.heavy_reach, attack, far)
        tired = sight.exhausted | (sight.stamina < 0.25)
        rest = np.where(sight.heavy_reach, NUMBER["retreat"], NUMBER["breathe"])
        return np.where(tired & ~self._chance(0.2 * self.skill.attack), rest, chosen)

    def punish(self) -> Answer:
        """Use the time in which the opponent can do nothing; what oneself has done to the opponent is no surprise."""
        sight, side = self.sight, self._side()
        bound = _BEATEN[sight.kind] | (self.noticed & (_MISTAKES[sight.kind] | sight.recovering))
        catchable = self.noticed & (_CATCHABLE[sight.kind] | sight.recovering)
        heavy = bound & sight.heavy_reach & (sight.remaining > 0.8 - _EPSILON_S)
        light = bound & sight.light_reach & (sight.remaining > 0.5 - _EPSILON_S)
        grab = catchable & sight.grab_reach & (sight.remaining > 0.4 - _EPSILON_S) & ~sight.exhausted
        action = np.select([heavy, grab, light], [_HEAVY + side, _GUARD_BREAK, _LIGHT + side], NUMBER["wait"])
        return Answer((heavy | light | grab) & self._chance(self.skill.punish), action)

    def defend(self, plan: np.ndarray) -> Answer:
        """Carry out ``plan [n] int64`` against an attack that is coming."""
        sight = self.sight
        coming = self.noticed & _ATTACKS[sight.kind] & ~sight.recovering
        strike = coming & sight.threatened & _STRIKES[sight.kind]
        cover = np.where(sight.own_cover == sight.side, NUMBER["wait"], _STANCE + sight.side)
        soon = sight.landing < 0.2 + _EPSILON_S
        parry = np.where(sight.parry_now & soon, _PARRIES + sight.side, cover)
        away = np.where(sight.side == 0, NUMBER["dodge-right"], NUMBER["dodge-left"])
        dodge = np.where(sight.kind == KIND["sweep"], cover, np.where(soon, away, NUMBER["wait"]))
        early = sight.landing > 0.5 + _EPSILON_S
        interrupt = np.where(early, _LIGHT + self._side(), cover)
        back = np.where(sight.own_wall > 0.15, NUMBER["dodge-back"], away)
        answers = [cover, parry, dodge, back]
        action = np.select([plan == BLOCK, plan == PARRY, plan == DODGE, plan == EVADE], answers, interrupt)
        bash = coming & sight.threatened & (sight.kind == KIND["bash"])
        action = np.where(bash, away, action)
        grab = coming & (sight.kind == KIND["guard-break"])
        action = np.where(
            grab,
            np.where((plan == PARRY) | (plan == DODGE) | (plan == INTERRUPT), _LIGHT + self._side(), NUMBER["wait"]),
            action,
        )
        return Answer((strike | bash | grab) & (plan != IGNORE), action)

    def expect(self, plan: np.ndarray) -> Answer:
        """Guard the side to which the opponent dodges: a strike may come from there."""
        sight = self.sight
        left, right = (sight.kind == KIND[f"dodge-{way}"] for way in ("left", "right"))
        side = np.where(left, 0, len(SIDES) - 1)
        cover = np.where(sight.own_cover == side, NUMBER["wait"], _STANCE + side)
        ready = (left | right) & sight.heavy_reach & ((plan == BLOCK) | (plan == PARRY)) & self.noticed
        return Answer(ready, cover)

    def feint(self) -> Answer:
        """Turn an attack of one's own into another, above all where the opponent tries to parry it."""
        sight = self.sight
        attacking = _HEAVY_ATTACKS[sight.own_kind]
        baited = (sight.kind == KIND["parry"]) & self._chance(self.skill.punish)
        struck = _STRIKES[sight.kind] & sight.threatened & self._chance(self.skill.punish)
        other = self._one_of(NUMBER["feint"], NUMBER["feint-guard-break"], _QUICK + self._side(), _QUICK + self._side())
        action = np.select([baited, struck], [NUMBER["feint-guard-break"], NUMBER["feint"]], other)
        changed = baited | struck | self._chance(self.skill.feint)
        return Answer(attacking, np.where(changed, action, NUMBER["wait"]))

    def follow(self) -> Answer:
        """Strike out of a dodge."""
        sight = self.sight
        kinds = [sight.own_kind == KIND[f"dodge-{way}"] for way in ("left", "right", "forward")]
        action = np.select(kinds, [NUMBER["strike-left"], NUMBER["strike-right"], NUMBER["bash"]], NUMBER["wait"])
        reaches = np.where(kinds[2], sight.grab_reach, sight.heavy_reach)
        return Answer(
            np.any(kinds, axis=0), np.where(reaches & self._chance(self.skill.follow), action, NUMBER["wait"])
        )

    def grip(self) -> Answer:
        """Make use of an opponent who is held."""
        sight = self.sight
        held = _HELD[sight.kind] & (sight.own_kind == KIND["idle"])
        long = sight.remaining > 0.8 - _EPSILON_S
        blow = np.where(long, _HEAVY, _LIGHT) + self.rng.integers(len(SIDES), size=len(held))
        walled = sight.wall < 0.25
        action = np.where(walled & ~long, NUMBER["throw-forward"], blow)
        return Answer(held & (sight.remaining > 0.2) & self._chance(max(self.skill.punish, 0.5)), action)

    def counter(self) -> Answer:
        """Counter a guard break."""
        held = self.sight.own_kind == KIND["held"]
        return Answer(held, np.where(self._chance(self.skill.counter), NUMBER["counter"], NUMBER["wait"]))
