"""Register DQN. Imports neither torch nor NumPy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_algorithms() -> list[Component]:
    """Register ``dqn``."""
    return [
        Component(
            name="dqn",
            factory="ludus_dqn.algorithm:DQN",
            config="ludus_dqn.config:DQNConfig",
            summary="double DQN with replay buffer, dueling heads and n-step targets; includes the Minimax Exploiter",
        )
    ]
