"""Stored moments of matches: files from which matches start again.

A file ``NAME.state`` has a line of JSON that describes the match, and the state of the engine behind it. Compiled code
reads the state, so a wrong one can do harm: the files are read from a folder that the user names by the variable
`FOLDER_VARIABLE`, never from one that a run file chooses.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import cattrs
from attrs import asdict, frozen
from ludus.errors import ConfigError

SUFFIX = ".state"
#: Variable of the process environment that names the folder which contains the folders of stored moments.
FOLDER_VARIABLE = "LUDUS_FOOTBALL_STATES"
_FORMAT = 1
_MOST_BYTES = 4 << 20
_NAME = re.compile("[a-z0-9][a-z0-9._-]{0,50}")


@frozen(kw_only=True)
class StoredState:
    """A moment of a match.

    Args:
        scenario: Option `scenario` of the match.
        players: Option `players` of the match.
        taker: Team whose processing comes first in the engine, see `ludus_football.engine.Start`.
        engine: State of the engine.
    """

    scenario: str
    players: str
    taker: int
    engine: bytes


def write_state(path: Path, state: StoredState) -> None:
    """Write a file, and replace one of that name.

    Raises:
        ConfigError: The name of the file is not ``NAME.state``.
    """
    _check_name(path)
    header = asdict(state, filter=lambda attribute, _: attribute.name != "engine")
    header |= {"format": _FORMAT, "sha256": sha256(state.engine).hexdigest()}
    path.write_bytes(json.dumps(header).encode() + b"\n" + state.engine)


def read_state(path: Path) -> StoredState:
    """Read a file.

    Raises:
        ConfigError: It is damaged, or no stored moment.
    """
    if path.stat().st_size > _MOST_BYTES:
        raise ConfigError(f"states: {path} has more than {_MOST_BYTES >> 20} MiB; expected a stored moment of a match")
    line, _, engine = path.read_bytes().partition(b"\n")
    try:
        header: dict[str, Any] = json.loads(line)
        checksum, version = header.pop("sha256"), header.pop("format")
        state = cattrs.structure({**header, "engine": engine}, StoredState)
    except Exception as error:  # wrong JSON and missing keys raise errors of several kinds
        raise ConfigError(f"states: {path} is no stored moment of a match: {' '.join(str(error).split())}") from error
    if version != _FORMAT or checksum != sha256(engine).hexdigest():
        raise ConfigError(f"states: {path} is damaged or of another version; expected format {_FORMAT}")
    return state


def find_folder(name: str) -> Path:
    """Return a folder of stored moments.

    Raises:
        ConfigError: The user has not named the folder that contains it, or it does not exist.
    """
    root = os.environ.get(FOLDER_VARIABLE, "")
    if not root:
        raise ConfigError(
            f"states: set the variable {FOLDER_VARIABLE} to the folder that contains {name!r}; compiled code reads the "
            "stored moments, so a run file alone cannot choose where they are"
        )
    folder = Path(root, name)
    if not folder.is_dir() or folder.resolve().parent != Path(root).resolve():
        raise ConfigError(f"states: {FOLDER_VARIABLE} has no folder {name!r} in {root}")
    return folder


def read_folder(folder: Path, *, scenario: str, players: str) -> Mapping[str, StoredState]:
    """Return the stored moments of a folder by name, in alphabetical order.

    Args:
        folder: The folder; links that lead out of it are refused.
        scenario: Scenario that they must be of.
        players: Kind of seats that they must be of.

    Raises:
        ConfigError: There is no stored moment, or a file is wrong.
    """
    inside, states = folder.resolve(), {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        _check_name(path)
        if path.resolve().parent != inside:
            raise ConfigError(f"states: {path} leads out of the folder; expected a file")
        state = read_state(path)
        if (state.scenario, state.players) != (scenario, players):
            raise ConfigError(
                f"states: {path} is of scenario = {state.scenario!r} and players = {state.players!r}; expected "
                f"{scenario!r} and {players!r}"
            )
        states[path.name.removesuffix(SUFFIX)] = state
    if not states:
        raise ConfigError(f"states: {folder} has no file NAME{SUFFIX}")
    return states


def _check_name(path: Path) -> None:
    if path.suffix != SUFFIX or not _NAME.fullmatch(path.name.removesuffix(SUFFIX)):
        raise ConfigError(f"states: {path.name}: expected NAME{SUFFIX} with up to 51 characters from a-z 0-9 . _ -")
