"""The sinks of experiment trackers, with the real packages where they are installed."""

from __future__ import annotations

import math
import sys

import attrs
import pytest
from ludus.errors import ConfigError
from ludus.metrics import Metric
from ludus_trackers import plugin, sinks
from ludus_trackers.config import MLflowConfig, TrackioConfig, WandbConfig

REASON = "a large package that developers install when they change its sink: pip install 'ludus-trackers[{}]'"


def metric(name, value, decisions):
    """Return a metric."""
    return Metric(name=name, value=value, decisions=decisions, elapsed_s=1.0)


METRICS = [
    metric("learner/main/entropy", 0.5, 100),
    metric("league/main/score_v_bot", math.nan, 100),
    metric("league/main/score_v_bot/low", 0.25, 100),
    metric("learner/main/entropy", 0.375, 2**40),
]


@pytest.fixture
def run_dir(tmp_path):
    """Return a run folder."""
    folder = tmp_path / "duel"
    folder.mkdir()
    return folder


@pytest.fixture
def offline(monkeypatch):
    """Fail on connections to other machines, and remove the variables that ask for them."""
    import socket

    for name in ("WANDB_MODE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)

    connect = socket.socket.connect

    def checked(self, address):
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1", "localhost"), address
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", checked)


def write(sink):
    """Write the metrics in two parts, and close the sink twice."""
    sink.write(METRICS[:3])
    sink.write(METRICS[3:])
    sink.close()
    sink.close()


def test_wandb_keeps_files(run_dir, offline):
    """The file that `wandb sync` uploads has names, values and decisions; unknown values are left out."""
    wandb = pytest.importorskip("wandb", reason=REASON.format("wandb"))
    write(sinks.WandbSink(WandbConfig(), run_dir=run_dir))
    wandb.teardown()  # as the end of a process does: another process writes the file
    (path,) = (run_dir / "wandb").glob("offline-run-*/*.wandb")
    content = path.read_bytes()
    for text in (b"learner/main/entropy", b"score_v_bot/low", b"0.25", b"0.375", str(2**40).encode()):
        assert text in content
    assert b"NaN" not in content


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of sqlalchemy, which mlflow causes
def test_mlflow_keeps_a_database(run_dir, offline):
    """The run has every value at its number of decisions; unknown values are left out."""
    pytest.importorskip("mlflow", reason=REASON.format("mlflow"))
    pytest.importorskip("sqlalchemy", reason="mlflow-skinny has no database")
    from mlflow.tracking import MlflowClient

    write(sinks.MLflowSink(MLflowConfig(project="games"), run_dir=run_dir))
    write(sinks.MLflowSink(MLflowConfig(project="games"), run_dir=run_dir))  # a second session
    client = MlflowClient(tracking_uri=f"sqlite:///{run_dir / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("games").experiment_id])
    assert [(run.info.run_name, run.info.status) for run in runs] == [("duel", "FINISHED")] * 2
    history = client.get_metric_history(runs[0].info.run_id, "learner/main/entropy")
    assert [(entry.step, entry.value) for entry in history] == [(100, 0.5), (2**40, 0.375)]
    assert set(runs[0].data.metrics) == {"learner/main/entropy", "league/main/score_v_bot/low"}


def test_trackio_keeps_a_database(run_dir, offline, monkeypatch, capsys):
    """The run has every value at its number of decisions; a second session goes on with it."""
    monkeypatch.setenv("TRACKIO_DIR", str(run_dir / "trackio"))
    pytest.importorskip("trackio", reason=REASON.format("trackio"))
    from trackio.sqlite_storage import SQLiteStorage

    write(sinks.TrackioSink(TrackioConfig(project="games"), run_dir=run_dir))
    again = sinks.TrackioSink(TrackioConfig(project="games"), run_dir=run_dir)
    again.write([metric("learner/main/entropy", 0.125, 2**41)])
    again.close()
    logs = SQLiteStorage.get_logs("games", "duel")
    steps = [(row["step"], row["learner/main/entropy"]) for row in logs]
    assert steps == [(100, 0.5), (2**40, 0.375), (2**41, 0.125)]
    assert "league/main/score_v_bot" not in logs[0]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("package", "sink", "config"),
    [
        ("wandb", sinks.WandbSink, WandbConfig),
        ("mlflow", sinks.MLflowSink, MLflowConfig),
        ("trackio", sinks.TrackioSink, TrackioConfig),
    ],
)
def test_a_missing_package_is_one_line(run_dir, monkeypatch, package, sink, config):
    """The line names what to install."""
    for name in (package, f"{package}.entities", f"{package}.tracking"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"metric sink '{package}': .* pip install 'ludus-trackers\[{package}\]'"):
        sink(config(), run_dir=run_dir)


def test_values_are_grouped_by_decisions():
    """Unknown values are left out."""
    assert list(sinks.values_by_step(METRICS)) == [
        (100, {"learner/main/entropy": 0.5, "league/main/score_v_bot/low": 0.25}),
        (2**40, {"learner/main/entropy": 0.375}),
    ]


def test_plugin_registers_the_sinks():
    """Every component has documented options."""
    components = plugin.ludus_register_metric_sinks()
    assert [component.name for component in components] == ["mlflow", "trackio", "wandb"]
    for component in components:
        assert component.load_factory().__name__.endswith("Sink")
        assert all(field.metadata["help"] for field in attrs.fields(component.load_config()))
