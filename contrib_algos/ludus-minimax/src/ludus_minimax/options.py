"""Options of the minimax reward."""

from __future__ import annotations

from attrs import frozen
from ludus.option import at_least, between, one_of, option


@frozen(kw_only=True, slots=False)  # without slots, so that a configuration can have a second base class
class MinimaxOptions:
    """Options of `ludus_minimax.reward`; a base class of an algorithm's configuration."""

    minimax_alpha: float = option(
        0.0,
        at_least(0.0),
        help="weight of the opponent's own evaluation in the reward (eq. 3); ≥ 0; 0: off; "
        "Minimax: 0.1 Tic-Tac-Toe, 0.01 Connect Four, 1 gamma-0 agent",
    )
    minimax_gamma: float = option(
        0.995, between(0.0, 1.0), help="gamma of eq. 3, not of learning; [0, 1]; paper: 0.995"
    )
    minimax_shift: str = option(
        "tracked",
        one_of("tracked", "fixed", "none"),
        help="R_min, which keeps that term at most 0 (eq. 4): the lowest reward of a game of sparse rewards, else the "
        "lowest evaluation by the opponent while it learned; minimax_r_min; or 0",
    )
    minimax_r_min: float = option(
        -1.0, between(-1e9, 1e9), help="lowest evaluation by the opponent, for minimax_shift = fixed"
    )
