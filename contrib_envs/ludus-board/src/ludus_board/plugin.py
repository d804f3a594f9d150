"""Components of this distribution."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_environments() -> list[Component]:
    """Register the two games."""
    return [
        Component(
            name="tictactoe",
            factory="ludus_board.environment:make_tictactoe",
            summary="Tic-Tac-Toe, batched in numpy; observation and actions as PettingZoo's tictactoe_v3",
        ),
        Component(
            name="connect4",
            factory="ludus_board.environment:make_connect4",
            summary="Connect Four, batched in numpy; observation and actions as PettingZoo's connect_four_v3",
        ),
    ]


@hookimpl
def ludus_register_agents() -> list[Component]:
    """Register a random agent for every game and strong agents for the two games."""
    return [
        Component(
            name="random",
            factory="ludus.agent:RandomAgent",
            summary="uniform among the legal actions, in any environment",
        ),
        Component(
            name="tictactoe-perfect",
            factory="ludus_board.perfect:PerfectAgent",
            summary="never loses Tic-Tac-Toe: random among the moves of best game value",
            environments=("tictactoe",),
        ),
        Component(
            name="connect4-minimax",
            factory="ludus_board.minimax:MinimaxAgent",
            config="ludus_board.config:MinimaxConfig",
            summary="depth-limited minimax at Connect Four",
            environments=("connect4",),
        ),
    ]
