"""PPO with the minimax reward as an algorithm of ludus."""

from __future__ import annotations

from ludus.algorithm import AlgorithmContext
from ludus.segment import Field
from ludus_ppo.algorithm import PPO

from ludus_minimax.config import MinimaxPPOConfig
from ludus_minimax.reward import MINIMAX_FIELDS
from ludus_minimax.trainer import MinimaxPPOTrainer


class MinimaxPPO(PPO):
    """PPO with a reward that falls with the opponents' evaluation; see `ludus.algorithm.Algorithm`.

    Args:
        config: The options.
        context: The role and its network.

    Raises:
        ContractError: As for PPO.
    """

    _config: MinimaxPPOConfig
    _trainer = MinimaxPPOTrainer

    def __init__(self, config: MinimaxPPOConfig, *, context: AlgorithmContext) -> None:
        super().__init__(config, context=context)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the fields of PPO and those of the reward, which samplers fill."""
        if not self._config.minimax_alpha:
            return super().fields
        return (*super().fields, *MINIMAX_FIELDS)
