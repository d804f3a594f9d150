"""Tests of the networks ``mlp`` and ``conv``; those of ``modular`` cover their parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import ContractError
from ludus.network import AdvisedNetwork, NetworkRequest
from ludus_networks.config import ConvConfig, MLPConfig
from ludus_networks.network import make_conv, make_mlp

LEAVES = {
    "board": spaces.Box(0, 255, (6, 7, 2), np.uint8),
    "clock": spaces.Box(-1, 1, (3,), np.float32),
    "turn": spaces.Discrete(2),
}
HIDDEN = {"fog": spaces.Box(-1, 1, (4,), np.float32)}


def mlp(request, **options):
    """Return a small perceptron."""
    return make_mlp(MLPConfig(**{"hidden": (16, 8)} | options), request=request)


def conv(request, **options):
    """Return a small convolutional network."""
    return make_conv(ConvConfig(**{"channels": (4, 4), "hidden": (8,)} | options), request=request)


def make_request(**changes) -> NetworkRequest:
    """Return a request for a policy and a value, with changes."""
    request = {
        "observation": LEAVES,
        "privileged": HIDDEN,
        "heads": {"policy": 7},
        "critic_heads": {"value": 1},
        "head_gain": {"policy": 0.01},
    }
    return NetworkRequest(**request | changes)


def sample(leaves, rows=5, seed=0):
    """Return random rows of every leaf."""
    tensors = {}
    for name, space in leaves.items():
        space.seed(seed)
        tensors[name] = torch.from_numpy(np.stack([np.asarray(space.sample()) for _ in range(rows)]))
    return tensors


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


BOTH = pytest.mark.parametrize("make", [mlp, conv])


@BOTH
@pytest.mark.parametrize("separate_critic", [False, True])
def test_heads_have_the_requested_sizes(make, separate_critic):
    """In float32; the state stays empty."""
    outputs, state = make(make_request(), separate_critic=separate_critic)(sample(LEAVES), sample(HIDDEN), {})
    assert {name: tuple(out.shape) for name, out in outputs.items()} == {"policy": (5, 7), "value": (5, 1)}
    assert all(out.dtype == torch.float32 for out in outputs.values())
    assert state == {}


@BOTH
@pytest.mark.parametrize("separate_critic", [False, True])
def test_only_critic_heads_read_privileged_leaves(make, separate_critic):
    """The gradient of the policy does not reach them, and without them the critic heads are omitted."""
    network = make(make_request(), separate_critic=separate_critic)
    observation, hidden = sample(LEAVES), sample(HIDDEN)
    assert set(network(observation, {}, {})[0]) == {"policy"}
    hidden["fog"].requires_grad_()
    outputs, _ = network(observation, hidden, {})
    assert not torch.autograd.grad(outputs["policy"].sum(), hidden["fog"], allow_unused=True, retain_graph=True)[0]
    assert (torch.autograd.grad(outputs["value"].sum(), hidden["fog"])[0] != 0).any()


@BOTH
def test_separate_critic_shares_no_layer(make):
    """With `separate_critic` the value sends no gradient to the policy's layers; without, it does."""
    for separate in (True, False):
        network = make(make_request(), separate_critic=separate)
        network(sample(LEAVES), sample(HIDDEN), {})[0]["value"].sum().backward()
        gradients = [parameter.grad for parameter in network.trunk.parameters()]
        assert all(gradient is None for gradient in gradients) is separate


@BOTH
def test_every_leaf_affects_the_outputs(make):
    """Changing any one observation leaf changes the outputs."""
    network, observation = make(make_request(head_gain={})), sample(LEAVES)
    before = network(observation, {}, {})[0]["policy"]
    for name, leaf in observation.items():
        changed = 1 - leaf if name == "turn" else leaf.flip(0)
        assert (network(observation | {name: changed}, {}, {})[0]["policy"] != before).any(), name


def test_mlp_has_the_hidden_layers_of_its_options():
    """Over all leaves joined, and again over the privileged leaves."""
    state = mlp(make_request()).state_dict()
    assert {name: tuple(tensor.shape) for name, tensor in state.items() if name.endswith("weight")} == {
        "trunk.layers.0.weight": (16, 6 * 7 * 2 + 3 + 2),
        "trunk.layers.2.weight": (8, 16),
        "privileged.vector-privileged.layers.0.weight": (16, 4),
        "privileged.vector-privileged.layers.2.weight": (8, 16),
        "heads.policy.out.weight": (7, 8),
        "critic_heads.value.out.weight": (1, 8 + 8),
    }


@pytest.mark.parametrize(("shape", "is_advised"), [((84, 84, 3), True), ((19, 19, 17), False), ((84,), False)])
def test_mlp_advises_conv_for_images(shape, is_advised):
    """Boards and vectors are what it is made for."""
    space = spaces.Box(0, 255, shape, np.uint8)
    network = mlp(make_request(observation={"obs": space}))
    assert isinstance(network, AdvisedNetwork)
    assert ('network = "conv"' in network.advice()) == is_advised
    assert not conv(make_request(observation={"obs": spaces.Box(0, 255, (84, 84, 3), np.uint8)})).advice()


@BOTH
@pytest.mark.parametrize("activation", ["tanh", "relu", "leaky_relu"])
def test_activations(make, activation):
    """Every activation of the options works."""
    outputs, _ = make(make_request(), activation=activation)(sample(LEAVES), {}, {})
    assert torch.isfinite(outputs["policy"]).all()


def test_conv_without_an_image_raises():
    """The message lists the leaves and names the alternative."""
    with pytest.raises(ContractError, match=r"got clock \(3,\); use network 'mlp'"):
        conv(make_request(observation={"clock": LEAVES["clock"]}))


@pytest.mark.parametrize(("scale", "divisor"), [(True, 255.0), (False, 1.0)])
def test_conv_reads_images_channels_first_and_scaled(scale, divisor):
    """Channel-last bytes reach the convolutions as channel-first numbers, in [0, 1] with `scale`."""
    network, observation, inputs = conv(make_request(), scale=scale), sample(LEAVES), []
    tower = network.trunk.encoders["image-0"].tower
    tower.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
    network(observation, {}, {})
    for channel in range(2):
        torch.testing.assert_close(inputs[0][:, channel], observation["board"][..., channel] / divisor)


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_conv_accepts_any_kernel_and_stride(kernel, stride):
    """The hidden layers have the size of the last cells."""
    outputs, _ = conv(make_request(), kernel=kernel, stride=stride)(sample(LEAVES), {}, {})
    assert outputs["policy"].shape == (5, 7)


def test_conv_joins_several_images():
    """Each image leaf has its own convolutions."""
    leaves = {"near": spaces.Box(0, 1, (5, 5, 1), np.float32), "far": spaces.Box(-1, 1, (3, 4, 3), np.int8)}
    network = conv(make_request(observation=leaves))
    assert set(network.trunk.encoders) == {"image-0", "image-1"}
    assert network(sample(leaves), {}, {})[0]["policy"].shape == (5, 7)
