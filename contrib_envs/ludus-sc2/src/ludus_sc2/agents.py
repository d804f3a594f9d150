"""A scripted opponent: the rule-based managers."""

from __future__ import annotations

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves
from ludus.errors import ContractError
from ludus.spaces import label_sizes

from ludus_sc2.layout import LABEL_SIZES, RULES


class RulesAgent:
    """Leaves all decisions to the rule-based managers of the environment. It has no state.

    Args:
        config: None; the agent has no options.
        spec: Spec of the environment.
        role: Role that the agent plays.

    Raises:
        ContractError: The actions are not those of ``sc2``.
    """

    def __init__(self, config: None, *, spec: EnvironmentSpec, role: str) -> None:  # noqa: ARG002 - no options
        space = spec.role(role).action_space
        if label_sizes(space) != LABEL_SIZES:
            raise ContractError(f"sc2-rules: expected the actions of the environment 'sc2', got {space}")

    def act(
        self,
        observation: Leaves,  # noqa: ARG002 - the managers read the state of the game
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - the choice is always legal
        seat_ids: np.ndarray,
        rng: np.random.Generator,  # noqa: ARG002 - the agent draws nothing
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        return np.full((len(seat_ids), len(LABEL_SIZES)), RULES, np.int64)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""
