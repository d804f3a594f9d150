"""ludus: train game AI by competitive self-play, with everything a plugin."""

from __future__ import annotations

from ludus._plugins.manager import PluginReport, Plugins, load_plugins
from ludus._version import __version__
from ludus.component import Component
from ludus.environment import Environment, EnvironmentSpec, Playable, Role, RoleTick, Scenario, Tick
from ludus.errors import (
    ConfigError,
    ContractError,
    LinkError,
    LudusError,
    ModelError,
    PluginError,
    RunError,
    StoreError,
    UnknownComponent,
    UnsupportedNetwork,
    WireError,
    WorkerError,
)
from ludus.hookspecs import API_LEVEL, hookimpl
from ludus.option import option

__all__ = [
    "API_LEVEL",
    "Component",
    "ConfigError",
    "ContractError",
    "Environment",
    "EnvironmentSpec",
    "LinkError",
    "LudusError",
    "ModelError",
    "Playable",
    "PluginError",
    "PluginReport",
    "Plugins",
    "Role",
    "RoleTick",
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
    "load_plugins",
    "option",
]
