"""PPO with the minimax reward as an algorithm of ludus."""

from __future__ import annotations

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
    _trainer = MinimaxPPOTrainer

    def __init__(self, config: MinimaxPPOConfig, *, context: AlgorithmContext) -> None:
        super().__init__(config, context=context)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return PPO's fields and ``opponent_value []``, which samplers fill."""
        noted = (Field(OPPONENT_VALUE, source="opponents"),) if self._config.minimax_alpha else ()
        return (*super().fields, *noted)
