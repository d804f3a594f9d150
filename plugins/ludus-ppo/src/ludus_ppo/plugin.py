"""Registers PPO; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_algorithms() -> list[Component]:
    """Offer ``ppo``."""
    return [
        Component(
            name="ppo",
            factory="ludus_ppo.algorithm:PPO",
            config="ludus_ppo.config:PPOConfig",
            summary="dual-clip PPO with several action labels and privileged critics",
        )
    ]
