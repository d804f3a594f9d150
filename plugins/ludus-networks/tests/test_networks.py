"""Networks: heads, privileged leaves, initialisation, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import ContractError
from ludus.network import NetworkRequest
from ludus_networks.config import ConvConfig, MLPConfig
from ludus_networks.network import make_conv, make_mlp
from ludus_networks.plugin import ludus_register_networks

LEAVES = {
    "board": spaces.Box(0, 255, (6, 7, 2), np.uint8),
    "clock": spaces.Box(-1, 1, (3,), np.float32),
    "turn": spaces.Discrete(2),
}
HIDDEN = {"fog": spaces.Box(-1, 1, (4,), np.float32)}


def mlp(request, **options):
    """Make a small perceptron."""
    return make_mlp(MLPConfig(**{"hidden": (16, 8)} | options), request=request)


def conv(request, **options):
    """Make a small convolutional network."""
    return make_conv(ConvConfig(**{"channels": (4, 4), "hidden": (8,)} | options), request=request)


def ask(**changes) -> NetworkRequest:
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
    """Draw rows of every leaf."""
    drawn = {}
    for name, space in leaves.items():
        space.seed(seed)
        drawn[name] = torch.from_numpy(np.stack([np.asarray(space.sample()) for _ in range(rows)]))
    return drawn


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


BOTH = pytest.mark.parametrize("make", [mlp, conv])


@BOTH
@pytest.mark.parametrize("separate_critic", [False, True])
def test_heads_have_the_sizes_asked_for(make, separate_critic):
    """Every head gives float32 rows of its size, and the state stays empty."""
    outputs, state = make(ask(), separate_critic=separate_critic)(sample(LEAVES), sample(HIDDEN), {})
    assert {name: tuple(out.shape) for name, out in outputs.items()} == {"policy": (5, 7), "value": (5, 1)}
    assert all(out.dtype == torch.float32 for out in outputs.values())
    assert state == {}


@BOTH
def test_critic_heads_are_left_out_without_privileged_leaves(make):
    """Where privileged leaves were promised and are missing, only the other heads answer."""
    outputs, _ = make(ask())(sample(LEAVES), {}, {})
    assert set(outputs) == {"policy"}


@BOTH
def test_critic_heads_answer_where_nothing_is_privileged(make):
    """Without privileged leaves in the request the critic reads the observation alone."""
    outputs, _ = make(ask(privileged={}))(sample(LEAVES), {}, {})
    assert set(outputs) == {"policy", "value"}


@BOTH
@pytest.mark.parametrize("separate_critic", [False, True])
def test_privileged_leaves_reach_critic_heads_only(make, separate_critic):
    """Hidden information moves the value, never the policy, forwards or backwards."""
    network = make(ask(), separate_critic=separate_critic)
    observation, hidden = sample(LEAVES), sample(HIDDEN)
    hidden["fog"].requires_grad_()
    outputs, _ = network(observation, hidden, {})
    assert not torch.autograd.grad(outputs["policy"].sum(), hidden["fog"], allow_unused=True, retain_graph=True)[0]
    assert (torch.autograd.grad(outputs["value"].sum(), hidden["fog"])[0] != 0).any()


@BOTH
def test_a_separate_critic_shares_nothing(make):
    """With `separate_critic` the value sends no gradient into the policy's layers; without, it does."""
    for separate in (True, False):
        network = make(ask(), separate_critic=separate)
        network(sample(LEAVES), sample(HIDDEN), {})[0]["value"].sum().backward()
        gradients = [parameter.grad for parameter in network.torso.parameters()]
        assert all(gradient is None for gradient in gradients) is separate


@BOTH
def test_every_leaf_matters(make):
    """Changing any one observation leaf changes the outputs."""
    network, observation = make(ask(head_gain={})), sample(LEAVES)
    before = network(observation, {}, {})[0]["policy"]
    for name, leaf in observation.items():
        changed = 1 - leaf if name == "turn" else leaf.flip(0)
        assert (network(observation | {name: changed}, {}, {})[0]["policy"] != before).any(), name


@BOTH
def test_rows_do_not_mix(make):
    """A row's outputs do not depend on the other rows."""
    network, observation = make(ask()), sample(LEAVES)
    whole = network(observation, {}, {})[0]["policy"]
    part = network({name: leaf[1:2] for name, leaf in observation.items()}, {}, {})[0]["policy"]
    torch.testing.assert_close(whole[1:2], part)


def test_head_layers_have_the_gain_asked_for():
    """Head weights are orthogonal: rows of a head have the length of its gain, 1 by default; biases are 0."""
    network = mlp(ask())
    policy, value = network.heads["policy"], network.critic_heads["value"]
    torch.testing.assert_close(policy.weight.norm(dim=1), torch.full((7,), 0.01))
    torch.testing.assert_close(value.weight.norm(dim=1), torch.ones(1))
    assert (policy.bias == 0).all()


@pytest.mark.parametrize("activation", ["tanh", "relu", "leaky_relu"])
def test_activations(activation):
    """Every activation offered works in both networks."""
    for make in (mlp, conv):
        assert torch.isfinite(make(ask(), activation=activation)(sample(LEAVES), {}, {})[0]["policy"]).all()


def test_conv_needs_an_image():
    """The message shows what there is and names the alternative."""
    with pytest.raises(ContractError, match=r"got clock \(3,\); use network 'mlp'"):
        conv(ask(observation={"clock": LEAVES["clock"]}))


@pytest.mark.parametrize(("scale", "largest"), [(True, 255.0), (False, 1.0)])
def test_convolutions_see_channels_first_and_scaled(scale, largest):
    """The channel-last bytes of a leaf reach the convolutions as channel-first numbers in [0, 1]."""
    network, observation, seen = conv(ask(), scale=scale), sample(LEAVES), []
    network.torso.towers[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    network(observation, {}, {})
    for channel in range(2):
        torch.testing.assert_close(seen[0][:, channel], observation["board"][..., channel] / largest)


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (2, 1), (3, 2), (4, 3)])
def test_conv_sizes_add_up(kernel, stride):
    """The hidden layers fit whatever kernels and strides give."""
    outputs, _ = conv(ask(), kernel=kernel, stride=stride)(sample(LEAVES), {}, {})
    assert outputs["policy"].shape == (5, 7)


def test_conv_joins_several_images():
    """Each image leaf has its own convolutions."""
    leaves = {"near": spaces.Box(0, 1, (5, 5, 1), np.float32), "far": spaces.Box(-1, 1, (3, 4, 3), np.int8)}
    outputs, _ = conv(ask(observation=leaves))(sample(leaves), {}, {})
    assert outputs["policy"].shape == (5, 7)


@pytest.mark.parametrize("index", [0, 1])
def test_registered_components_load(index):
    """Factories and configuration classes are where the plugin says."""
    component = ludus_register_networks()[index]
    network = component.load_factory()(component.load_config()(), request=ask())
    assert network(sample(LEAVES), sample(HIDDEN), {})[0]["value"].shape == (5, 1)
