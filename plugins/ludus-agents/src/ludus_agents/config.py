"""Options of the agents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from ludus.option import Check, above, between, option
from ludus.trust import Imports, modules_of

_PATH = Check(
    'an import path "module:Class"',
    lambda value: isinstance(value, str) and re.fullmatch(r"[\w.]+:[^\W\d]\w*", value) is not None,
)
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
class PythonConfig:
    """Options of the agent ``python``."""

    path: str = option(
        check=_PATH,
        help='Class of the agent, "module:Class"; the module must be trusted.',
        imports=Imports(modules=modules_of),
    )
    options: Mapping[str, Any] = option({}, help="Keyword arguments of the class, beside `spec` and `role`.")


@frozen(kw_only=True)
class ModelConfig:
    """Options of the agent ``model``."""

    file: str = option(check=_FILE, help="Model file, …/<hash>.safetensors, next to its manifest.", path="read")
    deterministic: bool = option(False, help="Whether to take the most likely actions instead of sampling.")
    temperature: float = option(
        1.0, above(0.0), help="Divisor of the log-probabilities; above 1 the model plays more randomly; > 0."
    )
    noise: float = option(
        0.0, between(0.0, 1.0), help="Share of decisions that are random legal actions instead; [0, 1]."
    )
