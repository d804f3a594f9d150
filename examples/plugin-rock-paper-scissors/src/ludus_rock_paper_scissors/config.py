"""Options of the environment and of the matchmaker."""

from __future__ import annotations

from attrs import frozen
from ludus.option import at_least, between, option


@frozen(kw_only=True)
class Config:
    """Options of the environment ``rock-paper-scissors``."""

    rounds: int = option(5, between(1, 1000), help="rounds of a match; it ends early once it is decided")


@frozen(kw_only=True)
class NemesisConfig:
    """Options of the matchmaker ``beat-the-nemesis``."""

    self_play: float = option(0.5, between(0.0, 1.0), help="share of the fixtures against live weights; 0 to 1")
    capacity: int = option(100, at_least(1), help="maximum size of the pool; the oldest models leave")
