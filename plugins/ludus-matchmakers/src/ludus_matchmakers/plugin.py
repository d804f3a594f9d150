"""What ludus-matchmakers offers; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl


@hookimpl
def ludus_register_matchmakers() -> list[Component]:
    """Offer the matchmakers."""
    return [
        Component(
            name="against-anchors",
            factory="ludus_matchmakers.factories:against_anchors",
            config="ludus_matchmakers.config:AnchorsConfig",
            summary="Scripted agents, all equally often",
        ),
        Component(
            name="latest-self-play",
            factory="ludus_matchmakers.factories:latest_self_play",
            config="ludus_matchmakers.config:LatestSelfPlayConfig",
            summary="Always against the latest weights, its own or the other side's",
        ),
        Component(
            name="mixture",
            factory="ludus_matchmakers.factories:mixture",
            config="ludus_matchmakers.config:MixtureConfig",
            summary="Other matchmakers, each with a share of the matches",
        ),
        Component(
            name="pfsp",
            factory="ludus_matchmakers.factories:pfsp",
            config="ludus_matchmakers.config:PFSPConfig",
            summary="Frozen models, the harder the more often (prioritized fictitious self-play)",
        ),
        Component(
            name="uniform-history",
            factory="ludus_matchmakers.factories:uniform_history",
            config="ludus_matchmakers.config:UniformHistoryConfig",
            summary="Frozen models, all equally often (fictitious self-play)",
        ),
    ]
