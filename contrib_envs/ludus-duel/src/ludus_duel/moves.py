"""The animations of the game: what binds a fighter, for how long, and what it does meanwhile."""

from __future__ import annotations

from attrs import evolve, frozen

from ludus_duel.actions import ACTIONS, SIDES
from ludus_duel.config import DuelRules

__all__ = ["KINDS", "PUSH_CM", "WINDOWS", "Move", "actions_open", "moves"]

#: What an onlooker can tell animations apart by, besides their side.
KINDS = (
    "idle",
    "light",
    "heavy",
    "lunge",
    "feint-light",
    "strike",
    "bash",
    "sweep",
    "guard-break",
    "throw",
    "parry",
    "dodge-left",
    "dodge-right",
    "dodge-forward",
    "dodge-back",
    "feint",
    "breathe",
    "hurt",
    "recoil",
    "parried",
    "guard",
    "held",
    "broken",
    "thrown",
    "fallen",
    "release",
)

#: When a fighter may decide: not at all, freely, or in one of the windows that an animation leaves open.
WINDOWS = ("closed", "free", "feint", "counter", "after-dodge-left", "after-dodge-right", "after-dodge-forward", "grip")

#: How far each throw moves the one who is thrown.
PUSH_CM = {"throw-forward": 250.0, "throw-back": 150.0}

_TIRING = ("feint", "guard-break", "counter", "lunge", "strike", "bash", "sweep", "throw")


@frozen(kw_only=True)
class Move:
    """One animation. It lasts ``startup + active + recovery``; a blow may land in each tick of the active time.

    Args:
        name: That of the action that starts it, or what happens to a fighter.
        kind: One of `KINDS`.
        form: "strike", "grab" or "throw" where something lands on the opponent; "" otherwise.
        side: The side of a blow or parry, as an index of `SIDES`; -1 where there is none: such a blow can neither be
            blocked nor parried.
        startup_ms: Before the active time; the whole of an animation without one.
        active_ms: During which it may land.
        recovery_ms: After that.
        damage: Health it takes.
        chip: Health it takes from one who blocks it.
        cost: Stamina it costs.
        reach_cm: How far away the opponent may be.
        glide_cm: How far it moves its fighter forward during startup; negative moves back.
        stun: The move of an opponent it hits; `guard` where the opponent blocks it.
        guard: See `stun`.
        recoil: The move of its own fighter when it is blocked.
        parried: The same when it is parried.
        dodgeable: Whether invulnerability helps against it.
        guards: Whether the stance still blocks during it.
        grabbable: Whether a guard break catches a fighter in it.
        alert: Whether one caught in it can counter.
        safe_ms: From when to when it is invulnerable.
        parries_ms: From when to when it parries.
        window: Which of `WINDOWS` it leaves open; `open_ms` from when to when.
        open_ms: See `window`.
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


def moves(rules: DuelRules) -> tuple[Move, ...]:
    """Return every animation; number 0 is standing free."""
    idle = Move(name="idle", kind="idle", startup_ms=0, guards=True, alert=True, window="free")
    sided = [move for side in range(len(SIDES)) for move in _sided(rules, side)]
    return (idle, *sided, *_strikes(rules), *_grips(), *_evasions(rules), *_suffered(rules))


def _sided(rules: DuelRules, side: int) -> list[Move]:
    """Return the blows and the parry of one side."""
    name, heavy_ms = SIDES[side], rules.heavy_startup_ms
    light = Move(
        name=f"light-{name}",
        kind="light",
        form="strike",
        side=side,
        startup_ms=rules.light_startup_ms,
        active_ms=100,
        recovery_ms=400,
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
    heavy = Move(
        name=f"heavy-{name}",
        kind="heavy",
        form="strike",
        side=side,
        startup_ms=heavy_ms,
        active_ms=200,
        recovery_ms=500,
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
    """Return the blows that follow a dodge, and the sweep."""
    strike = Move(
        name="strike-left",
        kind="strike",
        form="strike",
        side=0,
        startup_ms=400,
        active_ms=100,
        recovery_ms=500,
        damage=1.4 * rules.light_damage,
        cost=12.0,
        reach_cm=240.0,
        glide_cm=60.0,
        parried="parried-long",
    )
    bash = Move(
        name="bash",
        kind="bash",
        form="strike",
        startup_ms=300,
        active_ms=100,
        recovery_ms=200,
        cost=15.0,
        reach_cm=180.0,
        glide_cm=60.0,
        stun="hurt-long",
    )
    sweep = Move(
        name="sweep",
        kind="sweep",
        form="strike",
        side=0,
        startup_ms=600,
        active_ms=200,
        recovery_ms=700,
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
    """Return guard breaks, throws, and what frees a fighter from the one or the other."""
    grab = Move(
        name="guard-break",
        kind="guard-break",
        form="grab",
        startup_ms=400,
        active_ms=100,
        recovery_ms=500,
        cost=12.0,
        reach_cm=180.0,
        glide_cm=60.0,
    )
    throw = Move(
        name="throw-forward",
        kind="throw",
        form="throw",
        startup_ms=200,
        active_ms=100,
        recovery_ms=300,
        damage=4.0,
        cost=10.0,
        reach_cm=300.0,
    )
    return [
        grab,
        evolve(grab, name="feint-guard-break", cost=18.0, glide_cm=40.0),
        throw,
        evolve(throw, name="throw-back"),
        Move(name="grip", kind="release", startup_ms=100),
        Move(name="counter", kind="release", startup_ms=200, cost=8.0),
    ]


def _evasions(rules: DuelRules) -> list[Move]:
    """Return dodges, the feint, and catching breath."""
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
        name="dodge-back",
        kind="dodge-back",
        startup_ms=600,
        cost=rules.dodge_cost,
        glide_cm=-180.0,
        safe_ms=(100, 200),
    )
    return [
        left,
        evolve(left, name="dodge-right", kind="dodge-right", window="after-dodge-right"),
        forward,
        back,
        Move(name="feint", kind="feint", startup_ms=200, cost=rules.feint_cost),
        Move(name="breathe", kind="breathe", startup_ms=800),
    ]


def _suffered(rules: DuelRules) -> list[Move]:
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


def actions_open(window: str, *, exhausted: bool) -> list[bool]:
    """Return for every action whether a fighter may choose it in a window."""
    free = ("wait", "stance", "light", "heavy", "parry", "dodge", "guard-break", "advance", "retreat", "lunge", "sweep")
    begins = {
        "closed": (),
        "free": (*free, "breathe"),
        "grip": (*free, "breathe", "throw"),
        "feint": ("wait", "feint"),
        "counter": ("wait", "counter"),
        "after-dodge-left": ("wait", "strike-left"),
        "after-dodge-right": ("wait", "strike-right"),
        "after-dodge-forward": ("wait", "bash"),
    }[window]
    return [action.startswith(begins) and not (exhausted and action.startswith(_TIRING)) for action in ACTIONS]
