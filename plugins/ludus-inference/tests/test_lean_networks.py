"""The lean runtime equals torch on networks with entities, attention, recurrent cores, normalization and images."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus.environment import Role
from ludus.errors import ContractError, UnsupportedNetwork
from ludus.inference import Eager, Span
from ludus.network import NetworkRequest, RecurrentNetwork, get_weights
from ludus.testing import check_inference
from ludus_inference.lean import Lean
from ludus_networks.config import (
    AETConfig,
    AttentionPart,
    ConvConfig,
    EntityPart,
    HoKConfig,
    ImagePart,
    ModularConfig,
    VectorPart,
)
from ludus_networks.modular import make_modular
from ludus_networks.network import make_conv
from ludus_networks.presets import make_aet, make_hok
from torch import nn

UNITS = {
    "vector": spaces.Box(-1, 1, (5,), np.float32),
    "cards": spaces.MultiDiscrete([2, 4], start=[1, 0]),
    "units": spaces.Box(-1, 1, (4, 3), np.float32),
    "units_present": spaces.MultiBinary(4),
    "mates": spaces.Box(0, 255, (2, 3), np.uint8),
}
HIDDEN = {"ghosts": spaces.Box(-1, 1, (3, 2), np.float32), "ghosts_present": spaces.MultiBinary(3)}
IMAGE = {"image": spaces.Box(0, 255, (9, 7, 2), np.uint8), "vector": UNITS["vector"]}
UNIT_PART = EntityPart(leaf="units", present="units_present", hidden=(8, 6))
ATTENTION = AttentionPart(head="policy", label=1, plain=1, entities=("units",))


def make_request(leaves, privileged=None, labels=(3, 5)):
    """Return a request with a policy of several labels, another head, and a value."""
    return NetworkRequest(
        observation=leaves,
        privileged=privileged or {},
        heads={"policy": sum(labels), "other": 2},
        critic_heads={"value": 1},
        labels={"policy": labels},
    )


def random_leaves(leaves, rows, seed=0):
    """Return random leaves ``[rows, …]``; absent entities are NaN, and the first row has none."""
    drawn = {}
    for name, space in leaves.items():
        space.seed(seed)
        drawn[name] = np.stack([np.asarray(space.sample(), space.dtype) for _ in range(rows)])
    for name in [name for name in leaves if f"{name}_present" in leaves]:
        drawn[f"{name}_present"][0] = 0
        drawn[name][drawn[f"{name}_present"] == 0] = np.nan
    return drawn


def initial_state(network, rows):
    """Return the state of a network at the start; empty without one."""
    state = network.initial_state(rows) if isinstance(network, RecurrentNetwork) else {}
    return {name: leaf.numpy() for name, leaf in state.items()}


def assert_equal(found, expected):
    """Compare heads or state."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], array, atol=1e-5, rtol=0)


def assert_runtimes_equal(network, request):
    """Compare lean with torch for growing buffers, for several steps, with and without privileged leaves."""
    lean, eager = Lean(copy.deepcopy(network), request), Eager(network, request)
    for rows in (1, 9, 40, 2):
        for privileged in ({}, random_leaves(request.privileged, rows, rows)):
            state = found_state = initial_state(network, rows)
            for step in range(3 if state else 1):
                observation = random_leaves(request.observation, rows, rows + step)
                found = lean.run(observation, privileged=privileged, state=found_state)
                expected = eager.run(observation, privileged=privileged, state=state)
                assert np.isfinite(expected.heads["policy"]).all()
                assert_equal(found.heads, expected.heads)
                assert_equal(found.state, expected.state)
                found_state, state = found.state, expected.state  # lean reads the arrays that it overwrites


def make_network(request, *, seed=0, **options):
    """Return a modular network; its statistics are those of random rows, if it has any."""
    torch.manual_seed(seed)
    network = make_modular(ModularConfig(**{"torso": (7,), **options}), request=request)
    if options.get("normalize"):
        leaves = (random_leaves(group, 20, seed) for group in (request.observation, request.privileged))
        network.update_statistics(*({name: torch.from_numpy(leaf) for name, leaf in group.items()} for group in leaves))
    return network


@pytest.mark.parametrize("pool", ["max", "mean", "attention", "concat"])
@pytest.mark.parametrize("present", ["units_present", ""])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_pools_equal_torch(pool, present, activation):
    """With masks and without, and with negative features."""
    leaves = {name: space for name, space in UNITS.items() if present or name != "units_present"}
    request = make_request(leaves)
    part = EntityPart(leaf="units", present=present, hidden=(8, 6), pool=pool)
    assert_runtimes_equal(make_network(request, entities={"units": part}, activation=activation), request)


@pytest.mark.parametrize("plain", [0, 1])
@pytest.mark.parametrize("pool", ["max", "attention"])
@pytest.mark.parametrize("present", ["units_present", ""])
def test_keys_equal_torch(plain, pool, present):
    """Labels whose choices are entities, with and without plain choices, at the start of the head and behind it."""
    leaves = {name: space for name, space in UNITS.items() if present or name != "units_present"}
    request = make_request(leaves, labels=(4 + plain + 2, 3, 4))
    options = {
        "entities": {
            "units": EntityPart(leaf="units", present=present, hidden=(8, 6), pool=pool, key=4),
            "mates": EntityPart(leaf="mates", hidden=(5,), key=4),
        },
        "attention": (
            AttentionPart(head="policy", label=0, plain=plain, entities=("units", "mates")),
            AttentionPart(head="policy", label=2, entities=("units",)),
        ),
    }
    assert_runtimes_equal(make_network(request, **options), request)
    assert_runtimes_equal(make_network(request, **options, heads=(6,), critic_heads=(5,)), request)


def test_a_head_of_entities_only_equals_torch():
    """It has no layer for plain choices."""
    request = make_request(UNITS, labels=(4,))
    attention = (AttentionPart(head="policy", label=0, entities=("units",)),)
    part = EntityPart(leaf="units", present="units_present", hidden=(8, 6), key=4)
    assert_runtimes_equal(make_network(request, entities={"units": part}, attention=attention), request)


@pytest.mark.parametrize("core", ["none", "lstm", "gru"])
@pytest.mark.parametrize("separate_critic", [False, True])
@pytest.mark.parametrize("privileged", [{}, HIDDEN])
@pytest.mark.parametrize("normalize", [False, True])
def test_modular_networks_equal_torch(core, separate_critic, privileged, normalize):
    """Cores over several steps, critics with their own state, privileged entities, and running normalization."""
    request = make_request(UNITS, privileged)
    entities = {"units": EntityPart(leaf="units", present="units_present", hidden=(8, 6), key=4)}
    if privileged:
        entities["ghosts"] = EntityPart(leaf="ghosts", present="ghosts_present", hidden=(4,), pool="mean")
    options = {
        "vectors": {"cards": VectorPart(leaves=("vector", "cards"), hidden=(6,))},
        "entities": entities,
        "attention": (ATTENTION,),
        "core": core,
        "core_size": 6,
        "separate_critic": separate_critic,
        "normalize": normalize,
    }
    assert_runtimes_equal(make_network(request, **options), request)


def test_the_core_reads_the_only_features():
    """Without a torso, the core, a head and the joined features of critics read the same vectors."""
    request = make_request({"vector": UNITS["vector"]}, {"fog": spaces.Box(-1, 1, (4,), np.float32)})
    assert_runtimes_equal(make_network(request, torso=(), core="gru", core_size=5), request)


@pytest.mark.parametrize("kind", ["conv", "residual", "impala"])
@pytest.mark.parametrize("pool", ["mean", "max", "flatten", "grid"])
def test_images_equal_torch(kind, pool):
    """All kinds of towers and pools; one residual block has no shortcut layer."""
    request = make_request(IMAGE)
    part = ImagePart(leaf="image", kind=kind, channels=(4, 4), stride=(2, 1), pool=pool, cells=4, hidden=(5,))
    assert_runtimes_equal(make_network(request, images={"image": part}), request)


@pytest.mark.parametrize("activation", ["tanh", "leaky_relu"])
def test_activations_of_images_equal_torch(activation):
    """All activations, and images of floats that are not scaled."""
    request = make_request({"image": spaces.Box(-1, 1, (5, 6, 3), np.float32)})
    part = ImagePart(leaf="image", channels=(4, 4), stride=1)
    assert_runtimes_equal(make_network(request, images={"image": part}, activation=activation), request)


class CustomImages(nn.Module):
    """Plain layers of torch over an image."""

    def __init__(self, **options):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, **options), nn.ReLU(), nn.Flatten())
        self.policy = nn.LazyLinear(8)

    def forward(self, observation, privileged, state):
        image = observation["image"].permute(0, 3, 1, 2).float() / 255.0
        return {"policy": self.policy(self.layers(image))}, state


def make_custom_images(**options):
    """Return a request and a network."""
    request, network = make_request({"image": spaces.Box(0, 255, (8, 6, 3), np.uint8)}), CustomImages(**options)
    observation = random_leaves(request.observation, 4)
    network({"image": torch.from_numpy(observation["image"])}, {}, {})
    return request, network


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"padding": "valid", "dilation": 2}])
def test_layers_of_torch_over_images_equal_torch(options):
    """Convolutions with all of their options."""
    request, network = make_custom_images(**options)
    lean, eager = Lean(copy.deepcopy(network), request), Eager(network, request)
    observation = random_leaves(request.observation, 9)
    found, expected = (runtime.run(observation, privileged={}, state={}) for runtime in (lean, eager))
    assert_equal(found.heads, expected.heads)


def test_paddings_other_than_zeros_are_rejected():
    """No step computes them."""
    request, network = make_custom_images(padding=1, padding_mode="circular")
    with pytest.raises(UnsupportedNetwork, match=r"there is no step for .*Conv2d"):
        Lean(network, request)


def spans_of(runs):
    """Return the spans of slots with numbers of rows."""
    ends = np.cumsum([0, *(rows for _, rows in runs)]).tolist()
    return [Span(slot, *bounds) for (slot, _), bounds in zip(runs, pairwise(ends), strict=True)]


RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=6)
EVERYTHING = make_request({**UNITS, **IMAGE}, HIDDEN)
NETWORKS = [
    make_network(
        EVERYTHING,
        seed=seed,
        images={"image": ImagePart(leaf="image", channels=(3,), pool="grid", cells=4)},
        entities={
            "units": EntityPart(leaf="units", present="units_present", hidden=(8, 6), pool="attention", key=4),
            "ghosts": EntityPart(leaf="ghosts", present="ghosts_present", hidden=(4,)),
        },
        attention=(ATTENTION,),
        core="lstm",
        core_size=6,
        normalize=True,
    )
    for seed in range(4)
]


@settings(deadline=None, max_examples=20)
@given(RUNS, st.booleans())
def test_spans_equal_separate_runtimes(runs, with_privileged):
    """Every part with weights uses those of the slot, for any rows of each slot."""
    lean = Lean(copy.deepcopy(NETWORKS[3]), EVERYTHING)
    for slot, network in enumerate(NETWORKS):
        lean.load(get_weights(network), slot=slot)
    spans = spans_of(runs)
    rows = spans[-1].stop
    observation = random_leaves(EVERYTHING.observation, rows, rows)
    privileged = random_leaves(EVERYTHING.privileged, rows, rows) if with_privileged else {}
    rng = np.random.default_rng(rows)
    state = {name: rng.standard_normal((rows, 6), np.float32) for name in ("h", "c")}
    found = lean.run(observation, privileged=privileged, state=state, spans=spans)
    for slot, start, stop in spans:
        parts = [{n: leaf[start:stop] for n, leaf in group.items()} for group in (observation, privileged, state)]
        expected = Eager(NETWORKS[slot], EVERYTHING).run(parts[0], privileged=parts[1], state=parts[2])
        assert_equal({name: head[start:stop] for name, head in found.heads.items()}, expected.heads)
        assert_equal({name: leaf[start:stop] for name, leaf in found.state.items()}, expected.state)


def test_loading_a_slot_again_allocates_nothing():
    """Weights of all kinds are copied to the memory of the slot, and results follow them."""
    lean = Lean(copy.deepcopy(NETWORKS[0]), EVERYTHING)
    held = list(lean._weights[0])
    lean.load(get_weights(NETWORKS[1]))
    assert all(array is before for array, before in zip(lean._weights[0], held, strict=True))
    observation, state = random_leaves(EVERYTHING.observation, 5), initial_state(NETWORKS[1], 5)
    expected = Eager(NETWORKS[1], EVERYTHING).run(observation, privileged={}, state=state)
    assert_equal(lean.run(observation, privileged={}, state=state).heads, expected.heads)


def test_absent_entities_are_not_evaluated():
    """Their rows are not in the buffers of layers."""
    request = make_request(UNITS)
    lean = Lean(make_network(request, entities={"units": UNIT_PART}), request)
    observation = random_leaves(request.observation, 6)
    lean.run(observation, privileged={}, state={})
    counts = [step.count for step in lean._program.steps if hasattr(step, "count")]
    assert counts == [np.count_nonzero(observation["units_present"])]
    assert 0 < counts[0] < 24


def test_a_run_without_the_state_raises():
    """Callers must pass the initial state."""
    lean = Lean(copy.deepcopy(NETWORKS[0]), EVERYTHING)
    with pytest.raises(ContractError, match="recurrent"):
        lean.run(random_leaves(EVERYTHING.observation, 2), privileged={}, state={})


class Custom(nn.Module):
    """A layer for each unit, and a function of which units are present and their features ``[n, E, 6]``."""

    def __init__(self, function):
        super().__init__()
        self.layer, self.policy = nn.Linear(3, 6), nn.Linear(6, 8)
        self.function = function

    def forward(self, observation, privileged, state):
        mask = (observation["units_present"] != 0).unsqueeze(2)
        units = torch.where(mask, observation["units"].float(), 0.0)
        return {"policy": self.policy(self.function(mask, self.layer(units)))}, state


@pytest.mark.parametrize(
    "function",
    [
        lambda mask, units: torch.where(mask.any(1), units.masked_fill(~mask, -torch.inf).amax(1), 0.0),
        lambda mask, units: torch.where(mask, torch.relu(units), 0.0).sum(1),
        lambda mask, units: units.masked_fill(~mask, 0.0).sum(1) / mask.sum(1).clamp(min=1),
    ],
)
def test_custom_pools_equal_torch(function):
    """Layers may read entities without flattening them."""
    request, network = make_request(UNITS), Custom(function)
    lean, eager = Lean(copy.deepcopy(network), request), Eager(network, request)
    observation = random_leaves(request.observation, 9)
    found, expected = (runtime.run(observation, privileged={}, state={}) for runtime in (lean, eager))
    assert_equal(found.heads, expected.heads)


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (lambda mask, units: units.sum(1), "sum"),
        (lambda mask, units: units.mean(1), "mean"),
        (lambda mask, units: torch.where(mask, units, 0.0).amax(1), "amax"),
        (lambda mask, units: torch.where(mask, units, 1.0).sum(1), "sum"),
        (lambda mask, units: units.masked_fill(mask, 0.0).sum(1), "masked_fill"),
        (lambda mask, units: torch.where(~mask, units, 0.0).sum(1), "where"),
        (lambda mask, units: torch.where(mask, torch.tanh(torch.where(mask, units, 0.0)), 0.0).sum(0), "sum"),
    ],
)
def test_operations_that_read_absent_entities_are_rejected(function, operation):
    """Lean does not evaluate layers for absent entities, so that their features are unknown."""
    with pytest.raises(UnsupportedNetwork, match=f"there is no step for .*{operation}"):
        Lean(Custom(function), make_request(UNITS))


ROLE = Role(
    name="player",
    observation_space=spaces.Dict({**IMAGE, **UNITS}),
    privileged_space=spaces.Dict(HIDDEN),
    action_space=spaces.Discrete(2),
    teams=(0,),
)


@pytest.mark.parametrize(
    "build",
    [
        lambda request: make_hok(HoKConfig(target=-1, core_size=8, vector=(8,), units=(8,)), request=request),
        lambda request: make_hok(HoKConfig(target=-1, core="none", core_size=8, units=(8,)), request=request),
        lambda request: make_aet(AETConfig(channels=(4, 8), encoder=(8,), torso=(9,), heads=(7,)), request=request),
        lambda request: make_modular(
            ModularConfig(core="gru", core_size=8, separate_critic=True, entities={"units": UNIT_PART}), request=request
        ),
        lambda request: make_conv(ConvConfig(channels=(4,), hidden=(8,)), request=request),
    ],
    ids=["hok", "hok without a core", "aet", "modular", "conv"],
)
def test_lean_satisfies_the_contract(build):
    """Read-only leaves, slots, loading; two steps of recurrent networks."""
    check_inference(Lean, roles=[ROLE], build_network=build)


def test_the_presets_of_papers_equal_torch():
    """With their own sizes."""
    leaves = {**IMAGE, **UNITS}
    hok = HoKConfig(**HoKConfig.PRESETS["hok"], targets=("units",))
    request = make_request(leaves, HIDDEN, labels=(2, 2, 2, 2, 2, 4))
    assert_runtimes_equal(make_hok(hok, request=request), request)
    assert_runtimes_equal(make_aet(AETConfig(**AETConfig.PRESETS["aet"]), request=request), request)
