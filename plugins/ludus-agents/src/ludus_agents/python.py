"""Agents of the user's own modules."""

from __future__ import annotations

import importlib

from ludus import EnvironmentSpec
from ludus.agent import Agent
from ludus.errors import ConfigError

from ludus_agents.config import PythonConfig


def make_python(config: PythonConfig, *, spec: EnvironmentSpec, role: str) -> Agent:
    """Make the agent ``python``: an instance of a class that a module of the user defines.

    Raises:
        ConfigError: The class cannot be imported, is no agent, or refuses the options.
    """
    kind = _find_class(config.path)
    try:
        agent: Agent = kind(spec=spec, role=role, **config.options)
    except TypeError as error:
        options = dict(config.options)
        raise ConfigError(
            f"agent python: path: {config.path!r} cannot be made with spec, role and {options}: {error}"
        ) from error
    return agent


def _find_class(path: str) -> type:
    """Return the class of a path ``"module:Class"``.

    Raises:
        ConfigError: It cannot be imported, or lacks the methods of `ludus.agent.Agent`.
    """
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise ConfigError(
            f"agent python: path: cannot import {module!r}: {error}; install its package, or add its folder to "
            "PYTHONPATH"
        ) from error
    missing = [method for method in ("act", "reset") if not callable(getattr(found, method, None))]
    if not isinstance(found, type) or missing:
        got = f"a class without {' and '.join(missing)}" if isinstance(found, type) else type(found).__name__
        raise ConfigError(
            f"agent python: path: expected {path!r} to be a class with the methods act and reset of ludus.agent.Agent, "
            f"got {'nothing of that name' if found is None else got}"
        )
    return found
