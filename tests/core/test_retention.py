"""Models that no pool keeps lose their weights, but stay in the log and in the lineage."""

from __future__ import annotations

import pytest
import tomli_w
from ludus._config.run_config import load_config
from ludus._config.sections import RetentionSection
from ludus._league.changes import FreezeRequests
from ludus._league.league import League
from ludus._league.outbox import Outbox
from ludus._league.retention import Retention
from ludus._plugins.manager import load_plugins
from ludus._run.runner import resume, train
from ludus._store.store import Store
from ludus.errors import ModelError, StoreError
from ludus.records import Fixture
from ludus.runs import open_run, repair_files
from ludus_terminal.verify import verify

KEPT = {"keep_newest": 2, "keep_every": 4}


def make_config(folder, retention, *, keep=1000):
    """Return the configuration of one player that freezes a model every 300 decisions."""
    config = {
        "run": {"seed": 3, "workers": 0, "decisions": 3000},
        "environment": {"name": "dummy-count"},
        "sampling": {"matches": 8, "fixture_matches": 8, "rows_per_fixture": 4},
        "players": {
            "main": {
                "algorithm": "dummy-gradient",
                "dummy-gradient": {"segment_decisions": 4, "batch_decisions": 64},
                "matchmaker": "dummy-uniform",
                "dummy-uniform": {"keep": keep},
                "freeze_every_decisions": 300,
            }
        },
        "anchors": {"random": {"agent": "dummy-random"}},
        "evaluation": {"matches": 8, "fixture_matches": 5, "final_matches": 4},
        "league": {"retention": retention},
    }
    path = folder / "league.toml"
    path.write_text(tomli_w.dumps(config), encoding="utf-8")
    return load_config(path, plugins=load_plugins())


@pytest.fixture
def trained(tmp_path):
    """Return the folder of a run that has retired models."""
    config = make_config(tmp_path, {"dummy": KEPT})
    train(config, plugins=load_plugins(), run_dir=tmp_path / "run", print_line=lambda line: None)
    return tmp_path / "run"


def continue_run(run_dir, decisions):
    """Resume a run."""
    overrides = [f"run.decisions={decisions}"]
    resume(run_dir, plugins=load_plugins(), overrides=overrides, print_line=lambda line: None)


def retention_of(store, policies, clock=lambda: 0.0):
    """Return the retention of a league, as it is when a run starts."""
    league = League.of(store)
    retention = Retention(policies=policies, league=league, requests=FreezeRequests(league, Outbox()), clock=clock)
    retention.start()
    return retention


def weights_at_next_start(run_dir):
    """Return `weights` after the fixtures of the last session were closed and a start has deleted what they kept."""
    with Store.open(run_dir) as store:
        for fixture in store.fixtures.unfinished():
            store.fixtures.close(fixture.id)
        store.commit()
        retention_of(store, {})
    return weights(run_dir)


def weights(run_dir):
    """Return the models whose weights are on the disk, and the hashes by model."""
    with Store.read(run_dir) as store:
        hashes = {model.participant: model.hash for model in store.models.records()}
    return {name for name, digest in hashes.items() if (run_dir / "models" / f"{digest}.safetensors").exists()}, hashes


def expected(num_models):
    """Return the models that the policy keeps."""
    newest = range(num_models - KEPT["keep_newest"] + 1, num_models + 1)
    return {f"main@{number}" for number in range(1, num_models + 1) if number % 4 == 0 or number in newest}


def test_a_run_keeps_every_model_by_default(tmp_path):
    """No table, no retired model."""
    config = make_config(tmp_path, {})
    train(config, plugins=load_plugins(), run_dir=tmp_path / "run", print_line=lambda line: None)
    kept, hashes = weights(tmp_path / "run")
    assert kept == set(hashes)
    assert len(kept) > 7


def test_only_the_models_of_the_policy_keep_their_weights(trained):
    """The others leave the pool; their manifests, results and rows are kept, and the run verifies."""
    continue_run(trained, 3900)
    kept, hashes = weights_at_next_start(trained)
    assert len(hashes) > 9
    assert kept == expected(len(hashes))
    assert all((trained / "models" / f"{digest}.json").exists() for digest in hashes.values())
    with open_run(trained) as run:
        assert set(run.pools["dummy"]) == kept
        assert run.retired == set(hashes) - kept
        assert set(run.league.players["main"].models) == kept
        assert {name for _, name, _ in run.payoffs()} >= {"main@1", "main@2"}
        assert run.league.rating("main@1").matches > 0
        assert verify(run).problems == ()
        environment = run.make_environment(1)
        with pytest.raises(ModelError, match=r"the weights of main@1 were deleted \(league.retention\)"):
            run.agent("main@1", "player", environment=environment)


def test_models_that_matchmakers_remove_from_a_pool_are_retired(tmp_path):
    """The pool has a capacity of three models; every fourth model keeps its weights."""
    config = make_config(tmp_path, {"dummy": {"keep_newest": 5, "keep_every": 4}}, keep=3)
    train(config, plugins=load_plugins(), run_dir=tmp_path / "run", print_line=lambda line: None)
    kept, hashes = weights_at_next_start(tmp_path / "run")
    assert kept == {name for name in hashes if int(name[5:]) % 4 == 0 or int(name[5:]) > len(hashes) - 3}


def test_a_start_deletes_files_that_a_crash_has_left(trained):
    """The file of a retired model is there again."""
    _, hashes = weights(trained)
    left = trained / "models" / f"{hashes['main@1']}.safetensors"
    left.write_bytes(b"weights")
    continue_run(trained, 3100)
    assert not left.exists()


def test_files_are_deleted_after_the_commit(tmp_path, monkeypatch):
    """If the commit that retires the first model fails, all weights are there, and a resumed run retires it again."""
    commit, run_dir = Store.commit, tmp_path / "run"

    def fail_after_retirement(store):
        if store.retired.names():
            store.rollback()
            raise StoreError("the disk failed")
        commit(store)

    config = make_config(tmp_path, {"dummy": KEPT})
    with monkeypatch.context() as patch:
        patch.setattr(Store, "commit", fail_after_retirement)
        with pytest.raises(StoreError, match="the disk failed"):
            train(config, plugins=load_plugins(), run_dir=run_dir, print_line=lambda line: None)
    kept, hashes = weights(run_dir)
    assert kept == set(hashes)
    assert kept >= {"main@1", "main@2"}
    continue_run(run_dir, 3000)
    kept, hashes = weights_at_next_start(run_dir)
    assert kept == expected(len(hashes))


def test_repair_leaves_retired_models_alone(trained):
    """Their missing weights are no damage; a missing manifest is written again."""
    _, hashes = weights(trained)
    (trained / "models" / f"{hashes['main@1']}.json").unlink()
    (line,) = repair_files(trained)
    assert line.startswith("main@1: ")
    assert "written again from the database" in line
    with open_run(trained) as run:
        assert (run.quarantined, verify(run).problems) == ({}, ())


def test_models_of_open_fixtures_keep_their_weights(trained):
    """Until the fixture is closed, a worker may load them."""
    weights_at_next_start(trained)
    now = [0.0]
    with Store.open(trained) as store:
        retention = retention_of(store, {"dummy": RetentionSection(keep_newest=1)}, clock=lambda: now[0])
        league = retention.league
        oldest, *_, newest = league.pool("dummy")
        names = (oldest, "random")
        fixture = league.create_fixture(
            Fixture(id=0, kind="eval", player="", participants=names, matches=1, seed=1, reason="test")
        )
        retention.apply()
        store.commit()
        retention.delete_files()
        assert weights(trained)[0] == {oldest, newest}
        store.fixtures.close(fixture.id)
        store.commit()
        retention.delete_files()
        assert weights(trained)[0] == {oldest, newest}
        now[0] += 10
        retention.delete_files()
        assert weights(trained)[0] == {newest}
