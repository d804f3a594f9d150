"""Check the decision module of an algorithm that can be exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ludus.algorithm import Policy, Weights
from ludus.errors import ModelError
from ludus.export import ActionPart, DecisionModule, ExportableAlgorithm, most_likely_actions
from ludus.network import to_tensor
from ludus.testing._errors import expect_type, rejects, require
from ludus.testing._synthetic import SyntheticRows

if TYPE_CHECKING:
    from torch import Tensor


def check_decision_module(
    algorithm: ExportableAlgorithm, policy: Policy, weights: Weights, rows: SyntheticRows
) -> None:
    """Check that a decision module and a policy with equal weights decide and evaluate alike.

    Args:
        algorithm: Algorithm of both.
        policy: Policy with the weights.
        weights: Weights.
        rows: Rows at the start of a match.

    Raises:
        ContractError: They do not, or the parts or outputs are malformed.
    """
    import torch  # noqa: PLC0415 - importing torch takes a second

    made = expect_type(DecisionModule, algorithm.make_decision_module(weights), "make_decision_module")
    for part in made.parts:
        expect_type(ActionPart, part, "a part of the decision module")
    start = policy.initial_state(1)
    same_start = made.initial_state.keys() == start.keys() and all(
        np.array_equal(leaf, start[name]) for name, leaf in made.initial_state.items()
    )
    require(same_start, "the decision module starts from another state than the policy")
    count = len(next(iter(rows.observation.values())))
    state = {name: to_tensor(leaf.repeat(count, axis=0)) for name, leaf in made.initial_state.items()}
    mask = None if rows.mask is None else to_tensor(rows.mask)
    with torch.no_grad():
        outputs, after = made.module(_tensors(rows.observation), mask, state)
    require(after.keys() == start.keys(), f"the decision module returns the state {sorted(after)}")
    arrays = {name: output.numpy() for name, output in outputs.items()}
    action = rows.act(policy, deterministic=True).action
    equal = np.allclose(most_likely_actions(made.parts, arrays), action, atol=1e-4)
    require(equal, "the decision module chooses other actions than the policy")
    if "value" in arrays:
        equal = np.allclose(arrays["value"], rows.evaluate(policy), atol=1e-4)
        require(equal, "the decision module returns other values than the policy")
    require(rejects(ModelError, algorithm.make_decision_module, {}), "make_decision_module accepts missing weights")


def _tensors(leaves: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: to_tensor(leaf) for name, leaf in leaves.items()}
