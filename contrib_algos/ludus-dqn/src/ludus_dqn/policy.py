"""The policy: NumPy in, NumPy out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ludus.algorithm import Decision, PolicyInput, Weights
from ludus.environment import Leaves
from ludus.errors import ContractError, ModelError
from ludus.inference import Inference, Span

__all__ = ["DQNPolicy"]

_NETWORK = "network."


class DQNPolicy:
    """Takes the best legal action, or now and then any; see `ludus.algorithm.StackedPolicy`.

    How often is part of the weights. So a frozen model explores as it did when it was frozen, unless it is asked to
    play deterministically.

    Args:
        inference: Runs the network; the policy owns it.
        role: The role's name, for messages.
    """

    def __init__(self, inference: Inference, *, role: str) -> None:
        self._inference = inference
        self._role = role
        self._epsilon: dict[int, float] = {0: 0.0}  # by slot

    def act(self, inputs: PolicyInput, *, rng: np.random.Generator, deterministic: bool = False) -> Decision:
        """Decide for n rows; `Decision.value` is the largest Q-value of a legal action.

        Raises:
            ContractError: The network's outputs are not finite, or the mask forbids every action.
        """
        q = self._legal_q(inputs)
        action = q.argmax(axis=1)
        value = q[np.arange(len(q)), action]
        if not deterministic:
            explores = np.flatnonzero(rng.random(len(q)) < self._rates(inputs.spans))
            if explores.size:
                # the largest of independent uniform keys is any of the legal actions, equally often
                keys = rng.random((explores.size, q.shape[1]))
                keys[q[explores] == -np.inf] = -1.0
                action[explores] = keys.argmax(axis=1)
        return Decision(action=action[:, None], state=inputs.state, value=value)

    def evaluate(self, inputs: PolicyInput) -> np.ndarray:
        """Return ``[n] float32``: the largest Q-value of a legal action."""
        value: np.ndarray = self._legal_q(inputs).max(axis=1)
        return value

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
        if others != {"epsilon": ()}:
            raise ModelError(f"the saved arrays do not fit: besides the network's expected epsilon (), got {others}")
        self._inference.load(network, slot=slot)
        self._epsilon[slot] = float(weights["epsilon"])

    def drop(self, slot: int) -> None:
        """Forget the model in a slot."""
        self._inference.drop(slot)
        self._epsilon.pop(slot, None)

    def _legal_q(self, inputs: PolicyInput) -> np.ndarray:
        """Return Q(s, ·) ``[n, A] float32``, -inf where an action is illegal."""
        # Q-values choose the action, so the network must not read privileged leaves
        heads, _ = self._inference.run(inputs.observation, privileged={}, state={}, spans=inputs.spans)
        q, mask = heads["q"], inputs.action_mask
        if not np.isfinite(q).all():
            raise ContractError(f"role {self._role}: the network's Q-values are not finite")
        value = heads.get("value")
        if value is not None:
            q = value + q - q.mean(axis=1, keepdims=True)
        if mask is None:
            return np.array(q)
        if not mask.any(axis=1).all():
            raise ContractError(
                f"role {self._role}, label 0: the action mask forbids every choice of an acting seat; "
                f"the environment must leave at least one legal"
            )
        return np.where(mask, q, np.float32(-np.inf))

    def _rates(self, spans: Sequence[Span]) -> np.ndarray | float:
        """Return epsilon of every row, or one for all."""
        if not spans:
            return self._epsilon[0]
        rates = [self._epsilon[span.slot] for span in spans]
        return np.repeat(rates, [span.stop - span.start for span in spans])
