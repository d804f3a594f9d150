"""Registers PPO with the minimax reward; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_algorithms() -> list[Component]:
    """Register ``minimax-ppo``."""
    return [
        Component(
            name="minimax-ppo",
            factory="ludus_minimax.algorithm:MinimaxPPO",
            config="ludus_minimax.config:MinimaxPPOConfig",
            summary="PPO for exploiters, with a reward that includes the opponents' own evaluation",
        )
    ]
