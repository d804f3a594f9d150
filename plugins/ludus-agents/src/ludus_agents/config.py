"""Options of the agents."""

from __future__ import annotations

from attrs import frozen
from ludus.option import Check, option

_FILE = Check(
    "the path of a model file, …/<hash>.safetensors",
    lambda value: isinstance(value, str) and value.endswith(".safetensors"),
)


@frozen(kw_only=True)
class BuiltinConfig:
    """Options of the agent ``builtin``."""

    name: str = option(
        "",
        Check("the name of a built-in bot", lambda value: isinstance(value, str)),
        help="Name of a bot of the environment, as `ludus check` lists them; may be empty where there is one only.",
    )


@frozen(kw_only=True)
class ModelConfig:
    """Options of the agent ``model``."""

    file: str = option(check=_FILE, help="Model file, …/<hash>.safetensors, next to its manifest.", path="read")
    deterministic: bool = option(False, help="Whether to take the most likely actions instead of sampling.")
