"""Options of the components in this distribution. Lengths are in units of a field of 40 by 40, times in frames."""

from __future__ import annotations

from attrs import frozen
from ludus.option import at_least, between, one_of, option, optional, whole


@frozen(kw_only=True)
class Pong2pConfig:
    """Options of the environment ``pong2p``."""

    observation: str = option(
        "vector",
        one_of("vector", "image", "both"),
        help="observation of a seat: vector (10 numbers), image (42 by 42 by 2 bytes), or both as two leaves",
    )
    points: int = option(5, whole(1, 100), help="points that win the match; 1 to 100")
    max_ticks: int = option(2000, whole(1, 1_000_000), help="the match is truncated after so many ticks; ≥ 1")
    frame_skip: int = option(1, whole(1, 32), help="frames per tick, for which a decision holds; 1 to 32")
    hit: float = option(
        0.0, between(0.0, 1.0), help="reward for returning the ball; [0, 1]; above 0 the game is not zero-sum"
    )
    paddle_length: float = option(8.0, between(1.0, 40.0), help="length of a paddle; [1, 40]")
    paddle_speed: float = option(1.5, between(0.0, 40.0), help="units that a paddle moves per frame; [0, 40]")
    ball_speed: float = option(1.5, between(0.1, 38.0), help="units that a served ball moves per frame; [0.1, 38]")
    ball_speed_max: float = option(4.0, between(0.1, 38.0), help="greatest speed of the ball; [0.1, 38]")
    speed_up: float = option(1.08, between(1.0, 2.0), help="factor of every hit on the speed of the ball; [1, 2]")
    steepness: float = option(
        1.5, between(0.0, 5.0), help="slope at which the tip of a paddle returns the ball; its middle: 0; [0, 5]"
    )
    spin: float = option(0.3, between(0.0, 5.0), help="slope that a moving paddle adds in its direction; [0, 5]")


@frozen(kw_only=True)
class FollowerConfig:
    """Options of the agent ``pong2p-follower``."""

    strength: str = option("easy", one_of("easy", "hard"), help="easy or hard: sets the defaults of the options below")
    delay: int | None = option(
        None, optional(whole(0, 100)), help="delay of the observed ball in ticks; 0 to 100; easy 2, hard 0"
    )
    speed: float | None = option(
        None, optional(between(0.0, 1.0)), help="share of the paddle's speed that it uses; [0, 1]; easy 0.7, hard 1"
    )
    error: float | None = option(
        None,
        optional(at_least(0.0)),
        help="greatest random offset of its target from the ball, drawn per approach; ≥ 0; easy 4.5, hard 3.5",
    )


@frozen(kw_only=True)
class RandomConfig:
    """Options of the agent ``pong2p-random``."""

    hold: float = option(4.0, at_least(1.0), help="mean number of ticks that an action is repeated; ≥ 1")
