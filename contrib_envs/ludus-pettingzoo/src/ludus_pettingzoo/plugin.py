"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register one environment for all of PettingZoo."""
    return [
        Component(
            name="pettingzoo",
            factory="ludus_pettingzoo.environment:make_environment",
            config="ludus_pettingzoo.config:PettingZooConfig",
            summary="any PettingZoo environment (AEC or Parallel), by its id",
        )
    ]
