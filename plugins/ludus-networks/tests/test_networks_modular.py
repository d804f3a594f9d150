"""Tests of the network ``modular``."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import ContractError
from ludus.inference import Eager, Span
from ludus.network import LazyLeaves, NetworkRequest, RecurrentNetwork, get_weights, set_weights
from ludus_networks.config import AttentionPart, EntityPart, ImagePart, ModularConfig, VectorPart
from ludus_networks.modular import make_modular

LEAVES = {
    "map": spaces.Box(0, 255, (8, 6, 2), np.uint8),
    "hero": spaces.Box(-5, 5, (3,), np.float32),
    "mice": spaces.Box(-5, 5, (4, 3), np.float32),
    "mice_present": spaces.MultiBinary(4),
    "turn": spaces.Discrete(2),
}
FOG = {"fog": spaces.Box(-1, 1, (4,), np.float32)}
FULL = ModularConfig(
    vectors={"hero": VectorPart(leaves=("hero",), hidden=(6,)), "unseen": VectorPart(leaves=("fog",), hidden=(5,))},
    images={"map": ImagePart(leaf="map", channels=(3, 4))},
    entities={"mice": EntityPart(leaf="mice", present="mice_present", hidden=(6, 5), key=3)},
    attention=(AttentionPart(label=1, entities=("mice",), plain=1),),
    torso=(12,),
    core_size=7,
    heads=(9,),
    critic_heads=(8,),
)
REQUEST = NetworkRequest(
    observation=LEAVES,
    privileged=FOG,
    heads={"policy": 7, "other": 2},
    critic_heads={"value": 1},
    head_gain={"policy": 0.01},
    labels={"policy": (2, 5)},
)
CORES = pytest.mark.parametrize("core", ["none", "lstm", "gru"])
SEPARATE = pytest.mark.parametrize("separate_critic", [False, True])


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def make_network(request=REQUEST, **changes):
    """Return the full network with changed options, in evaluation mode."""
    options = {name: getattr(FULL, name) for name in FULL.__slots__ if not name.startswith("_")}
    return make_modular(ModularConfig(**options | changes), request=request).eval()


def sample(leaves, *lead, seed=0):
    """Return a random array ``[*lead, …]`` of every leaf."""
    tensors = {}
    for name, space in leaves.items():
        space.seed(seed)
        rows = [np.asarray(space.sample()) for _ in range(int(np.prod(lead)))]
        tensors[name] = torch.from_numpy(np.stack(rows).reshape(*lead, *space.shape))
    return tensors


def initial_state(network, rows=5):
    """Return the initial state; empty without a recurrent core."""
    return network.initial_state(rows) if isinstance(network, RecurrentNetwork) else {}


@CORES
@SEPARATE
def test_heads_have_the_requested_sizes(core, separate_critic):
    """In float32; the state keeps its names and shapes."""
    network = make_network(core=core, separate_critic=separate_critic)
    state = initial_state(network)
    outputs, after = network(sample(LEAVES, 5), sample(FOG, 5), state)
    shapes = {name: tuple(output.shape) for name, output in outputs.items()}
    assert shapes == {"policy": (5, 7), "other": (5, 2), "value": (5, 1)}
    assert {output.dtype for output in outputs.values()} == {torch.float32}
    assert {name: leaf.shape for name, leaf in after.items()} == {name: leaf.shape for name, leaf in state.items()}


@CORES
def test_only_networks_with_a_core_are_recurrent(core):
    """By the protocol that algorithms check."""
    assert isinstance(make_network(core=core), RecurrentNetwork) is (core != "none")


@pytest.mark.parametrize("core", ["lstm", "gru"])
@SEPARATE
@pytest.mark.parametrize("has_privileged", [True, False])
def test_unroll_equals_stepping(core, separate_critic, has_privileged):
    """Heads and state after T steps, with match starts inside."""
    network = make_network(core=core, separate_critic=separate_critic)
    observation = sample(LEAVES, 6, 5)
    privileged = sample(FOG, 6, 5) if has_privileged else {}
    state = {name: torch.randn_like(leaf) for name, leaf in network.initial_state(5).items()}
    starts = torch.rand(6, 5) < 0.2
    outputs, after = network.unroll(observation, privileged, state, starts=starts)
    initial = network.initial_state(5)
    for t in range(6):
        state = {
            name: torch.where(starts[t][:, None], initial[name], leaf)
            if has_privileged or not name.startswith("critic_")
            else leaf
            for name, leaf in state.items()
        }
        groups = [{name: leaf[t] for name, leaf in group.items()} for group in (observation, privileged)]
        step, state = network(*groups, state)
        assert step.keys() == outputs.keys()
        for name, output in step.items():
            torch.testing.assert_close(outputs[name][t], output, atol=1e-5, rtol=0)
    for name, leaf in state.items():
        torch.testing.assert_close(after[name], leaf, atol=1e-5, rtol=0)


def test_recurrent_network_raises_without_a_state():
    """An algorithm that drops the state gets an error."""
    network = make_network(core="lstm")
    with pytest.raises(ContractError, match="must pass its state"):
        network(sample(LEAVES, 5), {}, {})
    with pytest.raises(ContractError, match="must pass its state"):
        network.unroll(sample(LEAVES, 2, 5), {}, {}, starts=torch.zeros(2, 5, dtype=torch.bool))


@CORES
def test_critic_heads_are_omitted_without_privileged_leaves(core):
    """The other heads give the same outputs."""
    network = make_network(core=core)
    without_fog, _ = network(sample(LEAVES, 5), {}, initial_state(network))
    with_fog, _ = network(sample(LEAVES, 5), sample(FOG, 5), initial_state(network))
    assert set(without_fog) == {"policy", "other"}
    for name, output in without_fog.items():
        assert torch.equal(output, with_fog[name])


def test_critic_heads_are_evaluated_if_the_role_has_no_privileged_leaves():
    """The critic reads the observation alone."""
    request = NetworkRequest(observation=LEAVES, heads={"policy": 7}, critic_heads={"value": 1})
    assert set(make_modular(ModularConfig(), request=request)(sample(LEAVES, 5), {}, {})[0]) == {"policy", "value"}


@CORES
@SEPARATE
def test_only_critic_heads_read_privileged_leaves(core, separate_critic):
    """Other heads and the state do not depend on them."""
    network, fog = make_network(core=core, separate_critic=separate_critic), sample(FOG, 5)
    fog["fog"].requires_grad_()
    outputs, after = network(sample(LEAVES, 5), fog, initial_state(network))
    for output in (outputs["policy"], outputs["other"], *after.values()):
        if output.requires_grad:
            gradient = torch.autograd.grad(output.sum(), fog["fog"], allow_unused=True, retain_graph=True)[0]
            assert gradient is None
    assert (torch.autograd.grad(outputs["value"].sum(), fog["fog"])[0] != 0).any()


@CORES
@SEPARATE
def test_separate_critic_shares_no_layer(core, separate_critic):
    """With it the value sends no gradient to the policy's trunk; without, it does."""
    network = make_network(core=core, separate_critic=separate_critic)
    network(sample(LEAVES, 5), sample(FOG, 5), initial_state(network))[0]["value"].sum().backward()
    gradients = [parameter.grad for parameter in network.trunk.parameters()]
    assert all(gradient is None for gradient in gradients) is separate_critic


@CORES
def test_every_parameter_has_a_gradient(core):
    """Of all heads together."""
    network = make_network(core=core, separate_critic=True, rest=(4,), activation="tanh")
    outputs, _ = network(sample(LEAVES, 50), sample(FOG, 50), initial_state(network, 50))
    loss = sum(output.square().sum() for output in outputs.values())
    loss.backward()
    recurrent = "weight_hh"  # multiplies the zeros of the first state
    missing = [
        name for name, p in network.named_parameters() if recurrent not in name and (p.grad is None or not p.grad.any())
    ]
    assert missing == []


def test_every_leaf_affects_the_outputs():
    """Whether an option names it or not."""
    network, observation = make_network(activation="tanh"), sample(LEAVES, 5)
    before = network(observation, {}, {})[0]["other"]
    for name, leaf in observation.items():
        changed = 1 - leaf if name in ("turn", "mice_present") else leaf.flip(0)
        assert (network(observation | {name: changed}, {}, {})[0]["other"] != before).any(), name


@CORES
def test_rows_are_independent(core):
    """A row's outputs do not depend on the other rows."""
    network, observation = make_network(core=core), sample(LEAVES, 5)
    whole = network(observation, {}, initial_state(network))[0]["policy"]
    part = network({name: leaf[1:2] for name, leaf in observation.items()}, {}, initial_state(network, 1))[0]["policy"]
    torch.testing.assert_close(whole[1:2], part)


def test_absent_entity_has_probability_zero():
    """The choices are one plain choice and four mice."""
    network, observation = make_network(), sample(LEAVES, 20)
    probability = network(observation, {}, {})[0]["policy"][:, 2:].softmax(1)
    is_present = observation["mice_present"].bool()
    assert ((probability[:, 1:] > 0) == is_present).all()
    assert (probability[:, 0] > 0).all()


def test_names_of_weights_are_stable():
    """Saved models depend on them."""
    names = set(get_weights(make_network(core="lstm", normalize=True, separate_critic=True)))
    assert {name for name in names if not name.startswith("critic_trunk")} == {
        *(f"trunk.encoders.vector-hero.norm.{part}" for part in ("mean", "variance", "count")),
        *(f"trunk.encoders.entity-mice.norm.{part}" for part in ("mean", "variance", "count")),
        *(f"privileged.vector-unseen.norm.{part}" for part in ("mean", "variance", "count")),
        *parameter_names(
            "trunk.encoders.vector-hero.layers.0",
            "trunk.encoders.image-map.tower.0.first",
            "trunk.encoders.image-map.tower.0.second",
            "trunk.encoders.image-map.tower.0.shortcut",
            "trunk.encoders.image-map.tower.1.first",
            "trunk.encoders.image-map.tower.1.second",
            "trunk.encoders.image-map.tower.1.shortcut",
            "trunk.encoders.entity-mice.layers.0",
            "trunk.encoders.entity-mice.layers.2",
            "trunk.layers.0",
            "privileged.vector-unseen.layers.0",
            "heads.policy.layers.0",
            "heads.policy.out",
            "heads.policy.queries.1",
            "heads.other.layers.0",
            "heads.other.out",
            "critic_heads.value.layers.0",
            "critic_heads.value.out",
        ),
        *(f"trunk.core.{kind}_{gates}" for kind in ("weight", "bias") for gates in ("ih", "hh")),
    }
    trunk = {name for name in names if name.startswith("trunk")}
    assert {name for name in names if name.startswith("critic_trunk")} == {f"critic_{name}" for name in trunk}


def parameter_names(*layers):
    """Return the names of the weights and biases of layers."""
    return {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}


@pytest.mark.parametrize("name", ["items", "type", "values", "train", "0"])
def test_parts_may_have_any_name(name):
    """Even that of a method of torch's modules."""
    network = make_modular(ModularConfig(vectors={name: VectorPart(leaves=("hero",))}), request=REQUEST)
    assert f"trunk.encoders.vector-{name}.layers.0.weight" in network.state_dict()


def test_layers_are_orthogonal():
    """With the gain of their activation and zero biases; last layers with the requested gain."""
    network = make_network(activation="tanh")
    torso = network.trunk.layers[0].weight  # [12, more]
    torch.testing.assert_close(torso @ torso.T, (5 / 3) ** 2 * torch.eye(12), atol=1e-4, rtol=0)
    kernel = network.trunk.encoders["image-map"].tower[0].first.weight.flatten(1)
    torch.testing.assert_close(kernel @ kernel.T, (5 / 3) ** 2 * torch.eye(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(network.heads["policy"].out.weight.norm(dim=1), torch.full((3,), 0.01))
    torch.testing.assert_close(network.heads["other"].out.weight.norm(dim=1), torch.ones(2))
    assert all((p == 0).all() for name, p in network.named_parameters() if name.endswith("bias"))


@CORES
@SEPARATE
def test_statistics_are_those_of_the_rows_added(core, separate_critic):
    """In all encoders, privileged ones and those of a separate critic included; nothing else changes."""
    network = make_network(core=core, normalize=True, separate_critic=separate_critic)
    groups, fog = sample(LEAVES, 30), sample(FOG, 30)
    before = get_weights(network)
    network.update_statistics(groups, fog)
    found = get_weights(network)
    changed = {name for name, array in found.items() if not np.array_equal(array, before[name])}
    assert changed == {name for name in before if ".norm." in name}
    owners = ["trunk", "critic_trunk"] if separate_critic else ["trunk"]
    columns = {f"{owner}.encoders.vector-hero": groups["hero"] for owner in owners}
    columns |= {f"{owner}.encoders.entity-mice": groups["mice"][groups["mice_present"] != 0] for owner in owners}
    columns["privileged.vector-unseen"] = fog["fog"]
    assert {f"{name}.norm.count" for name in columns} == {name for name in found if name.endswith("norm.count")}
    for name, rows in columns.items():
        assert found[f"{name}.norm.count"] == len(rows)
        np.testing.assert_allclose(found[f"{name}.norm.mean"], rows.numpy().mean(0), atol=1e-5)
        np.testing.assert_allclose(found[f"{name}.norm.variance"], rows.numpy().var(0), rtol=1e-4)


@CORES
def test_forward_is_equal_in_training_and_evaluation_mode(core):
    """Forward passes do not change the statistics."""
    network, groups = make_network(core=core, normalize=True), (sample(LEAVES, 30), sample(FOG, 30))
    network.update_statistics(*groups)
    before, decided = get_weights(network), network(*groups, initial_state(network, 30))[0]
    for _ in range(2):
        learned = network.train()(*groups, initial_state(network, 30))[0]
        assert all(torch.equal(output, learned[name]) for name, output in decided.items())
    assert all(np.array_equal(array, before[name]) for name, array in get_weights(network).items())


def test_statistics_read_only_normalized_leaves():
    """Other leaves need not be copied."""
    read = set()
    groups = sample(LEAVES, 3), sample(FOG, 3)
    lazy = [LazyLeaves(group, lambda name, group=group: read.add(name) or group[name]) for group in groups]
    make_network().update_statistics(*lazy)
    assert not read
    make_network(normalize=True).update_statistics(*lazy)
    assert read == {"hero", "mice", "mice_present", "fog"}


@CORES
def test_eager_runtime_holds_several_models(core):
    """Each with its own statistics."""
    network, other = make_network(core=core, normalize=True), make_network(core=core, normalize=True)
    other.update_statistics(sample(LEAVES, 40), sample(FOG, 40))
    runtime = Eager(copy.deepcopy(network), REQUEST)
    runtime.load(get_weights(other), slot=3)
    leaves = [{name: leaf.numpy() for name, leaf in group.items()} for group in (sample(LEAVES, 4), sample(FOG, 4))]
    state = {name: leaf.numpy() for name, leaf in initial_state(network, 4).items()}
    spans = [Span(3, 0, 2), Span(0, 2, 4)]
    found = runtime.run(leaves[0], privileged=leaves[1], state=state, spans=spans)
    groups = sample(LEAVES, 4), sample(FOG, 4), initial_state(network, 4)
    for module, rows in ((other, slice(0, 2)), (network, slice(2, 4))):
        for name, output in module(*groups)[0].items():
            np.testing.assert_allclose(found.heads[name][rows], output.detach().numpy()[rows], atol=1e-6)


def test_weights_can_be_loaded():
    """All of them, buffers included."""
    network, copy_of_network = make_network(core="gru", normalize=True), make_network(core="gru", normalize=True)
    set_weights(copy_of_network, get_weights(network))
    groups = sample(LEAVES, 5), sample(FOG, 5), initial_state(network)
    for name, output in network(*groups)[0].items():
        assert torch.equal(output, copy_of_network(*groups)[0][name])


@CORES
def test_network_runs_under_autocast(core):
    """Outputs in bfloat16 are close to those in float32."""
    network = make_network(core=core, normalize=True)
    groups = sample(LEAVES, 5), sample(FOG, 5), initial_state(network)
    exact, _ = network(*groups)
    with torch.autocast("cpu", torch.bfloat16):
        rough, after = network(*groups)
    for name, output in rough.items():
        torch.testing.assert_close(output.float(), exact[name], atol=0.1, rtol=0.1)
    assert all(leaf.dtype == torch.float32 for leaf in after.values())


@pytest.mark.slow
@pytest.mark.parametrize("core", ["none", "lstm"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
def test_compiled_network_gives_equal_outputs(core):
    """The whole forward pass is one graph, for any data and number of rows."""
    network = make_network(core=core, normalize=True, separate_critic=True)
    compiled = torch.compile(network, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch.no_grad():
        for rows in (5, 9):
            groups = sample(LEAVES, rows, seed=rows), sample(FOG, rows), initial_state(network, rows)
            for found, expected in zip(compiled(*groups), network(*groups), strict=True):
                for name, tensor in expected.items():
                    torch.testing.assert_close(found[name], tensor)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_network_gives_equal_gradients():
    """And equal statistics after a training pass."""
    results = []
    for compile_it in (False, True):
        torch.manual_seed(0)
        network = make_network(normalize=True).train()
        call = torch.compile(network, fullgraph=True, backend="aot_eager") if compile_it else network
        outputs, _ = call(sample(LEAVES, 30), sample(FOG, 30), {})
        sum(output.square().sum() for output in outputs.values()).backward()
        results.append([*(p.grad for p in network.parameters()), *network.buffers()])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)
