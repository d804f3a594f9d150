"""MAPPO as an algorithm of ludus: PPO with a separate critic."""

from __future__ import annotations

from functools import partial

import attrs
from ludus.algorithm import AlgorithmContext
from ludus.errors import ContractError
from ludus_ppo.algorithm import PPO

from ludus_mappo.config import MAPPOConfig
from ludus_mappo.networks import separate_networks


def make_mappo(config: MAPPOConfig, *, context: AlgorithmContext) -> PPO:
    """Make PPO for one role whose policy and critic are separate networks [DIS §3.2.1].

    The n seats of a team that a player controls share one policy or have one each, and their decisions are rows of one
    batch. Where seats decide equally often, the mean over rows is the mean over seats, L_p = Σ_k L_p^k / n. A seat that
    ends before its match has fewer rows, and counts for less.

    Args:
        config: The options.
        context: The role and its network.

    Raises:
        ContractError: ``critic = "global"``, but the role has no privileged leaves; ``share_policy = false``, but no
            leaf identifies the seat; or as for PPO.
    """
    role = context.role
    if config.critic == "local":
        role = attrs.evolve(role, privileged_space=None)
    elif role.privileged_space is None:
        raise ContractError(
            f"role {role.name!r} has no privileged leaves for a global critic to read; "
            f'give it a privileged_space, or set critic = "local"'
        )
    leaf = "" if config.share_policy else config.seat_leaf
    build = partial(separate_networks, build=context.build_network, seat_leaf=leaf)
    return PPO(config, context=attrs.evolve(context, role=role, build_network=build))
