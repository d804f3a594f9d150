"""The export contract: actions from outputs, and what `check_algorithm` finds in decision modules."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import ContractError
from ludus.algorithm import AlgorithmContext
from ludus.environment import Role
from ludus.export import ActionPart, DecisionModule, most_likely_actions
from ludus.interface import Identity, has_own_act, is_stateless, stack
from ludus.testing import check_algorithm
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig

ROLE = Role(
    name="player",
    teams=(0,),
    observation_space=spaces.Box(-1, 1, (3,), np.float32),
    action_space=spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 4, (2,), np.float32)]),
)

REALS = {"offset": [2.0, 0.0], "scale": [2.0, 1.0], "low": [0.0, -np.inf], "high": [4.0, np.inf]}
MEAN = np.array([[0.5, -3.0], [9.0, 0.0]], np.float32)


def test_labels_take_the_largest_output():
    """Labels alone are whole numbers."""
    parts = [ActionPart(kind="categorical", outputs=("a",)), ActionPart(kind="greedy", outputs=("b",))]
    found = most_likely_actions(parts, {"a": np.array([[0.0, 2.0, 1.0]]), "b": np.array([[3.0, 2.0]])})
    assert (found.dtype, found.tolist()) == (np.int64, [[1, 0]])


@pytest.mark.parametrize(("kind", "squash"), [("normal", lambda x: x), ("tanh-normal", np.tanh)])
def test_reals_are_scaled_and_clipped(kind, squash):
    """The mean is mapped to the bounds."""
    part = ActionPart(kind=kind, outputs=("mean", "log_std"), columns=2, **REALS)
    found = most_likely_actions([part], {"mean": MEAN})
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.clip([2, 0] + np.array([2, 1]) * squash(MEAN), [0, -9], [4, 9]), rtol=1e-6)


def test_labels_precede_reals():
    """Both kinds together are float32."""
    parts = [ActionPart(kind="categorical", outputs=("a",)), ActionPart(kind="normal", outputs=("mean",), **REALS)]
    found = most_likely_actions(parts, {"a": np.array([[0.0, 1.0], [1.0, 0.0]]), "mean": MEAN})
    assert (found.dtype, found[:, 0].tolist()) == (np.float32, [1, 0])


def changed(change):
    """Return a maker of PPO whose decision module is changed by a function."""

    class Broken(PPO):
        def make_decision_module(self, weights):
            return change(super().make_decision_module(weights))

    return lambda context: Broken(PPOConfig(), context=context)


def with_module(change):
    """Change the outputs and the state of the decision module."""

    def wrap(decisions: DecisionModule) -> DecisionModule:
        class Wrapped(torch.nn.Module):
            def forward(self, *arguments):
                return change(*decisions.module(*arguments))

        return attrs.evolve(decisions, module=Wrapped())

    return changed(wrap)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (changed(lambda decisions: decisions.module), "make_decision_module"),
        (changed(lambda decisions: attrs.evolve(decisions, parts=("logits/0",))), "a part of the decision module"),
        (changed(lambda decisions: attrs.evolve(decisions, initial_state={"h": MEAN[:1]})), "another state"),
        (with_module(lambda outputs, _: (outputs, {"h": torch.zeros(1)})), "returns the state"),
        (with_module(lambda outputs, state: ({**outputs, "logits/0": -outputs["logits/0"]}, state)), "other actions"),
        (with_module(lambda outputs, state: ({**outputs, "mean": outputs["mean"] + 1}, state)), "other actions"),
        (with_module(lambda outputs, state: ({**outputs, "value": outputs["value"] + 1}, state)), "other values"),
    ],
)
def test_defects_of_decision_modules_are_found(make, message):
    """Each has one defect."""
    with pytest.raises(ContractError, match=message):
        check_algorithm(make, roles=[ROLE])


def test_masked_choices_have_no_probability():
    """Their outputs are so low that softmax is exactly 0."""
    from ludus.testing._tiny_network import TinyNetwork

    role = attrs.evolve(ROLE, action_space=spaces.MultiDiscrete([2, 3]))
    algorithm = PPO(PPOConfig(), context=AlgorithmContext(role=role, build_network=TinyNetwork))
    decisions = algorithm.make_decision_module(algorithm.make_trainer(seed=0).weights())
    mask = torch.tensor([[True, False, True, True, False]])
    outputs, _ = decisions.module({"obs": torch.zeros(1, 3)}, mask, {})
    assert (outputs["logits/0"].softmax(1) > 0).tolist() == [[True, False]]
    assert (outputs["logits/1"].softmax(1) > 0).tolist() == [[True, True, False]]


class Stateful(Identity):
    """Keeps state."""

    def reset(self, seat_ids):
        """Clear the state."""


class Acting(Identity):
    """Changes actions."""

    def act(self, action, seat_ids):
        """Return the next choice."""
        return action + 1


def test_kinds_of_interfaces():
    """A stack has state or changes actions if one of its interfaces does."""
    assert is_stateless(stack(Identity(), Acting()))
    assert not is_stateless(stack(Identity(), Stateful()))
    assert has_own_act(stack(Acting(), Identity()))
    assert not has_own_act(stack(Identity(), Stateful()))
