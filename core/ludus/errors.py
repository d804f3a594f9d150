"""The exceptions of ludus.

::

    LudusError
    ├── ConfigError           (ValueError)    a value of a TOML file or the command line is wrong
    ├── PluginError           (RuntimeError)  a plugin failed, clashes, or needs another API level
    │   └── UnknownComponent  (LookupError)   no installed plugin provides a component
    ├── ContractError         (ValueError)    a component violated its contract
    ├── UnsupportedNetwork    (NotImplementedError) an inference runtime cannot run the network
    ├── WireError             (ValueError)    received bytes are not a valid message
    ├── LinkError             (ConnectionError) a peer cannot be reached, or an address is forbidden
    ├── RunError              (RuntimeError)  a run folder cannot be used
    │   ├── StoreError                        the league database is damaged or of a newer ludus
    │   ├── ReplayError                       the record of a match cannot be read, or the match differs from it
    │   └── ModelError                        a model cannot be used
    │       └── DamagedFileError              a file of a model is missing or does not match its hash
    └── WorkerError           (RuntimeError)  a worker process failed too often

A message states what is wrong, where, what was expected, and how to fix it. The command line prints it without a
traceback.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "ContractError",
    "DamagedFileError",
    "LinkError",
    "LudusError",
    "ModelError",
    "PluginError",
    "ReplayError",
    "RunError",
    "StoreError",
    "UnknownComponent",
    "UnsupportedNetwork",
    "WireError",
    "WorkerError",
]


class LudusError(Exception):
    """Base class of all exceptions of ludus."""


class ConfigError(LudusError, ValueError):
    """One or more configuration values are wrong; `problems` holds one line for each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class PluginError(LudusError, RuntimeError):
    """A plugin failed, clashes with another plugin, or needs another API level."""


class UnknownComponent(PluginError, LookupError):  # noqa: N818 - reads better in `except` than with a suffix
    """No installed plugin provides a component of this name."""


class ContractError(LudusError, ValueError):
    """A component returned a value that its contract forbids."""


class UnsupportedNetwork(LudusError, NotImplementedError):  # noqa: N818 - as above
    """An inference runtime cannot run this network; torch runs it instead."""


class WireError(LudusError, ValueError):
    """Bytes received from a peer are not a valid ludus message."""


class LinkError(LudusError, ConnectionError):
    """A peer cannot be reached, or an address cannot be bound."""


class RunError(LudusError, RuntimeError):
    """A run folder cannot be used."""


class StoreError(RunError):
    """The league database is damaged, locked, or of an unknown schema."""


class ReplayError(RunError):
    """The record of a match is missing, damaged, or differs from the match that is played from it."""


class ModelError(RunError):
    """A model file is missing, damaged, or does not fit the player."""


class DamagedFileError(ModelError):
    """A model file or checkpoint is missing, cannot be read, or does not match its hash."""


class WorkerError(LudusError, RuntimeError):
    """A worker process failed too often to be restarted."""
