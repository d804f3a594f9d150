"""Commands to own units."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from attrs import evolve, frozen

from ludus_sc2.situation import SeenUnit

#: The game's numbers of general abilities, which all versions have.
ATTACK, MOVE, GATHER, INJECT = 3674, 3794, 3666, 251
#: The same abilities as the orders of units may show them.
ATTACKS, GATHERS = frozenset({ATTACK, 23}), frozenset({GATHER, 1183})


@frozen(eq=False)
class Command:
    """A command to some units.

    Args:
        ability: The game's number of an ability.
        tags: Units that get the command.
        target: A position ``[2]``, the tag of a unit, or None.
    """

    ability: int
    tags: tuple[int, ...]
    target: np.ndarray | int | None = None

    def without(self, tags: Collection[int]) -> list[Command]:
        """Return the command for all units but some, as a list that is empty if none is left."""
        left = tuple(tag for tag in self.tags if tag not in tags)
        return [evolve(self, tags=left)] if left else []

    def write(self, action: Any) -> None:
        """Write it to an ``Action`` of the protocol."""
        command = action.action_raw.unit_command
        command.ability_id = self.ability
        command.unit_tags.extend(self.tags)
        if isinstance(self.target, np.ndarray):
            command.target_world_space_pos.x, command.target_world_space_pos.y = map(float, self.target)
        elif self.target is not None:
            command.target_unit_tag = self.target


def command(ability: int, units: Iterable[SeenUnit], target: np.ndarray | int | None = None) -> list[Command]:
    """Return the command as a list, which is empty without units."""
    tags = tuple(unit.tag for unit in units)
    return [Command(ability, tags, target)] if tags else []
