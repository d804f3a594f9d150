"""Options of the components in this distribution. Lengths are in cm; times in ms are rounded up to whole ticks."""

from __future__ import annotations

from attrs import frozen
from ludus.option import at_least, between, one_of, option, whole


@frozen(kw_only=True)
class DuelRules:
    """Strengths, times and costs."""

    health: float = option(120.0, between(1.0, 10_000.0), help="health at the start; [1, 10000]")
    stamina: float = option(120.0, between(1.0, 10_000.0), help="maximum stamina, also at the start; [1, 10000]")
    stamina_per_s: float = option(25.0, between(0.0, 1000.0), help="stamina that returns per second; [0, 1000]")
    breath_per_s: float = option(40.0, between(0.0, 1000.0), help="extra stamina per second while breathing; [0, 1000]")
    stamina_pause_ms: int = option(
        800, whole(0, 10_000), help="time without recovery after spending stamina; 0 to 10000"
    )
    exhausted_until: float = option(
        0.5, between(0.01, 1.0), help="share of stamina at which exhaustion ends; [0.01, 1]"
    )
    exhausted_slowdown_ms: int = option(
        200, whole(0, 500), help="extra time of attacks of exhausted fighters; 0 to 500"
    )
    stance_ms: int = option(200, whole(1, 1000), help="time to change the stance, unguarded until then; 1 to 1000")
    light_startup_ms: int = option(500, whole(1, 1500), help="time until a light attack lands; 1 to 1500")
    light_damage: float = option(10.0, at_least(0.0), help="health that a light attack takes; ≥ 0")
    light_cost: float = option(10.0, at_least(0.0), help="stamina that a light attack costs; ≥ 0")
    heavy_startup_ms: int = option(800, whole(400, 1500), help="time until a heavy attack lands; 400 to 1500")
    heavy_damage: float = option(26.0, at_least(0.0), help="health that a heavy attack takes; ≥ 0")
    heavy_cost: float = option(16.0, at_least(0.0), help="stamina that a heavy attack costs; ≥ 0")
    chip: float = option(
        0.15, between(0.0, 1.0), help="share of a heavy attack's damage that a block lets through; [0, 1]"
    )
    feint_until_ms: int = option(
        200, whole(100, 300), help="latest time of a feint before a heavy attack lands; 100 to 300"
    )
    feint_cost: float = option(8.0, at_least(0.0), help="stamina that a feint costs; ≥ 0")
    parry_window_ms: int = option(200, whole(1, 300), help="time for which a parry works; 1 to 300")
    parry_drain: float = option(20.0, at_least(0.0), help="stamina that being parried costs; ≥ 0")
    counter_ms: int = option(200, whole(1, 800), help="time in which a guard break can be countered; 1 to 800")
    dodge_safe_ms: int = option(300, whole(1, 400), help="time for which a side dodge is invulnerable; 1 to 400")
    dodge_cost: float = option(10.0, at_least(0.0), help="stamina that a dodge costs; ≥ 0")
    wall_damage: float = option(12.0, at_least(0.0), help="health that being thrown against a wall takes; ≥ 0")
    walk_cm_s: float = option(200.0, between(0.0, 2000.0), help="speed of walking forward; [0, 2000]")
    retreat_cm_s: float = option(120.0, between(0.0, 2000.0), help="speed of walking back; [0, 2000]")
    arena_cm: float = option(1000.0, between(500.0, 10_000.0), help="distance between the walls; [500, 10000]")
    distance_cm: float = option(350.0, between(100.0, 400.0), help="shortest distance at the start; [100, 400]")
    spread_cm: int = option(100, whole(0, 100), help="greatest distance that the seed adds at the start; 0 to 100")


@frozen(kw_only=True)
class DuelConfig(DuelRules):
    """Options of the environment ``duel``: its rules, and how matches are played and rewarded."""

    tick_ms: int = option(100, whole(50, 200), help="length of a tick, on which free fighters decide; 50 to 200")
    time_limit_s: float = option(60.0, between(1.0, 3600.0), help="time limit, after which more health wins; [1, 3600]")
    draw_margin: float = option(
        0.0, at_least(0.0), help="greatest lead in health that is a draw at the time limit; ≥ 0"
    )
    hit_given: float = option(
        0.0, between(0.0, 1.0), help="reward for each hit or throw; [0, 1]; for aggressive players"
    )
    hit_taken: float = option(
        0.0, between(0.0, 1.0), help="penalty for each hit or throw suffered; [0, 1]; for defensive players"
    )


@frozen(kw_only=True)
class BotConfig:
    """Options of the agent ``duel-bot``."""

    strength: str = option(
        "strong", one_of("weak", "strong"), help="strength of the agent: reaction time, reactions and attacks"
    )


@frozen(kw_only=True)
class RandomConfig:
    """Options of the agent ``duel-random``."""

    idle: float = option(0.5, between(0.0, 1.0, open=False), help="probability of waiting; [0, 1]")
