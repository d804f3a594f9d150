"""Workers are put together from the configuration: the same in one process and in many."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from ludus._config.run_config import parse_config
from ludus._plugins.manager import load_plugins
from ludus._run.assembly import Assembly
from ludus._run.factories import make_environment
from ludus._store.model_files import save_arrays
from ludus._store.store import Store
from ludus.errors import ConfigError
from ludus.launcher import RemoteSamplerSpec, WorkerContext
from ludus.workers import remote_sampler_spec
from ludus_dummy.algorithm import Gradient
from ludus_dummy.count import Count

CONTEXT = WorkerContext(link=None, clock=lambda: 0.0)


@pytest.fixture
def assemble(tables, tmp_path):
    """Return a maker of assemblies."""

    def make(*, session=1, **given):
        plugins = load_plugins()
        config = parse_config(tables(**given), source="test", plugins=plugins)
        return Assembly(config=config, plugins=plugins, run_dir=tmp_path, session=session)

    return make


def spec_of(assembly):
    """Return the spec of an assembly's game."""
    environment = make_environment(assembly.config.environment, 1)
    environment.close()
    return environment.spec


def test_a_sampler_is_as_configured(assemble):
    """Rows, tables, and a live actor for every player."""
    made = assemble(players={"main": {}, "other": {}}).sampler("sampler-0", CONTEXT)
    assert (made.kind, made.environment.num_matches, made.rows_per_fixture) == ("train", 8, 4)
    assert set(made.live) == {"main", "other"}
    assert made.live["main"].recorder.seat_ids == 16


def test_a_learner_knows_what_samplers_record(assemble):
    """Of each player, so that it can tell what is none of that."""
    assembly = assemble(players={"main": {}, "other": {"dummy-gradient": {"segment_decisions": 7}}})
    sampler = assembly.sampler("sampler-0", CONTEXT)
    layouts = {player: assembly.learner(player, CONTEXT).layout for player in sampler.live}
    assert layouts == {player: actor.recorder.layout for player, actor in sampler.live.items()}
    assert layouts["main"] != layouts["other"]


def test_an_environment_whose_sampler_cannot_be_made_is_closed(assemble, monkeypatch):
    """It may have processes of its own."""
    closed, close = [], Count.close
    monkeypatch.setattr(Count, "close", lambda game: [closed.append(game.num_matches), close(game)])
    monkeypatch.setattr(Gradient, "make_policy", lambda algorithm: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        assemble().sampler("sampler-0", CONTEXT)
    assert closed == [8]


def test_samplers_and_restarts_have_their_own_randomness(assemble):
    """No two play the same matches in the same way."""
    draws = {
        (name, session): assemble(session=session).sampler(name, CONTEXT).live["main"].rng.random()
        for name in ("sampler-0", "sampler-1")
        for session in (1, 2)
    }
    assert len(set(draws.values())) == 4


def test_an_evaluator_learns_nothing(assemble):
    """It has no live actors and its own number of rows."""
    made = assemble(evaluation={"matches": 6}).worker("evaluator-0", CONTEXT)
    assert (made.kind, made.live, made.environment.num_matches) == ("eval", {}, 6)


def test_budgets_are_those_of_the_run(assemble):
    """Whatever the share of a player: all reach the end of their schedules together."""
    assembly = assemble(run={"minutes": 2.0, "decisions": 1000}, players={"main": {}, "other": {}})
    options = assembly.learner("main", CONTEXT).options
    assert (options.budget_decisions, options.budget_s) == (1000, 120)


def test_the_manifest_says_where_a_model_comes_from(assemble):
    """What learned it, from which options, with which versions."""
    manifest = assemble().learner("main", CONTEXT).options.manifest
    assert (manifest["environment"], manifest["algorithm"]) == ("dummy-count", "dummy-gradient")
    assert manifest["config"]["dummy-gradient"]["batch_decisions"] == 64
    assert {"ludus", "ludus-dummy"} <= set(manifest["versions"])
    assert "unknown" not in manifest["versions"].values()


def test_a_player_starts_from_a_given_model(assemble, tmp_path):
    """Instead of fresh weights."""
    weights = {
        "policy": np.full((12, 3), 7, np.float32),
        "value": np.zeros(12, np.float32),
    }
    digest = save_arrays(tmp_path / "models", weights, {})
    learner = assemble(players={"main": {"init": str(tmp_path / "models" / f"{digest}.safetensors")}}).learner(
        "main", CONTEXT
    )
    assert (learner.trainer.weights()["policy"] == 7).all()


def plan(assembly, cores):
    """Return how many samplers there will be, and the threads of a learner."""
    workers = assembly.workers(cores)
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
def test_learners_share_the_cores_that_samplers_leave(assemble, run, players, threads):
    """At least one each."""
    assembly = assemble(run=run, players={f"p{i}": {} for i in range(players)})
    assert plan(assembly, 8.0)[1] == threads


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
def test_samplers_take_what_learners_leave(assemble, cores, run, players, samplers, threads):
    """Half of the cores, or all but one for each learner on another device; at least one."""
    assembly = assemble(run=run, players={f"p{i}": {} for i in range(players)})
    config = evolve(assembly.config, run=evolve(assembly.config.run, workers=None))
    assembly = evolve(assembly, config=config)
    assert plan(assembly, cores) == (samplers, threads)


def test_helpers_take_their_part_of_what_learners_get(assemble):
    """One worker for every process but the first of a learner; in one process there are none."""
    players = {"cat": {"learner_processes": 3}, "mouse": {}}
    workers = assemble(run={"workers": 2}, players=players).workers(10.0)
    learning = {worker.name: worker.threads for worker in workers if not worker.name.startswith(("sampler", "eval"))}
    assert learning == {"learner-cat": 2, "learner-mouse": 2, "helper-1-cat": 2, "helper-2-cat": 2}
    alone = assemble(run={"workers": 0}, players=players).workers(1.0)
    assert not any(worker.name.startswith("helper") for worker in alone)


def test_learners_and_helpers_get_gpus_in_turn(assemble, monkeypatch):
    """Unless one is named."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    players = {"cat": {"learner_processes": 2}, "mouse": {"learner_processes": 2}}
    for device, expected in (("cuda", ["cuda:0", "cuda:1", "cuda:2", "cuda:0"]), ("cuda:1", ["cuda:1"] * 4)):
        assembly = assemble(run={"device": device}, players=players)
        assert [assembly._device(player, rank) for player in players for rank in (0, 1)] == expected


def test_a_launcher_without_groups_has_no_helpers(assemble):
    """The learner learns alone."""
    assembly = assemble(players={"main": {"learner_processes": 2}})
    assert assembly.learner("main", CONTEXT).meeting is None


def test_a_league_knows_who_plays_which_team(assemble, tmp_path):
    """A symmetric role takes any team."""
    for environment, team, players in (("dummy-count", None, {"main": {}}), ("dummy-guess", 1, {"main": {"role": "seeker"}})):  # fmt: skip # noqa: E501
        assembly = assemble(environment=environment, players=players)
        with Store.create(tmp_path / environment, {}) as store:
            coordinator = assembly.coordinator(store, link=None, clock=lambda: 0.0)
            assert coordinator.league.players["main"].team == team


def test_an_anchor_that_is_not_configured_is_told(assemble):
    """The line names it and those there are."""
    assembly = assemble()
    with pytest.raises(ConfigError, match="participant 'nobody': no such anchor; there are random"):
        assembly.anchor("nobody", "player", spec_of(assembly))


def test_players_configured_alike_share_the_memory_of_their_models(assemble):
    """Other options of the algorithm, another role or other interfaces make another architecture."""
    alike = {"main": {}, "twin": {}, "other": {"interfaces": ["dummy-reverse"]}, "third": {"share": 2.0}}
    cache = assemble(players=alike).opponents("sampler-0", spec_of(assemble()), 4)
    assert cache.kin == {"main": "main", "twin": "main", "other": "other", "third": "main"}


def test_the_cache_of_opponents_has_the_size_configured(assemble):
    """In bytes of weights."""
    assembly = assemble(sampling={"matches": 8, "rows_per_fixture": 4, "opponent_cache_mb": 3})
    assert assembly.opponents("sampler-0", spec_of(assembly), 4).budget_bytes == 3 * 2**20


# -- samplers elsewhere ----------------------------------------------------------------------------------------------

OUTPOST_RUN = {"workers": 2, "sampler_threads": 3, "stall_s": 45.0, "restarts": 4}


def test_an_outpost_is_what_samplers_need(toml, tmp_path):
    """Read from nothing but the configuration; whom they meet, and how they are looked after."""
    toml(players={"main": {}, "other": {}}, run=OUTPOST_RUN)
    assert remote_sampler_spec(tmp_path) == RemoteSamplerSpec(
        threads=3, service="", learners=("learner-main", "learner-other"), stall_s=45.0, restarts=4
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


@pytest.mark.parametrize(("workers", "service"), [(0, ""), (2, "service-server")])
def test_an_outpost_has_a_service_where_the_run_has_one(toml, tmp_path, workers, service):
    """Samplers ask it on their own computer."""
    toml(run=OUTPOST_RUN | {"workers": workers}, sampling={"inference": "server"})
    assert remote_sampler_spec(tmp_path).service == service


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"environment": "missing"}, "environment 'missing'"),
        ({"players": {"main": {"algorithm": "missing"}}}, "algorithm 'missing'"),
        ({"sampling": {"inference": "missing"}}, "inference 'missing'"),
    ],
    ids=["environment", "algorithm", "inference"],
)
def test_an_outpost_needs_what_the_run_names(toml, tmp_path, given, missing):
    """All that is missing on this computer is named."""
    toml(**given)
    with pytest.raises(ConfigError, match=f"no installed plugin provides the {missing}"):
        remote_sampler_spec(tmp_path)


def test_an_outpost_needs_a_configuration(tmp_path):
    """The file is named."""
    with pytest.raises(ConfigError, match=r"run\.toml"):
        remote_sampler_spec(tmp_path)
