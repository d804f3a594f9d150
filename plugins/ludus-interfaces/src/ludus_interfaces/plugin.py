"""Registers the interfaces, and environments and agents behind interfaces."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register environments that wrap another one."""
    return [
        Component(
            name="agent-indicator",
            factory="ludus_interfaces.factories:agent_indicator",
            config="ludus_interfaces.config:AgentIndicatorConfig",
            summary="Another environment in which seats observe their number",
        ),
        Component(
            name="as-team",
            factory="ludus_interfaces.factories:team_environment",
            config="ludus_interfaces.config:AsTeamConfig",
            summary="Another environment in which the seats of a team are one joint seat",
        ),
        Component(
            name="with-interfaces",
            factory="ludus_interfaces.factories:environment_with_interfaces",
            config="ludus_interfaces.config:WithInterfacesConfig",
            summary="Another environment behind interfaces, by role",
        ),
        Component(
            name="team-reward",
            factory="ludus_interfaces.factories:team_reward",
            config="ludus_interfaces.config:TeamRewardConfig",
            summary="Another environment with rewards shared within teams or balanced against opponents",
        ),
    ]


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register agents that are made of others: ``team-agent`` and ``with-interfaces``."""
    return [
        Component(
            name="team-agent",
            factory="ludus_interfaces.factories:agent_of_parts",
            config="ludus_interfaces.config:TeamAgentConfig",
            summary="One agent for each part of a joint seat, each behind its own interfaces",
        ),
        Component(
            name="with-interfaces",
            factory="ludus_interfaces.factories:agent_with_interfaces",
            config="ludus_interfaces.config:AgentWithInterfacesConfig",
            summary="Another agent behind interfaces",
        ),
    ]


#: Summary of each interface. ``frame-stack`` is made by `factories.frame_stack` from `FrameStackConfig`.
_SUMMARIES = {
    "delay": "Actions that take effect after a random delay; the last actions and the delay are observed",
    "flatten": "All observation leaves as one float32 vector",
    "frame-stack": "The observations of the last few decisions together",
    "grey": "Colour images as images of one channel",
    "hide-mask": "Actions without a mask; a choice that is illegal becomes the first legal one of its label",
    "label-channels": "Discrete observation leaves as one-hot channels of the images",
    "merge-labels": "Several action labels as one label with a choice for every combination",
    "one-hot": "Discrete observation leaves as one-hot vectors",
    "resize": "Images of another height and width",
    "reward-parts": "The reward as a weighted sum of its named parts, which can fade or count once per match",
    "scale-observation": "Bounded observation leaves scaled to one range",
    "scale-reward": "Rewards times a factor, optionally clipped",
    "select-leaves": "Only some of the observation leaves",
}
_WITHOUT_OPTIONS = ("flatten", "hide-mask")


@hookimpl
def ludus_register_interfaces() -> list[Component]:
    """Register the interfaces."""
    combine = Component(
        name="combine",
        factory="ludus_interfaces.factories:combined",
        config="ludus_interfaces.config:CombineConfig",
        summary="Interfaces side by side, one stack for each part of a joint seat",
    )
    return [combine, *(_interface(name, summary) for name, summary in _SUMMARIES.items())]


def _interface(name: str, summary: str) -> Component:
    config = None if name in _WITHOUT_OPTIONS else f"ludus_interfaces.config:{name.title().replace('-', '')}Config"
    factory = f"ludus_interfaces.factories:{name.replace('-', '_')}"
    return Component(name=name, factory=factory, config=config, summary=summary)
