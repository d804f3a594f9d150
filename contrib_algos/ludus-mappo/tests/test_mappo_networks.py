"""Two separate networks with the interface of one: names, runtimes, recurrent states."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.inference import Eager
from ludus.network import NetworkRequest, RecurrentNetwork
from ludus.testing import check_inference
from ludus_inference.lean import Lean
from ludus_mappo.networks import separate_networks
from ludus_networks.config import DISConfig, MLPConfig, ModularConfig
from ludus_networks.modular import make_modular
from ludus_networks.network import make_mlp
from ludus_networks.presets import make_dis
from torch import nn


def mlp(request):
    """Make a network of one hidden layer."""
    return make_mlp(MLPConfig(hidden=(8,)), request=request)


def recurrent(request):
    """Make a recurrent network."""
    return make_modular(ModularConfig(torso=(8,), core="gru", core_size=4), request=request)


def dis(request):
    """Make the network of DIS."""
    return make_dis(DISConfig(shared=(8,), heads=(8,)), request=request)


REQUEST = NetworkRequest(
    observation={"obs": spaces.Box(-1, 1, (3,), np.float32)},
    privileged={"all": spaces.Box(-1, 1, (2,), np.float32)},
    heads={"policy": 4},
    critic_heads={"value": 1},
    labels={"policy": (4,)},
)


def leaves(*shape):
    """Return observation and privileged leaves."""
    torch.manual_seed(0)
    return {"obs": torch.randn(*shape, 3)}, {"all": torch.randn(*shape, 2)}


@pytest.mark.parametrize("build", [mlp, dis])
def test_weights_are_named_after_their_network(build):
    """Models are stored by these names, which must not change."""
    names = set(separate_networks(REQUEST, build=build).state_dict())
    assert {name.partition(".")[0] for name in names} == {"policy", "critic"}
    assert "policy.heads.value.out.weight" not in names
    if build is mlp:
        assert {
            "policy.trunk.layers.0.weight",
            "policy.heads.policy.out.bias",
            "critic.critic_heads.value.out.bias",
        } <= names


@pytest.mark.parametrize("build", [mlp, dis])
def test_values_need_privileged_leaves(build):
    """The policy does not."""
    network = separate_networks(REQUEST, build=build)
    observation, privileged = leaves(5)
    full, _ = network(observation, privileged, {})
    partial, _ = network(observation, {}, {})
    assert full.keys() == {"policy", "value"}
    assert partial.keys() == {"policy"}
    torch.testing.assert_close(full["policy"], partial["policy"])


class Recorder(nn.Module):
    """Returns zeros for the requested heads and records the names of its inputs."""

    def __init__(self, request):
        super().__init__()
        self.requested = {**request.heads, **request.critic_heads}
        self.inputs = set()

    def forward(self, observation, privileged, state):
        """Return zeros."""
        self.inputs = {*observation, *privileged, *state}
        return {name: torch.zeros(len(observation["obs"]), size) for name, size in self.requested.items()}, state


@pytest.mark.parametrize("is_global", [True, False])
def test_networks_get_only_their_inputs(is_global):
    """The policy never gets privileged leaves; a local critic neither, even if samplers pass them."""
    request = REQUEST if is_global else attrs.evolve(REQUEST, privileged={})
    network = separate_networks(request, build=Recorder)
    network(*leaves(2), {})
    assert network.policy.inputs == {"obs"}
    assert network.critic.inputs == ({"obs", "all"} if is_global else {"obs"})
    assert (network.policy.requested, network.critic.requested) == ({"policy": 4}, {"value": 1})


@pytest.mark.parametrize("runtime", [Eager, Lean])
def test_inference_runtimes_run_it(runtime):
    """Eager and lean."""
    check_inference(runtime, build_network=lambda request: separate_networks(request, build=mlp))


def test_networks_have_separate_states():
    """Unrolling gives the heads and states of stepping."""
    network = separate_networks(REQUEST, build=recurrent)
    assert isinstance(network, RecurrentNetwork)
    observation, privileged = leaves(5, 2)
    starts = torch.zeros(5, 2, dtype=torch.bool)
    starts[3, 1] = True
    start = state = network.initial_state(2)
    assert {name.partition(".")[0] for name in start} == {"policy", "critic"}
    with torch.no_grad():
        unrolled, last = network.unroll(observation, privileged, start, starts=starts)
        for t in range(5):
            state = {name: torch.where(starts[t][:, None], start[name], leaf) for name, leaf in state.items()}
            heads, state = network({"obs": observation["obs"][t]}, {"all": privileged["all"][t]}, state)
            for name, head in heads.items():
                torch.testing.assert_close(unrolled[name][t], head)
    torch.testing.assert_close(last, state)


def test_the_critic_keeps_its_state_without_privileged_leaves():
    """Only the state of the policy changes."""
    network = separate_networks(REQUEST, build=recurrent)
    observation, privileged = leaves(2)
    with torch.no_grad():
        _, observed = network(observation, privileged, network.initial_state(2))
        heads, after = network(observation, {}, observed)
    assert heads.keys() == {"policy"}
    changed = {name: not torch.equal(after[name], observed[name]) for name in observed}
    assert all(moved == name.startswith("policy.") for name, moved in changed.items())


def test_networks_without_recurrence_are_not_recurrent():
    """Otherwise every batch would have to carry states."""
    assert not isinstance(separate_networks(REQUEST, build=mlp), RecurrentNetwork)


@pytest.mark.parametrize("core", ["none", "gru"])
def test_policy_and_critic_count_what_they_read(core):
    """Only the critic counts privileged leaves."""
    config = ModularConfig(torso=(8,), core=core, core_size=4, normalize=True)
    network = separate_networks(REQUEST, build=lambda request: make_modular(config, request=request))
    observation, privileged = leaves(9)
    network.update_statistics(observation, privileged)
    found = {name: buffer for name, buffer in network.named_buffers() if name.endswith("norm.mean")}
    assert len(found) == 3
    for name, mean in found.items():
        read = privileged["all"] if name.startswith("critic.privileged") else observation["obs"]
        torch.testing.assert_close(mean, read.mean(0))


def test_without_privileged_leaves_the_critic_counts_observations():
    """As a local critic does, even if the role has privileged leaves."""
    request = attrs.evolve(REQUEST, privileged={})
    config = ModularConfig(torso=(8,), normalize=True)
    network = separate_networks(request, build=lambda request: make_modular(config, request=request))
    observation, privileged = leaves(9)
    network.update_statistics(observation, privileged)
    counts = [float(buffer) for name, buffer in network.named_buffers() if name.endswith("norm.count")]
    assert counts == [9, 9]
