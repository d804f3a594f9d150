"""The plan of a run's workers: how many processes of each kind, with how many threads."""

from __future__ import annotations

import pytest
from attrs import evolve
from ludus._config.run_config import parse_config
from ludus._plugins.manager import load_plugins
from ludus._run.worker_plan import plan_workers
from ludus.errors import ConfigError
from ludus.launcher import RemoteSamplerSpec
from ludus.workers import remote_sampler_spec


@pytest.fixture
def parse(tables):
    """Return a function that parses a configuration from tables."""

    def parse(**sections):
        return parse_config(tables(**sections), source="test", plugins=load_plugins())

    return parse


def count_samplers_and_threads(config, cores):
    """Return the number of planned samplers, and the threads of each learner."""
    workers = plan_workers(config, cores)
    threads = {worker.threads for worker in workers if worker.name.startswith("learner")}
    return sum(worker.name.startswith("sampler") for worker in workers), *threads


@pytest.mark.parametrize(
    ("run", "players", "threads"),
    [
        ({"learner_threads": 5}, 1, 5),
        ({"workers": 2, "sampler_threads": 2}, 1, 4),
        ({"workers": 2, "sampler_threads": 2}, 2, 2),
        ({"workers": 9}, 1, 1),
    ],
)
def test_learners_share_the_cores_that_samplers_leave(parse, run, players, threads):
    """Each learner gets at least one thread."""
    config = parse(run=run, players={f"p{i}": {} for i in range(players)})
    assert count_samplers_and_threads(config, 8.0)[1] == threads


@pytest.mark.parametrize(
    ("cores", "run", "players", "samplers", "threads"),
    [
        (2.0, {}, 1, 1, 1),
        (0.5, {}, 3, 1, 1),
        (16.0, {}, 1, 8, 8),
        (16.0, {}, 2, 8, 4),
        (16.0, {"sampler_threads": 2}, 1, 4, 8),
        (16.0, {"device": "cuda"}, 2, 14, 1),
        (4.0, {}, 3, 1, 1),
    ],
)
def test_samplers_use_the_cores_that_learners_leave(parse, cores, run, players, samplers, threads):
    """Learners reserve half of the cores, or one core each on another device; one sampler always remains."""
    config = parse(run=run, players={f"p{i}": {} for i in range(players)})
    config = evolve(config, run=evolve(config.run, workers=None))
    assert count_samplers_and_threads(config, cores) == (samplers, threads)


def test_helpers_share_the_threads_of_learners(parse):
    """Every process of a learner but the first is a helper; a single-process run has no helpers."""
    players = {"cat": {"learner_processes": 3}, "mouse": {}}
    workers = plan_workers(parse(run={"workers": 2}, players=players), 10.0)
    learning = {worker.name: worker.threads for worker in workers if not worker.name.startswith(("sampler", "eval"))}
    assert learning == {"learner-cat": 2, "learner-mouse": 2, "helper-1-cat": 2, "helper-2-cat": 2}
    single = plan_workers(parse(run={"workers": 0}, players=players), 1.0)
    assert not any(worker.name.startswith("helper") for worker in single)


# -- samplers on other hosts -----------------------------------------------------------------------------------------

LIMITS = {"log_mb": 2.0, "sampler_memory_mb": 500, "sampler_processes": 7}
REMOTE_RUN = {"workers": 2, "sampler_threads": 3, "stall_s": 45.0, "restarts": 4, **LIMITS}


def test_remote_sampler_spec_is_read_from_the_configuration_alone(toml, tmp_path):
    """The specification holds threads, learners and limits, and nothing is written."""
    toml(players={"main": {}, "other": {}}, run=REMOTE_RUN)
    assert remote_sampler_spec(tmp_path) == RemoteSamplerSpec(
        threads=3, service="", learners=("learner-main", "learner-other"), stall_s=45.0, restarts=4, **LIMITS
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


@pytest.mark.parametrize(("workers", "service"), [(0, ""), (2, "service-server")])
def test_remote_samplers_need_the_service_of_the_run(toml, tmp_path, workers, service):
    """Only a run of several processes has a service."""
    toml(run=REMOTE_RUN | {"workers": workers}, sampling={"inference": "server"})
    assert remote_sampler_spec(tmp_path).service == service


@pytest.mark.parametrize(
    ("sections", "missing"),
    [
        ({"environment": "missing"}, "environment 'missing'"),
        ({"players": {"main": {"algorithm": "missing"}}}, "algorithm 'missing'"),
        ({"sampling": {"inference": "missing"}}, "inference 'missing'"),
    ],
    ids=["environment", "algorithm", "inference"],
)
def test_remote_sampler_spec_names_missing_components(toml, tmp_path, sections, missing):
    """A component of the run that is not installed on this host is an error."""
    toml(**sections)
    with pytest.raises(ConfigError, match=f"no installed plugin provides the {missing}"):
        remote_sampler_spec(tmp_path)


def test_remote_sampler_spec_needs_a_configuration(tmp_path):
    """The error names the missing file."""
    with pytest.raises(ConfigError, match=r"run\.toml"):
        remote_sampler_spec(tmp_path)
