"""Options of the interfaces and of the environment ``team-reward``."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from ludus.option import Check, at_least, between, finite, option

_LEAVES = "Names of the observation leaves to change; empty: all leaves of a supported kind."


def _leaf_names(value: object) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(isinstance(name, str) for name in value)


def _are_weights(value: object) -> bool:
    return isinstance(value, dict) and all(map(finite().accepts, value.values()))


def _are_shares(value: object) -> bool:
    return isinstance(value, dict) and all(0 < share <= 1 for share in value.values())


@frozen(kw_only=True)
class FrameStackConfig:
    """Options of ``frame-stack``."""

    frames: int = option(4, at_least(1), help="Number of stacked observations, the newest included.")


@frozen(kw_only=True)
class MergeLabelsConfig:
    """Options of ``merge-labels``."""

    max_choices: int = option(
        10_000, at_least(1), help="Limit on the number of choices of the merged label.", learning=True
    )


@frozen(kw_only=True)
class OneHotConfig:
    """Options of ``one-hot``."""

    leaves: tuple[str, ...] = option((), help=_LEAVES)


@frozen(kw_only=True)
class RewardPartsConfig:
    """Options of ``reward-parts``."""

    weights: dict[str, float] = option(
        {},
        Check("a table of finite numbers", _are_weights),
        help="Weights of reward parts by name; 1 for all others.",
        learning=True,
    )
    fade: dict[str, float] = option(
        {},
        Check("shares of the training budget in (0, 1]", _are_shares),
        help="Shares of the training budget, by part, after which the weight of a part is 0.",
        scheduled=True,
        learning=True,
    )
    once: tuple[str, ...] = option((), help="Parts that count only once per match and seat.", learning=True)


@frozen(kw_only=True)
class ScaleObservationConfig:
    """Options of ``scale-observation``."""

    low: float = option(-1.0, finite(), help="Lower end of the range.")
    high: float = option(1.0, finite(), help="Upper end of the range; above `low`.")
    leaves: tuple[str, ...] = option((), help=_LEAVES)


@frozen(kw_only=True)
class ScaleRewardConfig:
    """Options of ``scale-reward``."""

    factor: float = option(1.0, finite(), help="Factor of all rewards.", learning=True)
    clip: float = option(
        0.0, at_least(0.0), help="Scaled rewards are clipped to [-clip, clip]; 0: no clipping.", learning=True
    )


@frozen(kw_only=True)
class SelectLeavesConfig:
    """Options of ``select-leaves``."""

    keep: tuple[str, ...] = option(
        check=Check("a list of at least one leaf name", _leaf_names), help="Names of the observation leaves to keep."
    )


@frozen(kw_only=True)
class TeamRewardConfig:
    """Options of the environment ``team-reward``."""

    game: str = option(help="Name of the environment whose rewards are shared.", lasting=True)
    options: dict[str, Any] = option({}, help="Options of that environment.")
    spirit: float = option(
        0.0, between(0.0, 1.0), help="Weight of the team's mean reward; the rest is the seat's own reward."
    )
    granted: tuple[str, ...] = option(
        (), help="Reward parts that all of a team receive in full if one of it earns them."
    )
    zero_sum: bool = option(False, help="Whether to subtract the mean reward of the opponents.")
    roles: tuple[str, ...] = option((), help="Roles whose rewards change; empty: all roles.")
