"""A runtime that asks the server answers as one that computes itself."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.errors import ContractError, ModelError
from ludus.inference import Eager, Span
from ludus.network import NetworkRequest
from ludus.service import Network
from ludus_inference.lean import Lean
from ludus_inference_server import client as client_module
from ludus_inference_server.client import RemoteInference, make_client
from ludus_inference_server.config import ServerConfig
from torch import nn

SPANS = [Span(0, 0, 10), Span(2, 10, 17), Span(1, 17, 18), Span(3, 18, 40)]


def same(one, other):
    """Check that outputs are equal to five digits."""
    assert one.heads.keys() == other.heads.keys()
    assert one.state.keys() == other.state.keys()
    for name, leaf in [*one.heads.items(), *one.state.items()]:
        np.testing.assert_allclose(leaf, {**other.heads, **other.state}[name], atol=1e-5, rtol=1e-5)


def loaded(runtime, weights, slots=4):
    """Put models into the first slots of a runtime."""
    for slot in range(slots):
        runtime.load(weights(slot + 10), slot=slot)
    return runtime


@pytest.mark.parametrize("name", ["lean", "eager"])
@pytest.mark.parametrize("observed", [True, False], ids=["privileged", "blind"])
def test_results_equal_the_local_runtime(office, weights, name, observed, mlp, rows):
    """For a live model and three frozen ones in one call, with every runtime."""
    remote, local = loaded(office(runtime=name).runtime(), weights), loaded(Eager(*mlp()), weights)
    observation, privileged = rows(40)
    groups = {"privileged": privileged if observed else {}, "state": {}, "spans": SPANS}
    same(remote.run(observation, **groups), local.run(observation, **groups))


def test_the_first_weights_are_those_of_the_module(office, mlp, rows):
    """A policy may decide before `load`."""
    observation, privileged = rows(3)
    network = mlp(5)
    remote = office().runtime(network)
    same(
        remote.run(observation, privileged=privileged, state={}),
        Eager(*network).run(observation, privileged=privileged, state={}),
    )


def test_more_rows_and_other_leaves_get_a_larger_buffer(office, mlp, rows):
    """Models stay assigned."""
    remote, local = office().runtime(), Eager(*mlp())
    for n, observed in ((3, False), (100, True), (7, False), (100, False)):
        observation, privileged = rows(n, seed=n)
        groups = {"privileged": privileged if observed else {}, "state": {}}
        same(remote.run(observation, **groups), local.run(observation, **groups))


class Memory(nn.Module):
    """A network with a state: an exponential average of what it saw."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(2, 3)

    def forward(self, observation, privileged, state):
        average = 0.5 * state["average"] + 0.5 * observation["x"]
        return {"policy": self.out(average)}, {"average": average}


def test_recurrent_state_is_returned(office):
    """For every row."""
    torch.manual_seed(0)
    network = Network(Memory(), NetworkRequest(observation={"x": spaces.Box(-1, 1, (2,))}, heads={"policy": 3}))
    remote, local = office({"main": lambda: [network]}).runtime(network), Eager(*network)
    state = {"average": np.zeros((4, 2), np.float32)}
    for seed in range(3):
        observation = {"x": np.random.default_rng(seed).normal(size=(4, 2)).astype(np.float32)}
        there = remote.run(observation, privileged={}, state=state)
        same(there, local.run(observation, privileged={}, state=state))
        state = {"average": there.state["average"].copy()}


def test_new_weights_are_used_at_once(office, weights, mlp, rows):
    """Also if a slot is cleared and loaded again."""
    remote, local = office().runtime(), Eager(*mlp())
    observation, privileged = rows(5)
    for seed in range(3):
        for runtime in (remote, local):
            runtime.drop(1)
            runtime.load(weights(seed), slot=1)
        groups = {"privileged": privileged, "state": {}, "spans": [Span(1, 0, 5)]}
        same(remote.run(observation, **groups), local.run(observation, **groups))


def test_weights_are_uploaded_once(office, weights, rows, monkeypatch):
    """For all clients with the same model."""
    given, give = [], RemoteInference._upload
    monkeypatch.setattr(RemoteInference, "_upload", lambda self, *model: given.append(model) or give(self, *model))
    made = office()
    observation, privileged = rows(40)
    for worker in ("sampler-0", "sampler-1"):
        remote = loaded(made.runtime(worker=worker), weights)
        remote.run(observation, privileged=privileged, state={}, spans=SPANS)
    assert made.counts["models_taken"] == len(given) == 4
    assert made.service.metrics()["models"] == 4


def test_dropped_slots_are_cleared(office, weights, rows):
    """With the next request."""
    made = office()
    remote = loaded(made.runtime(), weights)
    observation, privileged = rows(40)
    remote.run(observation, privileged=privileged, state={}, spans=SPANS)
    remote.drop(2)
    remote.run(observation, privileged=privileged, state={})
    (client,) = made.service._server._clients.values()
    assert sorted(client.models) == sorted(client.slots) == [0, 1, 3]


def test_a_larger_buffer_clears_all_slots(office, weights, rows):
    """The server releases models of dropped slots; no weights are uploaded again."""
    made = office()
    remote = loaded(made.runtime(), weights)
    for n, slots in ((4, [0, 1, 2, 3]), (40, [0, 1, 3])):
        observation, privileged = rows(n)
        spans = [Span(slot, at, at + 1) for at, slot in enumerate(slots[:-1])] + [Span(slots[-1], len(slots) - 1, n)]
        remote.run(observation, privileged=privileged, state={}, spans=spans)
        remote.drop(2)
        (client,) = made.service._server._clients.values()
        assert sorted(client.models) == sorted(client.slots) == slots
    assert made.counts["models_taken"] == 4


def test_players_do_not_share_models(office, weights, mlp, rows):
    """Equal weights may belong to different networks."""
    made = office({"main": lambda: [mlp()], "other": lambda: [mlp()]})
    observation, privileged = rows(2)
    for player in ("main", "other"):
        made.runtime(player=player).run(observation, privileged=privileged, state={})
    assert made.counts["models_taken"] == 2


def test_one_of_several_networks_of_a_player_is_found(office, mlp):
    """By the hash of its architecture."""
    request = NetworkRequest(observation={"x": spaces.Box(-1, 1, (2,))}, heads={"policy": 3})
    second = Network(Memory(), request)
    remote = office({"main": lambda: [mlp(), second]}).runtime(second)
    state = {"average": np.zeros((1, 2), np.float32)}
    assert remote.run({"x": np.ones((1, 2), np.float32)}, privileged={}, state=state).heads["policy"].shape == (1, 3)


def test_a_killed_server_is_waited_for(office, weights, monkeypatch, mlp, rows):
    """The next one gets all models, and the request is answered."""
    monkeypatch.setattr(client_module, "_RETRY_MS", 50)
    made = office()
    remote, local = loaded(made.runtime(), weights), loaded(Eager(*mlp()), weights)
    observation, privileged = rows(40)
    groups = {"privileged": privileged, "state": {}, "spans": SPANS}
    remote.run(observation, **groups)
    made.kill()
    outputs = []
    asking = threading.Thread(target=lambda: outputs.append(remote.run(observation, **groups)))
    asking.start()
    time.sleep(0.2)
    assert not outputs
    made.start()
    asking.join(20)
    same(outputs[0], local.run(observation, **groups))
    assert made.counts["models_taken"] == 4


def test_a_restarted_server_gets_all_models_with_a_larger_buffer(office, weights, mlp, rows):
    """Registering the buffer is the first message to it."""
    made = office()
    remote, local = loaded(made.runtime(), weights), loaded(Eager(*mlp()), weights)
    for stop in (3, 40):
        made.kill()
        made.start()
        observation, privileged = rows(stop)
        groups = {"privileged": privileged, "state": {}, "spans": [Span(0, 0, 2), Span(3, 2, stop)]}
        same(remote.run(observation, **groups), local.run(observation, **groups))
    assert made.service.metrics()["dropped"] == 0


def test_weights_that_do_not_fit_are_rejected(office, weights, rows):
    """By the client; the slot keeps its model."""
    remote = office().runtime()
    with pytest.raises(ModelError, match="do not fit"):
        remote.load({"x": np.zeros(3, np.float32)})
    observation, privileged = rows(2)
    assert remote.run(observation, privileged=privileged, state={}).heads["policy"].shape == (2, 5)


def test_a_slot_without_a_model_is_an_error(office, rows):
    """Of the caller."""
    observation, privileged = rows(2)
    with pytest.raises(ContractError, match="slot 3 has no model"):
        office().runtime().run(observation, privileged=privileged, state={}, spans=[Span(3, 0, 2)])


def test_rejections_are_raised(office, rows, monkeypatch):
    """The server goes on for others."""
    monkeypatch.setattr("ludus_inference_server.client._RETRY_MS", 20_000)  # asked again it refuses again
    made = office()
    observation, privileged = rows(2)
    with pytest.raises(ContractError, match="rejected a request: there is no player 'nobody'"):
        made.runtime(player="nobody").run(observation, privileged=privileged, state={})
    made.runtime().run(observation, privileged=privileged, state={})
    assert made.service.metrics()["dropped"] == 1


def test_errors_of_the_network_are_raised(office):
    """With their text."""

    class Failing(Memory):
        def forward(self, observation, privileged, state):
            raise ValueError("too cold")

    network = Network(Failing(), NetworkRequest(observation={"x": spaces.Box(-1, 1, (2,))}, heads={"policy": 3}))
    remote = office({"main": lambda: [network]}, runtime="eager").runtime(network)
    with pytest.raises(ContractError, match="ValueError: too cold"):
        remote.run({"x": np.ones((1, 2), np.float32)}, privileged={}, state={})


def test_a_deleted_client_is_removed(office, rows, monkeypatch):
    """Also without `close`."""
    made = office()
    kept, (observation, privileged) = made.runtime(), rows(2)
    kept.run(observation, privileged=privileged, state={})
    monkeypatch.setattr(made.stack, "callback", lambda call: None)
    made.runtime(worker="sampler-1").run(observation, privileged=privileged, state={})
    deadline = time.monotonic() + 10
    while made.service._server.clients > 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert len(list(kept._folder.path.iterdir())) == 2
    kept.close()
    kept.close()


def test_replaced_buffers_are_removed(office, rows):
    """One file of requests and one of answers are left."""
    made = office()
    remote = made.runtime()
    for n in (1, 10, 100):
        observation, privileged = rows(n)
        remote.run(observation, privileged=privileged, state={})
    assert len(list(remote._folder.path.iterdir())) == 2


def test_single_process_runs_use_the_local_runtime(mlp):
    """There is no server."""
    module, request = mlp()
    assert isinstance(make_client(ServerConfig(), module=module, request=request, site=None), Lean)
    assert type(make_client(ServerConfig(runtime="eager"), module=module, request=request)) is Eager


def test_without_shared_memory_the_local_runtime_is_used(office, monkeypatch):
    """Instead of the server."""
    made = office()
    monkeypatch.setattr(client_module.SharedFolder, "beside", lambda *_: None)
    monkeypatch.setattr(Lean, "close", lambda self: None, raising=False)
    assert not isinstance(made.runtime(), RemoteInference)
