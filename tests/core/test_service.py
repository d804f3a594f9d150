"""A component's service is a worker of the run, and the runtimes in samplers get its address."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from attrs import evolve
from ludus._config.run_config import load_config
from ludus._config.section_reader import SelectedComponent
from ludus._messaging.messages import MetricsReport
from ludus._plugins.manager import load_plugins
from ludus._run.context import RunContext
from ludus._run.factories import make_inference, make_service
from ludus._run.metrics import collect_metrics
from ludus._run.worker_factories import make_sampler, make_service_worker
from ludus._run.worker_plan import plan_workers, service_name
from ludus.component import Component
from ludus.errors import PluginError
from ludus.inference import Eager
from ludus.launcher import WorkerContext
from ludus.service import Network, ServiceContext, ServiceEndpoint
from ludus.testing import league_runner

MODULE = __name__
TINY = ("players.main_agent.mlp.hidden=[4]", "evaluation.enabled=false", "players.main_agent.interfaces=[]")


class Serving:
    """A service that stores its context."""

    def __init__(self, config=None, *, context=None):
        self.config, self.context, self.name = config, context, context.name


def refuse(config, *, context):
    """Fail to make a service."""
    raise OSError("no room")


class Placed(Eager):
    """A runtime that stores its endpoint."""

    def __init__(self, config, *, module, request, site):
        super().__init__(module, request)
        self.site = site


class Line:
    """A link that stores messages."""

    def __init__(self):
        self.sent = []

    def send(self, peer, message):
        self.sent.append((peer, message))
        return True


CONTEXT = WorkerContext(link=Line(), clock=time.monotonic)


def chosen(service=f"{MODULE}:Serving", factory=f"{MODULE}:Placed"):
    """Return a runtime with a service, as a run has chosen it."""
    component = Component(name="placed", factory=factory, service=service)
    return SelectedComponent(kind="inference", name="placed", config=None, component=component)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let components refer to classes of this file."""
    monkeypatch.setitem(sys.modules, MODULE, sys.modules[Serving.__module__])


@pytest.fixture
def config():
    """Return the configuration of a small league whose runtime has a service."""
    path = Path(__file__).parents[2] / "examples" / "tictactoe.toml"
    return evolve(load_config(path, overrides=TINY, plugins=load_plugins()), inference=chosen())


def test_a_service_makes_the_networks_of_samplers(config, tmp_path):
    """For every player, with the shapes of a policy's weights."""
    run = RunContext(config=config, plugins=load_plugins(), run_dir=tmp_path, sockets=tmp_path)
    context = make_service_worker(run, "service-placed", CONTEXT).context
    assert (context.name, context.sockets, context.clock) == ("service-placed", tmp_path, time.monotonic)
    assert isinstance(context.link, Line)
    ((module, request),) = context.networks["main_agent"]()
    assert request.heads == {"policy": 9}
    sampler = make_sampler(run, "sampler-0", CONTEXT)
    theirs = sampler.live["main_agent"].policy._inference._module
    assert {name: t.shape for name, t in module.state_dict().items()} == {
        name: t.shape for name, t in theirs.state_dict().items()
    }


def test_runtimes_and_service_get_the_same_endpoint(config, tmp_path):
    """In live policies and frozen ones."""
    run = RunContext(config=config, plugins=load_plugins(), run_dir=tmp_path, sockets=tmp_path)
    service = make_service_worker(run, "service-placed", CONTEXT)
    sampler = make_sampler(run, "sampler-0", CONTEXT)
    live = sampler.live["main_agent"].policy._inference
    frozen = sampler.frozen.make_stack("main_agent").policy._inference
    expected = ServiceEndpoint(worker="sampler-0", player="main_agent", sockets=tmp_path, service=service.name)
    assert live.site == frozen.site == expected
    assert service.name == service_name("placed")


def test_single_process_runs_have_no_endpoint(config, tmp_path):
    """The runtime works without its service."""
    run = RunContext(config=config, plugins=load_plugins(), run_dir=tmp_path)
    sampler = make_sampler(run, "sampler-0", CONTEXT)
    assert sampler.live["main_agent"].policy._inference.site is None
    sampler.close()


def test_a_runtime_without_a_service_gets_no_endpoint(config):
    """Its factory is called without one."""
    plain = chosen(service=None, factory="ludus_dummy.networks:plain")
    site = ServiceEndpoint(worker="sampler-0", player="main", sockets=Path("/x"), service="service-x")
    network = Network(*next(iter(_networks(config))))
    assert isinstance(make_inference(plain, *network, site=site), Eager)


def _networks(config):
    run = RunContext(config=config, plugins=load_plugins(), run_dir=Path("/nowhere"), sockets=Path("/tmp"))
    return make_service_worker(run, "service-placed", CONTEXT).context.networks["main_agent"]()


def test_errors_of_a_service_name_the_component():
    """As of any component."""
    context = ServiceContext(name="service-placed", sockets=Path("/x"), networks={}, link=Line(), clock=time.monotonic)
    with pytest.raises(PluginError, match="inference 'placed' failed: OSError: no room"):
        make_service(chosen(service=f"{MODULE}:refuse"), context)


def test_a_service_is_started_before_the_samplers(config):
    """One per run; none if the runtime has no service."""
    workers = plan_workers(config, cores=1)
    assert [worker.name for worker in workers] == ["learner-main_agent", "service-placed", "sampler-0"]
    without = plan_workers(evolve(config, inference=None), cores=1)
    assert [worker.name for worker in without] == ["learner-main_agent", "sampler-0"]


def test_values_of_a_service_are_metrics(config, tmp_path):
    """Under its name."""
    with league_runner(config.data, tmp_path / "run") as runner:
        runner.coordinator.handle("service-placed", MetricsReport(values={"calls": 3.0}))
        values = {metric.name: metric.value for metric in collect_metrics(runner.coordinator)}
    assert values["service-placed/calls"] == 3.0


@pytest.mark.parametrize("path", ["nowhere", "a:b:c", ""])
def test_a_service_is_given_by_its_import_path(path):
    """Like the factory."""
    with pytest.raises(ValueError, match="import path"):
        Component(name="a", factory="a:b", service=path)


def test_a_component_without_a_service():
    """It has none to load."""
    assert Component(name="a", factory="a:b").load_service() is None
    assert chosen().component.load_service() is sys.modules[MODULE].Serving
