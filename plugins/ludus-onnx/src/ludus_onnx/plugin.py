"""Register the command ``ludus export``."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_commands() -> list[Component]:
    """Register ``ludus export``."""
    return [
        Component(
            name="export",
            factory="ludus_onnx.command:export",
            summary="Write a frozen model as an ONNX file with checked vectors and a card.",
        )
    ]
