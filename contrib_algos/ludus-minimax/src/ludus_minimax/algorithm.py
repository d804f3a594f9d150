"""PPO with the minimax reward as an algorithm of ludus."""

from __future__ import annotations

import torch
from ludus.algorithm import AlgorithmContext
from ludus.segment import Field
from ludus_ppo.algorithm import PPO

from ludus_minimax.config import MinimaxPPOConfig
from ludus_minimax.reward import OPPONENT_VALUE
from ludus_minimax.trainer import MinimaxPPOTrainer

__all__ = ["MinimaxPPO"]


class MinimaxPPO(PPO):
    """PPO that is also rewarded for what its opponents expect to lose; see `ludus.algorithm.Algorithm`.

    Args:
        config: The options.
        context: The role and its network.

    Raises:
        ContractError: As PPO does.
    """

    _config: MinimaxPPOConfig

    def __init__(self, config: MinimaxPPOConfig, *, context: AlgorithmContext) -> None:
        super().__init__(config, context=context)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return PPO's fields and ``opponent_value []``, which samplers fill."""
        noted = (Field(OPPONENT_VALUE, source="opponents"),) if self._config.minimax_alpha else ()
        return (*super().fields, *noted)

    def make_trainer(self, *, seed: int, device: str = "cpu") -> MinimaxPPOTrainer:
        """Make a trainer whose initial weights and minibatch order follow from `seed`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._model()
        return MinimaxPPOTrainer(self._config, model.to(device), distribution=self._distribution, seed=seed)
