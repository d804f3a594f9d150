"""Options of MAPPO."""

from __future__ import annotations

from attrs import frozen
from ludus.option import one_of, option
from ludus_ppo.config import PPOConfig


@frozen(kw_only=True)
class MAPPOConfig(PPOConfig):
    """Multi-agent PPO [DIS §3.2.1]: the options of PPO and these."""

    critic: str = option(
        "global",
        one_of("global", "local"),
        help="the critic reads the role's privileged leaves too, or what the policy reads (independent PPO)",
    )
    share_policy: bool = option(True, help="all seats of a team share one policy; else one policy per kind of seat")
    seat_weighting: str = option(
        "seats",
        one_of("seats", "decisions"),
        help="what has equal weight in the policy objective: seats, L_p = Σ_k L_p^k / n as in the paper, or decisions",
    )
    seat_leaf: str = option(
        "seat", help="without share_policy: the observation leaf that identifies the kind of seat, one-hot"
    )
