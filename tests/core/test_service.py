"""A component's service is a worker of the run, and meets the component's runtimes in samplers."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from attrs import evolve
from ludus._config.run_config import load_config
from ludus._config.sections import Chosen
from ludus._messaging.messages import MetricsReport
from ludus._plugins.manager import load_plugins
from ludus._run.context import RunContext
from ludus._run.factories import make_inference, make_service
from ludus._run.sampler_factory import make_sampler
from ludus._run.service_factory import make_service_worker
from ludus._run.status import measure
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
    """A service that remembers what it was given."""

    def __init__(self, config=None, *, context=None):
        self.config, self.context, self.name = config, context, context.name


def refuse(config, *, context):
    """Fail to make a service."""
    raise OSError("no room")


class Placed(Eager):
    """A runtime that remembers where it is."""

    def __init__(self, config, *, module, request, site):
        super().__init__(module, request)
        self.site = site


class Line:
    """A link that remembers."""

    def __init__(self):
        self.sent = []

    def send(self, peer, message):
        self.sent.append((peer, message))
        return True


CONTEXT = WorkerContext(link=Line(), clock=time.monotonic)


def chosen(service=f"{MODULE}:Serving", factory=f"{MODULE}:Placed"):
    """Return a runtime with a service as if a run had chosen it."""
    component = Component(name="placed", factory=factory, service=service)
    return Chosen(kind="inference", name="placed", config=None, component=component)


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let components name what this file defines."""
    monkeypatch.setitem(sys.modules, MODULE, sys.modules[Serving.__module__])


@pytest.fixture
def config():
    """Return the configuration of a small league whose runtime has a service."""
    path = Path(__file__).parents[2] / "examples" / "tictactoe.toml"
    return evolve(load_config(path, overrides=TINY, plugins=load_plugins()), inference=chosen())


def test_its_networks_are_those_of_samplers(config, tmp_path):
    """For every player, with the shapes that a policy's weights have."""
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


def test_runtimes_and_service_meet_at_one_place(config, tmp_path):
    """Live policies and frozen ones."""
    run = RunContext(config=config, plugins=load_plugins(), run_dir=tmp_path, sockets=tmp_path)
    service = make_service_worker(run, "service-placed", CONTEXT)
    sampler = make_sampler(run, "sampler-0", CONTEXT)
    live = sampler.live["main_agent"].policy._inference
    frozen = sampler.frozen.stack("main_agent").policy._inference
    expected = ServiceEndpoint(worker="sampler-0", player="main_agent", sockets=tmp_path, service=service.name)
    assert live.site == frozen.site == expected
    assert service.name == service_name("placed")


def test_in_one_process_there_is_no_site(config, tmp_path):
    """The runtime has to do without its service."""
    run = RunContext(config=config, plugins=load_plugins(), run_dir=tmp_path)
    sampler = make_sampler(run, "sampler-0", CONTEXT)
    assert sampler.live["main_agent"].policy._inference.site is None
    sampler.close()


def test_a_runtime_without_a_service_knows_no_site(config):
    """Its factory is called as ever."""
    plain = chosen(service=None, factory="ludus_dummy.inference:plain")
    site = ServiceEndpoint(worker="sampler-0", player="main", sockets=Path("/x"), service="service-x")
    network = Network(*next(iter(_networks(config))))
    assert isinstance(make_inference(plain, *network, site=site), Eager)


def _networks(config):
    run = RunContext(config=config, plugins=load_plugins(), run_dir=Path("/nowhere"), sockets=Path("/tmp"))
    return make_service_worker(run, "service-placed", CONTEXT).context.networks["main_agent"]()


def test_a_service_that_cannot_be_made_is_named():
    """As any component."""
    context = ServiceContext(name="service-placed", sockets=Path("/x"), networks={}, link=Line(), clock=time.monotonic)
    with pytest.raises(PluginError, match="inference 'placed' failed: OSError: no room"):
        make_service(chosen(service=f"{MODULE}:refuse"), context)


def test_a_run_of_many_processes_starts_it_first_of_those_who_need_it(config):
    """One per run, before samplers; none where the runtime has no service."""
    workers = plan_workers(config, cores=1)
    assert [worker.name for worker in workers] == ["learner-main_agent", "service-placed", "sampler-0"]
    without = plan_workers(evolve(config, inference=None), cores=1)
    assert [worker.name for worker in without] == ["learner-main_agent", "sampler-0"]


def test_its_numbers_are_metrics(config, tmp_path):
    """Under its name."""
    with league_runner(config.data, tmp_path / "run") as runner:
        runner.coordinator.handle("service-placed", MetricsReport(values={"calls": 3.0}))
        values = {metric.name: metric.value for metric in measure(runner.coordinator)}
    assert values["service-placed/calls"] == 3.0


@pytest.mark.parametrize("path", ["nowhere", "a:b:c", ""])
def test_a_service_is_named_by_its_import_path(path):
    """As the factory is."""
    with pytest.raises(ValueError, match="import path"):
        Component(name="a", factory="a:b", service=path)


def test_a_component_without_a_service():
    """Has none to load."""
    assert Component(name="a", factory="a:b").load_service() is None
    assert chosen().component.load_service() is sys.modules[MODULE].Serving
