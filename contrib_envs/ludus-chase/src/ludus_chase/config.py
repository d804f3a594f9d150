"""Options of the components in this distribution. Lengths are in cells of a map of 72 by 48, times in seconds."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from ludus.option import Check, above, at_least, between, one_of, option, whole


def _seconds(low: float = 0.0) -> Check:
    return between(low, 3600.0)


@frozen(kw_only=True)
class ChaseRules:
    """Speeds, strengths and durations; times are rounded up to whole ticks."""

    cat_speed: float = option(5.8, between(0.0, 20.0), help="cells per second; [0, 20]")
    mouse_speed: float = option(5.0, between(0.0, 20.0), help="cells per second; [0, 20]")
    scout_speed: float = option(7.0, between(0.0, 20.0), help="of scouts in the preparation; cells per second; [0, 20]")
    cheese_slowdown: float = option(0.7, between(0.0, 1.0), help="factor on the speed of a mouse with a cheese; [0, 1]")
    catch_slowdown: float = option(0.85, between(0.0, 1.0), help="factor on the speed of a cat with a mouse; [0, 1]")
    boots_factor: float = option(1.5, between(1.0, 3.0), help="factor on the speed with boots, in a sprint, in fright")
    hit_damage: float = option(55.0, at_least(0.0), help="damage of a hit, of 100 health; ≥ 0")
    hit_reach: float = option(2.0, above(0.0), help="cells; > 0")
    swing_s: float = option(0.8, _seconds(), help="time for which a hit binds the cat")
    fright_s: float = option(1.4, _seconds(), help="time for which a mouse is fast and safe after a hit")
    down_s: float = option(10.0, _seconds(0.2), help="until a mouse that went down gets up by itself")
    struggle_s: float = option(20.0, _seconds(0.2), help="until a mouse that is carried breaks free")
    rocket_s: float = option(25.0, _seconds(0.2), help="until a rocket leaves with the mouse tied to it")
    rescue_s: float = option(2.0, _seconds(0.2), help="for one mouse to untie another")
    cheese_s: float = option(10.0, _seconds(0.2), help="for one mouse to push a cheese through a hole")
    push_bonus: float = option(0.5, at_least(0.0), help="extra speed of all pushing mice per further mouse")
    crack_s: float = option(20.0, _seconds(0.2), help="for one mouse to break the wall crack")
    regeneration: float = option(0.5, at_least(0.0), help="health that returns to a mouse per second; ≥ 0")
    ability_s: float = option(15.0, _seconds(0.2), help="between two uses of an ability")
    trap_s: float = option(10.0, _seconds(0.2), help="between two traps, and between two gloves")
    trap_hold_s: float = option(3.0, _seconds(), help="time for which a trap holds a mouse")
    bomb_fuse_s: float = option(3.0, _seconds(0.2), help="from lighting a bomb to the explosion")
    bomb_stun_s: float = option(3.0, _seconds(), help="time for which an explosion stuns the cat")
    plate_stun_s: float = option(1.2, _seconds(), help="time for which a plate stuns its target")


@frozen(kw_only=True)
class ChaseConfig(ChaseRules):
    """Options of the environment ``chase``: its rules, its house, and how matches end."""

    tick_ms: int = option(200, whole(50, 1000), help="length of a tick; 50 to 1000")
    columns: int = option(3, whole(2, 4), help="rooms from west to east; 2 to 4")
    rows: int = option(3, whole(2, 4), help="rooms from north to south; 2 to 4")
    extra_doors: float = option(0.5, between(0.0, 1.0), help="share of the doors not needed that are open; [0, 1]")
    preparation_s: float = option(10.0, _seconds(), help="length of the preparation; 0: there is none")
    push_s: float = option(150.0, _seconds(1.0), help="time for pushing all cheeses; at least 1")
    escape_s: float = option(60.0, _seconds(1.0), help="time for breaking the crack and escaping; at least 1")
    cheeses: int = option(5, whole(1, 5), help="cheeses to be pushed; 1 to 5; paper: 5")
    time_over: str = option(
        "cat", one_of("cat", "draw", "count"), help="winner at the time limit; count: by cheeses and mice; paper: cat"
    )
    mini_image: bool = option(False, Check("true or false", lambda v: isinstance(v, bool)), help="add the leaf image")
    fade_guidance: bool = option(
        True,
        Check("true or false", lambda v: isinstance(v, bool)),
        help="guidance of the mice falls to 0 in training",
    )


@frozen(kw_only=True)
class BotConfig:
    """Options of the agent ``chase-bot``."""

    strength: str = option("strong", one_of("weak", "medium", "strong"), help="strength of the agent")


_GROUPS = ("teammates", "mice", "cheeses", "holes", "rockets", "items", "hazards", "cakes", "doors")


def _counts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        name in _GROUPS and isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= 24
        for name, count in value.items()
    )


@frozen(kw_only=True)
class NearestConfig:
    """Options of the interface ``chase-nearest``."""

    keep: Mapping[str, int] = option(
        {},
        Check(f"whole numbers ≥ 0 of {', '.join(_GROUPS)}", _counts),
        help="number of entities to keep per group, the nearest first; 0: none; groups not named are unchanged",
    )
