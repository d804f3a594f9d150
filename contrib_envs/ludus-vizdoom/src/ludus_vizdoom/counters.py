"""Reward parts and statistics from the counters of the game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ludus_vizdoom.config import EngineConfig
from ludus_vizdoom.engine import load_library

#: Parts that count what the player has done; their options are the rewards of one.
COUNTED = {
    "frag": "FRAGCOUNT",
    "kill": "KILLCOUNT",
    "death": "DEATHCOUNT",
    "damage": "DAMAGECOUNT",
    "damage_taken": "DAMAGE_TAKEN",
}
#: Parts that count what the player has picked up, which are increases during its life.
PICKED = {"health": ("HEALTH",), "armor": ("ARMOR",), "ammo": tuple(f"AMMO{index}" for index in range(10))}


class Counters:
    """Compares the counters of two decisions.

    Args:
        config: Options: the rewards by the names of parts.
        parts: Names of the parts. Only those with a reward are read in every decision.
    """

    def __init__(self, config: EngineConfig, parts: Sequence[str]) -> None:
        members = load_library().GameVariable.__members__
        self._weights = {part: weight for part in parts if (weight := getattr(config, part))}
        self._counted = {part: members[name] for part, name in COUNTED.items() if part in parts}
        self._picked = {part: [members[name] for name in names] for part, names in PICKED.items()}
        self._deaths = members["DEATHCOUNT"]
        self._start: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._life = 0.0

    def start(self, game: Any) -> None:
        """Read the counters at the start of a match, since the engine goes on counting from the last one."""
        self._start = {part: game.get_game_variable(variable) for part, variable in self._counted.items()}
        self._last = self._read(game)
        self._life = self._read_life(game)

    def _read(self, game: Any) -> dict[str, float]:
        return {
            part: game.get_game_variable(self._counted[part])
            if part in self._counted
            else sum(map(game.get_game_variable, self._picked[part]))
            for part in self._weights
        }

    def _read_life(self, game: Any) -> float:
        """Return a number for the life of the player, -1 while it is dead."""
        return -1.0 if game.is_player_dead() else game.get_game_variable(self._deaths)

    def rewards(self, game: Any) -> dict[str, float]:
        """Return the reward of every part that has one, since the last call."""
        if not self._weights:
            return {}
        now, life = self._read(game), self._read_life(game)
        lives_on = life == self._life >= 0  # a new life starts with other values
        rewards = {}
        for part, weight in self._weights.items():
            change = now[part] - self._last[part]
            if part in self._picked:
                change = max(0.0, change) if lives_on else 0.0
            rewards[part] = weight * change
        self._last, self._life = now, life
        return rewards

    def total(self, game: Any, part: str) -> float:
        """Return what was counted since the start of the match, for a part of `COUNTED`."""
        count: float = game.get_game_variable(self._counted[part]) - self._start[part]
        return count
