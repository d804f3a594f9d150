"""ludus: train game AI by competitive self-play, with everything a plugin.

`train`, `resume`, `open_run`, `load_agent` and `play_match` use ludus from Python; see `train` for an example. They are
imported on first use, so that ``import ludus`` imports neither NumPy nor torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ludus._plugins.loading import PluginReport
from ludus._plugins.manager import Plugins, load_plugins
from ludus._version import __version__
from ludus.component import Component
from ludus.environment import Environment, EnvironmentSpec, Playable, Role, RoleTick, Scenario, Tick
from ludus.errors import (
    ConfigError,
    ContractError,
    DamagedFileError,
    LinkError,
    LudusError,
    ModelError,
    PluginError,
    ReplayError,
    RunError,
    StoreError,
    UnknownComponent,
    UnsupportedNetwork,
    WireError,
    WorkerError,
)
from ludus.hookspecs import API_LEVEL, hookimpl
from ludus.option import option

if TYPE_CHECKING:
    from ludus._api import MatchResult, play_match, resume, train
    from ludus.installed import load_agent
    from ludus.runs import Run, open_run

__all__ = [
    "API_LEVEL",
    "Component",
    "ConfigError",
    "ContractError",
    "DamagedFileError",
    "Environment",
    "EnvironmentSpec",
    "LinkError",
    "LudusError",
    "MatchResult",
    "ModelError",
    "Playable",
    "PluginError",
    "PluginReport",
    "Plugins",
    "ReplayError",
    "Role",
    "RoleTick",
    "Run",
    "RunError",
    "Scenario",
    "StoreError",
    "Tick",
    "UnknownComponent",
    "UnsupportedNetwork",
    "WireError",
    "WorkerError",
    "__version__",
    "hookimpl",
    "load_agent",
    "load_plugins",
    "open_run",
    "option",
    "play_match",
    "resume",
    "train",
]

#: Names that are imported on first use, with their modules.
_LAZY = {
    "MatchResult": "ludus._api",
    "Run": "ludus.runs",
    "load_agent": "ludus.installed",
    "open_run": "ludus.runs",
    "play_match": "ludus._api",
    "resume": "ludus._api",
    "train": "ludus._api",
}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LAZY})
