"""Register the metric sinks."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_metric_sinks() -> list[Component]:
    """Register a sink for every tracker."""
    return [
        Component(
            name=name,
            factory=f"ludus_trackers.sinks:{tracker}Sink",
            config=f"ludus_trackers.config:{tracker}Config",
            summary=summary,
        )
        for name, tracker, summary in (
            ("mlflow", "MLflow", "MLflow runs, in a file of the run folder or on a server"),
            ("trackio", "Trackio", "Trackio runs, on this machine"),
            ("wandb", "Wandb", "Weights & Biases runs, offline or online"),
        )
    ]
