"""SAC policy: decisions and values in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ludus.algorithm import Decision, PolicyInput, Weights
from ludus.environment import Leaves
from ludus.errors import ContractError
from ludus.inference import Inference
from ludus.network import check_shapes

from ludus_sac.actions import ActionKind

_ACTOR = "actor."
_CRITIC = "critics.networks.{}."


class SACPolicy:
    """Samples actions with the actor and evaluates them with the critics; see `ludus.algorithm.StackedPolicy`.

    Args:
        actor: Runtime of the actor. The policy owns it.
        critics: Runtimes of the critics. The policy owns them.
        kind: Kind of actions.
        action_leaf: Name of the critics' leaf with the action; empty for discrete actions.
        decision_values: Whether decisions carry values.
    """

    def __init__(
        self,
        actor: Inference,
        critics: Sequence[Inference],
        *,
        kind: ActionKind,
        action_leaf: str,
        decision_values: bool = False,
    ) -> None:
        self._parts = {_ACTOR: actor} | {_CRITIC.format(i): critic for i, critic in enumerate(critics)}
        self._actor = actor
        self._critics = tuple(critics)
        self._kind = kind
        self._action_leaf = action_leaf
        self._decision_values = decision_values

    def act(self, inputs: PolicyInput, *, rng: np.random.Generator, deterministic: bool = False) -> Decision:
        """Decide for n rows; deterministic decisions are the most likely action, or the squashed mean.

        Raises:
            ContractError: The networks' outputs are not finite, or a mask forbids every action.
        """
        parameters = self._parameters(inputs)
        action = self._kind.sample(parameters, inputs.action_mask, rng=rng, deterministic=deterministic)
        value = self._value(parameters, inputs) if self._decision_values else None
        return Decision(action=action, state=inputs.state, value=value)

    def evaluate(self, inputs: PolicyInput) -> np.ndarray:
        """Return the smaller of both critics' values of the policy's actions, ``[n] float32``.

        For discrete actions the value is Σ_a π(a|s) Q(s, a), for continuous ones Q(s, a) at the squashed mean. It
        includes the entropy of later decisions, as the critics do, but not that of this decision. It is 0 without the
        privileged leaves that the critics need.

        Raises:
            ContractError: The networks' outputs are not finite, or a mask forbids every action.
        """
        parameters = self._parameters(inputs)
        value = self._value(parameters, inputs)
        return np.zeros(len(parameters), np.float32) if value is None else value

    def initial_state(self, rows: int) -> Leaves:  # noqa: ARG002 - empty for any number of rows
        """Return an empty state: the networks are not recurrent."""
        return {}

    def load(self, weights: Weights, *, slot: int = 0) -> None:
        """Copy `weights` into a slot.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        rest = {name: array for name, array in weights.items() if not name.startswith(tuple(self._parts))}
        check_shapes(rest, {"log_alpha": ()})
        for prefix, part in self._parts.items():
            own = {name[len(prefix) :]: array for name, array in weights.items() if name.startswith(prefix)}
            part.load(own, slot=slot)

    def drop(self, slot: int) -> None:
        """Remove the model in a slot."""
        for part in self._parts.values():
            part.drop(slot)

    def _parameters(self, inputs: PolicyInput) -> np.ndarray:
        """Return the parameters of the action distribution ``[n, P] float32``; the next call overwrites them."""
        heads, _ = self._actor.run(inputs.observation, privileged={}, state={}, spans=inputs.spans)
        return heads["policy"]

    def _value(self, parameters: np.ndarray, inputs: PolicyInput) -> np.ndarray | None:
        """Return ``[n] float32``; None without the privileged leaves that the critics need."""
        action, weight = self._kind.expected(parameters, inputs.action_mask)
        leaves = inputs.observation if action is None else {**inputs.observation, self._action_leaf: action}
        q: np.ndarray | None = None  # [n, C]
        for critic in self._critics:
            heads, _ = critic.run(leaves, privileged=inputs.privileged, state={}, spans=inputs.spans)
            if "q" not in heads:
                return None
            q = heads["q"].copy() if q is None else np.minimum(q, heads["q"])
        if q is None or not np.isfinite(q).all():
            raise ContractError("sac: the critics' outputs are not finite")
        return np.asarray((weight * q).sum(axis=1))
