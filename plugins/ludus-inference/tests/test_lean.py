"""The lean runtime equals torch on supported networks and rejects all others."""

from __future__ import annotations

import copy
import weakref
from itertools import pairwise

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus.environment import Role
from ludus.errors import ModelError, UnsupportedNetwork
from ludus.inference import Eager, Span
from ludus.network import NetworkRequest, get_weights
from ludus.testing import check_inference
from ludus_inference.lean import Lean, make_lean
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp
from torch import nn
from torch.nn import functional

LEAVES = {
    "vector": spaces.Box(-1, 1, (5,), np.float32),
    "bytes": spaces.Box(0, 255, (3, 2), np.uint8),
    "plain": spaces.Box(-4, 4, (2,), np.float64),
    "flag": spaces.Box(0, 1, (), np.int8),
    "turn": spaces.Discrete(3, start=-1),
    "cards": spaces.MultiDiscrete([2, 4], start=[1, 0]),
    "bits": spaces.MultiBinary(3),
}
HIDDEN = {"fog": spaces.Box(0, 9, (4,), np.int32)}


def make_request(leaves, privileged=None):
    """Return a request with three heads."""
    return NetworkRequest(
        observation=leaves, privileged=privileged or {}, heads={"policy": 4, "other": 2}, critic_heads={"value": 1}
    )


def random_leaves(leaves, rows, seed=0):
    """Return random leaves ``[rows, …]``."""
    drawn = {}
    for name, space in leaves.items():
        space.seed(seed)
        drawn[name] = np.stack([np.asarray(space.sample(), space.dtype) for _ in range(rows)])
    return drawn


def assert_heads_equal(found, expected, atol=1e-5):
    """Compare heads."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], array, atol=atol, rtol=0)


@pytest.mark.parametrize("activation", ["tanh", "relu", "leaky_relu"])
@pytest.mark.parametrize("separate_critic", [False, True])
@pytest.mark.parametrize("privileged", [{}, HIDDEN])
def test_multi_layer_perceptrons_equal_torch(activation, separate_critic, privileged):
    """All kinds of leaves, shared and separate critics, with and without privileged leaves, for growing buffers."""
    request = make_request(LEAVES, privileged)
    config = MLPConfig(hidden=(12, 7), activation=activation, separate_critic=separate_critic)
    network = make_mlp(config, request=request)
    lean, eager = Lean(copy.deepcopy(network), request), Eager(network, request)
    for rows in (1, 5, 300, 2):
        observation = random_leaves(LEAVES, rows, rows)
        for leaves in ({}, random_leaves(privileged, rows, rows)):
            found, expected = (runtime.run(observation, privileged=leaves, state={}) for runtime in (lean, eager))
            assert_heads_equal(found.heads, expected.heads)


@pytest.mark.parametrize("scale", [False, True])
def test_bytes_are_scaled_like_in_the_network(scale):
    """Boards keep their values, images are scaled to [0, 1]."""
    leaves = {"image": spaces.Box(0, 255, (4, 4, 3), np.uint8), "board": spaces.Box(0, 1, (3, 3), np.uint8)}
    request = make_request(leaves)
    torch.manual_seed(0)
    network = make_mlp(MLPConfig(hidden=(8,), scale=scale), request=request)
    observation = random_leaves(leaves, 6)
    lean, eager = Lean(copy.deepcopy(network), request), Eager(network, request)
    assert_heads_equal(
        lean.run(observation, privileged={}, state={}).heads,
        eager.run(observation, privileged={}, state={}).heads,
        atol=1e-5 if scale else 1e-3,  # sums of values up to 255 are rounded more coarsely
    )


def test_lean_satisfies_the_contract():
    """On the network of the testing kit and on an MLP."""
    check_inference(Lean)
    check_inference(Lean, build_network=lambda request: make_mlp(MLPConfig(hidden=(9, 8)), request=request))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=8), st.booleans())
def test_spans_equal_separate_runtimes(runs, privileged):
    """For any rows of each slot."""
    request = make_request({"vector": LEAVES["vector"], "turn": LEAVES["turn"]}, HIDDEN if privileged else {})
    torch.manual_seed(0)
    networks = [make_mlp(MLPConfig(hidden=(6,)), request=request) for _ in range(4)]
    lean = Lean(copy.deepcopy(networks[3]), request)
    for slot, network in enumerate(networks):
        lean.load(get_weights(network), slot=slot)
    ends = np.cumsum([0, *(rows for _, rows in runs)]).tolist()
    spans = [Span(slot, *bounds) for (slot, _), bounds in zip(runs, pairwise(ends), strict=True)]
    observation, observed = random_leaves(request.observation, ends[-1]), random_leaves(request.privileged, ends[-1])
    heads = lean.run(observation, privileged=observed, state={}, spans=spans).heads
    for slot, start, stop in spans:
        parts = [{name: leaf[start:stop] for name, leaf in group.items()} for group in (observation, observed)]
        expected = Eager(networks[slot], request).run(parts[0], privileged=parts[1], state={}).heads
        assert_heads_equal({name: head[start:stop] for name, head in heads.items()}, expected, atol=1e-6)


def test_loading_a_slot_again_allocates_nothing():
    """Weights and buffers keep their memory."""
    request = make_request({"vector": LEAVES["vector"]})
    lean = Lean(make_mlp(MLPConfig(hidden=(6,)), request=request), request)
    other = get_weights(make_mlp(MLPConfig(hidden=(6,)), request=request))
    observation = random_leaves(request.observation, 8)
    before = lean.run(observation, privileged={}, state={}).heads["policy"]
    held, old = lean._weights[0][0], before.copy()
    lean.load(other)
    after = lean.run(observation, privileged={}, state={}).heads["policy"]
    assert lean._weights[0][0] is held
    assert np.shares_memory(before, after)
    assert not np.allclose(after, old)


def test_the_memory_of_the_last_dropped_slot_is_reused():
    """The memory of earlier dropped slots is freed."""
    request = make_request({"vector": LEAVES["vector"]})
    networks = {slot: make_mlp(MLPConfig(hidden=(6,)), request=request) for slot in (7, 8, 9)}
    lean = Lean(copy.deepcopy(networks[7]), request)
    for slot in (7, 8):
        lean.load(get_weights(networks[slot]), slot=slot)
    freed, kept = (weakref.ref(lean._weights[slot][0]) for slot in (7, 8))
    lean.drop(7)
    lean.drop(8)
    lean.drop(8)
    assert lean._weights.keys() == {0}
    assert freed() is None
    lean.load(get_weights(networks[9]), slot=9)
    lean.load(get_weights(networks[7]), slot=7)
    assert kept() is lean._weights[9][0]
    observation = random_leaves(request.observation, 4)
    for slot in (7, 9):
        got = lean.run(observation, privileged={}, state={}, spans=[Span(slot, 0, 4)]).heads
        assert_heads_equal(
            got, Eager(networks[slot], request).run(observation, privileged={}, state={}).heads, atol=1e-6
        )


def test_weights_of_another_architecture_are_rejected():
    """Nothing is copied before the check."""
    request = make_request({"vector": LEAVES["vector"]})
    lean = Lean(make_mlp(MLPConfig(hidden=(6,)), request=request), request)
    before = lean._weights[0][0].copy()
    with pytest.raises(ModelError, match="do not fit"):
        lean.load(get_weights(make_mlp(MLPConfig(hidden=(5,)), request=request)))
    np.testing.assert_array_equal(lean._weights[0][0], before)


def test_heads_on_the_same_features_share_one_product():
    """Three heads of an MLP with two hidden layers need three products."""
    request = make_request({"vector": LEAVES["vector"]})
    lean = Lean(make_mlp(MLPConfig(hidden=(6, 6)), request=request), request)
    assert [len(array.layers) for array in lean._arrays] == [1, 1, 3]


class CustomNetwork(nn.Module):
    """One hidden layer, and a function of its features."""

    def __init__(self, function):
        super().__init__()
        self.first, self.policy = nn.Linear(5, 6), nn.Linear(6, 4, bias=False)
        self.function = function

    def forward(self, observation, privileged, state):
        features = self.function(self.first(observation["vector"]))
        return {"policy": self.policy(features), "features": features}, state


def make_custom(function):
    """Return a request and a custom network."""
    return NetworkRequest(observation={"vector": LEAVES["vector"]}, heads={"policy": 4, "features": 6}), CustomNetwork(
        function
    )


@pytest.mark.parametrize(
    "function",
    [
        torch.tanh,
        torch.relu,
        functional.relu,
        lambda x: functional.leaky_relu(x, 0.2),
        lambda x: x.relu().flatten(1),
        lambda x: torch.cat([x], dim=1),
        lambda x: nn.functional.tanh(x).float(),
        lambda x: x,
    ],
)
def test_custom_networks_equal_torch(function):
    """All supported operations; a value that is also a head is not overwritten."""
    request, network = make_custom(function)
    lean, eager = Lean(copy.deepcopy(network), request), Eager(network, request)
    observation = random_leaves(request.observation, 9)
    assert_heads_equal(
        lean.run(observation, privileged={}, state={}).heads, eager.run(observation, privileged={}, state={}).heads
    )


@pytest.mark.parametrize("alias", [lambda x: x, lambda x: x.flatten(1)])
def test_a_value_that_another_node_reads_is_not_overwritten(alias):
    """Activations work in place only if no other node reads the value, also through an alias."""
    request, network = make_custom(lambda x: torch.cat([torch.tanh(alias(x)), x], dim=1))
    network.policy = nn.Linear(12, 4)
    lean, eager = Lean(copy.deepcopy(network), request), Eager(network, request)
    observation = random_leaves(request.observation, 9)
    assert_heads_equal(
        lean.run(observation, privileged={}, state={}).heads, eager.run(observation, privileged={}, state={}).heads
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (torch.sigmoid, "there is no step for .*sigmoid"),
        (lambda x: x + 1, "there is no step for .*add"),
        (lambda x: x - nn.Parameter(torch.ones(6)), "cannot be traced|neither a parameter nor a buffer"),
        (lambda x: functional.leaky_relu(x, 2.0), "there is no step for .*leaky_relu"),
        (lambda x: x if x.sum() > 0 else -x, "cannot be traced"),
        (lambda x: x[:, :3], "there is no step for .*getitem"),
        (lambda x: torch.cat([x, x]), "there is no step for .*cat"),
        (lambda x: torch.cat([x, nn.functional.relu(x, inplace=True)], dim=1), "there is no step for .*relu"),
        (nn.LayerNorm(6), "there is no step for .*LayerNorm"),
    ],
)
def test_unsupported_operations_are_rejected(function, message):
    """The error names the operation, for the line in the log."""
    request, network = make_custom(function)
    with pytest.raises(UnsupportedNetwork, match=message):
        make_lean(None, module=network, request=request)


def test_a_state_without_an_initial_state_is_rejected():
    """Its leaves are unknown."""

    class Recurrent(nn.Module):
        def forward(self, observation, privileged, state):
            return {"policy": observation["vector"]}, {"memory": observation["vector"]}

    with pytest.raises(UnsupportedNetwork, match="no initial state"):
        Lean(Recurrent(), make_request({"vector": LEAVES["vector"]}))


def test_lean_satisfies_the_contract_for_other_roles():
    """The contract does not depend on the roles of the testing kit."""
    role = Role(name="player", observation_space=spaces.Dict(LEAVES), action_space=spaces.Discrete(2), teams=(0,))
    check_inference(Lean, roles=[role], build_network=lambda request: make_mlp(MLPConfig(hidden=(5,)), request=request))
