"""Registers the inference runtimes."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_inference() -> list[Component]:
    """Register ``lean`` and ``compile``."""
    return [
        Component(
            name="lean",
            factory="ludus_inference.lean:make_lean",
            summary="networks as few NumPy calls, without autograd and allocations",
        ),
        Component(
            name="compile",
            factory="ludus_inference.compiled:make_compiled",
            config="ludus_inference.config:CompileConfig",
            summary="any network in torch.compile, or in plain torch if that is faster",
        ),
    ]
