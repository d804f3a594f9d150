"""The network ``modular``: contract, memory, privileged leaves, weights."""

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


def network(request=REQUEST, **changes):
    """Make the full network with changed options, evaluating."""
    options = {name: getattr(FULL, name) for name in FULL.__slots__ if not name.startswith("_")}
    return make_modular(ModularConfig(**options | changes), request=request).eval()


def sample(leaves, *lead, seed=0):
    """Draw an array ``[*lead, …]`` of every leaf."""
    drawn = {}
    for name, space in leaves.items():
        space.seed(seed)
        rows = [np.asarray(space.sample()) for _ in range(int(np.prod(lead)))]
        drawn[name] = torch.from_numpy(np.stack(rows).reshape(*lead, *space.shape))
    return drawn


def start(made, rows=5):
    """Return the state to begin with."""
    return made.initial_state(rows) if isinstance(made, RecurrentNetwork) else {}


@CORES
@SEPARATE
def test_heads_have_the_sizes_asked_for(core, separate_critic):
    """Every head gives float32 rows of its size, images go in as bytes, and the state keeps its names and shapes."""
    made = network(core=core, separate_critic=separate_critic)
    state = start(made)
    outputs, after = made(sample(LEAVES, 5), sample(FOG, 5), state)
    shapes = {name: tuple(output.shape) for name, output in outputs.items()}
    assert shapes == {"policy": (5, 7), "other": (5, 2), "value": (5, 1)}
    assert {output.dtype for output in outputs.values()} == {torch.float32}
    assert {name: leaf.shape for name, leaf in after.items()} == {name: leaf.shape for name, leaf in state.items()}


@CORES
def test_only_a_network_with_a_memory_is_recurrent(core):
    """Algorithms tell by the protocol."""
    assert isinstance(network(core=core), RecurrentNetwork) is (core != "none")


@pytest.mark.parametrize("core", ["lstm", "gru"])
@SEPARATE
@pytest.mark.parametrize("seeing", [True, False])
def test_unrolling_is_stepping(core, separate_critic, seeing):
    """Heads and state of T steps at once are those of one after the other, with starts inside."""
    made = network(core=core, separate_critic=separate_critic)
    observation = sample(LEAVES, 6, 5)
    privileged = sample(FOG, 6, 5) if seeing else {}
    state = {name: torch.randn_like(leaf) for name, leaf in made.initial_state(5).items()}
    starts = torch.rand(6, 5) < 0.2
    outputs, after = made.unroll(observation, privileged, state, starts=starts)
    initial = made.initial_state(5)
    for t in range(6):
        state = {
            name: torch.where(starts[t][:, None], initial[name], leaf)
            if seeing or not name.startswith("critic_")
            else leaf
            for name, leaf in state.items()
        }
        groups = [{name: leaf[t] for name, leaf in group.items()} for group in (observation, privileged)]
        step, state = made(*groups, state)
        assert step.keys() == outputs.keys()
        for name, output in step.items():
            torch.testing.assert_close(outputs[name][t], output, atol=1e-5, rtol=0)
    for name, leaf in state.items():
        torch.testing.assert_close(after[name], leaf, atol=1e-5, rtol=0)


def test_a_memory_needs_a_state():
    """Who forgets it is told, instead of training a network that remembers nothing."""
    made = network(core="lstm")
    with pytest.raises(ContractError, match="carry its state"):
        made(sample(LEAVES, 5), {}, {})
    with pytest.raises(ContractError, match="carry its state"):
        made.unroll(sample(LEAVES, 2, 5), {}, {}, starts=torch.zeros(2, 5, dtype=torch.bool))


@CORES
def test_critic_heads_are_left_out_without_privileged_leaves(core):
    """Where they were promised and are missing, only the other heads answer, as they did before."""
    made = network(core=core)
    blind, _ = made(sample(LEAVES, 5), {}, start(made))
    seeing, _ = made(sample(LEAVES, 5), sample(FOG, 5), start(made))
    assert set(blind) == {"policy", "other"}
    for name, output in blind.items():
        assert torch.equal(output, seeing[name])


def test_critic_heads_answer_where_nothing_is_privileged():
    """Without privileged leaves in the request the critic reads the observation alone."""
    request = NetworkRequest(observation=LEAVES, heads={"policy": 7}, critic_heads={"value": 1})
    assert set(make_modular(ModularConfig(), request=request)(sample(LEAVES, 5), {}, {})[0]) == {"policy", "value"}


@CORES
@SEPARATE
def test_privileged_leaves_reach_critic_heads_only(core, separate_critic):
    """Hidden information moves the value, never another head or what is remembered."""
    made, fog = network(core=core, separate_critic=separate_critic), sample(FOG, 5)
    fog["fog"].requires_grad_()
    outputs, after = made(sample(LEAVES, 5), fog, start(made))
    for output in (outputs["policy"], outputs["other"], *after.values()):
        if output.requires_grad:
            gradient = torch.autograd.grad(output.sum(), fog["fog"], allow_unused=True, retain_graph=True)[0]
            assert gradient is None
    assert (torch.autograd.grad(outputs["value"].sum(), fog["fog"])[0] != 0).any()


@CORES
@SEPARATE
def test_a_separate_critic_shares_nothing(core, separate_critic):
    """With it the value sends no gradient into the policy's trunk; without, it does."""
    made = network(core=core, separate_critic=separate_critic)
    made(sample(LEAVES, 5), sample(FOG, 5), start(made))[0]["value"].sum().backward()
    gradients = [parameter.grad for parameter in made.trunk.parameters()]
    assert all(gradient is None for gradient in gradients) is separate_critic


@CORES
def test_every_weight_learns(core):
    """All heads together send a gradient into every parameter."""
    made = network(core=core, separate_critic=True, rest=(4,), activation="tanh")
    outputs, _ = made(sample(LEAVES, 50), sample(FOG, 50), start(made, 50))
    loss = sum(output.square().sum() for output in outputs.values())
    loss.backward()
    recurrent = "weight_hh"  # multiplies the zeros of the first state
    missing = [
        name for name, p in made.named_parameters() if recurrent not in name and (p.grad is None or not p.grad.any())
    ]
    assert missing == []


def test_every_leaf_matters():
    """Changing any one observation leaf changes the outputs, named or not."""
    made, observation = network(activation="tanh"), sample(LEAVES, 5)
    before = made(observation, {}, {})[0]["other"]
    for name, leaf in observation.items():
        changed = 1 - leaf if name in ("turn", "mice_present") else leaf.flip(0)
        assert (made(observation | {name: changed}, {}, {})[0]["other"] != before).any(), name


@CORES
def test_rows_do_not_mix(core):
    """A row's outputs do not depend on the other rows."""
    made, observation = network(core=core), sample(LEAVES, 5)
    whole = made(observation, {}, start(made))[0]["policy"]
    part = made({name: leaf[1:2] for name, leaf in observation.items()}, {}, start(made, 1))[0]["policy"]
    torch.testing.assert_close(whole[1:2], part)


def test_an_absent_target_has_probability_zero():
    """From the leaves to the label: choices are one plain one and four mice."""
    made, observation = network(), sample(LEAVES, 20)
    probability = made(observation, {}, {})[0]["policy"][:, 2:].softmax(1)
    there = observation["mice_present"].bool()
    assert ((probability[:, 1:] > 0) == there).all()
    assert (probability[:, 0] > 0).all()


def test_names_of_weights_are_stable():
    """Saved models depend on them."""
    names = set(get_weights(network(core="lstm", normalize=True, separate_critic=True)))
    assert {name for name in names if not name.startswith("critic_trunk")} == {
        *(f"trunk.encoders.vector-hero.norm.{part}" for part in ("mean", "variance", "count")),
        *(f"trunk.encoders.entity-mice.norm.{part}" for part in ("mean", "variance", "count")),
        *(f"privileged.vector-unseen.norm.{part}" for part in ("mean", "variance", "count")),
        *weights(
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


def weights(*layers):
    """Return the names of the weights and biases of layers."""
    return {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}


@pytest.mark.parametrize("name", ["items", "type", "values", "train", "0"])
def test_parts_may_have_any_name(name):
    """Also those of methods of torch's modules."""
    made = make_modular(ModularConfig(vectors={name: VectorPart(leaves=("hero",))}), request=REQUEST)
    assert f"trunk.encoders.vector-{name}.layers.0.weight" in made.state_dict()


def test_layers_are_orthogonal():
    """With the gain of their activation and zero biases; the policy's last with the gain asked for."""
    made = network(activation="tanh")
    torso = made.trunk.layers[0].weight  # [12, more]
    torch.testing.assert_close(torso @ torso.T, (5 / 3) ** 2 * torch.eye(12), atol=1e-4, rtol=0)
    kernel = made.trunk.encoders["image-map"].tower[0].first.weight.flatten(1)
    torch.testing.assert_close(kernel @ kernel.T, (5 / 3) ** 2 * torch.eye(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(made.heads["policy"].out.weight.norm(dim=1), torch.full((3,), 0.01))
    torch.testing.assert_close(made.heads["other"].out.weight.norm(dim=1), torch.ones(2))
    assert all((p == 0).all() for name, p in made.named_parameters() if name.endswith("bias"))


@CORES
@SEPARATE
def test_statistics_are_those_of_the_rows_added(core, separate_critic):
    """Of all parts, privileged ones and those of a critic apart included; nothing but the statistics changes."""
    made = network(core=core, normalize=True, separate_critic=separate_critic)
    groups, fog = sample(LEAVES, 30), sample(FOG, 30)
    before = get_weights(made)
    made.update_statistics(groups, fog)
    found = get_weights(made)
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
def test_learning_computes_what_deciding_does(core):
    """No pass of a learner moves the statistics under the next one."""
    made, groups = network(core=core, normalize=True), (sample(LEAVES, 30), sample(FOG, 30))
    made.update_statistics(*groups)
    before, decided = get_weights(made), made(*groups, start(made, 30))[0]
    for _ in range(2):
        learned = made.train()(*groups, start(made, 30))[0]
        assert all(torch.equal(output, learned[name]) for name, output in decided.items())
    assert all(np.array_equal(array, before[name]) for name, array in get_weights(made).items())


def test_only_what_is_normalised_is_asked_for():
    """Images, and everything in a network without normalisation, need not be copied for statistics."""
    asked = set()
    groups = sample(LEAVES, 3), sample(FOG, 3)
    lazy = [LazyLeaves(group, lambda name, group=group: asked.add(name) or group[name]) for group in groups]
    network().update_statistics(*lazy)
    assert not asked
    network(normalize=True).update_statistics(*lazy)
    assert asked == {"hero", "mice", "mice_present", "fog"}


@CORES
def test_weights_and_statistics_run_in_slots(core):
    """Torch's runtime holds several models of one network, each with its own statistics."""
    made, other = network(core=core, normalize=True), network(core=core, normalize=True)
    other.update_statistics(sample(LEAVES, 40), sample(FOG, 40))
    runtime = Eager(copy.deepcopy(made), REQUEST)
    runtime.load(get_weights(other), slot=3)
    leaves = [{name: leaf.numpy() for name, leaf in group.items()} for group in (sample(LEAVES, 4), sample(FOG, 4))]
    state = {name: leaf.numpy() for name, leaf in start(made, 4).items()}
    spans = [Span(3, 0, 2), Span(0, 2, 4)]
    found = runtime.run(leaves[0], privileged=leaves[1], state=state, spans=spans)
    groups = sample(LEAVES, 4), sample(FOG, 4), start(made, 4)
    for module, rows in ((other, slice(0, 2)), (made, slice(2, 4))):
        for name, output in module(*groups)[0].items():
            np.testing.assert_allclose(found.heads[name][rows], output.detach().numpy()[rows], atol=1e-6)


def test_weights_load_into_a_twin():
    """All of them, buffers included."""
    made, twin = network(core="gru", normalize=True), network(core="gru", normalize=True)
    set_weights(twin, get_weights(made))
    groups = sample(LEAVES, 5), sample(FOG, 5), start(made)
    for name, output in made(*groups)[0].items():
        assert torch.equal(output, twin(*groups)[0][name])


@CORES
def test_autocast_computes(core):
    """Heads computed in 16 bits are finite and near those in 32."""
    made = network(core=core, normalize=True)
    groups = sample(LEAVES, 5), sample(FOG, 5), start(made)
    exact, _ = made(*groups)
    with torch.autocast("cpu", torch.bfloat16):
        rough, after = made(*groups)
    for name, output in rough.items():
        torch.testing.assert_close(output.float(), exact[name], atol=0.1, rtol=0.1)
    assert all(leaf.dtype == torch.float32 for leaf in after.values())


@pytest.mark.slow
@CORES
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
def test_compiled_code_is_the_same(core):
    """The whole forward pass is one graph, whatever the data and the number of rows."""
    made = network(core=core, normalize=True, separate_critic=True)
    compiled = torch.compile(made, fullgraph=True, dynamic=True, backend="aot_eager")
    with torch.no_grad():
        for rows in (5, 9):
            groups = sample(LEAVES, rows, seed=rows), sample(FOG, rows), start(made, rows)
            for found, expected in zip(compiled(*groups), made(*groups), strict=True):
                for name, tensor in expected.items():
                    torch.testing.assert_close(found[name], tensor)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_code_learns_the_same():
    """Gradients and statistics after a compiled training pass are those of one that is not."""
    results = []
    for compile_it in (False, True):
        torch.manual_seed(0)
        made = network(normalize=True).train()
        call = torch.compile(made, fullgraph=True, backend="aot_eager") if compile_it else made
        outputs, _ = call(sample(LEAVES, 30), sample(FOG, 30), {})
        sum(output.square().sum() for output in outputs.values()).backward()
        results.append([*(p.grad for p in made.parameters()), *made.buffers()])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)
