"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the game."""
    return [
        Component(
            name="pong2p",
            factory="ludus_pong2p.environment:Pong2p",
            config="ludus_pong2p.config:Pong2pConfig",
            summary="two-player Pong, batched in numpy; vector or image observations, each seat from its own side",
        )
    ]


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register opponents for the game."""
    return [
        Component(
            name="pong2p-follower",
            factory="ludus_pong2p.agents:FollowerAgent",
            config="ludus_pong2p.config:FollowerConfig",
            summary="follows the ball with its paddle; strength easy or hard, or delay, speed and error one by one",
            environments=("pong2p",),
        ),
        Component(
            name="pong2p-random",
            factory="ludus_pong2p.agents:RandomAgent",
            config="ludus_pong2p.config:RandomConfig",
            summary="moves at random, keeping to a direction for a while",
            environments=("pong2p",),
        ),
    ]
