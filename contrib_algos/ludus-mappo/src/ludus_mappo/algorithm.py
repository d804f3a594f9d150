"""MAPPO as an algorithm of ludus: PPO with a separate critic."""

from __future__ import annotations

from functools import partial

import attrs
from ludus.algorithm import AlgorithmContext
from ludus.errors import ContractError
from ludus.segment import Field
from ludus_ppo.algorithm import PPO
from ludus_ppo.trainer import PPOTrainer

from ludus_mappo.config import MAPPOConfig
from ludus_mappo.networks import separate_networks
from ludus_mappo.trainer import SEAT, MAPPOTrainer


class MAPPO(PPO):
    """PPO whose objective may be the mean over seats; see `make_mappo`."""

    _config: MAPPOConfig
    _trainer = MAPPOTrainer

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the fields of PPO, and ``seat []`` if seats have equal weight."""
        by_seat = self._config.seat_weighting == "seats" and self._context.role.num_seats > 1
        return (*super().fields, SEAT) if by_seat else super().fields

    def make_trainer(self, *, seed: int, device: str = "cpu") -> PPOTrainer:
        """Make a trainer whose initial weights and minibatch order follow from `seed`."""
        trainer = super().make_trainer(seed=seed, device=device)
        assert isinstance(trainer, MAPPOTrainer)
        trainer.num_seats = self._context.role.num_seats
        return trainer


def make_mappo(config: MAPPOConfig, *, context: AlgorithmContext) -> MAPPO:
    """Make PPO for one role whose policy and critic are separate networks [DIS §3.2.1].

    The n seats of a team that a player controls share one policy or have one each, and their decisions are rows of one
    batch. With ``seat_weighting = "seats"`` a seat that ends before its match counts as much as the others; see
    `MAPPOTrainer`.

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
    return MAPPO(config, context=attrs.evolve(context, role=role, build_network=build))
