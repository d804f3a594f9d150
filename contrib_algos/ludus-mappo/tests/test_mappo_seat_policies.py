"""One policy per kind of seat: each row is evaluated and learned by its own network only."""

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
from ludus_mappo.seat_policies import make_seat_policies
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
    """Return policies with different weights."""
    torch.manual_seed(0)
    return make_seat_policies(REQUEST, build=lambda request: maker(request=request), leaf="seat")


def rows(*shape):
    """Return observations of rows with alternating kinds of seats, and these kinds."""
    seats = np.resize(np.arange(SEATS), shape[-1])
    seat = np.broadcast_to(np.eye(SEATS, dtype=np.float32)[seats], (*shape, SEATS)).copy()
    obs = np.random.default_rng(0).uniform(-1, 1, (*shape, 4)).astype(np.float32)
    return {"obs": torch.from_numpy(obs), "seat": torch.from_numpy(seat)}, seats


def select(observation, chosen):
    """Return some rows, the last but one axis of every leaf."""
    return {name: leaf[..., chosen, :] for name, leaf in observation.items()}


def test_each_row_is_evaluated_by_its_own_network():
    """Other rows have no influence."""
    network, (observation, seats) = build(mlp), rows(7)
    heads, _ = network(observation, {}, {})
    for seat, policy in enumerate(network.policies):
        alone, _ = policy(select(observation, seats == seat), {}, {})
        torch.testing.assert_close(heads["policy"][seats == seat], alone["policy"])


def test_a_multi_binary_leaf_identifies_seats():
    """As a Box does."""
    torch.manual_seed(0)
    request = attrs.evolve(REQUEST, observation={**REQUEST.observation, "seat": spaces.MultiBinary(SEATS)})
    bits = make_seat_policies(request, build=lambda wanted: mlp(request=wanted), leaf="seat")
    observation, _ = rows(7)
    expected, _ = build(mlp)(observation, {}, {})
    heads, _ = bits({**observation, "seat": observation["seat"].to(torch.int8)}, {}, {})
    torch.testing.assert_close(heads["policy"], expected["policy"])


def test_gradients_reach_only_the_network_of_the_seat():
    """Other policies do not change."""
    network, (observation, seats) = build(mlp), rows(7)
    heads, _ = network(observation, {}, {})
    heads["policy"][seats == 1].square().sum().backward()
    moved = [any(p.grad.abs().sum() > 0 for p in policy.parameters()) for policy in network.policies]
    assert moved == [False, True, False]


def test_each_row_has_the_state_of_its_own_network():
    """Unrolling gives the heads and states of stepping."""
    network, (observation, seats) = build(lstm), rows(4, 6)
    assert isinstance(network, RecurrentNetwork)
    state, starts = network.initial_state(6), torch.zeros(4, 6, dtype=torch.bool)
    heads, after = network.unroll(observation, {}, state, starts=starts)
    for seat, policy in enumerate(network.policies):
        mine = {name: leaf[seats == seat] for name, leaf in state.items()}
        alone, left = policy.unroll(select(observation, seats == seat), {}, mine, starts=starts[:, seats == seat])
        torch.testing.assert_close(heads["policy"][:, seats == seat], alone["policy"])
        for name, leaf in left.items():
            torch.testing.assert_close(after[name][seats == seat], leaf)
    for step in range(4):
        one, state = network({name: leaf[step] for name, leaf in observation.items()}, {}, state)
        torch.testing.assert_close(one["policy"], heads["policy"][step])


@pytest.mark.parametrize("leaf", ["id", "obs2"])
def test_a_leaf_must_identify_the_kind_of_seat(leaf):
    """The message names the leaf and what to do."""
    with pytest.raises(ContractError, match=f"leaf '{leaf}' that identifies the kind.*obs, seat — set seat_leaf"):
        make_seat_policies(REQUEST, build=lambda request: mlp(request=request), leaf=leaf)


ROLE = Role(
    name="mouse",
    observation_space=spaces.Dict(REQUEST.observation),
    action_space=spaces.Discrete(4),
    teams=(0,) * SEATS,
    privileged_space=spaces.Dict({"all": spaces.Box(-1, 1, (9,), np.float32)}),
)


@pytest.mark.parametrize("maker", [mlp, lstm], ids=["mlp", "lstm"])
def test_the_algorithm_keeps_its_contract(maker):
    """With one policy per seat and one global critic, recurrent or not."""

    def make(context):
        own = attrs.evolve(context, build_network=lambda request: maker(request=request))
        return make_mappo(MAPPOConfig(share_policy=False), context=own)

    check_algorithm(make, roles=[ROLE])


def test_each_network_counts_its_own_rows():
    """Rows of other seats do not enter its statistics."""
    network = build(partial(make_modular, ModularConfig(torso=(8,), normalize=True)))
    observation, seats = rows(7)
    observation["obs"] += torch.from_numpy(seats[:, None]).float()
    network.update_statistics(observation, {})
    for seat, policy in enumerate(network.policies):
        mine = observation["obs"][seats == seat]
        assert policy.trunk.encoders["rest"].norm.count == len(mine)
        torch.testing.assert_close(policy.trunk.encoders["rest"].norm.mean[:4], mine.mean(0))
