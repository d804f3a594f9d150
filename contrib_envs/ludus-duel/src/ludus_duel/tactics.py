"""Decisions of a scripted fighter, one kind of situation at a time, for n fighters at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from attrs import field, frozen

from ludus_duel.actions import NUMBER, SIDES
from ludus_duel.moves import KINDS
from ludus_duel.view import INDEX

#: The number of each kind of animation.
KIND = {kind: number for number, kind in enumerate(KINDS)}
_SECONDS = 2.0  # a time of 1 in observations


def kind_mask(*kinds: str) -> np.ndarray:
    """Return ``[kinds] bool``: True for the given kinds of animations; indexed by numbers of `KINDS`."""
    return np.isin(np.arange(len(KINDS)), [KIND[kind] for kind in kinds])


@frozen(kw_only=True)
class Situation:
    """The situation of n fighters; all arrays are ``[n]``, times are in seconds.

    Attributes:
        kind: ``int64``: the opponent's animation as a number of `KINDS`.
        side: ``int64``: side of the opponent's strike or parry; 0 where there is none.
        stance: ``int64``: side that the opponent guards.
        guard: ``bool``: the opponent's stance blocks.
        elapsed: Time since the opponent's animation began.
        remaining: Time until it ends.
        landing: Time until its strike may land; 0 where none comes.
        recovering: ``bool``: the opponent's attack is over and still binds.
        feintable: ``bool``: the opponent may still feint.
        own_kind: ``int64``: the own animation.
        own_cover: ``int64``: side of the own stance, or of the stance it changes to.
        stamina: Own stamina as a share.
        exhausted: ``bool``: the fighter itself is exhausted.
        light_reach: ``bool``: a light attack reaches the opponent; likewise `heavy_reach` and `grab_reach`.
        threatened: ``bool``: a strike is coming that reaches, or nearly.
        parry_now: ``bool``: a parry that begins now would meet it.
        wall: Room behind the opponent as a share of the arena.
        own_wall: Room behind the fighter itself.
    """

    kind: np.ndarray
    side: np.ndarray
    stance: np.ndarray
    guard: np.ndarray
    elapsed: np.ndarray
    remaining: np.ndarray
    landing: np.ndarray
    recovering: np.ndarray
    feintable: np.ndarray
    own_kind: np.ndarray
    own_cover: np.ndarray
    stamina: np.ndarray
    exhausted: np.ndarray
    light_reach: np.ndarray
    heavy_reach: np.ndarray
    grab_reach: np.ndarray
    threatened: np.ndarray
    parry_now: np.ndarray
    wall: np.ndarray
    own_wall: np.ndarray


def read_observation(seen: np.ndarray) -> Situation:
    """Return the situations shown by observations ``seen [n, 160]``."""

    def number(name: str) -> np.ndarray:
        return seen[:, INDEX[name]]

    def flag(name: str) -> np.ndarray:
        return number(name) > 0.5

    def index(prefix: str, names: tuple[str, ...]) -> np.ndarray:
        first = INDEX[f"{prefix}-{names[0]}"]
        chosen: np.ndarray = seen[:, first : first + len(names)].argmax(axis=1)
        return chosen

    return Situation(
        kind=index("opponent-animation", KINDS),
        side=index("opponent-side", SIDES),
        stance=index("opponent-stance", SIDES),
        guard=flag("opponent-guard"),
        elapsed=number("opponent-elapsed") * _SECONDS,
        remaining=number("opponent-remaining") * _SECONDS,
        landing=number("opponent-until-landing") * _SECONDS,
        recovering=flag("opponent-phase-recovery"),
        feintable=flag("opponent-may-feint"),
        own_kind=index("own-animation", KINDS),
        own_cover=index("own-wanted", SIDES),
        stamina=number("own-stamina"),
        exhausted=flag("own-exhausted"),
        light_reach=flag("in-light-reach"),
        heavy_reach=flag("in-heavy-reach"),
        grab_reach=flag("in-grab-reach"),
        threatened=flag("threatened"),
        parry_now=flag("parry-now"),
        wall=number("opponent-room"),
        own_wall=number("own-room"),
    )


#: Plans against a coming attack.
IGNORE, BLOCK, PARRY, DODGE, INTERRUPT, EVADE = range(6)

_LIGHT, _HEAVY, _PARRIES, _STANCE, _LUNGE, _QUICK = (
    NUMBER[f"{action}-left"] for action in ("light", "heavy", "parry", "stance", "lunge", "feint-light")
)
_GUARD_BREAK = NUMBER["guard-break"]
_STRIKES = kind_mask("light", "heavy", "lunge", "feint-light", "strike", "sweep")
_ATTACKS = _STRIKES | kind_mask("bash", "guard-break")
_HEAVY_ATTACKS = kind_mask("heavy", "lunge")
_BEATEN = kind_mask("hurt", "recoil", "parried", "held", "broken", "thrown", "fallen")
_HELD = kind_mask("held", "broken")
_MISTAKES = kind_mask("parry", "breathe")
_CATCHABLE = _MISTAKES | kind_mask("dodge-left", "dodge-right", "dodge-back", "dodge-forward")
_EPSILON_S = 0.01  # observations are float32


@frozen(kw_only=True)
class Skill:
    """Strength of a bot; all fields but `delay_s` are probabilities in [0, 1].

    Args:
        delay_s: Reaction time: age at which an animation of the opponent is noticed.
        plans: Probability of each plan against an attack, except EVADE; they sum to 1.
        learn: Step size of the running estimate that a heavy attack of the opponent is a feint. The bot evades an
            attack that it takes for a feint.
        punish: Per tick, to use an opening of the opponent.
        counter: Per tick, to counter a guard break.
        attack: Per tick, to attack when both are free.
        feint: Per tick, to change an own heavy attack.
        follow: Per tick, to strike out of a dodge.
        read: To attack a side that the opponent does not guard.
        wander: Per tick, to change the stance.
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
    """Fighters to which an answer applies, ``[n] bool``, and their actions, ``[n] int64``."""

    applies: np.ndarray
    action: np.ndarray


@frozen
class Tactics:
    """Draws answers to the situations of n fighters.

    Args:
        skill: Strength of the fighters.
        situation: Their situations.
        rng: Source of all random numbers.
    """

    skill: Skill
    situation: Situation
    rng: np.random.Generator
    noticed: np.ndarray = field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "noticed", self.situation.elapsed >= self.skill.delay_s - _EPSILON_S)

    def _chance(self, probability: float) -> np.ndarray:
        drawn: np.ndarray = self.rng.random(len(self.situation.kind)) < probability
        return drawn

    def _draw_one(self, *actions: np.ndarray | int) -> np.ndarray:
        """Draw one of the actions for each fighter; an action is ``[n] int64`` or one number for all."""
        count = len(self.situation.kind)
        columns = np.stack([np.broadcast_to(action, count) for action in actions], axis=1)
        drawn = self.rng.integers(len(actions), size=count)
        chosen: np.ndarray = columns[np.arange(count), drawn]
        return chosen

    def _draw_side(self) -> np.ndarray:
        """Draw the side to attack, ``[n] int64``; with probability `read` one that the opponent does not guard."""
        any_side = self.rng.integers(len(SIDES), size=len(self.situation.kind))
        elsewhere = (self.situation.stance + self.rng.integers(1, len(SIDES), size=len(any_side))) % len(SIDES)
        return np.where(self._chance(self.skill.read), elsewhere, any_side)

    def neutral(self) -> np.ndarray:
        """Return ``[n] int64``: approach, change stance or attack."""
        situation, side = self.situation, self._draw_side()
        near = self._draw_one(
            _LIGHT + side,
            _LIGHT + side,
            _HEAVY + side,
            _HEAVY + side,
            _GUARD_BREAK,
            NUMBER["dodge-forward"],
            NUMBER["sweep"],
        )
        far = np.where(self._chance(0.1), self._draw_one(_LUNGE + side, NUMBER["dodge-forward"]), NUMBER["advance"])
        stance = self.rng.integers(len(SIDES), size=len(side)) + _STANCE
        idle = np.where(self._chance(self.skill.wander), stance, NUMBER["wait"])
        attack = np.where(self._chance(self.skill.attack), near, idle)
        chosen = np.where(situation.heavy_reach, attack, far)
        tired = situation.exhausted | (situation.stamina < 0.25)
        rest = np.where(situation.heavy_reach, NUMBER["retreat"], NUMBER["breathe"])
        return np.where(tired & ~self._chance(0.2 * self.skill.attack), rest, chosen)

    def punish(self) -> Answer:
        """Attack an opponent that is bound; reactions to own attacks need no reaction time."""
        situation, side = self.situation, self._draw_side()
        bound = _BEATEN[situation.kind] | (self.noticed & (_MISTAKES[situation.kind] | situation.recovering))
        catchable = self.noticed & (_CATCHABLE[situation.kind] | situation.recovering)
        heavy = bound & situation.heavy_reach & (situation.remaining > 0.8 - _EPSILON_S)
        light = bound & situation.light_reach & (situation.remaining > 0.5 - _EPSILON_S)
        grab = catchable & situation.grab_reach & (situation.remaining > 0.4 - _EPSILON_S) & ~situation.exhausted
        action = np.select([heavy, grab, light], [_HEAVY + side, _GUARD_BREAK, _LIGHT + side], NUMBER["wait"])
        return Answer((heavy | light | grab) & self._chance(self.skill.punish), action)

    def defend(self, plan: np.ndarray) -> Answer:
        """Execute ``plan [n] int64`` against a coming attack."""
        situation = self.situation
        coming = self.noticed & _ATTACKS[situation.kind] & ~situation.recovering
        strike = coming & situation.threatened & _STRIKES[situation.kind]
        cover = np.where(situation.own_cover == situation.side, NUMBER["wait"], _STANCE + situation.side)
        soon = situation.landing < 0.2 + _EPSILON_S
        parry = np.where(situation.parry_now & soon, _PARRIES + situation.side, cover)
        away = np.where(situation.side == 0, NUMBER["dodge-right"], NUMBER["dodge-left"])
        dodge = np.where(situation.kind == KIND["sweep"], cover, np.where(soon, away, NUMBER["wait"]))
        early = situation.landing > 0.5 + _EPSILON_S
        interrupt = np.where(early, _LIGHT + self._draw_side(), cover)
        back = np.where(situation.own_wall > 0.15, NUMBER["dodge-back"], away)
        answers = [cover, parry, dodge, back]
        action = np.select([plan == BLOCK, plan == PARRY, plan == DODGE, plan == EVADE], answers, interrupt)
        bash = coming & situation.threatened & (situation.kind == KIND["bash"])
        action = np.where(bash, away, action)
        grab = coming & (situation.kind == KIND["guard-break"])
        active = (plan == PARRY) | (plan == DODGE) | (plan == INTERRUPT)
        action = np.where(grab, np.where(active, _LIGHT + self._draw_side(), NUMBER["wait"]), action)
        return Answer((strike | bash | grab) & (plan != IGNORE), action)

    def expect(self, plan: np.ndarray) -> Answer:
        """Guard the side to which the opponent dodges, from which a strike may come."""
        situation = self.situation
        left, right = (situation.kind == KIND[f"dodge-{way}"] for way in ("left", "right"))
        side = np.where(left, 0, len(SIDES) - 1)
        cover = np.where(situation.own_cover == side, NUMBER["wait"], _STANCE + side)
        ready = (left | right) & situation.heavy_reach & ((plan == BLOCK) | (plan == PARRY)) & self.noticed
        return Answer(ready, cover)

    def feint(self) -> Answer:
        """Change an own heavy attack, above all when the opponent parries."""
        situation = self.situation
        attacking = _HEAVY_ATTACKS[situation.own_kind]
        baited = (situation.kind == KIND["parry"]) & self._chance(self.skill.punish)
        struck = _STRIKES[situation.kind] & situation.threatened & self._chance(self.skill.punish)
        quick = [_QUICK + self._draw_side() for _ in range(2)]
        other = self._draw_one(NUMBER["feint"], NUMBER["feint-guard-break"], *quick)
        action = np.select([baited, struck], [NUMBER["feint-guard-break"], NUMBER["feint"]], other)
        changed = baited | struck | self._chance(self.skill.feint)
        return Answer(attacking, np.where(changed, action, NUMBER["wait"]))

    def follow(self) -> Answer:
        """Strike out of a dodge."""
        situation = self.situation
        kinds = [situation.own_kind == KIND[f"dodge-{way}"] for way in ("left", "right", "forward")]
        action = np.select(kinds, [NUMBER["strike-left"], NUMBER["strike-right"], NUMBER["bash"]], NUMBER["wait"])
        reaches = np.where(kinds[2], situation.grab_reach, situation.heavy_reach)
        return Answer(
            np.any(kinds, axis=0), np.where(reaches & self._chance(self.skill.follow), action, NUMBER["wait"])
        )

    def grip(self) -> Answer:
        """Attack or throw a held opponent."""
        situation = self.situation
        held = _HELD[situation.kind] & (situation.own_kind == KIND["idle"])
        long = situation.remaining > 0.8 - _EPSILON_S
        strike = np.where(long, _HEAVY, _LIGHT) + self.rng.integers(len(SIDES), size=len(held))
        walled = situation.wall < 0.25
        action = np.where(walled & ~long, NUMBER["throw-forward"], strike)
        return Answer(held & (situation.remaining > 0.2) & self._chance(max(self.skill.punish, 0.5)), action)

    def counter(self) -> Answer:
        """Counter a guard break."""
        held = self.situation.own_kind == KIND["held"]
        return Answer(held, np.where(self._chance(self.skill.counter), NUMBER["counter"], NUMBER["wait"]))
