"""Options of the minimax PPO."""

from __future__ import annotations

from attrs import frozen
from ludus.option import at_least, between, one_of, option
from ludus_ppo.config import PPOConfig

__all__ = ["MinimaxPPOConfig"]


@frozen(kw_only=True)
class MinimaxPPOConfig(PPOConfig):
    """PPO with the minimax reward [Minimax eq. 3, 4]: the options of PPO and these."""

    minimax_alpha: float = option(
        0.01,
        at_least(0.0),
        help="weight of the opponent's own evaluation in the reward (eq. 3); ≥ 0; 0: plain PPO; "
        "Minimax: 0.1 Tic-Tac-Toe, 0.01 Connect Four and duel, 0.005 Boxing",
    )
    minimax_gamma: float = option(
        0.995, between(0.0, 1.0), help="gamma of eq. 3, not of learning; [0, 1]; paper: 0.995"
    )
    minimax_shift: str = option(
        "tracked",
        one_of("tracked", "fixed", "none"),
        help="what keeps that term at most 0 (eq. 4): the least evaluation seen so far, minimax_r_min, or nothing",
    )
    minimax_r_min: float = option(
        -1.0, between(-1e9, 1e9), help="the least that the opponent may expect, for minimax_shift = fixed"
    )
