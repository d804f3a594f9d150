"""Options of the dummy components."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen
from ludus.option import Presets, at_least, between, option


@frozen(kw_only=True)
class CountConfig:
    """Options of the environment ``dummy-count``."""

    target: int = option(10, between(2, 1000), help="count that wins the match")
    most: int = option(3, between(1, 100), help="largest number a seat may add")
    tick_limit: int = option(0, at_least(0), help="ticks after which matches are truncated as draws; 0: never")


@frozen(kw_only=True)
class GuessConfig:
    """Options of the environment ``dummy-guess``."""

    places: int = option(3, between(2, 100), help="places to hide in")
    rounds: int = option(4, between(1, 1000), help="rounds per match")


@frozen(kw_only=True)
class PerfectConfig:
    """Options of the agent ``dummy-perfect``."""

    error_rate: float = option(0.0, between(0.0, 1.0), help="share of decisions made at random, in [0, 1]")


@frozen(kw_only=True)
class ScaleConfig:
    """Options of the interface ``dummy-scale``."""

    observation: float = option(1.0, between(1e-6, 1e6), help="factor on every real-valued observation leaf")
    reward: float = option(1.0, between(1e-6, 1e6), help="factor on rewards", learning=True)


@frozen(kw_only=True)
class LinearConfig:
    """Options of the network ``dummy-linear``."""

    bias: bool = option(default=True, help="whether heads have a bias")


@frozen(kw_only=True)
class GradientConfig:
    """Options of the algorithm ``dummy-gradient``."""

    PRESETS: ClassVar[Presets] = {"quick": {"learning_rate": 8.0, "batch_decisions": 64}}

    learning_rate: float = option(
        2.0, between(0.0, 100.0), help="step size of the policy weights; the baseline has its own"
    )
    gamma: float = option(1.0, between(0.0, 1.0), help="discount per decision, in [0, 1]")
    ent_coef: float = option(0.01, between(0.0, 10.0), help="weight of the entropy bonus")
    segment_decisions: int = option(8, between(1, 10_000), help="decisions per segment (T)")
    batch_decisions: int = option(256, between(1, 1_000_000), help="decisions per update")


@frozen(kw_only=True)
class UniformConfig:
    """Options of the matchmaker ``dummy-uniform``."""

    self_play: float = option(0.5, between(0.0, 1.0), help="share of fixtures against live players, in [0, 1]")
    keep: int = option(10, between(1, 100_000), help="maximum number of models per player in the pool 'dummy'")


@frozen(kw_only=True)
class ResetConfig:
    """Options of the rule ``dummy-reset``."""

    models: int = option(4, at_least(1), help="models of a generation after which the player is reset")


@frozen(kw_only=True)
class ShareConfig:
    """Options of the rating ``dummy-share``."""

    prior_matches: int = option(2, at_least(1), help="drawn matches added to the results of every participant")
