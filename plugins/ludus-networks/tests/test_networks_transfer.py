"""A network with more inputs starts with the outputs of the one that it starts from, whatever the new inputs are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus import open_run
from ludus.__main__ import main
from ludus._learning.transfer import input_layout, transfer_weights
from ludus.network import NetworkRequest, RecurrentNetwork, set_weights, to_arrays, update_statistics
from ludus.testing import check_run
from ludus_networks.config import AETConfig, ConvConfig, DISConfig, EntityPart, MLPConfig, ModularConfig
from ludus_networks.modular import make_modular
from ludus_networks.network import make_conv, make_mlp
from ludus_networks.presets import make_aet, make_dis


def box(*shape):
    """Return a space of numbers."""
    return spaces.Box(-1, 1, shape, np.float32)


SMALL = {
    "image": box(4, 4, 2),
    "units": box(3, 5),
    "units_present": spaces.MultiBinary(3),
    "me": box(6),
    "kind": spaces.Discrete(3),
}
VECTORS = {"me": box(6), "kind": spaces.Discrete(3)}
GROWN = {  # (space, old entries of the leaf), in another order and with new leaves
    "past": box(7),
    "kind": spaces.Discrete(3),
    "units": box(3, 8),
    "units_present": spaces.MultiBinary(3),
    "me": box(3, 6),  # three frames
    "image": box(4, 4, 3),
}
ENTITIES = {"e": EntityPart(leaf="units", present="units_present", hidden=(8,), key=0)}
NETWORKS = {
    "mlp": (make_mlp, MLPConfig(hidden=(8, 8)), VECTORS),
    "mlp, own critic": (make_mlp, MLPConfig(hidden=(8,), separate_critic=True), VECTORS),
    "dis, normalized": (make_dis, DISConfig(shared=(8,), heads=(8,), normalize=True), VECTORS),
    "heads only": (make_modular, ModularConfig(torso=()), VECTORS),
    "rest with layers": (make_modular, ModularConfig(rest=(8,), torso=(8,), core="gru", core_size=4), VECTORS),
    "conv": (make_conv, ConvConfig(channels=(4,), hidden=(8,)), {"image": SMALL["image"], **VECTORS}),
    "aet": (make_aet, AETConfig(channels=(4, 4), encoder=(8, 8), torso=(8,), heads=(8,)), SMALL),
    "entities": (
        make_modular,
        ModularConfig(entities=ENTITIES, torso=(8,), normalize=True),
        {name: space for name, space in SMALL.items() if name != "image"},
    ),
}


def request_for(leaves, privileged):
    """Return PPO's request."""
    return NetworkRequest(observation=leaves, privileged=privileged, heads={"policy": 4}, critic_heads={"value": 1})


def grown_leaves(leaves):
    """Return the leaves of the network that starts from another one."""
    return {name: space for name, space in GROWN.items() if name in leaves or name == "past"}


def sample(leaves, rows):
    """Return random rows."""
    tensors = {}
    for name, space in leaves.items():
        space.seed(1)
        tensors[name] = torch.from_numpy(np.stack([np.asarray(space.sample()) for _ in range(rows)]))
    return tensors


def old_part(name, tensor):
    """Return what the smaller leaf would be."""
    if name == "me":
        return tensor[:, -1]  # the newest frame
    return {"units": tensor[..., :5], "image": tensor[..., :2]}.get(name, tensor)


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_on_equal_inputs_are_equal(name):
    """After an update of statistics; and to the bit whatever the new inputs are."""
    make, config, leaves = NETWORKS[name]
    torch.manual_seed(0)
    hidden, more_hidden = {"map": box(4)}, {"fog": box(2), "map": box(4)}
    small = make(config, request=request_for(leaves, hidden)).eval()
    large = make(config, request=request_for(grown_leaves(leaves), more_hidden)).eval()
    seen, secret = sample(grown_leaves(leaves), 64), sample(more_hidden, 64)
    old = {leaf: old_part(leaf, seen[leaf]) for leaf in leaves}
    update_statistics(small, old, {"map": secret["map"]})
    own, source = (to_arrays(network.state_dict()) for network in (large, small))
    transferred = transfer_weights(own, source, own_inputs=input_layout([large]), source_inputs=input_layout([small]))
    assert not transferred.misfits
    assert transferred.grown
    set_weights(large, transferred.weights)
    before, after = outputs(small, old, {"map": secret["map"]}), outputs(large, seen, secret)
    other = {leaf: old_and_zeros(leaf, tensor) for leaf, tensor in seen.items()}
    same = outputs(large, other, {**secret, "fog": 0 * secret["fog"]})
    assert before.keys() == after.keys()
    for head, values in before.items():
        torch.testing.assert_close(after[head], values, rtol=1e-5, atol=1e-6, msg=head)
        assert torch.equal(after[head], same[head])
        assert values.std() > 0


def old_and_zeros(name, tensor):
    """Return a leaf of the larger network with zeros for what the smaller one does not read."""
    tensor = tensor.clone()
    if name == "me":
        tensor[:, :-1] = 0
    elif name in ("units", "image"):
        tensor[..., {"units": 5, "image": 2}[name] :] = 0
    elif name == "past":
        tensor[:] = 0
    return tensor


def outputs(network, observation, privileged):
    """Return the heads for 64 rows at the start of a match."""
    state = network.initial_state(64) if isinstance(network, RecurrentNetwork) else {}
    with torch.no_grad():
        return network(observation, privileged, state)[0]


def test_a_smaller_network_does_not_fit():
    """Its first layer cannot keep what it knew."""
    large, small = (make_mlp(MLPConfig(hidden=(8,)), request=request_for({"me": box(n)}, {})) for n in (6, 5))
    own, source = (to_arrays(network.state_dict()) for network in (small, large))
    result = transfer_weights(own, source, own_inputs=input_layout([small]), source_inputs=input_layout([large]))
    assert result.misfits == {"trunk.layers.0": "6 columns of me instead of 5"}


RUN = """
run = { seed = 1, workers = 0, decisions = 6000 }
environment.name = "tictactoe"
sampling = { matches = 16, fixture_matches = 16, rows_per_fixture = 16 }
evaluation = { enabled = false, final_matches = 0 }
[players.main_agent]
algorithm = "ppo"
network = "mlp"
matchmaker = "latest-self-play"
freeze_every_decisions = 1000
ppo = { batch_decisions = 256, segment_decisions = 8 }
mlp = { hidden = [16] }
[players.history]
algorithm = "ppo"
network = "mlp"
matchmaker = "latest-self-play"
interfaces = ["frame-stack"]
ppo = { batch_decisions = 256, segment_decisions = 8, ent_coef = 0.05, gamma = 0.9 }
mlp = { hidden = [16] }
frame-stack = { frames = 3 }
[league]
rules = ["restart-from"]
every_matches = 50
restart-from = { decisions = 1000 }
"""


@pytest.fixture
def path(tmp_path):
    """Return the path of a run file."""
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    return path


def findings(path, *overrides):
    """Return status and text of the findings about restarts."""
    found = check_run(path, overrides=overrides)
    return [(one.status, one.text) for one in found if one.subject == "player history" and "restart" in one.text]


def test_check_reports_what_can_restart(path):
    """[DIS §3.2.1]: the policy explorer with history; in one line each."""
    fits = "restarts from the weights of main_agent: its weights fit"
    assert findings(path) == [("ok", f"{fits}; new inputs of network.trunk.layers.0 start at 0")]
    assert findings(path, "players.history.interfaces=[]", "players.history.frame-stack={}") == [("ok", fits)]
    [(status, text)] = findings(path, "players.history.mlp.hidden=[32]")
    assert status == "fail"
    assert text.startswith("cannot restart from the weights of main_agent: no layer fits: network.trunk.layers.0 ([16]")
    [(status, text)] = findings(path, "players.history.mlp.hidden=[16, 24]")
    assert status == "warn"
    assert "it keeps its own network.trunk.layers.2, network.heads.policy.out (16 columns of trunk instead of" in text


def test_an_explorer_with_more_inputs_restarts_in_a_run(path, tmp_path):
    """From models of the main agent, with settings of its own."""
    assert main(["train", str(path), "--run", str(tmp_path / "run"), "--json"]) == 0
    with open_run(tmp_path / "run") as run:
        assert run.league.players["history"].generation >= 1
        starts = [model.manifest["init"] for model in run.models.values() if model.player == "history"]
        assert {model.hash for model in run.models.values() if model.player == "main_agent"} & set(starts)
