"""Action masks: actions that have an effect are legal."""

from __future__ import annotations

import numpy as np

from ludus_chase.actions import CAT, DIRECTIONS, MOUSE, MOVES
from ludus_chase.reach import Reach
from ludus_chase.world import BREAKING, PREPARATION, World

__all__ = ["update_masks"]

_ACTIONS = len(MOUSE)


def update_masks(world: World, reach: Reach, *, cat: np.ndarray, mouse: np.ndarray) -> None:
    """Write the masks of actions (the first 18 entries) and of directions, which are always legal.

    Args:
        world: State of the matches.
        reach: Targets in reach.
        cat: ``[B, 1, 34] bool``.
        mouse: ``[B, 4, 34] bool``.
    """
    _update_cat(world, reach, cat[:, 0])
    _update_mice(world, reach, mouse)
    for mask in (cat, mouse):
        mask[:, :, : len(MOVES)] = True
        mask[:, :, _ACTIONS : _ACTIONS + len(DIRECTIONS)] = True


def _update_cat(world: World, reach: Reach, mask: np.ndarray) -> None:
    """Write the masks of cats, ``[B, 34]``."""
    plays = world.stage != PREPARATION
    bare, item = world.hold[:, 0] < 0, world.item[:, 0] >= 0
    mask[:, CAT["hit"]] = bare
    mask[:, CAT["catch"]] = bare & (reach.catchable_mouse > 0)
    mask[:, CAT["tie"]] = ~bare & (reach.free_rocket >= 0)
    mask[:, CAT["drop"]] = ~bare | item
    mask[:, CAT["trap"]] = plays & bare & (world.weapons[:, 0] == 0)
    mask[:, CAT["glove"]] = plays & bare & (world.weapons[:, 1] == 0)
    mask[:, CAT["grab"]] = plays & ~item & (reach.item[:, 0] >= 0)
    mask[:, CAT["use"]] = item
    mask[:, CAT["ability"]] = plays & bare & (world.cooldown[:, 0] == 0)


def _update_mice(world: World, reach: Reach, mask: np.ndarray) -> None:
    """Write the masks of mice, ``[B, 4, 34]``."""
    plays = (world.stage != PREPARATION)[:, None]
    bare, item = world.hold[:, 1:] < 0, world.item[:, 1:] >= 0
    lies = np.where(plays, ~item & (reach.item[:, 1:] >= 0), bare & (reach.cake[:, 1:] >= 0))
    mask[:, :, MOUSE["lift"]] = plays & bare & (reach.cheese[:, 1:] >= 0)
    mask[:, :, MOUSE["grab"]] = lies
    mask[:, :, MOUSE["drop"]] = plays & (~bare | item)
    mask[:, :, MOUSE["push"]] = plays & (reach.hole[:, 1:] >= 0)
    mask[:, :, MOUSE["crack"]] = (world.stage == BREAKING)[:, None] & reach.crack[:, 1:]
    mask[:, :, MOUSE["rescue"]] = plays & (reach.tied[:, 1:] >= 0)
    mask[:, :, MOUSE["disarm"]] = plays & (reach.hazard[:, 1:] >= 0)
    mask[:, :, MOUSE["use"]] = item
    mask[:, :, MOUSE["ability"]] = plays & (world.cooldown[:, 1:] == 0)
