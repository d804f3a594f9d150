"""The policy: NumPy in, NumPy out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from ludus.algorithm import Decision, PolicyInput, Weights
from ludus.environment import Leaves
from ludus.errors import ContractError
from ludus.inference import Inference, Span
from ludus.network import check_shapes

from ludus_ppo.distributions import Distribution

_NETWORK = "network."


class PPOPolicy:
    """Samples actions and records log-probabilities and values; see `ludus.algorithm.StackedPolicy`.

    Args:
        inference: Inference runtime of the network; the policy owns it.
        distribution: Action distribution of the policy.
        values: Value heads. Other agents that evaluate positions by this policy get the value of the first one.
        own: Arrays of the model besides those of the network, for slot 0: ``"log_std"``, ``"value_scale"``,
            ``"value_min"``.
        initial_state: State of a recurrent network at the start of a match, leaves ``[1, …]``.

    Attributes:
        temperature: See `ludus.algorithm.TemperedPolicy`.
    """

    def __init__(
        self,
        inference: Inference,
        distribution: Distribution,
        *,
        values: tuple[str, ...] = ("value",),
        own: Mapping[str, np.ndarray] | None = None,
        initial_state: Leaves | None = None,
    ) -> None:
        self._inference = inference
        self._distribution = distribution
        self._values = values
        self._own = {0: dict(own or {})}  # by slot
        self._shapes = {name: array.shape for name, array in self._own[0].items()}
        self._start = initial_state or {}
        self.temperature = 1.0

    def act(self, inputs: PolicyInput, *, rng: np.random.Generator, deterministic: bool = False) -> Decision:
        """Decide for n rows. Recorded values are 0 if the critic needs privileged leaves and there are none.

        Raises:
            ContractError: The network's outputs are not finite, or every choice of a label is masked.
        """
        parameters, values, after = self._forward(inputs)
        if self.temperature != 1.0:
            parameters = self._distribution.temper(parameters, self.temperature)
        sample = self._distribution.sample(parameters, inputs.action_mask, rng=rng, deterministic=deterministic)
        zeros = np.zeros(len(parameters), np.float32)
        extras = sample.extras | {name: values.get(name, zeros) for name in self._values}
        return Decision(action=sample.action, extras=extras, state=after, value=values.get(self._values[0]))

    def evaluate(self, inputs: PolicyInput) -> np.ndarray:
        """Return the values ``[n] float32``; 0 if the critic needs privileged leaves and there are none."""
        parameters, values, _ = self._forward(inputs)
        return values.get(self._values[0], np.zeros(len(parameters), np.float32))

    def lowest_values(self, rows: int, spans: Sequence[Span]) -> np.ndarray:
        """Return the lowest value while the model learned, ``[rows] float32``; see `ludus.algorithm.BoundedPolicy`."""
        return self._per_row("value_min", rows, spans)

    def probabilities(self, observation: Leaves, *, action_mask: np.ndarray | None, state: Leaves) -> np.ndarray:
        """Return the probability of every choice, ``[n, A] float32``, the labels side by side.

        Raises:
            ContractError: Actions are continuous.
        """
        parameters, _, _ = self._forward(PolicyInput(observation, state=state))
        return self._distribution.probabilities(parameters, action_mask)

    def initial_state(self, rows: int) -> Leaves:
        """Return the recurrent state at the start of a match, leaves ``[rows, …]``; empty without recurrence."""
        return {name: leaf.repeat(rows, axis=0) for name, leaf in self._start.items()}

    def load(self, weights: Weights, *, slot: int = 0) -> None:
        """Copy `weights` into a slot.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        network = {name.removeprefix(_NETWORK): array for name, array in weights.items() if name.startswith(_NETWORK)}
        own = {name: array for name, array in weights.items() if not name.startswith(_NETWORK)}
        check_shapes(own, self._shapes)
        self._inference.load(network, slot=slot)
        self._own[slot] = {name: array.copy() for name, array in own.items()}

    def drop(self, slot: int) -> None:
        """Remove the model of a slot."""
        self._inference.drop(slot)
        self._own.pop(slot, None)

    def _forward(self, inputs: PolicyInput) -> tuple[np.ndarray, dict[str, np.ndarray], Leaves]:
        """Return distribution parameters ``[n, P] float32``, values ``[n] float32`` by head, and the state.

        The parameters are valid until the next call. The values are empty if the critic needs privileged leaves and
        there are none.
        """
        spans = inputs.spans
        heads, after = self._inference.run(
            inputs.observation, privileged=inputs.privileged, state=inputs.state, spans=spans
        )
        if after.keys() != self._start.keys():
            raise ContractError("ppo: the network returns a state, but is no ludus.network.RecurrentNetwork")
        parts = [heads[name] for name in self._distribution.head_sizes]
        if "log_std" in self._shapes:
            parts.append(self._per_row("log_std", len(parts[0]), spans))
        parameters = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
        values = {name: heads[name][:, 0].copy() for name in self._values if name in heads}
        if "value_scale" in self._shapes:
            scale = self._per_row("value_scale", len(parameters), spans)  # [n, values, 2]
            values = {name: v * scale[:, i, 1] + scale[:, i, 0] for i, (name, v) in enumerate(values.items())}
        return parameters, values, {name: leaf.copy() for name, leaf in after.items()}

    def _per_row(self, name: str, rows: int, spans: Sequence[Span]) -> np.ndarray:
        """Return an array of the models in the slots for every row, ``[n, …]``."""
        spans = spans or [Span(0, 0, rows)]
        stacked = np.stack([self._own[span.slot][name] for span in spans])
        return stacked.repeat([span.stop - span.start for span in spans], axis=0)
