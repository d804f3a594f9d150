"""Registers RND-PPO; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_algorithms() -> list[Component]:
    """Register ``rnd-ppo``."""
    return [
        Component(
            name="rnd-ppo",
            factory="ludus_rnd_ppo.algorithm:RNDPPO",
            config="ludus_rnd_ppo.config:RNDPPOConfig",
            summary="PPO that explores: random network distillation with an intrinsic value head",
        )
    ]
