"""Registers the interfaces and the environment ``team-reward``."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register ``team-reward``, which wraps another environment."""
    return [
        Component(
            name="team-reward",
            factory="ludus_interfaces.factories:team_reward",
            config="ludus_interfaces.config:TeamRewardConfig",
            summary="Another environment with rewards shared within teams or balanced against opponents",
        )
    ]


@hookimpl
def ludus_register_interfaces() -> list[Component]:
    """Register the interfaces."""
    return [
        Component(
            name="flatten",
            factory="ludus_interfaces.factories:flatten",
            summary="All observation leaves as one float32 vector",
        ),
        Component(
            name="frame-stack",
            factory="ludus_interfaces.factories:frame_stack",
            config="ludus_interfaces.config:FrameStackConfig",
            summary="The observations of the last few decisions together",
        ),
        Component(
            name="merge-labels",
            factory="ludus_interfaces.factories:merge_labels",
            config="ludus_interfaces.config:MergeLabelsConfig",
            summary="Several action labels as one label with a choice for every combination",
        ),
        Component(
            name="one-hot",
            factory="ludus_interfaces.factories:one_hot",
            config="ludus_interfaces.config:OneHotConfig",
            summary="Discrete observation leaves as one-hot vectors",
        ),
        Component(
            name="reward-parts",
            factory="ludus_interfaces.factories:reward_parts",
            config="ludus_interfaces.config:RewardPartsConfig",
            summary="The reward as a weighted sum of its named parts, which can fade or count once per match",
        ),
        Component(
            name="scale-observation",
            factory="ludus_interfaces.factories:scale_observation",
            config="ludus_interfaces.config:ScaleObservationConfig",
            summary="Bounded observation leaves scaled to one range",
        ),
        Component(
            name="scale-reward",
            factory="ludus_interfaces.factories:scale_reward",
            config="ludus_interfaces.config:ScaleRewardConfig",
            summary="Rewards times a factor, optionally clipped",
        ),
        Component(
            name="select-leaves",
            factory="ludus_interfaces.factories:select_leaves",
            config="ludus_interfaces.config:SelectLeavesConfig",
            summary="Only some of the observation leaves",
        ),
    ]
