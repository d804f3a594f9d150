"""Options of the minimax PPO."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen
from ludus.option import Presets, inherited_option
from ludus_ppo.config import PPOConfig

from ludus_minimax.options import MinimaxOptions


@frozen(kw_only=True)
class MinimaxPPOConfig(MinimaxOptions, PPOConfig):
    """PPO with the minimax reward [Minimax eq. 3, 4]: the options of PPO and of the reward."""

    PRESETS: ClassVar[Presets] = {
        **PPOConfig.PRESETS,
        "minimax": {"gamma": 0.995, "minimax_alpha": 0.01, "minimax_gamma": 0.995},  # [Minimax §5.1]
    }

    minimax_alpha: float = inherited_option(
        MinimaxOptions,
        "minimax_alpha",
        0.01,
        help="weight of the opponent's own evaluation in the reward (eq. 3); ≥ 0; 0: plain PPO; "
        "Minimax: 0.1 Tic-Tac-Toe, 0.01 Connect Four and duel, 0.005 Boxing",
    )
