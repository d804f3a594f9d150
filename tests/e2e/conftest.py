"""Fixtures that start commands and leagues in processes, and that install plugins made for one test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest
from attrs import frozen
from chaos.league import LIGHT, SETTINGS, League
from chaos.processes import is_alive
from ludus._store.store import Store
from tomli_w import dumps as write_toml


@pytest.fixture
def league(tmp_path):
    """Return a factory of Tic-Tac-Toe leagues in separate processes, which the fixture ends."""
    with ExitStack() as stack:

        def make(*settings, workers=1, folder=tmp_path / "run"):
            made = League(folder, settings=(*SETTINGS, *settings), workers=workers)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def check_stop():
    """Return a check that a signal stops a run: status 130, a resume command, all weights saved, no process left."""

    def check(run, number, *, processes):
        pids = run.pids
        assert len(pids) == processes
        os.kill(pids["coordinator"], number)
        assert run.process.wait(40) == 130
        assert f"{number.name}: stopping cleanly (again: at once)\n" in run.output
        assert f"\nstopped: {number.name}\ngo on with: ludus resume {run.folder}\n" in run.output
        assert "Traceback" not in run.output
        assert not any(map(is_alive, pids.values()))
        assert run.problems() == []
        with Store.read(run.folder) as store:
            (saved,) = store.checkpoints.latest().values()
            assert store.models.records()[-1].decisions == saved.decisions > 0

    return check


@pytest.fixture
def check_kill():
    """Return a check that a run loses nothing if one process is killed; after the coordinator it is resumed."""

    def check(run, name):
        pids, before = run.pids, run.state
        os.kill(pids[name], signal.SIGKILL)
        if name == "coordinator":
            run.process.wait()
            assert run.command.orphans() == 0
            assert run.problems() == []
            run.resume()
        run.wait_for(lambda state: state.has_passed(before) and run.pids.keys() == pids.keys())
        assert run.state.models >= before.models
        assert run.problems() == []

    return check


@pytest.fixture
def light_league(tmp_path):
    """Return a factory of leagues without torch in separate processes, which the fixture ends."""
    with ExitStack() as stack:

        def make(*settings):
            made = League(tmp_path / "run", settings=settings, source=LIGHT)
            stack.callback(made.close)
            return made

        yield make


@frozen
class Result:
    """Exit status, output and lines of stderr of a command."""

    status: int
    output: str
    errors: list


@pytest.fixture
def ludus(tmp_path, plugin_path):
    """Return a function that runs one command and waits for its end."""

    def run(*arguments, timeout_s=120, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "ludus", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=tmp_path,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": os.pathsep.join(filter(None, [str(plugin_path), os.environ.get("PYTHONPATH", "")])),
                **environment,
            },
        )
        return Result(done.returncode, done.stdout + done.stderr, done.stderr.splitlines())

    return run


@pytest.fixture
def plugin_path(tmp_path):
    """Return a folder for installed distributions; it starts empty."""
    folder = tmp_path / "site"
    folder.mkdir()
    return folder


@pytest.fixture
def install(plugin_path):
    """Return a function that installs a distribution with one plugin module."""

    def make(name, source):
        module = name.replace("-", "_")
        (plugin_path / f"{module}.py").write_text(source, encoding="utf-8")
        info = plugin_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[ludus]\n{name} = {module}\n", encoding="utf-8")

    return make


@pytest.fixture
def toml(tmp_path):
    """Return a factory of TOML files of small runs of the dummy plugin's game; sections extend or replace tables."""

    def make(name="run.toml", **sections):
        learner = {"segment_decisions": 4, "batch_decisions": 64}
        tables = {
            "run": {"workers": 0, "decisions": 2000},
            "environment": {"name": "dummy-count"},
            "sampling": {"matches": 8, "fixture_matches": 8, "rows_per_fixture": 4},
            "players": {
                "main": {
                    "algorithm": "dummy-gradient",
                    "dummy-gradient": learner,
                    "matchmaker": "dummy-uniform",
                    "freeze_every_decisions": 500,
                }
            },
            "anchors": {"random": {"agent": "dummy-random"}},
            "evaluation": {"matches": 8, "fixture_matches": 5, "final_matches": 20},
        }
        for section, values in sections.items():
            tables[section] = {**tables.get(section, {}), **values}
        path = tmp_path / name
        path.write_text(write_toml(tables), encoding="utf-8")
        return path

    return make
