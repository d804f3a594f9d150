"""Options of the agents."""

from __future__ import annotations

from attrs import frozen
from ludus.option import Check, option

__all__ = ["ModelConfig"]

_FILE = Check(
    "the path of a model file, …/<hash>.safetensors",
    lambda value: isinstance(value, str) and value.endswith(".safetensors"),
)


@frozen(kw_only=True)
class ModelConfig:
    """A frozen model of any run."""

    file: str = option(check=_FILE, help="model file (…/<hash>.safetensors) with its manifest beside it")
    deterministic: bool = option(False, help="it takes its most likely actions instead of sampling")
