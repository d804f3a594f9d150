"""What the server computes by."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.errors import ConfigError
from ludus.inference import Eager, Span
from ludus.network import NetworkRequest
from ludus_inference.lean import Lean
from ludus_inference_server.config import ServerConfig
from ludus_inference_server.runtimes import OnDevice, make_runtime
from ludus_torch.testing import recorded_on_cpu
from torch import nn

SPANS = [Span(0, 0, 6), Span(2, 6, 20)]


@pytest.mark.parametrize("options", [{}, {"compiled": True}], ids=["eager", "compiled"])
@pytest.mark.parametrize("spans", [SPANS, ()], ids=["spans", "one"])
def test_devices_give_equal_results(mlp, rows, weights, monkeypatch, options, spans):
    """Every slot with its own weights."""
    monkeypatch.setattr(torch, "compile", lambda call, **_: call)  # what it makes of the call is its own business
    device, local = OnDevice(*mlp(), device="cpu", **options), Eager(*mlp())
    for runtime in (device, local):
        runtime.load(weights(1), slot=0)
        runtime.load(weights(2), slot=2)
    observation, privileged = rows(20)
    there = device.run(observation, privileged=privileged, state={}, spans=spans)
    here = local.run(observation, privileged=privileged, state={}, spans=spans)
    for name, head in here.heads.items():
        np.testing.assert_allclose(there.heads[name], head, atol=1e-5)


def test_a_network_that_cannot_be_compiled_runs_uncompiled(mlp, rows, monkeypatch, caplog):
    """The failure is logged once, and no request fails."""

    def broken(*_):
        raise RuntimeError("no compiler\nand more")

    monkeypatch.setattr(torch, "compile", lambda _call, **_options: broken)
    device, local = OnDevice(*mlp(), device="cpu", compiled=True), Eager(*mlp())
    observation, privileged = rows(20)
    here = local.run(observation, privileged=privileged, state={})
    for _ in range(3):
        there = device.run(observation, privileged=privileged, state={})
        for name, head in here.heads.items():
            np.testing.assert_allclose(there.heads[name], head, atol=1e-5)
    expected = "torch.compile failed for this network (RuntimeError: no compiler); it runs uncompiled"
    assert caplog.messages == [expected]


def test_errors_of_the_network_keep_the_compiled_code(mlp, rows, monkeypatch, caplog):
    """They are raised, and the next request uses it again."""
    calls = []
    monkeypatch.setattr(torch, "compile", lambda call, **_: lambda *given: calls.append(given) or call(*given))
    device = OnDevice(*mlp(), device="cpu", compiled=True)
    observation, privileged = rows(20)
    with pytest.raises(KeyError):
        device.run({"other": next(iter(observation.values()))}, privileged=privileged, state={})
    device.run(observation, privileged=privileged, state={})
    assert len(calls) == 2
    assert not caplog.records


def test_bf16_is_close(mlp, rows):
    """Results are float32."""
    observation, privileged = rows(20)
    there = OnDevice(*mlp(), device="cpu", bf16=True).run(observation, privileged=privileged, state={})
    here = Eager(*mlp()).run(observation, privileged=privileged, state={})
    for name, head in here.heads.items():
        assert there.heads[name].dtype == np.float32
        np.testing.assert_allclose(there.heads[name], head, atol=0.05)
    assert not np.array_equal(there.heads["value"], here.heads["value"])


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"runtime": "lean"}, "lean runs on the CPU"), ({}, "torch finds no GPU")],
    ids=["lean", "no GPU"],
)
def test_contradicting_options_are_errors(mlp, monkeypatch, options, problem):
    """With the option to change."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=problem):
        make_runtime(ServerConfig(device="cuda", **options), *mlp())


@pytest.mark.parametrize(("runtime", "bf16"), [("auto", False), ("eager", True)], ids=["fp32", "bf16"])
def test_on_a_gpu_torch_runs_networks(mlp, monkeypatch, runtime, bf16):
    """With the configured precision."""
    made = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("ludus_inference_server.runtimes.OnDevice", lambda *_, **options: made.append(options))
    make_runtime(ServerConfig(device="cuda", runtime=runtime, precision="bf16" if bf16 else "fp32"), *mlp())
    assert made == [{"device": "cuda", "bf16": bf16, "compiled": False, "recorded": runtime == "auto"}]


class Odd(nn.Module):
    """Something that lean does not know."""

    def forward(self, observation, privileged, state):
        return {"policy": observation["x"].cumsum(1)}, {}


def test_lean_is_chosen_if_possible(mlp):
    """Torch otherwise."""
    odd = NetworkRequest(observation={"x": spaces.Box(-1, 1, (2,))}, heads={"policy": 2})
    assert isinstance(make_runtime(ServerConfig(), *mlp()), Lean)
    assert type(make_runtime(ServerConfig(), Odd(), odd)) is Eager
    assert type(make_runtime(ServerConfig(runtime="eager"), *mlp())) is Eager


def test_compile_uses_the_runtime_of_that_name(mlp, monkeypatch):
    """On the CPU."""
    monkeypatch.setattr("ludus_inference_server.runtimes.make_compiled", lambda config, **_: "compiled")
    assert make_runtime(ServerConfig(runtime="compile"), *mlp()) == "compiled"


class Leaky(nn.Module):
    """A model with its own recurrent layer, state rows of two axes, and a critic of privileged observations."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def initial_state(self, rows):
        return {"memory": torch.zeros(rows, 2, 2)}

    def forward(self, observation, privileged, state):
        memory = state["memory"] + self.layer(observation["x"]).reshape(-1, 2, 2)
        heads = {"policy": memory.flatten(1)}
        if privileged:
            heads["value"] = memory.sum((1, 2), keepdim=True).squeeze(2) + privileged["hidden"]
        return heads, {"memory": memory.tanh()}


LEAKY = NetworkRequest(
    observation={"x": spaces.Box(-1, 1, (3,))},
    privileged={"hidden": spaces.Box(-1, 1, (1,))},
    heads={"policy": 4},
    critic_heads={"value": 1},
)


def play_recorded(device, rounds):
    """Ask a recorded runtime and one that launches piece by piece, with models that come and go; they must agree."""
    torch.manual_seed(0)
    runtimes = [
        OnDevice(module, LEAKY, device=device, recorded=recorded)
        for module, recorded in ((Leaky(), True), (Leaky(), False))
    ]
    rng = np.random.default_rng(0)

    def load(slot):
        weights = {"layer.weight": rng.normal(size=(4, 3)), "layer.bias": rng.normal(size=4)}
        for runtime in runtimes:
            runtime.load({name: array.astype(np.float32) for name, array in weights.items()}, slot=slot)

    for slot in range(4):
        load(slot)
    for turn in range(rounds):
        counts = rng.integers(1, 40, int(rng.integers(1, 4)))
        stops = np.cumsum(counts).tolist()
        spans = [Span(int(rng.integers(4)), stop - int(n), stop) for n, stop in zip(counts, stops, strict=True)]
        given = {
            "observation": {"x": rng.normal(size=(stops[-1], 3)).astype(np.float32)},
            "privileged": {"hidden": rng.normal(size=(stops[-1], 1)).astype(np.float32)} if turn % 2 else {},
            "state": {"memory": rng.normal(size=(stops[-1], 2, 2)).astype(np.float32)},
        }
        observation = given.pop("observation")
        ours, theirs = (runtime.run(observation, **given, spans=spans) for runtime in runtimes)
        assert ours.heads.keys() == theirs.heads.keys() == ({"policy", "value"} if turn % 2 else {"policy"})
        for name, head in theirs.heads.items():
            np.testing.assert_allclose(ours.heads[name], head, atol=1e-5)
        assert ours.state["memory"].shape == (stops[-1], 2, 2)
        np.testing.assert_allclose(ours.state["memory"], theirs.state["memory"], atol=1e-5)
        load(int(rng.integers(4)))


def test_recorded_networks_give_equal_results():
    """With the current weights of every slot, recurrent state, and any number of rows."""
    with recorded_on_cpu() as made:
        play_recorded("cpu", rounds=60)
    assert len(made) == 6  # 16, 32 and 64 rows, with what critics read and without


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_records_networks(caplog):
    """With the same results as without recordings."""
    play_recorded("cuda", rounds=60)
    assert not caplog.records


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_gpu_gives_equal_results(mlp, rows, precision):
    """Within its precision."""
    observation, privileged = rows(20)
    made = make_runtime(ServerConfig(device="cuda", precision=precision), *mlp())
    there = made.run(observation, privileged=privileged, state={})
    here = Eager(*mlp()).run(observation, privileged=privileged, state={})
    for name, head in here.heads.items():
        np.testing.assert_allclose(there.heads[name], head, atol=1e-5 if precision == "fp32" else 0.05)
