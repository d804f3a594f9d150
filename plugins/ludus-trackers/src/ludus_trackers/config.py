"""Options of the sinks."""

from __future__ import annotations

from attrs import frozen
from ludus import option
from ludus.option import name

_PROJECT = "Project in which the run is listed."


@frozen(kw_only=True)
class WandbConfig:
    """Options of the sink ``wandb``."""

    project: str = option("ludus", name(), help=_PROJECT)


@frozen(kw_only=True)
class MLflowConfig:
    """Options of the sink ``mlflow``."""

    project: str = option("ludus", name(), help="Experiment in which the run is listed.")


@frozen(kw_only=True)
class TrackioConfig:
    """Options of the sink ``trackio``."""

    project: str = option("ludus", name(), help=_PROJECT)
