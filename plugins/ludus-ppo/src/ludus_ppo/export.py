"""The decisions of a PPO model as one torch module, for other formats; see `ludus.export`."""

from __future__ import annotations

import torch
from ludus.environment import Role
from ludus.export import MASKED, ActionPart
from ludus.spaces import label_sizes, real_box
from torch import Tensor, nn

from ludus_ppo.distributions import real_scale
from ludus_ppo.networks import ActorCritic


class PPODecisions(nn.Module):
    """An actor-critic that returns the parameters of its action distribution by name.

    Args:
        model: The actor-critic.
        role: The role as the player observes it.

    Attributes:
        parts: Parts of an action: a ``"categorical"`` one for every label, then a ``"normal"`` one.
    """

    def __init__(self, model: ActorCritic, role: Role) -> None:
        super().__init__()
        self.model = model
        self._sizes, box = label_sizes(role.action_space), real_box(role.action_space)
        self._names = [f"logits/{label}" for label in range(len(self._sizes))]
        self._num_reals = 0 if box is None else int(box.shape[0])
        parts = [ActionPart(kind="categorical", outputs=(name,)) for name in self._names]
        if box is not None:
            offset, scale = real_scale(box)
            parts.append(
                ActionPart(
                    kind="normal",
                    outputs=("mean", "log_std"),
                    columns=self._num_reals,
                    offset=offset.tolist(),
                    scale=scale.tolist(),
                    low=box.low.tolist(),
                    high=box.high.tolist(),
                )
            )
        self.parts = tuple(parts)

    def forward(
        self, observation: dict[str, Tensor], action_mask: Tensor | None, state: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return logits, means, log standard deviations and values, and the state; see `ludus.export`."""
        heads, after = self.model.network(observation, {}, state)
        parameters, values = self.model.join_heads(heads)
        logits, reals = torch.split(parameters, [sum(self._sizes), 2 * self._num_reals], dim=1)
        outputs: dict[str, Tensor] = {}
        if action_mask is not None:
            legal = torch.where(action_mask, logits, MASKED)
            outputs.update(zip(self._names, torch.split(legal, list(self._sizes), dim=1), strict=True))
        if self._num_reals:
            outputs["mean"], outputs["log_std"] = reals.chunk(2, dim=1)
        return outputs | values, after
