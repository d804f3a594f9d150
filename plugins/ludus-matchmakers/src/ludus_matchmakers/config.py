"""Options of the matchmakers."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from ludus.option import Check, at_least, one_of, option

_POOLS = "Pools to choose from; empty: its own in a symmetric game, those of the other side otherwise."


def _shares(value: object) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    numbers = [share for share in value.values() if isinstance(share, int | float) and 0 <= share < float("inf")]
    return len(numbers) == len(value) and sum(numbers) > 0


@frozen(kw_only=True)
class MatchmakerConfig:
    """What all matchmakers share: which models they keep and which pairs they rate."""

    capacity: int = option(
        500,
        at_least(1),
        help="Models kept in the pool named after the player; the oldest leave. AET uses 500.",
    )
    enough_matches: int = option(
        100, at_least(1), help="Rating matches after which the result between two participants counts as known."
    )
    recent_models: int = option(5, at_least(0), help="Recent models that each new model is rated against.")


@frozen(kw_only=True)
class AnchorsConfig(MatchmakerConfig):
    """Options of ``against-anchors``."""

    against: tuple[str, ...] = option((), help="Anchors to meet; empty: all that can fill the other teams.")


@frozen(kw_only=True)
class LatestSelfPlayConfig(MatchmakerConfig):
    """Options of ``latest-self-play``."""

    against: tuple[str, ...] = option(
        (), help="Players to meet; empty: itself in a symmetric game, everybody on the other side otherwise."
    )


@frozen(kw_only=True)
class UniformHistoryConfig(MatchmakerConfig):
    """Options of ``uniform-history``."""

    pools: tuple[str, ...] = option((), help=_POOLS)


@frozen(kw_only=True)
class PFSPConfig(MatchmakerConfig):
    """Options of ``pfsp``."""

    pools: tuple[str, ...] = option((), help=_POOLS)
    weighting: str = option(
        "hard",
        one_of("hard", "even"),
        help="Weight of an opponent that is beaten with rate x: hard (1 - x)^p, even x (1 - x).",
    )
    p: float = option(1.0, at_least(0.0), help="Exponent of the hard weighting; AET uses 1, 0 is uniform.")
    prior_matches: float = option(
        2.0, at_least(0.0), help="Every win rate starts as ½ with the weight of so many matches (a Beta prior)."
    )


@frozen(kw_only=True)
class MixtureConfig(MatchmakerConfig):
    """Options of ``mixture``."""

    weights: Mapping[str, float] = option(
        {"latest-self-play": 0.8, "pfsp": 0.2},
        Check("a table of matchmaker names with numbers ≥ 0, not all of them 0", _shares),
        help="Share of the matches by matchmaker, in any unit; AET uses 0.8 latest and 0.2 history.",
    )
