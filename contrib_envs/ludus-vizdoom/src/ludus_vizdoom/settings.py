"""Sets up engines from options: scenario files, buttons, and what the engine draws."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from ludus.errors import ConfigError
from ludus.rendering import is_rendering_enabled

from ludus_vizdoom.config import EngineConfig
from ludus_vizdoom.engine import load_library


def find_scenario(scenario: str) -> Path:
    """Return the configuration file of a scenario.

    Args:
        scenario: Name of one that ViZDoom contains, or ``"package:file.cfg"``.

    Raises:
        ConfigError: There is no such file.
    """
    package, colon, name = scenario.partition(":")
    if colon:
        spec = importlib.util.find_spec(package)
        folders = list(spec.submodule_search_locations or ()) if spec else []
        found = [path for path in (Path(folder, name) for folder in folders) if path.is_file()]
        if not found:
            raise ConfigError(f"scenario: the package {package!r} has no file {name!r}")
        return found[0]
    home = Path(load_library().scenarios_path)
    path = home / f"{scenario}.cfg"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in home.glob("*.cfg")))
        raise ConfigError(f"scenario: ViZDoom has no scenario {scenario!r}; it has {known}")
    return path


def find_members(kind: str, names: Sequence[str], option: str) -> list[Any]:
    """Return the members of an enumeration of the library.

    Args:
        kind: ``"Button"`` or ``"GameVariable"``.
        names: Names of members.
        option: Option that holds the names, for errors.

    Raises:
        ConfigError: There is no such member.
    """
    members = getattr(load_library(), kind).__members__
    for name in names:
        if name not in members:
            raise ConfigError(f"{option}: ViZDoom has no {kind} {name!r}; it has {', '.join(members)}")
    return [members[name] for name in names]


@frozen(kw_only=True)
class GameSettings:
    """How an engine is set up, apart from what differs between the players of a match.

    Args:
        config: Options.
        path: Configuration file of the scenario.
        is_drawn: Whether frames are asked for, so that the engine draws in colours in any case.
    """

    config: EngineConfig
    path: Path
    is_drawn: bool

    @classmethod
    def of(cls, config: EngineConfig, scenario: str) -> GameSettings:
        """Return the settings for a scenario.

        Raises:
            ConfigError: There is no such scenario.
        """
        return cls(config=config, path=find_scenario(scenario), is_drawn=is_rendering_enabled())

    @property
    def draws_color(self) -> bool:
        """Return whether the engine draws in colours."""
        return self.config.color or self.is_drawn

    def apply(self, game: Any) -> None:
        """Set up a game that does not run yet.

        Raises:
            ConfigError: A name or the configuration file is wrong.
        """
        config, library = self.config, load_library()
        try:
            game.load_config(str(self.path))
        except Exception as error:  # many kinds of the library
            raise ConfigError(f"scenario: {self.path}: {' '.join(str(error).split())}") from error
        resolution = getattr(library.ScreenResolution, f"RES_{config.resolution.upper()}", None)
        if resolution is None:
            raise ConfigError(
                f"resolution: ViZDoom cannot draw in {config.resolution}; 160x120 and 320x240 are two of its sizes"
            )
        game.set_screen_resolution(resolution)
        game.set_screen_format(library.ScreenFormat.RGB24 if self.draws_color else library.ScreenFormat.GRAY8)
        game.set_mode(library.Mode.PLAYER)
        game.add_game_args("+movebob 0 +stillbob 0")  # the sway of a weapon goes on from the match before
        game.set_sound_enabled(False)
        game.set_render_hud(config.hud)
        game.set_depth_buffer_enabled(config.depth)
        game.set_labels_buffer_enabled(config.labels != "none")
        game.set_episode_timeout(0)  # matches are ended here, where the last observation can still be read
        if config.buttons:
            game.set_available_buttons(find_members("Button", config.buttons, "buttons"))
        if config.variables:
            game.set_available_game_variables(find_members("GameVariable", config.variables, "variables"))
        if config.skill:
            game.set_doom_skill(config.skill)
        if config.map:
            game.set_doom_map(config.map)
