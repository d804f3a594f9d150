"""Registers the runtime; imports no heavy modules."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_inference() -> list[Component]:
    """Register ``server``."""
    return [
        Component(
            name="server",
            factory="ludus_inference_server.client:make_client",
            config="ludus_inference_server.config:ServerConfig",
            service="ludus_inference_server.worker:make_worker",
            summary="one process evaluates the networks of all samplers in micro-batches, on CPU or GPU",
        )
    ]
