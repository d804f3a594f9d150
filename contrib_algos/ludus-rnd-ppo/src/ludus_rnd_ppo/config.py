"""Options of RND-PPO."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen
from ludus.option import Presets, above, at_least, between, option, whole
from ludus_ppo.config import PPOConfig

_SHARE = between(0.0, 1.0, open="low")


@frozen(kw_only=True)
class RNDPPOConfig(PPOConfig):
    """PPO with random network distillation [DIS eq. 3-5]: the options of PPO and these."""

    PRESETS: ClassVar[Presets] = {  # [DIS appendix E]
        "dis": {**PPOConfig.PRESETS["dis"], "extrinsic_coef": 2.0, "intrinsic_coef": 8.0, "intrinsic_gamma": 0.99}
    }

    extrinsic_coef: float = option(
        2.0, at_least(0.0), help="weight of the advantages of the game's rewards (eq. 3); ≥ 0; DIS: 2"
    )
    intrinsic_coef: float = option(
        8.0, at_least(0.0), help="weight of the advantages of intrinsic rewards (eq. 3); ≥ 0; DIS: 8"
    )
    intrinsic_gamma: float = option(
        0.99, between(0.0, 1.0), help="discount of intrinsic rewards per decision or tick; [0, 1]; DIS: 0.99"
    )
    intrinsic_ends: bool = option(False, help="intrinsic returns end with the match instead of going on in the next")
    intrinsic_value_weight: float = option(
        1.0, at_least(0.0), help="weight of the intrinsic value loss beside the other, both times vf_coef; ≥ 0"
    )
    predictor_coef: float = option(1.0, above(0), help="weight of the predictor's loss (eq. 5); > 0")
    predictor_share: float = option(
        0.25, _SHARE, help="share of the decisions of a minibatch that the predictor learns from; (0, 1]"
    )
    rnd_features: int = option(64, whole(1, 65_536), help="outputs of predictor and target; ≥ 1")
    observation_clip: float = option(
        5.0, above(0), help="largest absolute value of what predictor and target read, after normalization; > 0"
    )
