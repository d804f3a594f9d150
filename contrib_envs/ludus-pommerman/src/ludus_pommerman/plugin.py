"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the game."""
    return [
        Component(
            name="pommerman",
            factory="ludus_pommerman.environment:Pommerman",
            config="ludus_pommerman.config:PommermanConfig",
            summary="Pommerman: bombs on an 11x11 board; free-for-all, teams with fog and radio, one against one",
        )
    ]


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register opponents for the game."""
    agents = {
        "pommerman-simple": (
            "ludus_pommerman.agents:SimpleAgent",
            "leaves lines of bombs, attacks, takes items, burns wood: the rule-based agent that comparisons use",
        ),
        "pommerman-random": ("ludus.agent:RandomAgent", "all actions with equal probability"),
        "pommerman-stop": ("ludus_pommerman.agents:StopAgent", "stands still"),
    }
    return [
        Component(name=name, factory=factory, summary=summary, environments=("pommerman",))
        for name, (factory, summary) in agents.items()
    ]


@hookimpl
def ludus_register_interfaces() -> list[Component]:
    """Register the interfaces of Arena by the names of the paper."""
    kinds = {
        "board-map": ("make_board_map", "BoardMapConfig", "Board, agents, bombs and flames as an image of 18 channels"),
        "attr": ("make_attr", "AttrConfig", "What the agent has and knows as a vector"),
        "act-mask": ("make_act_mask", "ActMaskConfig", "Which actions have an effect, as a leaf and as a mask"),
        "rotate": ("make_rotate", "", "The board turned so that the own start is in the upper left corner"),
    }
    return [
        Component(
            name=name,
            factory=f"ludus_pommerman.interfaces:{factory}",
            config=f"ludus_pommerman.config:{config}" if config else None,
            summary=f"{summary} (pommerman)",
        )
        for name, (factory, config, summary) in kinds.items()
    ]
