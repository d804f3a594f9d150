"""Write metrics to experiment trackers, whose packages are imported when a sink is made.

Only variables of the environment choose a server: a run file, which another person may have written, does not.
"""

from __future__ import annotations

import io
import math
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from ludus.errors import ConfigError
from ludus.metrics import Metric

from ludus_trackers.config import MLflowConfig, TrackioConfig, WandbConfig

__all__ = ["MLflowSink", "TrackioSink", "WandbSink"]

_BATCH = 1000  # metrics that MLflow accepts at once


def import_tracker(package: str, module: str = "") -> Any:
    """Import the package of a tracker, or one of its modules.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        return import_module(module or package)
    except ImportError as error:
        raise ConfigError(
            f"metric sink {package!r}: cannot import the package ({error}); pip install 'ludus-trackers[{package}]'"
        ) from error


def values_by_step(metrics: Sequence[Metric]) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield numbers of decisions, and the known values by name that were reported there."""
    for decisions, group in groupby(metrics, key=attrgetter("decisions")):
        yield decisions, {metric.name: metric.value for metric in group if not math.isnan(metric.value)}


class WandbSink:
    """Writes a run of Weights & Biases.

    Args:
        config: Options.
        run_dir: The run folder.
    """

    def __init__(self, config: WandbConfig, *, run_dir: Path | str) -> None:
        wandb, folder = import_tracker("wandb"), Path(run_dir)
        settings = wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True)
        self._run = wandb.init(
            project=config.project,
            name=folder.name,
            group=folder.name,
            dir=str(folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=settings,
        )
        self._run.define_metric("*", step_metric="decisions")

    def write(self, metrics: Sequence[Metric]) -> None:
        """Log values over the metric ``decisions``."""
        for decisions, values in values_by_step(metrics):
            self._run.log({**values, "decisions": decisions})

    def close(self) -> None:
        """Flush and end the run; closing twice is allowed."""
        self._run.finish()


class MLflowSink:
    """Writes a run of MLflow.

    Args:
        config: Options.
        run_dir: The run folder.
    """

    def __init__(self, config: MLflowConfig, *, run_dir: Path | str) -> None:
        folder = Path(run_dir).resolve()
        self._metric = import_tracker("mlflow", "mlflow.entities").Metric
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder / 'mlflow.db'}"
        self._client = import_tracker("mlflow", "mlflow.tracking").MlflowClient(tracking_uri=uri)
        found = self._client.get_experiment_by_name(config.project)
        experiment = found.experiment_id if found else self._client.create_experiment(config.project)
        self._run = self._client.create_run(experiment, run_name=folder.name).info.run_id

    def write(self, metrics: Sequence[Metric]) -> None:
        """Log values at the step `decisions`."""
        now_ms = int(time.time() * 1000)
        for decisions, values in values_by_step(metrics):
            entries = [self._metric(name, value, now_ms, decisions) for name, value in values.items()]
            for start in range(0, len(entries), _BATCH):
                self._client.log_batch(self._run, metrics=entries[start : start + _BATCH])

    def close(self) -> None:
        """End the run; closing twice is allowed."""
        self._client.set_terminated(self._run)


class TrackioSink:
    """Writes a run of Trackio.

    Args:
        config: Options.
        run_dir: The run folder.
    """

    def __init__(self, config: TrackioConfig, *, run_dir: Path | str) -> None:
        trackio = import_tracker("trackio")
        with redirect_stdout(io.StringIO()):  # it prints how to show the run
            self._run = trackio.init(
                project=config.project,
                name=Path(run_dir).name,
                resume="allow",
                embed=False,
                auto_log_cpu=False,
                auto_log_gpu=False,
            )

    def write(self, metrics: Sequence[Metric]) -> None:
        """Log values at the step `decisions`."""
        for decisions, values in values_by_step(metrics):
            self._run.log(values, step=decisions)

    def close(self) -> None:
        """Flush and end the run; closing twice is allowed."""
        with redirect_stdout(io.StringIO()):
            self._run.finish()
