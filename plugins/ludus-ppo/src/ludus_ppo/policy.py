"""The policy: NumPy in, NumPy out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ludus.algorithm import Decision, Weights
from ludus.environment import Leaves
from ludus.errors import ContractError, ModelError
from ludus.inference import Inference, Span
from ludus.network import to_tensor

from ludus_ppo.distributions import Distribution

__all__ = ["PPOPolicy", "to_tensor"]

_NETWORK = "network."


class PPOPolicy:
    """Samples actions and records log-probabilities and values; see `ludus.algorithm.StackedPolicy`.

    Args:
        inference: Runs the network; the policy owns it.
        distribution: What its policy head parametrises.
        log_std: The log standard deviations ``[D] float32`` of slot 0, where the distribution has them.
    """

    def __init__(self, inference: Inference, distribution: Distribution, *, log_std: np.ndarray | None = None) -> None:
        self._inference = inference
        self._distribution = distribution
        self._log_std = {} if log_std is None else {0: log_std.copy()}  # by slot
        self._log_std_shape = None if log_std is None else log_std.shape

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,
        privileged: Leaves,
        state: Leaves,
        rng: np.random.Generator,
        deterministic: bool = False,
        spans: Sequence[Span] = (),
    ) -> Decision:
        """Decide for n rows. Values are 0 where the critic needs privileged leaves and there are none.

        Raises:
            ContractError: The network's outputs are not finite, or every choice of a label is masked.
        """
        parameters, value = self._forward(observation, privileged, spans)
        sample = self._distribution.sample(parameters, action_mask, rng=rng, deterministic=deterministic)
        sample.extras["value"] = np.zeros(len(parameters), np.float32) if value is None else value
        return Decision(action=sample.action, extras=sample.extras, state=state, value=value)

    def evaluate(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - values do not depend on masks
        privileged: Leaves,
        state: Leaves,  # noqa: ARG002 - there is none
    ) -> np.ndarray:
        """Return the values ``[n] float32``; 0 where the critic needs privileged leaves and there are none."""
        parameters, value = self._forward(observation, privileged, ())
        return np.zeros(len(parameters), np.float32) if value is None else value

    def initial_state(self, rows: int) -> Leaves:  # noqa: ARG002 - empty for any number of rows
        """Return no state: the networks are not recurrent."""
        return {}

    def load(self, weights: Weights, *, slot: int = 0) -> None:
        """Copy `weights` into a slot.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        network = {name.removeprefix(_NETWORK): array for name, array in weights.items() if name.startswith(_NETWORK)}
        others = {name: array.shape for name, array in weights.items() if not name.startswith(_NETWORK)}
        expected = {} if self._log_std_shape is None else {"log_std": self._log_std_shape}
        if others != expected:
            raise ModelError(f"the saved arrays do not fit: besides the network's expected {expected}, got {others}")
        self._inference.load(network, slot=slot)
        if expected:
            self._log_std[slot] = weights["log_std"].copy()

    def drop(self, slot: int) -> None:
        """Forget the model in a slot."""
        self._inference.drop(slot)
        self._log_std.pop(slot, None)

    def _forward(
        self, observation: Leaves, privileged: Leaves, spans: Sequence[Span]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return distribution parameters ``[n, P] float32``, until the next call, and values ``[n] float32``.

        The values are None where the critic needs privileged leaves and there are none.
        """
        heads, state = self._inference.run(observation, privileged=privileged, state={}, spans=spans)
        if state:
            raise ContractError("ppo trains networks without recurrent state; choose another network")
        parameters = heads["policy"]
        if self._log_std_shape is not None:
            parameters = np.concatenate([parameters, self._spread(len(parameters), spans)], axis=1)
        value = heads.get("value")
        return parameters, None if value is None else value[:, 0].copy()

    def _spread(self, rows: int, spans: Sequence[Span]) -> np.ndarray:
        """Return the log standard deviations of every row, ``[n, D]``."""
        spans = spans or [Span(0, 0, rows)]
        stacked = np.stack([self._log_std[span.slot] for span in spans])
        return stacked.repeat([span.stop - span.start for span in spans], axis=0)
