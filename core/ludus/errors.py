"""The one error tree of ludus.

::

    LudusError
    ├── ConfigError           (ValueError)    a value in a TOML file or on the command line is wrong
    ├── PluginError           (RuntimeError)  a plugin broke, clashes, or speaks another API level
    │   └── UnknownComponent  (LookupError)   nothing installed provides the component asked for
    ├── ContractError         (ValueError)    an environment, interface, policy … broke its contract
    ├── UnsupportedNetwork    (NotImplementedError) an inference runtime cannot run the network
    ├── WireError             (ValueError)    bytes from a peer are not a valid message
    ├── LinkError             (ConnectionError) a peer cannot be reached or an address is not allowed
    ├── RunError              (RuntimeError)  a run folder cannot be used as asked
    │   ├── StoreError                        the league store is damaged or was written by a newer ludus
    │   └── ModelError                        a model file is missing or does not match its hash
    └── WorkerError           (RuntimeError)  a worker process failed for good

A message says what was wrong, where, what was expected, and what to do next. The command line prints
it as one line and no traceback.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "ContractError",
    "LinkError",
    "LudusError",
    "ModelError",
    "PluginError",
    "RunError",
    "StoreError",
    "UnknownComponent",
    "UnsupportedNetwork",
    "WireError",
    "WorkerError",
]


class LudusError(Exception):
    """Base of every error that ludus raises on purpose."""


class ConfigError(LudusError, ValueError):
    """One or more configuration values are wrong; `problems` holds one line for each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class PluginError(LudusError, RuntimeError):
    """A plugin failed to load, clashes with another, or speaks an unknown API level."""


class UnknownComponent(PluginError, LookupError):  # noqa: N818 - reads better in `except` than with a suffix
    """No installed plugin provides the component asked for."""


class ContractError(LudusError, ValueError):
    """A component returned something that its contract forbids."""


class UnsupportedNetwork(LudusError, NotImplementedError):  # noqa: N818 - as above
    """An inference runtime cannot run this network; torch runs it instead."""


class WireError(LudusError, ValueError):
    """Bytes received from a peer are not a valid ludus message."""


class LinkError(LudusError, ConnectionError):
    """A peer cannot be reached, or an address may not be bound."""


class RunError(LudusError, RuntimeError):
    """A run folder cannot be used as asked."""


class StoreError(RunError):
    """The league store is damaged, locked, or of an unknown schema."""


class ModelError(RunError):
    """A model file is missing, damaged, or does not fit the player."""


class WorkerError(LudusError, RuntimeError):
    """A worker process failed for good."""
