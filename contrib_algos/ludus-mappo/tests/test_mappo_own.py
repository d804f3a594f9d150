"""Policies of their own: each row is decided for, and learned from, by its own network alone."""

from __future__ import annotations

from functools import partial

import attrs
import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import ContractError, Role
from ludus.network import NetworkRequest, RecurrentNetwork
from ludus.testing import check_algorithm
from ludus_mappo.algorithm import make_mappo
from ludus_mappo.config import MAPPOConfig
from ludus_mappo.own import own_policies
from ludus_networks.config import MLPConfig, ModularConfig
from ludus_networks.modular import make_modular
from ludus_networks.network import make_mlp

SEATS = 3
REQUEST = NetworkRequest(
    observation={"obs": spaces.Box(-1, 1, (4,), np.float32), "seat": spaces.Box(0, 1, (SEATS,), np.float32)},
    heads={"policy": 5},
)
mlp = partial(make_mlp, MLPConfig(hidden=(8,)))
lstm = partial(make_modular, ModularConfig(torso=(8,), core="lstm", core_size=6))


def build(maker):
    """Return own policies that differ from each other."""
    torch.manual_seed(0)
    return own_policies(REQUEST, build=lambda request: maker(request=request), leaf="seat")


def rows(*shape):
    """Return observations of rows whose seats take turns, and whose they are."""
    whose = np.resize(np.arange(SEATS), shape[-1])
    seat = np.broadcast_to(np.eye(SEATS, dtype=np.float32)[whose], (*shape, SEATS)).copy()
    obs = np.random.default_rng(0).uniform(-1, 1, (*shape, 4)).astype(np.float32)
    return {"obs": torch.from_numpy(obs), "seat": torch.from_numpy(seat)}, whose


def of(observation, chosen):
    """Return some rows, the last but one axis of every leaf."""
    return {name: leaf[..., chosen, :] for name, leaf in observation.items()}


def test_each_row_is_decided_for_by_its_own_network():
    """As if only those rows were there."""
    network, (observation, whose) = build(mlp), rows(7)
    heads, _ = network(observation, {}, {})
    for seat, policy in enumerate(network.policies):
        alone, _ = policy(of(observation, whose == seat), {}, {})
        torch.testing.assert_close(heads["policy"][whose == seat], alone["policy"])


def test_bits_tell_seats_apart_too():
    """A leaf of zeros and ones decides as one of numbers does."""
    torch.manual_seed(0)
    request = attrs.evolve(REQUEST, observation={**REQUEST.observation, "seat": spaces.MultiBinary(SEATS)})
    bits = own_policies(request, build=lambda wanted: mlp(request=wanted), leaf="seat")
    observation, _ = rows(7)
    expected, _ = build(mlp)(observation, {}, {})
    heads, _ = bits({**observation, "seat": observation["seat"].to(torch.int8)}, {}, {})
    torch.testing.assert_close(heads["policy"], expected["policy"])


def test_gradients_reach_the_own_network_alone():
    """What one seat learns changes nobody else."""
    network, (observation, whose) = build(mlp), rows(7)
    heads, _ = network(observation, {}, {})
    heads["policy"][whose == 1].square().sum().backward()
    moved = [any(p.grad.abs().sum() > 0 for p in policy.parameters()) for policy in network.policies]
    assert moved == [False, True, False]


def test_memories_are_their_own():
    """Unrolling gives every row the heads and the state of its own network, as stepping does."""
    network, (observation, whose) = build(lstm), rows(4, 6)
    assert isinstance(network, RecurrentNetwork)
    state, starts = network.initial_state(6), torch.zeros(4, 6, dtype=torch.bool)
    heads, after = network.unroll(observation, {}, state, starts=starts)
    for seat, policy in enumerate(network.policies):
        mine = {name: leaf[whose == seat] for name, leaf in state.items()}
        alone, left = policy.unroll(of(observation, whose == seat), {}, mine, starts=starts[:, whose == seat])
        torch.testing.assert_close(heads["policy"][:, whose == seat], alone["policy"])
        for name, leaf in left.items():
            torch.testing.assert_close(after[name][whose == seat], leaf)
    for step in range(4):
        one, state = network({name: leaf[step] for name, leaf in observation.items()}, {}, state)
        torch.testing.assert_close(one["policy"], heads["policy"][step])


@pytest.mark.parametrize("leaf", ["who", "obs2"])
def test_seats_must_be_told_apart(leaf):
    """The message names the leaf and what to do."""
    with pytest.raises(ContractError, match=f"leaf '{leaf}' that tells seats apart.*obs, seat — set seat_leaf"):
        own_policies(REQUEST, build=lambda request: mlp(request=request), leaf=leaf)


ROLE = Role(
    name="mouse",
    observation_space=spaces.Dict(REQUEST.observation),
    action_space=spaces.Discrete(4),
    teams=(0,) * SEATS,
    privileged_space=spaces.Dict({"all": spaces.Box(-1, 1, (9,), np.float32)}),
)


@pytest.mark.parametrize("maker", [mlp, lstm], ids=["mlp", "lstm"])
def test_the_algorithm_keeps_its_contract(maker):
    """With own policies and one global critic, with and without memory."""

    def make(context):
        own = attrs.evolve(context, build_network=lambda request: maker(request=request))
        return make_mappo(MAPPOConfig(share_policy=False), context=own)

    check_algorithm(make, roles=[ROLE])


def test_each_network_counts_its_own_rows():
    """What others see moves no statistics that it normalises by."""
    network = build(partial(make_modular, ModularConfig(torso=(8,), normalize=True)))
    observation, whose = rows(7)
    observation["obs"] += torch.from_numpy(whose[:, None]).float()
    network.update_statistics(observation, {})
    for seat, policy in enumerate(network.policies):
        mine = observation["obs"][whose == seat]
        assert policy.trunk.encoders["rest"].norm.count == len(mine)
        torch.testing.assert_close(policy.trunk.encoders["rest"].norm.mean[:4], mine.mean(0))
