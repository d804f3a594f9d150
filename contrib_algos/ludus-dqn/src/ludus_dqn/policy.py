"""DQN policy: epsilon-greedy decisions in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from ludus.algorithm import Decision, PolicyInput, Weights
from ludus.environment import Leaves
from ludus.errors import ContractError, ModelError
from ludus.inference import Inference, Span

_NETWORK = "network."


class DQNPolicy:
    """Chooses the best legal action, or with probability epsilon any legal action; see `ludus.algorithm.StackedPolicy`.

    Epsilon is part of the weights, so a frozen model explores as it did when it was frozen, unless it plays
    deterministically. So is the lowest value that the model computed while it learned.

    Args:
        inference: Runtime of the network. The policy owns it.
        role: Name of the role, for messages.
    """

    def __init__(self, inference: Inference, *, role: str) -> None:
        self._inference = inference
        self._role = role
        self._epsilon: dict[int, float] = {0: 0.0}  # by slot
        self._value_min: dict[int, float] = {0: 0.0}

    def act(self, inputs: PolicyInput, *, rng: np.random.Generator, deterministic: bool = False) -> Decision:
        """Decide for n rows; `Decision.value` is the largest Q-value of a legal action.

        Raises:
            ContractError: The network's outputs are not finite, or a mask forbids every action.
        """
        q = self._legal_q(inputs)
        action = q.argmax(axis=1)
        value = q[np.arange(len(q)), action]
        if not deterministic:
            exploring = np.flatnonzero(rng.random(len(q)) < _per_row(self._epsilon, inputs.spans))
            if exploring.size:
                # the argmax of independent uniform keys is uniform over the legal actions
                keys = rng.random((exploring.size, q.shape[1]))
                keys[q[exploring] == -np.inf] = -1.0
                action[exploring] = keys.argmax(axis=1)
        return Decision(action=action[:, None], state=inputs.state, value=value)

    def evaluate(self, inputs: PolicyInput) -> np.ndarray:
        """Return the largest Q-value of a legal action, ``[n] float32``."""
        value: np.ndarray = self._legal_q(inputs).max(axis=1)
        return value

    def lowest_values(self, rows: int, spans: Sequence[Span]) -> np.ndarray:
        """Return the lowest value while the model learned, ``[rows] float32``; see `ludus.algorithm.BoundedPolicy`."""
        return np.broadcast_to(np.asarray(_per_row(self._value_min, spans), np.float32), rows)

    def initial_state(self, rows: int) -> Leaves:  # noqa: ARG002 - empty for any number of rows
        """Return an empty state: the networks are not recurrent."""
        return {}

    def load(self, weights: Weights, *, slot: int = 0) -> None:
        """Copy `weights` into a slot.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        network = {name.removeprefix(_NETWORK): array for name, array in weights.items() if name.startswith(_NETWORK)}
        others = {name: array.shape for name, array in weights.items() if not name.startswith(_NETWORK)}
        if others != {"epsilon": (), "value_min": ()}:
            raise ModelError(
                f"the saved arrays do not fit: expected epsilon () and value_min () besides the network, got {others}"
            )
        self._inference.load(network, slot=slot)
        self._epsilon[slot] = float(weights["epsilon"])
        self._value_min[slot] = float(weights["value_min"])

    def drop(self, slot: int) -> None:
        """Remove the model in a slot."""
        self._inference.drop(slot)
        self._epsilon.pop(slot, None)
        self._value_min.pop(slot, None)

    def _legal_q(self, inputs: PolicyInput) -> np.ndarray:
        """Return Q(s, ·) ``[n, A] float32``, with -inf for illegal actions."""
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
                f"the environment must allow at least one"
            )
        return np.where(mask, q, np.float32(-np.inf))


def _per_row(by_slot: Mapping[int, float], spans: Sequence[Span]) -> np.ndarray | float:
    """Return the number of every row, or one number for all rows."""
    if not spans:
        return by_slot[0]
    return np.repeat([by_slot[span.slot] for span in spans], [span.stop - span.start for span in spans])
