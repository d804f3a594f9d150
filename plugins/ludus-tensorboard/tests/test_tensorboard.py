"""The TensorBoard sink, read back with TensorBoard's own reader."""

from __future__ import annotations

import math
import subprocess
import sys

import attrs
import pytest
from ludus.metrics import Metric
from ludus_tensorboard import plugin
from ludus_tensorboard.config import TensorBoardConfig
from ludus_tensorboard.sink import TensorBoardSink
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def metric(name, value, decisions):
    """Return a metric."""
    return Metric(name=name, value=value, decisions=decisions, elapsed_s=1.0)


def write(run_dir, *writes, directory="tensorboard"):
    """Write metrics by a sink and close it."""
    sink = TensorBoardSink(TensorBoardConfig(directory=directory), run_dir=run_dir)
    for metrics in writes:
        sink.write(metrics)
    sink.close()


def read(directory, tag):
    """Return (step, value) of every scalar of a tag, as TensorBoard shows them."""
    accumulator = EventAccumulator(str(directory)).Reload()
    return [(event.step, event.value) for event in accumulator.Scalars(tag)]


def test_metrics_become_scalars_over_decisions(tmp_path):
    """Every metric has a tag of its name."""
    write(
        tmp_path,
        [metric("learner/main_agent/entropy", 0.5, 100), metric("samples", 7.0, 100)],
        [metric("learner/main_agent/entropy", 0.25, 2**40)],
    )
    assert read(tmp_path / "tensorboard", "learner/main_agent/entropy") == [(100, 0.5), (2**40, 0.25)]
    assert read(tmp_path / "tensorboard", "samples") == [(100, 7.0)]


def test_one_write_may_hold_several_steps(tmp_path):
    """Metrics keep their numbers of decisions."""
    write(tmp_path, [metric("a", 1.0, 100), metric("a", 2.0, 200)])
    assert read(tmp_path / "tensorboard", "a") == [(100, 1.0), (200, 2.0)]


def test_scalars_are_shown_before_the_sink_is_closed(tmp_path):
    """Every write is flushed."""
    sink = TensorBoardSink(TensorBoardConfig(), run_dir=tmp_path)
    sink.write([metric("a", 1.0, 100)])
    assert read(tmp_path / "tensorboard", "a") == [(100, 1.0)]
    sink.close()
    sink.close()


def test_unknown_values_are_skipped(tmp_path):
    """A NaN would spoil the scale of a chart."""
    write(tmp_path, [metric("a", math.nan, 100), metric("b", 1.0, 100)])
    accumulator = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert accumulator.Tags()["scalars"] == ["b"]


def test_resumed_run_replaces_repeated_steps(tmp_path):
    """Steps after the checkpoint are shown once, with their new values."""
    write(tmp_path, [metric("a", 1.0, 100)], [metric("a", 2.0, 200)], [metric("a", 3.0, 300)])
    write(tmp_path, [metric("a", 20.0, 200)], [metric("a", 30.0, 300)])
    assert read(tmp_path / "tensorboard", "a") == [(100, 1.0), (200, 20.0), (300, 30.0)]


def test_directory(tmp_path):
    """Event files are written to the configured folder."""
    write(tmp_path, [metric("a", 1.0, 1)], directory="tb")
    assert read(tmp_path / "tb", "a") == [(1, 1.0)]


@pytest.mark.parametrize("directory", ["", "../elsewhere", "/tmp", 3])
def test_directory_must_be_a_name(directory):
    """Paths are rejected."""
    with pytest.raises(ValueError, match="expected a name"):
        TensorBoardConfig(directory=directory)


def test_neither_tensorflow_nor_torch_is_imported():
    """The coordinator stays small and starts fast."""
    code = (
        "import sys, ludus_tensorboard.sink as sink, tempfile, ludus_tensorboard.config as config\n"
        "sink.TensorBoardSink(config.TensorBoardConfig(), run_dir=tempfile.mkdtemp()).close()\n"
        "print([name for name in ('torch', 'tensorflow') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_plugin_registers_the_sink():
    """The component has documented options."""
    [component] = plugin.ludus_register_metric_sinks()
    assert component.name == "tensorboard"
    assert component.load_factory() is TensorBoardSink
    config = component.load_config()
    assert config is TensorBoardConfig
    assert all(field.metadata["help"] for field in attrs.fields(config))
