"""Register the metric sink."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_metric_sinks() -> list[Component]:
    """Register the TensorBoard sink."""
    return [
        Component(
            name="tensorboard",
            factory="ludus_tensorboard.sink:TensorBoardSink",
            config="ludus_tensorboard.config:TensorBoardConfig",
            summary="TensorBoard event files",
        )
    ]
