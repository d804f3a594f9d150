"""Factories of the components."""

from __future__ import annotations

from ludus.environment import Environment
from ludus.errors import ConfigError
from ludus.installed import open_game
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
    TeamRewardConfig,
)
from ludus_interfaces.frames import FrameStack
from ludus_interfaces.observations import Flatten, OneHot, ScaleObservation, SelectLeaves
from ludus_interfaces.rewards import RewardParts, ScaleReward
from ludus_interfaces.sharing import share_rewards


def flatten(config: None) -> Interface:  # noqa: ARG001 - no options
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


def team_reward(config: TeamRewardConfig, *, num_matches: int) -> Environment:
    """Make ``team-reward``.

    Raises:
        ConfigError: There is no such environment, or it has no such options.
        PluginError: The factory of the environment raised.
    """
    try:
        game = open_game(config.game, options={config.game: config.options})
    except ConfigError as error:
        raise ConfigError(*(_with_path(problem, config.game) for problem in error.problems)) from None
    return share_rewards(
        game.make_environment(num_matches),
        spirit=config.spirit,
        granted=config.granted,
        zero_sum=config.zero_sum,
        roles=config.roles,
    )


def _with_path(problem: str, game: str) -> str:
    """Return a problem of `open_game` with the path of its option in the run's TOML file."""
    path, _, text = problem.partition(": ")
    if text.startswith("no installed plugin"):
        return f"environment.team-reward.game: {text}"
    return f"environment.team-reward.options{path.removeprefix(game)}: {text}"
