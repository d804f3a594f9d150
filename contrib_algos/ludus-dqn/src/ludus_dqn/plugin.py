"""Registers DQN; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_algorithms() -> list[Component]:
    """Offer ``dqn``."""
    return [
        Component(
            name="dqn",
            factory="ludus_dqn.algorithm:DQN",
            config="ludus_dqn.config:DQNConfig",
            summary="double DQN with replay, dueling heads, n steps; and the Minimax Exploiter",
        )
    ]
