"""The emulator of one match: frames, points, and where the ROM of a game is found."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from ludus.errors import ConfigError, PluginError

PLAYERS = 2
_FAMILY = "atari/"
#: Games whose saved states are incomplete: a match loads the ROM again, which takes 0.07 s.
RELOADED = frozenset({"maze_craze"})
_INSTALL = 'pip install "ludus-atari[games]"'


def find_roms() -> Path:
    """Return the folder that contains the ROMs of ale-py.

    Raises:
        PluginError: ale-py is not installed.
    """
    try:
        module = importlib.import_module("ale_py")
    except ImportError as error:
        raise PluginError(f"the ROMs of Atari games are missing: {error}; {_INSTALL} installs them") from error
    return Path(str(module.__file__)).parent


def load_emulator(game: str) -> Any:
    """Return PettingZoo's environment of a two-player game.

    Raises:
        PluginError: PettingZoo's Atari games or the ROMs are not installed.
        ConfigError: There is no such game for two players.
    """
    roms = find_roms()
    try:
        pettingzoo: Any = importlib.import_module("pettingzoo")
        importlib.import_module("multi_agent_ale_py")
    except ImportError as error:
        raise PluginError(f"PettingZoo's Atari games cannot be imported: {error}; {_INSTALL} installs them") from error
    registered = [one for one in pettingzoo.parallel_registry if one.startswith(_FAMILY)]
    known = {one.removeprefix(_FAMILY).rpartition("-v")[0]: one for one in registered}
    if game not in known:
        raise ConfigError(f"game: PettingZoo has no Atari game {game!r}; it has {', '.join(sorted(known))}")
    try:
        env = pettingzoo.make("parallel", known[game], obs_type="ram", auto_rom_install_path=str(roms)).unwrapped
    except OSError as error:
        raise PluginError(f"game {game!r}: {error}") from error
    if len(env.possible_agents) != PLAYERS:
        raise ConfigError(f"game: {game!r} is a game of {len(env.possible_agents)} players; choose one of two players")
    return env


class Emulator:
    """One console with a game for two players.

    Args:
        game: Name of the game.

    Attributes:
        num_actions: Number of actions of a player.
    """

    def __init__(self, game: str) -> None:
        self._env = load_emulator(game)
        self._ale = self._env.ale
        self._codes = np.asarray(self._env.action_mapping, np.int32)
        self.num_actions = len(self._codes)
        self._is_reloaded = game in RELOADED
        self._load()
        self._start = self._ale.cloneSystemState()  # a restart of the game keeps parts of the memory

    def reset(self) -> None:
        """Start the game and advance by one frame, since memory and screen are not read again before."""
        if self._is_reloaded:
            self._load()
        else:
            self._ale.restoreSystemState(self._start)
        self.act(np.zeros(PLAYERS, np.int64))

    def _load(self) -> None:
        self._env.reset(seed=1)  # the seed of memory that is random at the start; 0 would be the time

    def act(self, actions: np.ndarray) -> np.ndarray:
        """Advance by one frame and return the change of each player's score.

        Args:
            actions: ``[2] int64``, below `num_actions`.
        """
        changes: np.ndarray = self._ale.act(self._codes[actions])
        return changes

    @property
    def is_over(self) -> bool:
        """Return whether the game is over by its own rules."""
        return bool(self._ale.game_over())

    def memory(self) -> np.ndarray:
        """Return the memory, ``[128] uint8``."""
        ram: np.ndarray = self._ale.getRAM()
        return ram

    def grey(self) -> np.ndarray:
        """Return the screen, ``[210, 160] uint8``."""
        screen: np.ndarray = self._ale.getScreenGrayscale()[:, :, 0]
        return screen

    def colours(self) -> np.ndarray:
        """Return the screen, ``[210, 160, 3] uint8``."""
        screen: np.ndarray = self._ale.getScreenRGB()
        return screen

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
