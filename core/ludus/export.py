"""The export contract: the decisions of a model as one torch module, which other formats are written from.

A policy samples its actions in NumPy. A game that runs a model without Python needs the part before that: from
observation, action mask and recurrent state to the parameters of the action distribution. An algorithm that can be
exported returns this part as a `DecisionModule`. Its module has the forward signature::

    forward(observation: dict[str, Tensor], action_mask: Tensor | None, state: dict[str, Tensor])
        -> tuple[dict[str, Tensor], dict[str, Tensor]]          # outputs, new recurrent state

The outputs of a row depend on that row only. `ActionPart` describes how an action follows from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np
from attrs import field, frozen

from ludus.algorithm import Algorithm, Weights
from ludus.environment import Leaves

if TYPE_CHECKING:
    from torch import nn

__all__ = ["MASKED", "ActionPart", "DecisionModule", "ExportableAlgorithm", "most_likely_actions"]

#: Output of a choice that the action mask forbids: finite, as JSON needs it, with the probability 0 in float32.
MASKED = -1e9


@frozen(kw_only=True)
class ActionPart:
    """How some columns of an action follow from outputs of a decision module.

    Attributes:
        kind: ``"categorical"``: one column, a choice with the probabilities softmax(logits). ``"greedy"``: one column,
            the choice with the largest value, or with probability `epsilon` any choice that is not masked.
            ``"normal"``: the columns clip(offset + scale · x, low, high) with x = mean + exp(log_std) · noise, where
            noise is standard normal. ``"tanh-normal"``: the same with tanh(x) instead of x.
        outputs: Names of the outputs: logits or values ``[n, choices]``; mean and log_std ``[n, columns]``.
        columns: Number of columns of the action.
        epsilon: Probability of a random choice.
        offset: ``[columns]``, of real numbers only; also `scale`, `low` and `high`.
        scale: ``[columns]``.
        low: ``[columns]``; may be infinite.
        high: ``[columns]``; may be infinite.
    """

    kind: Literal["categorical", "greedy", "normal", "tanh-normal"]
    outputs: tuple[str, ...]
    columns: int = 1
    epsilon: float = 0.0
    offset: Sequence[float] = ()
    scale: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@frozen(kw_only=True)
class DecisionModule:
    """The decisions of one model.

    Attributes:
        module: Module with the model's weights and the forward signature of `ludus.export`. It also returns ``value
            [n] float32``, the expected return, if that needs no privileged leaves. `action_mask` is ``[n, A] bool``;
            None without labels.
        parts: Parts of an action in the order of their columns.
        initial_state: Recurrent state at the start of a match, leaves ``[1, …]``; empty without recurrence.
    """

    module: nn.Module
    parts: tuple[ActionPart, ...]
    initial_state: Leaves = field(factory=dict)


@runtime_checkable
class ExportableAlgorithm(Algorithm, Protocol):
    """An algorithm whose models can be exported; an optional part of the contract."""

    def make_decision_module(self, weights: Weights) -> DecisionModule:
        """Make the decision module of a model.

        Args:
            weights: Weights of the model, as its policy loads them.

        Raises:
            ModelError: Names or shapes do not fit.
        """


def most_likely_actions(parts: Sequence[ActionPart], outputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the actions without randomness, as `Policy.act` does with ``deterministic=True``.

    Args:
        parts: Parts of an action.
        outputs: Outputs ``[n, …]`` by name.

    Returns:
        ``[n, L] int64``, or ``[n, L + D] float32`` if there are real numbers.
    """
    columns = [_most_likely(part, outputs[part.outputs[0]]) for part in parts]
    dtype = np.int64 if all(column.dtype == np.int64 for column in columns) else np.float32
    return np.concatenate(columns, axis=1).astype(dtype)


def _most_likely(part: ActionPart, first: np.ndarray) -> np.ndarray:
    if part.kind in ("categorical", "greedy"):
        chosen: np.ndarray = first.argmax(axis=1)[:, None]
        return chosen
    squashed = np.tanh(first) if part.kind == "tanh-normal" else first
    offset, scale, low, high = (np.asarray(end, np.float32) for end in (part.offset, part.scale, part.low, part.high))
    limited: np.ndarray = np.clip(offset + scale * squashed, low, high)
    return limited
