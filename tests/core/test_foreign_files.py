"""Run folders of others: links out of the folder, named pipes and devices."""

from __future__ import annotations

import os
import shutil

import pytest
from ludus._config.run_config import load_config
from ludus._plugins.manager import load_plugins
from ludus._run.runner import resume, train
from ludus._store.foreign_files import check_folder, open_regular
from ludus._store.model_files import check_model, load_arrays
from ludus.errors import DamagedFileError, RunError
from ludus.matchmaker import PoolChange
from ludus.runs import change_pool, open_run, repair_files, request_release


@pytest.fixture
def folder(toml, tmp_path):
    """Return the folder of a run that has ended."""
    plugins = load_plugins()
    train(load_config(toml(), plugins=plugins), plugins=plugins, run_dir=tmp_path / "run", print_line=print)
    return tmp_path / "run"


def promote(folder) -> None:
    """Add a model to a pool by hand."""
    with open_run(folder) as run:
        model = next(iter(run.models))
    change_pool(folder, PoolChange(pool="best", model=model, enters=True))


WRITERS = [
    pytest.param(repair_files, id="repair"),
    pytest.param(promote, id="promote"),
    pytest.param(lambda folder: request_release(folder, "host"), id="release"),
    pytest.param(lambda folder: resume(folder, plugins=load_plugins(), print_line=print), id="resume"),
]


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("name", ["damaged", "lock", "models", "requests", "learners"])
def test_nothing_is_written_through_links(folder, tmp_path, name, write):
    """Every function that writes in a run folder refuses one whose links lead out of it."""
    outside, link = tmp_path / "outside", folder / name
    outside.mkdir()
    if link.is_dir():
        shutil.copytree(link, outside, dirs_exist_ok=True)
        shutil.rmtree(link)
    link.unlink(missing_ok=True)
    link.symlink_to(outside / "new" if name == "lock" else outside)
    before = sorted(outside.rglob("*"))
    with pytest.raises(RunError, match=rf"run/{name} is a link to .*, outside of the run folder"):
        write(folder)
    assert sorted(outside.rglob("*")) == before


@pytest.mark.parametrize("name", ["league.sqlite", "league.sqlite-wal", "league.sqlite-shm"])
def test_a_database_elsewhere_is_not_read(folder, tmp_path, name):
    """SQLite would write the files beside it even for a reader."""
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(tmp_path / "target")
    (tmp_path / "target").touch()
    with pytest.raises(RunError, match=f"{name} is a link to"):
        open_run(folder)


@pytest.mark.parametrize("write", WRITERS)
def test_named_pipes_are_refused(folder, write):
    """A process that opens one waits for another process."""
    os.mkfifo(folder / "metrics.pipe")
    with pytest.raises(RunError, match=r"run/metrics\.pipe is a named pipe or a device"):
        write(folder)


def test_a_pipe_is_no_database(folder):
    """Reading the run ends."""
    (folder / "league.sqlite-wal").unlink(missing_ok=True)
    os.mkfifo(folder / "league.sqlite-wal")
    with pytest.raises(RunError, match="sqlite-wal is a named pipe"):
        open_run(folder)


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_models_and_metrics_are_files(folder, make):
    """Reading anything else may never end."""
    (model,) = list((folder / "models").glob("*.safetensors"))[:1]
    model.unlink()
    make(model)
    for read in (check_model, load_arrays):
        with pytest.raises(DamagedFileError, match="not a regular file"):
            read(model.parent, model.stem)
    metrics = folder / "metrics.jsonl"
    metrics.unlink()
    make(metrics)
    with open_run(folder) as run, pytest.raises(OSError, match="not a regular file"):
        list(run.metrics())


def test_links_within_the_folder_are_followed(tmp_path):
    """A user may have moved files."""
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "loop").symlink_to("loop")
    check_folder(tmp_path)
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"data"
