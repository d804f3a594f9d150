"""The factories of workers: what samplers, learners, evaluators and the coordinator are configured with."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._config.run_config import parse_config
from ludus._plugins.manager import load_plugins
from ludus._run.context import RunContext
from ludus._run.coordinator_factory import make_coordinator
from ludus._run.factories import make_environment
from ludus._run.worker_factories import (
    learner_device,
    make_actor_cache,
    make_anchor_agent,
    make_learner,
    make_sampler,
    make_worker,
)
from ludus._store.model_files import save_arrays
from ludus._store.store import Store
from ludus.errors import ConfigError
from ludus.launcher import WorkerContext
from ludus_dummy.algorithm import Gradient
from ludus_dummy.count import Count

CONTEXT = WorkerContext(link=None, clock=lambda: 0.0)


@pytest.fixture
def context(tables, tmp_path):
    """Return a function that makes the context of a run from tables."""

    def make(*, session=1, **sections):
        plugins = load_plugins()
        config = parse_config(tables(**sections), source="test", plugins=plugins)
        return RunContext(config=config, plugins=plugins, run_dir=tmp_path, session=session)

    return make


def test_sampler_follows_the_configuration(context):
    """It has the configured numbers of matches, and a live actor for every player."""
    made = make_sampler(context(players={"main": {}, "other": {}}), "sampler-0", CONTEXT)
    assert (made.kind, made.environment.num_matches, made.matches_per_lane) == ("train", 8, 4)
    assert set(made.live) == {"main", "other"}
    assert made.live["main"].recorder.num_trajectories == 16


def test_learner_and_samplers_agree_on_the_segment_layout(context):
    """The learner of each player rejects segments of another layout."""
    run = context(players={"main": {}, "other": {"dummy-gradient": {"segment_decisions": 7}}})
    sampler = make_sampler(run, "sampler-0", CONTEXT)
    layouts = {player: make_learner(run, player, CONTEXT).layout for player in sampler.live}
    assert layouts == {player: actor.recorder.layout for player, actor in sampler.live.items()}
    assert layouts["main"] != layouts["other"]


def test_failed_sampler_closes_its_environment(context, monkeypatch):
    """An environment may own processes."""
    closed, close = [], Count.close
    monkeypatch.setattr(Count, "close", lambda game: [closed.append(game.num_matches), close(game)])
    monkeypatch.setattr(Gradient, "make_policy", lambda algorithm: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        make_sampler(context(), "sampler-0", CONTEXT)
    assert closed == [8]


def test_samplers_and_sessions_have_separate_random_streams(context):
    """No two samplers make the same random decisions."""
    draws = {
        (name, session): make_sampler(context(session=session), name, CONTEXT).live["main"].rng.random()
        for name in ("sampler-0", "sampler-1")
        for session in (1, 2)
    }
    assert len(set(draws.values())) == 4


def test_evaluator_has_no_live_actors(context):
    """It has its own number of matches."""
    made = make_worker(context(evaluation={"matches": 6}), "evaluator-0", CONTEXT)
    assert (made.kind, made.live, made.environment.num_matches) == ("eval", {}, 6)


def test_learner_budgets_are_those_of_the_run(context):
    """All players reach the end of their schedules together, regardless of their shares."""
    run = context(run={"minutes": 2.0, "decisions": 1000}, players={"main": {}, "other": {}})
    options = make_learner(run, "main", CONTEXT).options
    assert (options.budget.decisions, options.budget.seconds) == (1000, 120)


def test_manifest_holds_the_origin_of_a_model(context):
    """It names the algorithm, its options and the installed versions."""
    manifest = make_learner(context(), "main", CONTEXT).options.manifest
    assert (manifest["environment"], manifest["algorithm"]) == ("dummy-count", "dummy-gradient")
    assert manifest["config"]["dummy-gradient"]["batch_decisions"] == 64
    assert {"ludus", "ludus-dummy"} <= set(manifest["versions"])
    assert "unknown" not in manifest["versions"].values()


def test_player_starts_from_the_model_of_its_init_option(context, tmp_path):
    """The trainer loads the weights of the model file."""
    weights = {
        "policy": np.full((12, 3), 7, np.float32),
        "value": np.zeros(12, np.float32),
    }
    digest = save_arrays(tmp_path / "models", weights, {})
    run = context(players={"main": {"init": str(tmp_path / "models" / f"{digest}.safetensors")}})
    learner = make_learner(run, "main", CONTEXT)
    assert (learner.state.trainer.weights()["policy"] == 7).all()


def test_learners_and_helpers_get_gpus_in_turn(context, monkeypatch):
    """A device with an index is used by all of them."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    players = {"cat": {"learner_processes": 2}, "mouse": {"learner_processes": 2}}
    for device, expected in (("cuda", ["cuda:0", "cuda:1", "cuda:2", "cuda:0"]), ("cuda:1", ["cuda:1"] * 4)):
        config = context(run={"device": device}, players=players).config
        assert [learner_device(config, player, rank) for player in players for rank in (0, 1)] == expected


def test_learner_without_a_rendezvous_has_no_helpers(context):
    """A launcher without process groups runs every learner as one process."""
    run = context(players={"main": {"learner_processes": 2}})
    assert make_learner(run, "main", CONTEXT).group_formation is None


@pytest.mark.parametrize(
    ("environment", "player", "team"), [("dummy-count", {}, None), ("dummy-guess", {"role": "seeker"}, 1)]
)
def test_league_members_have_the_team_of_their_role(context, tmp_path, environment, player, team):
    """A player of a symmetric role has no fixed team."""
    run = context(environment=environment, players={"main": player})
    with Store.create(tmp_path / environment, {}) as store:
        coordinator = make_coordinator(run, store, link=None, clock=lambda: 0.0)
        assert coordinator.league.players["main"].team == team


def test_unknown_anchor_is_an_error(context):
    """The message names the configured anchors."""
    run = context()
    with pytest.raises(ConfigError, match="participant 'nobody': no such anchor; there are random"):
        make_anchor_agent(run.config, "nobody", "player", run.spec)


def test_an_anchor_plays_behind_interfaces(tables):
    """Its agent sees the transformed spaces, and its actions are transformed back."""
    behind = {"agent": "dummy-perfect", "interfaces": ["dummy-scale", "dummy-reverse"], "dummy-scale": {"reward": 2.0}}
    config = parse_config(
        {**tables(), "anchors": {"plain": {"agent": "dummy-perfect"}, "behind": behind}},
        source="test",
        plugins=load_plugins(),
    )
    spec = make_environment(config.environment, 1).spec
    seen = {"obs": np.eye(*spec.role("player").observation_space.shape, dtype=np.float32)[1:4]}
    mask, seats, rng = np.ones((3, 3), bool), np.arange(3), np.random.default_rng(0)
    actions = [
        make_anchor_agent(config, name, "player", spec).act(seen, action_mask=mask, seat_ids=seats, rng=rng)
        for name in ("plain", "behind")
    ]
    assert len(np.unique(actions[0])) > 1
    assert (2 - actions[0]).tolist() == actions[1].tolist()


def test_players_of_one_architecture_share_a_stack_of_models(context):
    """The architecture depends on the options of the algorithm and the network, the role and the interfaces."""
    alike = {"main": {}, "twin": {}, "other": {"interfaces": ["dummy-reverse"]}, "third": {"share": 2.0}}
    run = context(players=alike)
    cache = make_actor_cache(run, "sampler-0", run.spec, 4)
    assert cache.architecture_owners == {"main": "main", "twin": "main", "other": "other", "third": "main"}


def test_actor_cache_has_the_configured_size(context):
    """The option is in MiB of weights, the cache in bytes."""
    run = context(sampling={"matches": 8, "rows_per_fixture": 4, "opponent_cache_mb": 3})
    assert make_actor_cache(run, "sampler-0", run.spec, 4).budget_bytes == 3 * 2**20


def test_evaluator_makes_its_environment_when_it_plays(context, monkeypatch):
    """Copies may be expensive, and there may be nothing to rate; it has as many as a sampler, at most 64."""
    made, init = [], Count.__init__
    monkeypatch.setattr(
        Count, "__init__", lambda self, *args, **options: (made.append(self), init(self, *args, **options))[1]
    )
    run = context(evaluation={"matches": 0}, sampling={"matches": 12})
    _ = run.spec
    evaluator = make_worker(run, "evaluator-0", CONTEXT)
    assert (len(made), evaluator.environment.num_matches) == (1, 12)
    evaluator.environment.reset(np.arange(12, dtype=np.uint64))
    assert [game.num_matches for game in made] == [1, 12]
    evaluator.close()
    assert context(evaluation={"matches": 0}, sampling={"matches": 500}).config.evaluation_matches == 64
