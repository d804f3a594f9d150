"""Damaged checkpoints and models are replaced or taken out of the league, and the run goes on."""

from __future__ import annotations

import os
import shutil
import struct

import pytest
import tomli_w
from ludus._config.run_config import load_config
from ludus._league.damage import damage_of
from ludus._learning import publisher
from ludus._plugins.manager import load_plugins
from ludus._run.runner import resume, train
from ludus._store.model_files import check_model, load_checkpoint, load_manifest
from ludus._store.store import Store
from ludus.errors import RunError
from ludus.runs import open_run, repair_files


def flip(position):
    """Return a function that flips a bit of a file at a position, given its size and that of its header."""

    def damage(path):
        data = bytearray(path.read_bytes())
        (header,) = struct.unpack("<Q", data[:8])
        data[position(len(data), header)] ^= 4
        path.write_bytes(data)

    return damage


def cut(share):
    """Return a function that cuts a file to a share of its size."""
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


def replace_by_folder(path):
    """Put a folder in the place of a file."""
    path.unlink()
    path.mkdir()


def make_unreadable(path):
    """Remove all permissions of a file."""
    if not os.geteuid():
        pytest.skip("root reads every file")
    path.chmod(0)


DAMAGES = {
    "size of the header": flip(lambda size, header: 2),
    "header": flip(lambda size, header: 8 + header // 3),
    "end of the header": flip(lambda size, header: 7 + header),
    "arrays": flip(lambda size, header: 8 + header),
    "last byte": flip(lambda size, header: size - 1),
    "empty": cut(0),
    "half": cut(0.5),
    "missing": os.unlink,
    "folder": replace_by_folder,
    "unreadable": make_unreadable,
}
some_damages = pytest.mark.parametrize("damage", [DAMAGES["arrays"], DAMAGES["missing"], DAMAGES["folder"]])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder of a run of two players; each has several models and two checkpoints."""
    folder = tmp_path_factory.mktemp("trained")
    player = {
        "algorithm": "dummy-gradient",
        "dummy-gradient": {"segment_decisions": 4, "batch_decisions": 64},
        "matchmaker": "dummy-uniform",
        "freeze_every_decisions": 500,
    }
    config = {
        "run": {"seed": 3, "workers": 0, "decisions": 4000},
        "environment": {"name": "dummy-count"},
        "sampling": {"matches": 8, "fixture_matches": 8, "rows_per_fixture": 4},
        "players": {"main": player, "other": player},
        "anchors": {"random": {"agent": "dummy-random"}},
        "evaluation": {"matches": 8, "fixture_matches": 5, "final_matches": 4},
    }
    path = folder / "league.toml"
    path.write_text(tomli_w.dumps(config), encoding="utf-8")
    plugins = load_plugins()
    train(load_config(path, plugins=plugins), plugins=plugins, run_dir=folder / "run", print_line=lambda line: None)
    return folder / "run"


@pytest.fixture
def run_dir(trained, tmp_path):
    """Return a copy of the trained run."""
    return shutil.copytree(trained, tmp_path / "run")


def resumed(run_dir, decisions):
    """Resume a run up to a number of decisions, and return the lines that it printed about damage."""
    printed = []
    resume(run_dir, plugins=load_plugins(), print_line=printed.append, overrides=(f"run.decisions={decisions}",))
    return [line for line in printed if not line.startswith("final evaluation")]


def checkpoints(run_dir, player="main"):
    """Return the committed checkpoints of a player, newest first."""
    with Store.read(run_dir) as store:
        return store.checkpoints.kept(player)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_replaced_by_the_one_before(run_dir, damage):
    """The line states the loss; the other player loses nothing, and both train to the end."""
    newest, before = checkpoints(run_dir)
    damage(run_dir / newest.path)
    (line,) = resumed(run_dir, 6000)
    lost = newest.decisions - before.decisions
    assert line.startswith(f"player 'main': {run_dir / newest.path}: ")
    assert line.endswith(f"; resumed from {before.path}, {lost:,} decisions are lost")
    with open_run(run_dir) as run:
        assert sum(view.decisions for view in run.league.players.values()) >= 6000
    assert resumed(run_dir, 6500) == []


def test_the_learner_loads_the_checkpoint_before(run_dir, monkeypatch):
    """Weights, state of the trainer and counters are those of that file."""
    newest, before = checkpoints(run_dir)
    DAMAGES["arrays"](run_dir / newest.path)
    loaded, load = [], publisher.load_checkpoint
    monkeypatch.setattr(publisher, "load_checkpoint", lambda *args: (loaded.append(args[1]), load(*args))[1])
    resumed(run_dir, 4500)
    assert before.path in loaded
    assert newest.path not in loaded


@some_damages
def test_without_a_checkpoint_the_newest_model_is_used(run_dir, damage):
    """Its weights, with a new trainer."""
    for checkpoint in checkpoints(run_dir):
        damage(run_dir / checkpoint.path)
    with Store.read(run_dir) as store:
        newest = [model for model in store.models.records() if model.player == "main"][-1]
    (line,) = resumed(run_dir, 6000)
    assert f"; resumed from {newest.participant}, 0 decisions and the state of the trainer are lost" in line
    assert checkpoints(run_dir)[0].version > newest.version


@some_damages
def test_without_any_file_a_player_starts_again(run_dir, damage):
    """Its models are quarantined, and the run goes on."""
    for checkpoint in checkpoints(run_dir):
        damage(run_dir / checkpoint.path)
    with Store.read(run_dir) as store:
        models = [model for model in store.models.records() if model.player == "main"]
    for digest in {model.hash for model in models}:
        damage(run_dir / "models" / f"{digest}.safetensors")
    *lines, last = resumed(run_dir, 6000)
    assert len(lines) == len({model.hash for model in models})
    assert all("; quarantined: " in line for line in lines)
    assert "no other checkpoint and no model is left" in last
    assert checkpoints(run_dir)[0].decisions > 0


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_model_leaves_its_pools_and_plays_no_more(run_dir, damage):
    """The league plays on, and the next session keeps the quarantine."""
    with open_run(run_dir) as run:
        name = run.pools["dummy"][0]
        model = run.models[name]
        names = [other.participant for other in run.models.values() if other.hash == model.hash]
        last = max(record.fixture.id for record in run.fixtures())
    damage(run_dir / "models" / f"{model.hash}.safetensors")
    (line,) = resumed(run_dir, 8000)
    assert line.startswith(f"{', '.join(names)}: {run_dir / 'models' / model.hash}.safetensors: ")
    assert resumed(run_dir, 12_000) == []
    with open_run(run_dir) as run:
        assert name not in run.pools["dummy"]
        assert name in run.models
        assert name not in run.league.players[model.player].models
        later = [record.fixture for record in run.fixtures() if record.fixture.id > last]
        assert len(later) > 100
        # the scan may find the file a moment after the first fixtures were assigned
        assert not any(name in fixture.participants for fixture in later[len(later) // 2 :])


def test_a_worker_reports_a_model_that_it_cannot_load(league):
    """The fixture is dropped, and others are played."""
    runner = league(run={"decisions": 100_000})
    runner.until(lambda: len(runner.coordinator.league.models) >= 3)
    league = runner.coordinator.league
    name = league.pools["dummy"][0]
    path = runner.run_dir / "models" / f"{league.models[name].hash}.safetensors"
    path.unlink()
    runner.start("sampler-0")
    runner.until(lambda: name in league.roster.quarantined)
    assert name not in league.pools["dummy"]
    matches = runner.coordinator.counts.training
    runner.until(lambda: runner.coordinator.counts.training > matches + 50)


# -- repair ----------------------------------------------------------------------------------------------------------


def problems(run_dir):
    """Return the files of models and checkpoints that do not match their hashes."""
    with open_run(run_dir) as run:
        hashes = {model.hash for name, model in run.models.items() if name not in run.quarantined}
        found = [damage_of(check_model, run_dir / "models", digest) for digest in sorted(hashes)]
        found += [damage_of(load_manifest, run_dir / "models", digest) for digest in sorted(hashes)]
    for player in ("main", "other"):
        found += [damage_of(load_checkpoint, run_dir, saved.path, saved.hash) for saved in checkpoints(run_dir, player)]
    return [problem for problem in found if problem]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_model_is_restored_from_a_copy(trained, run_dir, damage):
    """It returns to its pools if it was quarantined."""
    with open_run(run_dir) as run:
        name = run.pools["dummy"][0]
        digest, pools = run.models[name].hash, {pool: set(members) for pool, members in run.pools.items()}
    damage(run_dir / "models" / f"{digest}.safetensors")
    assert any("quarantined" in line for line in repair_files(run_dir))
    with open_run(run_dir) as run:
        assert name not in run.pools["dummy"]
        assert name in run.quarantined
    lines = repair_files(run_dir, [trained])
    assert any(f"restored from {trained / 'models' / digest}.safetensors" in line for line in lines)
    assert f"{name}: not quarantined any more; pools: dummy" in lines
    with open_run(run_dir) as run:
        assert {pool: set(members) for pool, members in run.pools.items()} == pools
        assert not run.quarantined
    assert problems(run_dir) == []
    assert repair_files(run_dir) == []


@some_damages
def test_a_model_is_restored_from_a_checkpoint_of_its_weights(run_dir, damage):
    """The last model of a session has the weights of its last checkpoint."""
    with Store.read(run_dir) as store:
        newest = [model for model in store.models.records() if model.player == "main"][-1]
    damage(run_dir / "models" / f"{newest.hash}.safetensors")
    (line,) = repair_files(run_dir)
    assert line.endswith(f"; restored from {run_dir / checkpoints(run_dir)[0].path}")
    assert problems(run_dir) == []


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_all_files_are_repaired_or_taken_out(run_dir, damage):
    """Whatever is damaged, the run is sound afterwards and can be resumed."""
    for path in [*run_dir.glob("models/*.safetensors"), *run_dir.glob("learners/*/*.safetensors")][::2]:
        damage(path)
    for path in sorted(run_dir.glob("models/*.json"))[::2]:
        path.write_text("{")
    assert problems(run_dir)
    assert repair_files(run_dir)
    assert problems(run_dir) == []
    assert [line for line in resumed(run_dir, 6000) if "damaged" in line] == []


def test_a_running_run_is_not_repaired(run_dir):
    """Its coordinator quarantines models itself."""
    with Store.open(run_dir), pytest.raises(RunError, match="is in use by pid"):
        repair_files(run_dir)


# -- learners with torch ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_torch_trainers_resume_from_the_checkpoint_before_or_a_model(tmp_path, algorithm):
    """With the state of the optimizer and the replay buffer, or without."""
    config = {
        "run": {"seed": 3, "workers": 0, "decisions": 3000},
        "environment": {"name": "tictactoe"},
        "sampling": {"matches": 16},
        "players": {
            "main": {
                "algorithm": algorithm,
                "network": "mlp",
                "matchmaker": "mixture",
                "freeze_every_decisions": 1000,
                algorithm: {"batch_decisions": 256} if algorithm == "ppo" else {"checkpoint_replay": True},
            }
        },
        "evaluation": {"final_matches": 0},
    }
    path = tmp_path / "league.toml"
    path.write_text(tomli_w.dumps(config), encoding="utf-8")
    plugins, run_dir = load_plugins(), tmp_path / "run"
    train(load_config(path, plugins=plugins), plugins=plugins, run_dir=run_dir, print_line=lambda line: None)
    newest, before = checkpoints(run_dir)
    DAMAGES["arrays"](run_dir / newest.path)
    (line,) = resumed(run_dir, 4000)
    assert f"; resumed from {before.path}, " in line
    for checkpoint in checkpoints(run_dir):
        DAMAGES["half"](run_dir / checkpoint.path)
    (line,) = resumed(run_dir, 5000)
    assert "; resumed from main@" in line
    assert checkpoints(run_dir)[0].decisions >= 5000
