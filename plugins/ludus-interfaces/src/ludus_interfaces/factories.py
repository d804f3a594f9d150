"""From options to interfaces."""

from __future__ import annotations

from ludus.interface import Interface

from ludus_interfaces.actions import MergeLabels
from ludus_interfaces.config import (
    FrameStackConfig,
    MergeLabelsConfig,
    OneHotConfig,
    RewardPartsConfig,
    ScaleObservationConfig,
    ScaleRewardConfig,
    SelectLeavesConfig,
)
from ludus_interfaces.frames import FrameStack
from ludus_interfaces.observations import Flatten, OneHot, ScaleObservation, SelectLeaves
from ludus_interfaces.rewards import RewardParts, ScaleReward


def flatten(config: None) -> Interface:  # noqa: ARG001 - it has no options
    """Make ``flatten``."""
    return Flatten()


def frame_stack(config: FrameStackConfig) -> Interface:
    """Make ``frame-stack``."""
    return FrameStack(config.frames)


def merge_labels(config: MergeLabelsConfig) -> Interface:
    """Make ``merge-labels``."""
    return MergeLabels(max_choices=config.max_choices)


def one_hot(config: OneHotConfig) -> Interface:
    """Make ``one-hot``."""
    return OneHot(config.leaves)


def reward_parts(config: RewardPartsConfig) -> Interface:
    """Make ``reward-parts``."""
    return RewardParts(config.weights, fade=config.fade, once=config.once)


def scale_observation(config: ScaleObservationConfig) -> Interface:
    """Make ``scale-observation``."""
    return ScaleObservation(config.low, config.high, leaves=config.leaves)


def scale_reward(config: ScaleRewardConfig) -> Interface:
    """Make ``scale-reward``."""
    return ScaleReward(config.factor, clip=config.clip)


def select_leaves(config: SelectLeavesConfig) -> Interface:
    """Make ``select-leaves``."""
    return SelectLeaves(config.keep)
