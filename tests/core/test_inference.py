"""The eager runtime, the checks of runtimes, and the choice of a runtime for a run."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus._config.run_config import parse_config
from ludus._config.section_reader import SelectedComponent
from ludus._plugins.manager import load_plugins
from ludus._run.factories import make_inference
from ludus.environment import Role
from ludus.errors import ConfigError, ContractError, PluginError, UnsupportedNetwork
from ludus.inference import Eager, Outputs, Span
from ludus.network import NetworkRequest, get_weights
from ludus.testing import check_inference

ROLE = Role(
    name="player",
    observation_space=spaces.Dict({"obs": spaces.Box(-1, 1, (2,), np.float32)}),
    action_space=spaces.Discrete(2),
    teams=(0,),
)
REQUEST = NetworkRequest(observation={"obs": spaces.Box(-1, 1, (2,), np.float32)}, heads={"policy": 1})


class AccumulatingNetwork(torch.nn.Module):
    """A network that returns the weighted sum of its inputs so far."""

    def __init__(self, weight=1.0):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(weight))

    def forward(self, observation, privileged, state):
        total = state["total"] + self.weight * observation["obs"]
        return {"policy": total}, {"total": total}


def test_eager_satisfies_the_contract():
    """The reference runtime passes the check of the testing kit."""
    check_inference(Eager)


def test_spans_compute_recurrent_states():
    """Each span uses the weights of its slot, and the rows keep their order."""
    inference = Eager(AccumulatingNetwork(), REQUEST)
    inference.load({"weight": np.array(10.0, np.float32)}, slot=3)
    observation, state = {"obs": np.ones((3, 2), np.float32)}, {"total": np.zeros((3, 2), np.float32)}
    for count in (1, 2):
        outputs = inference.run(observation, privileged={}, state=state, spans=[Span(3, 0, 1), Span(0, 1, 3)])
        state = outputs.state
        assert outputs.heads["policy"][:, 0].tolist() == [10 * count, count, count]
        assert state["total"][:, 1].tolist() == [10 * count, count, count]


def test_a_dropped_slot_cannot_run():
    """Running it raises."""
    inference = Eager(AccumulatingNetwork(), REQUEST)
    inference.load({"weight": np.array(2.0, np.float32)}, slot=1)
    inference.drop(1)
    rows = {"obs": np.ones((1, 2), np.float32)}, {"total": np.zeros((1, 2), np.float32)}
    with pytest.raises(KeyError):
        inference.run(rows[0], privileged={}, state=rows[1], spans=[Span(1, 0, 1)])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("head", "differs from torch by"),
        ("slots", "differs from torch by"),
        ("missing", "run returned heads"),
        ("state", "returned a state"),
        ("copy", "differs from torch by"),
        ("checks", "accepted weights of another network"),
    ],
)
def test_check_inference_finds_broken_runtimes(broken, message):
    """Wrong numbers, shared weights and missing checks."""

    class Broken(Eager):
        def load(self, weights, *, slot=0):
            if broken == "checks" and not weights:
                return
            super().load(weights, slot=0 if broken == "slots" else slot)
            if broken == "copy" and slot == 0:
                self._module.load_state_dict(
                    {name: torch.from_numpy(array) for name, array in weights.items()}, assign=True
                )

        def run(self, observation, *, privileged, state, spans=()):
            if broken == "slots":
                spans = [Span(0, *span[1:]) for span in spans]
            heads, state = super().run(observation, privileged=privileged, state=state, spans=spans)
            if broken == "head":
                heads = {name: head + np.float32(1e-3) for name, head in heads.items()}
            if broken == "missing":
                heads = {"policy": heads["policy"]}
            return Outputs(heads, {"memory": np.zeros(3)} if broken == "state" else state)

    with pytest.raises(ContractError, match=message):
        check_inference(Broken)


class RecurrentNetwork(AccumulatingNetwork):
    """The same for roles of the testing kit."""

    def __init__(self, request):
        super().__init__()
        self.heads = {**request.heads, **request.critic_heads}

    def initial_state(self, rows):
        return {"total": torch.zeros(rows, 1)}

    def unroll(self, observation, privileged, state, *, starts):
        raise NotImplementedError

    def forward(self, observation, privileged, state):
        rows = next(iter(observation.values()))
        total = state["total"] + self.weight * rows.flatten(1).float().mean(1, keepdim=True)
        return {name: total.expand(-1, size) for name, size in self.heads.items()}, {"total": total}


@pytest.mark.parametrize("broken", ["", "first step", "state"])
def test_check_inference_compares_recurrent_states(broken):
    """In the first step and the second one."""

    class Runtime(Eager):
        def run(self, observation, *, privileged, state, spans=()):
            if broken == "first step":
                state = {name: np.zeros_like(leaf) for name, leaf in state.items()}
            heads, after = super().run(observation, privileged=privileged, state=state, spans=spans)
            return Outputs(heads, state if broken == "state" else after)

    def check():
        check_inference(Runtime, build_network=RecurrentNetwork, roles=[ROLE])

    if not broken:
        check()
        return
    with pytest.raises(ContractError, match="'total' differs" if broken == "state" else "head .* differs"):
        check()


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda *_args, **_more: None, "on role 'discrete': run returned None, expected a ludus.inference.Outputs"),
        (
            lambda *_args, **_more: {}["head"],
            r"on role 'discrete': .*test_inference, line \d+, raised KeyError: 'head'",
        ),
    ],
)
def test_errors_of_runtimes_name_the_role(run, message):
    """Exceptions of Python included."""
    with pytest.raises(ContractError, match=message):
        check_inference(type("Broken", (Eager,), {"run": run}))


def test_a_runtime_that_supports_no_network_is_rejected():
    """At least one network must be supported."""

    def refuse(module, request):
        raise UnsupportedNetwork("not this one")

    with pytest.raises(ContractError, match="rejects every role — discrete: not this one"):
        check_inference(refuse)


# -- choosing ----------------------------------------------------------------------------------------------------------


def factory(config, *, module, request):
    """Reject the network; the factory of a component below."""
    raise UnsupportedNetwork("it has no layers")


def fail(config, *, module, request):
    """Raise; the factory of a component below."""
    raise ZeroDivisionError("no rows")


def chosen(name):
    """Return a component with a function of this module as its factory."""
    component = SimpleNamespace(service=None, load_factory=lambda: {"picky": factory, "faulty": fail}[name])
    return SelectedComponent(kind="inference", name=name, config=None, component=component)


def configure(**sampling):
    """Return the configuration of a run with this section."""
    data = {
        "run": {"workers": 0},
        "environment": {"name": "dummy-count"},
        "sampling": sampling,
        "players": {"main": {"algorithm": "dummy-gradient", "matchmaker": "dummy-uniform"}},
    }
    return parse_config(data, source="run.toml", plugins=load_plugins())


def test_torch_runs_unsupported_networks(caplog):
    """A line is logged."""
    with caplog.at_level(logging.INFO, logger="ludus.inference"):
        inference = make_inference(chosen("picky"), AccumulatingNetwork(), REQUEST)
    assert isinstance(inference, Eager)
    assert caplog.messages == ["inference 'picky' cannot run this network (it has no layers); torch runs it"]


def test_an_error_of_a_runtime_names_it():
    """No other runtime is tried."""
    with pytest.raises(PluginError, match="inference 'faulty' failed: ZeroDivisionError: no rows"):
        make_inference(chosen("faulty"), AccumulatingNetwork(), REQUEST)


def test_torch_runs_networks_by_default():
    """No plugin is needed."""
    inference = make_inference(None, AccumulatingNetwork(), REQUEST)
    assert get_weights(inference._module)["weight"] == 1.0


@pytest.mark.parametrize(("name", "found"), [("dummy-torch", "dummy-torch"), ("eager", None)])
def test_a_run_chooses_its_runtime_by_name(name, found):
    """A component, or eager."""
    inference = configure(inference=name).inference
    assert (inference and inference.name) == found


def test_auto_chooses_lean_if_it_is_installed(monkeypatch):
    """No other runtime is tried."""
    installed = load_plugins().components("inference")
    inference = configure().inference
    assert (inference and inference.name) == ("lean" if "lean" in installed else None)
    monkeypatch.setenv("LUDUS_BLOCK_PLUGINS", "ludus-inference")
    assert configure().inference is None


def test_unknown_runtimes_are_rejected():
    """The message lists the known ones."""
    with pytest.raises(ConfigError, match=r"sampling.inference: no installed plugin provides the inference 'leen'"):
        configure(inference="leen")
