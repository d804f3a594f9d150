"""Tests of the networks of papers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import ConfigError, ContractError
from ludus.network import NetworkRequest, RecurrentNetwork
from ludus.testing import check_run
from ludus_networks import describe
from ludus_networks.config import AETConfig, DISConfig, HoKConfig, ImagePart, VectorPart
from ludus_networks.description import count_parameters
from ludus_networks.plugin import ludus_register_networks
from ludus_networks.presets import AETInputs, aet_options, hok_options, make_aet, make_dis, make_hok

BOX = spaces.Box(-1, 1, (3,), np.float32)


def make_units(count):
    """Return the space of a leaf of units."""
    return spaces.Box(-1, 1, (count, 6), np.float32)


MOBA = NetworkRequest(
    observation={
        "map": spaces.Box(0, 1, (6, 6, 2), np.float32),
        "heroes": make_units(2),
        "heroes_present": spaces.MultiBinary(2),
        "minions": make_units(4),
        "minions_present": spaces.MultiBinary(4),
        "game.clock": BOX,
    },
    privileged={"fog": BOX, "hidden": make_units(3), "hidden_present": spaces.MultiBinary(3)},
    heads={"policy": 3 + 5 + 5 + 5 + 5 + 7},
    critic_heads={"value": 1},
    labels={"policy": (3, 5, 5, 5, 5, 7)},
)
SMALL = {"channels": (4,), "units": (8, 8), "key": 4, "vector": (8,), "torso": (8,), "core_size": 8}


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def sample(leaves, rows):
    """Return random rows of every leaf."""
    tensors = {}
    for name, space in leaves.items():
        space.seed(0)
        tensors[name] = torch.from_numpy(np.stack([np.asarray(space.sample()) for _ in range(rows)]))
    return tensors


def run(network, request, rows=3):
    """Return the outputs of a network for random rows."""
    state = network.initial_state(rows) if isinstance(network, RecurrentNetwork) else {}
    return network.eval()(sample(request.observation, rows), sample(request.privileged, rows), state)[0]


# -- AET -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "paper"), [("cat", 4.37e6), ("mouse", 4.89e6)])
def test_aet_has_the_number_of_parameters_of_the_paper(side, paper):
    """Within one percent, with the assumed input sizes; 1,280 features enter the torso as in table 3."""
    inputs = AETInputs()
    network = make_aet(AETConfig(concat=inputs.concat_leaves(side)), request=inputs.request(side))
    assert count_parameters(network) == pytest.approx(paper, rel=0.01)
    assert network.trunk.layers[0].weight.shape == (1024, 1280)


def test_aet_layers_have_the_sizes_of_the_paper():
    """Counted by hand from table 3: blocks, Mid-MLP, policy and value."""
    inputs = AETInputs()
    network = make_aet(AETConfig(concat=("mates",)), request=inputs.request("mouse"))
    blocks = sum(9 * a * b + b + 9 * b * b + b + a * b + b for a, b in ((8, 32), (32, 64), (64, 128)))
    assert count_parameters(network.trunk.encoders["image-image"]) == blocks
    assert count_parameters(network.trunk.encoders["vector-active"]) == 385 * 256 + 257 * 128
    assert count_parameters(network.trunk.layers) == 1281 * 1024
    assert count_parameters(network.heads) == 1025 * 512 + 513 * 256 + 257 * 34
    assert count_parameters(network.critic_heads) == (1024 + 128 + 1) * 512 + 513 * 256 + 257
    assert count_parameters(network.privileged) == 513 * 256 + 257 * 128


def test_aet_has_an_encoder_for_each_leaf():
    """Images by shape, entities by their mask, all others vectors; privileged leaves too."""
    parts = aet_options(AETConfig(), MOBA)
    assert parts.images == {"map": ImagePart(leaf="map", channels=(32, 64, 128))}
    assert {name: (part.leaf, part.present, part.pool) for name, part in parts.entities.items()} == {
        "heroes": ("heroes", "heroes_present", "max"),
        "minions": ("minions", "minions_present", "max"),
        "hidden": ("hidden", "hidden_present", "max"),
    }
    assert parts.vectors == {"game-clock": VectorPart(leaves=("game.clock",)), "fog": VectorPart(leaves=("fog",))}


def test_aet_outputs():
    """With entities that are concatenated."""
    network = make_aet(AETConfig(channels=(4,), encoder=(8,), torso=(), heads=(8,), concat=("minions",)), request=MOBA)
    assert {name: output.shape for name, output in run(network, MOBA).items()} == {"policy": (3, 30), "value": (3, 1)}
    assert network.trunk.encoders["entity-minions"].width == 4 * 8


def test_aet_raises_for_a_leaf_without_entities():
    """The message lists the leaves of entities."""
    with pytest.raises(ContractError, match=r"network 'aet': concat: .*\(heroes, minions, hidden\), got 'mates'"):
        make_aet(AETConfig(concat=("mates",)), request=MOBA)


# -- DIS -----------------------------------------------------------------------------------------------------------


def linear_layers(module):
    """Return all linear layers."""
    return [part for part in module.modules() if isinstance(part, torch.nn.Linear)]


@pytest.mark.parametrize("separate_critic", [False, True])
def test_dis_has_six_dense_layers(separate_critic):
    """From observation to policy and to value; the first three are shared, or none."""
    request = NetworkRequest(observation={"obs": BOX}, heads={"policy": 19}, critic_heads={"value": 1})
    network = make_dis(DISConfig(separate_critic=separate_critic), request=request)
    assert len(linear_layers(network.trunk)) + len(linear_layers(network.heads)) == 6
    critic = network.critic_trunk if separate_critic else network.trunk
    assert len(linear_layers(critic)) + len(linear_layers(network.critic_heads)) == 6
    assert (network.critic_trunk is None) is not separate_critic
    activations = [part for part in network.modules() if isinstance(part, torch.nn.LeakyReLU)]
    assert len(activations) == len(linear_layers(network)) - 2  # none behind the last ones
    assert run(network, request)["policy"].shape == (3, 19)


# -- HoK -----------------------------------------------------------------------------------------------------------


def test_hok_has_the_parts_of_the_paper():
    """Convolutions, units by type with keys, an LSTM, and attention for the sixth label."""
    parts = hok_options(HoKConfig(plain=1), MOBA)
    assert parts.images["map"].kind == "conv"
    assert {name: part.key for name, part in parts.entities.items()} == {"heroes": 32, "minions": 32, "hidden": 0}
    assert parts.core == "lstm"
    (attention,) = parts.attention
    assert (attention.head, attention.label, attention.entities, attention.plain) == (
        "policy",
        5,
        ("heroes", "minions"),
        1,
    )


def test_hok_chooses_targets_among_present_units():
    """The last label's choices: none, two heroes, four minions."""
    network = make_hok(HoKConfig(**SMALL, plain=1), request=MOBA)
    observation = sample(MOBA.observation, 20)
    heads, state = network.eval()(observation, {}, network.initial_state(20))
    is_present = torch.cat([observation["heroes_present"], observation["minions_present"]], dim=1).bool()
    assert ((heads["policy"][:, 24:].softmax(1) > 0) == is_present).all()
    assert set(state) == {"h", "c"}


def test_hok_uses_the_targets_of_the_options():
    """In their order; a leaf without a mask is a leaf of entities if it is named."""
    request = NetworkRequest(observation={"a": make_units(2), "b": make_units(3)}, heads={"q": 5}, labels={"q": (5,)})
    config = HoKConfig(**SMALL, target=0, targets=("b", "a"))
    assert hok_options(config, request).attention[0].entities == ("b", "a")
    assert run(make_hok(config, request=request), request)["q"].shape == (3, 5)


def test_hok_without_a_target_has_no_queries():
    """For games without target labels."""
    network = make_hok(HoKConfig(**SMALL, target=-1), request=MOBA)
    assert run(network, MOBA)["policy"].shape == (3, 30)
    assert not network.heads["policy"].queries


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "has 7 choices, but 0 plain and 2 [+] 4 entities make 6"),
        ({"target": 6}, "has the labels 0 to 5, got 6"),
        ({"targets": ("cats",)}, r"targets: expected leaves of shape \(entities, features\) .*, got 'cats'"),
    ],
)
def test_hok_option_that_does_not_fit_raises(options, problem):
    """One line that names the network."""
    with pytest.raises(ContractError, match=f"^network 'hok': .*{problem}"):
        make_hok(HoKConfig(**SMALL, **options), request=MOBA)


def test_hok_without_entities_raises():
    """The message begins with the option and names the value to set."""
    request = NetworkRequest(observation={"obs": BOX}, heads={"policy": 4}, critic_heads={"value": 1})
    with pytest.raises(ConfigError, match=r"^target: expected a leaf of shape .* set target = -1"):
        make_hok(HoKConfig(**SMALL), request=request)


# -- all -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("component", ludus_register_networks(), ids=lambda component: component.name)
def test_registered_networks_load(component):
    """With default options, on a role with a vector, an image and privileged leaves."""
    request = NetworkRequest(
        observation={"obs": BOX, "map": MOBA.observation["map"]},
        privileged={"fog": BOX},
        heads={"policy": 4},
        critic_heads={"value": 1},
    )
    config = component.load_config()(**({"target": -1} if component.name == "hok" else {}))
    network = component.load_factory()(config, request=request)
    assert {name: output.shape for name, output in run(network, request).items()} == {"policy": (3, 4), "value": (3, 1)}


def test_describe_lists_parts_and_their_parameters():
    """Down to the requested depth; the first line is the sum."""
    network = make_hok(HoKConfig(**SMALL, plain=1), request=MOBA)
    lines = describe(network, depth=9).splitlines()
    assert lines[0].split() == ["all", f"{count_parameters(network):,}"]
    assert any(line.split() == ["core", "576", "lstm", "8", "→", "8"] for line in lines)
    assert any(line.split() == ["out", "216", "linear", "8", "→", "24"] for line in lines)
    assert any("convolution 3 by 3, 2 → 4" in line for line in lines)
    assert len(describe(network, depth=1).splitlines()) == 5  # all, trunk, privileged, heads, critic heads


def test_importing_the_package_does_not_import_torch():
    """`describe` imports it when called."""
    import subprocess
    import sys

    code = "import sys, ludus_networks; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- parameters ----------------------------------------------------------------------------------------------------

CONNECT4 = """
environment.name = "connect4"
players.main = { algorithm = "ppo", network = "mlp", mlp = { preset = "minimax" }, matchmaker = "latest-self-play" }
"""


def test_check_prints_parameters_and_inputs(tmp_path):
    """A board of 6 by 7 by 2 cells, two layers of 512, 7 actions and a value."""
    path = tmp_path / "run.toml"
    path.write_text(CONNECT4)
    trunk = 84 * 512 + 512 + 512 * 512 + 512
    heads, critic_heads = 512 * 7 + 7, 512 + 1
    expected = (
        f"network 'mlp': {trunk + heads + critic_heads:,} parameters for 84 inputs "
        f"(trunk {trunk:,}, heads {heads:,}, critic_heads {critic_heads:,})"
    )
    assert expected in [finding.text for finding in check_run(path)]
