"""Options of the interfaces."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from ludus.option import Check, at_least, between, finite, option

_LEAVES = "Names of the observation leaves to change; empty: all that can be."


def _leaf_names(value: object) -> bool:
    return isinstance(value, tuple) and len(value) > 0 and all(isinstance(name, str) for name in value)


def _are_weights(value: object) -> bool:
    return isinstance(value, dict) and all(map(finite().accepts, value.values()))


def _are_shares(value: object) -> bool:
    return isinstance(value, dict) and all(0 < share <= 1 for share in value.values())


@frozen(kw_only=True)
class FrameStackConfig:
    """Options of ``frame-stack``."""

    frames: int = option(4, at_least(1), help="Decisions seen together, the newest included; at least 1.")


@frozen(kw_only=True)
class MergeLabelsConfig:
    """Options of ``merge-labels``."""

    max_choices: int = option(
        10_000, at_least(1), help="Most choices the merged label may have; more is an error.", learning=True
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
        help="Factors of reward parts, by name; others keep what they earned.",
        learning=True,
    )
    fade: dict[str, float] = option(
        {},
        Check("shares of the training budget in (0, 1]", _are_shares),
        help="When the factor of a part has fallen to 0, by name, as a share of the training budget.",
        scheduled=True,
        learning=True,
    )
    once: tuple[str, ...] = option((), help="Parts of which only the first one in a match counts.", learning=True)


@frozen(kw_only=True)
class ScaleObservationConfig:
    """Options of ``scale-observation``."""

    low: float = option(-1.0, finite(), help="What the lower bound of a leaf becomes.")
    high: float = option(1.0, finite(), help="What the upper bound of a leaf becomes; above `low`.")
    leaves: tuple[str, ...] = option((), help=_LEAVES)


@frozen(kw_only=True)
class ScaleRewardConfig:
    """Options of ``scale-reward``."""

    factor: float = option(1.0, finite(), help="Rewards are multiplied by this.", learning=True)
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

    game: str = option(help="The environment whose rewards are shared, by name.", lasting=True)
    options: dict[str, Any] = option({}, help="Its options.")
    spirit: float = option(
        0.0, between(0.0, 1.0), help="Weight of the team's mean reward, the rest is a seat's own; [0, 1]."
    )
    granted: tuple[str, ...] = option((), help="Reward parts that all of a team receive in full when one earns them.")
    zero_sum: bool = option(False, help="What the opponents receive on average is taken away.")
    roles: tuple[str, ...] = option((), help="Roles whose rewards change; empty: all.")
