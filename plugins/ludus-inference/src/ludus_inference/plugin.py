"""Registers the inference runtimes; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


@hookimpl
def ludus_register_inference() -> list[Component]:
    """Offer ``lean`` and ``compile``."""
    return [
        Component(
            name="lean",
            factory="ludus_inference.lean:make_lean",
            summary="small networks of linear layers by NumPy: no autograd, no memory allocated per call",
        ),
        Component(
            name="compile",
            factory="ludus_inference.compiled:make_compiled",
            config="ludus_inference.config:CompileConfig",
            summary="any network by torch.compile, or by plain torch where that is no faster",
        ),
    ]
