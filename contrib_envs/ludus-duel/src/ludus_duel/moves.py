"""The moves of the game: animations that bind a fighter for a time, and their effects."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from ludus_duel.actions import ACTIONS, SIDES
from ludus_duel.config import DuelRules

#: What observations show of an animation, besides its side.
KINDS = (
    *("idle", "light", "heavy", "lunge", "feint-light", "strike", "bash", "sweep", "guard-break", "throw", "parry"),
    *("dodge-left", "dodge-right", "dodge-forward", "dodge-back", "feint", "breathe"),
    *("hurt", "recoil", "parried", "guard", "held", "broken", "thrown", "fallen", "release"),
)

#: When a fighter may decide: never, freely, or in a window of an animation.
WINDOWS = ("closed", "free", "feint", "counter", "after-dodge-left", "after-dodge-right", "after-dodge-forward", "grip")

#: How far each throw moves its target.
PUSH_CM = {"throw-forward": 250.0, "throw-back": 150.0}

_NEEDS_BREATH = ("feint", "guard-break", "counter", "lunge", "strike", "bash", "sweep", "throw")


@frozen(kw_only=True)
class Move:
    """One animation. It lasts ``startup + active + recovery``; an attack may land in each active tick.

    Args:
        name: Name of the action that starts it, or of the reaction.
        kind: One of `KINDS`.
        form: "strike", "grab" or "throw" for an attack; "" otherwise.
        side: Side of a strike or parry, as an index of `SIDES`; -1 for none. A strike without a side can be neither
            blocked nor parried.
        startup_ms: Time before the active time; the duration of an animation that is no attack.
        active_ms: Time in which the attack may land.
        recovery_ms: Time after the active time.
        damage: Health that a hit takes.
        chip: Health that a blocked attack takes.
        cost: Stamina that the move costs.
        reach_cm: Greatest distance at which the attack lands.
        glide_cm: Distance moved forward during startup; negative moves back.
        stun: Move of the target after a hit.
        guard: Move of the target after a block.
        recoil: Move of the attacker after a block.
        parried: Move of the attacker after a parry.
        dodgeable: An invulnerable target evades the attack.
        guards: The stance blocks during the move.
        grabbable: A guard break catches a fighter in the move.
        alert: A fighter caught in the move can counter.
        safe_ms: First and last time of invulnerability.
        parries_ms: First and last time at which the move parries.
        window: One of `WINDOWS`, open during `open_ms`.
        open_ms: First and last time of `window`.
    """

    name: str
    kind: str
    form: str = ""
    side: int = -1
    startup_ms: int
    active_ms: int = 0
    recovery_ms: int = 0
    damage: float = 0.0
    chip: float = 0.0
    cost: float = 0.0
    reach_cm: float = 0.0
    glide_cm: float = 0.0
    stun: str = "hurt"
    guard: str = "guard"
    recoil: str = "recoil"
    parried: str = "parried"
    dodgeable: bool = True
    guards: bool = False
    grabbable: bool = True
    alert: bool = False
    safe_ms: tuple[int, int] = (0, 0)
    parries_ms: tuple[int, int] = (0, 0)
    window: str = "closed"
    open_ms: tuple[int, int] = (0, 0)


def _attack(name: str, kind: str, form: str, times_ms: tuple[int, int, int], **properties: Any) -> Move:
    """Return an attack with the given startup, active and recovery times."""
    startup, active, recovery = times_ms
    properties |= {"startup_ms": startup, "active_ms": active, "recovery_ms": recovery}
    return Move(name=name, kind=kind, form=form, **properties)


def make_moves(rules: DuelRules) -> tuple[Move, ...]:
    """Return all moves; move 0 is idle."""
    idle = Move(name="idle", kind="idle", startup_ms=0, guards=True, alert=True, window="free")
    sided = [move for side in range(len(SIDES)) for move in _sided(rules, side)]
    return (idle, *sided, *_strikes(rules), *_grips(), *_evasions(rules), *_reactions(rules))


def _sided(rules: DuelRules, side: int) -> list[Move]:
    """Return the strikes and the parry of one side."""
    name, heavy_ms = SIDES[side], rules.heavy_startup_ms
    light = _attack(
        f"light-{name}",
        "light",
        "strike",
        (rules.light_startup_ms, 100, 400),
        side=side,
        damage=rules.light_damage,
        cost=rules.light_cost,
        reach_cm=220.0,
        glide_cm=40.0,
        parried="parried-long",
    )
    quick = evolve(
        light,
        name=f"feint-light-{name}",
        kind="feint-light",
        startup_ms=200,
        recovery_ms=500,
        damage=0.8 * rules.light_damage,
        cost=rules.feint_cost + rules.light_cost,
        reach_cm=160.0,
        glide_cm=0.0,
    )
    heavy = _attack(
        f"heavy-{name}",
        "heavy",
        "strike",
        (heavy_ms, 200, 500),
        side=side,
        damage=rules.heavy_damage,
        chip=rules.chip * rules.heavy_damage,
        cost=rules.heavy_cost,
        reach_cm=240.0,
        glide_cm=60.0,
        stun="hurt-long",
        guard="guard-long",
        window="feint",
        open_ms=(100, heavy_ms - rules.feint_until_ms),
    )
    lunge = evolve(heavy, name=f"lunge-{name}", kind="lunge", startup_ms=heavy_ms + 100, glide_cm=260.0)
    until = lunge.startup_ms - rules.feint_until_ms
    parries = (200, 100 + rules.parry_window_ms)
    return [
        light,
        quick,
        heavy,
        evolve(lunge, damage=0.85 * rules.heavy_damage, cost=1.6 * rules.heavy_cost, open_ms=(100, until)),
        Move(name=f"parry-{name}", kind="parry", side=side, startup_ms=700, parries_ms=parries),
    ]


def _strikes(rules: DuelRules) -> list[Move]:
    """Return the strikes out of a dodge, and the sweep."""
    strike = _attack(
        "strike-left",
        "strike",
        "strike",
        (400, 100, 500),
        side=0,
        damage=1.4 * rules.light_damage,
        cost=12.0,
        reach_cm=240.0,
        glide_cm=60.0,
        parried="parried-long",
    )
    bash = _attack(
        "bash", "bash", "strike", (300, 100, 200), cost=15.0, reach_cm=180.0, glide_cm=60.0, stun="hurt-long"
    )
    sweep = _attack(
        "sweep",
        "sweep",
        "strike",
        (600, 200, 700),
        side=0,
        damage=1.6 * rules.light_damage,
        cost=40.0,
        reach_cm=240.0,
        glide_cm=40.0,
        guard="guard-long",
        recoil="parried",
        parried="parried-long",
        dodgeable=False,
    )
    return [strike, evolve(strike, name="strike-right", side=2), bash, sweep]


def _grips() -> list[Move]:
    """Return guard breaks, throws, and the moves that follow or end a hold."""
    grab = _attack("guard-break", "guard-break", "grab", (400, 100, 500), cost=12.0, reach_cm=180.0, glide_cm=60.0)
    throw = _attack("throw-forward", "throw", "throw", (200, 100, 300), damage=4.0, cost=10.0, reach_cm=300.0)
    return [
        grab,
        evolve(grab, name="feint-guard-break", cost=18.0, glide_cm=40.0),
        throw,
        evolve(throw, name="throw-back"),
        Move(name="grip", kind="release", startup_ms=100),
        Move(name="counter", kind="release", startup_ms=200, cost=8.0),
    ]


def _evasions(rules: DuelRules) -> list[Move]:
    """Return dodges, the feint, and breathing."""
    left = Move(
        name="dodge-left",
        kind="dodge-left",
        startup_ms=600,
        cost=rules.dodge_cost,
        safe_ms=(100, rules.dodge_safe_ms),
        window="after-dodge-left",
        open_ms=(200, 400),
    )
    forward = Move(
        name="dodge-forward",
        kind="dodge-forward",
        startup_ms=500,
        cost=rules.dodge_cost,
        glide_cm=180.0,
        window="after-dodge-forward",
        open_ms=(200, 400),
    )
    back = Move(
        name="dodge-back", kind="dodge-back", startup_ms=600, cost=rules.dodge_cost, glide_cm=-180.0, safe_ms=(100, 200)
    )
    return [
        left,
        evolve(left, name="dodge-right", kind="dodge-right", window="after-dodge-right"),
        forward,
        back,
        Move(name="feint", kind="feint", startup_ms=200, cost=rules.feint_cost),
        Move(name="breathe", kind="breathe", startup_ms=800),
    ]


def _reactions(rules: DuelRules) -> list[Move]:
    """Return the moves that attacks force on a fighter."""
    return [
        Move(name="hurt", kind="hurt", startup_ms=500, grabbable=False),
        Move(name="hurt-long", kind="hurt", startup_ms=700, grabbable=False),
        Move(name="recoil", kind="recoil", startup_ms=400),
        Move(name="parried", kind="parried", startup_ms=700, grabbable=False),
        Move(name="parried-long", kind="parried", startup_ms=900, grabbable=False),
        Move(name="guard", kind="guard", startup_ms=100, guards=True, alert=True),
        Move(name="guard-long", kind="guard", startup_ms=300, guards=True, alert=True),
        Move(
            name="held",
            kind="held",
            startup_ms=1000,
            grabbable=False,
            window="counter",
            open_ms=(0, rules.counter_ms - 1),
        ),
        Move(name="broken", kind="broken", startup_ms=1000, grabbable=False),
        Move(name="thrown", kind="thrown", startup_ms=600, grabbable=False),
        Move(name="fallen", kind="fallen", startup_ms=1100, grabbable=False),
    ]


def legal_actions(window: str, *, exhausted: bool) -> list[bool]:
    """Return whether each action is legal in a window."""
    free = ("wait", "stance", "light", "heavy", "parry", "dodge", "guard-break", "advance", "retreat", "lunge", "sweep")
    prefixes = {
        "closed": (),
        "free": (*free, "breathe"),
        "grip": (*free, "breathe", "throw"),
        "feint": ("wait", "feint"),
        "counter": ("wait", "counter"),
        "after-dodge-left": ("wait", "strike-left"),
        "after-dodge-right": ("wait", "strike-right"),
        "after-dodge-forward": ("wait", "bash"),
    }[window]
    return [action.startswith(prefixes) and not (exhausted and action.startswith(_NEEDS_BREATH)) for action in ACTIONS]
