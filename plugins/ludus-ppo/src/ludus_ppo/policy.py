"""The policy: NumPy in, NumPy out."""

from __future__ import annotations

import numpy as np
import torch
from ludus.algorithm import Decision, Weights
from ludus.environment import Leaves
from ludus.network import set_weights
from torch import Tensor

from ludus_ppo.distributions import Distribution
from ludus_ppo.networks import ActorCritic

__all__ = ["PPOPolicy", "to_tensor"]


def to_tensor(array: np.ndarray) -> Tensor:
    """Return a tensor that shares memory with `array` where torch allows it."""
    return torch.from_numpy(array if array.flags.writeable and array.flags.c_contiguous else array.copy())


class PPOPolicy:
    """Samples actions and records log-probabilities and values; see `ludus.algorithm.Policy`.

    Args:
        model: The module to run; the policy owns it.
        distribution: What its policy head parametrises.
    """

    def __init__(self, model: ActorCritic, distribution: Distribution) -> None:
        self._model = model
        self._distribution = distribution

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        privileged: Leaves,
        state: Leaves,
        rng: np.random.Generator,
        deterministic: bool = False,
    ) -> Decision:
        """Decide for n rows. Values are 0 where the critic needs privileged leaves and there are none.

        Raises:
            ContractError: The network's outputs are not finite, or every choice of a label is masked.
        """
        parameters, value = self._forward(observation, privileged)
        sample = self._distribution.sample(parameters, action_mask, rng=rng, deterministic=deterministic)
        sample.extras["value"] = value
        return Decision(action=sample.action, extras=sample.extras, state=state)

    def evaluate(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - values do not depend on masks
        state: Leaves,  # noqa: ARG002 - there is none
    ) -> np.ndarray:
        """Return the values ``[n] float32``; 0 where the critic needs privileged leaves."""
        return self._forward(observation, {})[1]

    def initial_state(self, rows: int) -> Leaves:  # noqa: ARG002 - empty for any number of rows
        """Return no state: the networks are not recurrent."""
        return {}

    def load(self, weights: Weights) -> None:
        """Copy `weights` into the model, in place.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        set_weights(self._model, weights)

    def _forward(self, observation: Leaves, privileged: Leaves) -> tuple[np.ndarray, np.ndarray]:
        with torch.inference_mode():
            parameters, value = self._model(
                {name: to_tensor(leaf) for name, leaf in observation.items()},
                {name: to_tensor(leaf) for name, leaf in privileged.items()},
            )
        if value is None:
            return parameters.numpy(), np.zeros(parameters.shape[0], np.float32)
        return parameters.numpy(), value.numpy()
