"""Where the game is installed, and whether the packages that its protocol needs are."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from ludus.errors import ConfigError, PluginError

FOLDER = "SC2PATH"
_INSTALL = 'pip install "ludus-sc2[game]"'
_PROGRAM = "SC2_x64"


@functools.cache
def load_protocol() -> Any:
    """Import the module of the protocol's messages.

    Raises:
        PluginError: A package is not installed.
    """
    try:
        importlib.import_module("websockets")
        return importlib.import_module("s2clientprotocol.sc2api_pb2")
    except ImportError as error:
        raise PluginError(f"the StarCraft II protocol cannot be imported: {error}; {_INSTALL} installs it") from error


@frozen
class Installation:
    """A folder with the game.

    Args:
        folder: Folder that ``SC2PATH`` names.
        program: The newest version of the game in it.
    """

    folder: Path
    program: Path

    @classmethod
    def find(cls, variables: Mapping[str, str] = os.environ) -> Installation:
        """Return the installation that ``SC2PATH`` names.

        Raises:
            PluginError: The variable is not set, or names a folder without the game.
        """
        value = variables.get(FOLDER, "")
        if not value:
            raise PluginError(
                f"sc2 needs StarCraft II: install the game and set {FOLDER} to its folder, with Versions and Maps in it"
            ) from ImportError(f"{FOLDER} names no folder with StarCraft II")
        folder = Path(value).expanduser().absolute()
        programs = [path for path in folder.glob(f"Versions/Base*/{_PROGRAM}") if path.parent.name[4:].isdigit()]
        if not programs:
            raise PluginError(
                f"{FOLDER}: expected a folder with Versions/Base<number>/{_PROGRAM}, found none in {folder}"
            )
        return cls(folder, max(programs, key=lambda path: int(path.parent.name[4:])))

    def find_map(self, name: str) -> str:
        """Return the path of a map, relative to the folder ``Maps``, as the game expects it.

        Raises:
            ConfigError: There is no such map.
        """
        maps = self.folder / "Maps"
        known = {path.stem: path for path in sorted(maps.rglob("*.SC2Map"))}
        if name not in known:
            some = ", ".join(sorted(known)[:8]) or "no maps"
            raise ConfigError(f"sc2.map: expected a map in {maps}, got {name!r}; there are {some}")
        return str(known[name].relative_to(maps))
