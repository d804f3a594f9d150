"""One tick of the game, in the order of its rules."""

from __future__ import annotations

import numpy as np

from ludus_chase import capture, items, motion, stages
from ludus_chase.actions import CAT, MOUSE, MOVES
from ludus_chase.capture import drop_cheese
from ludus_chase.game import Game
from ludus_chase.reach import Reach
from ludus_chase.world import AGENTS, Stage, Status


def advance(game: Game, reach: Reach, *, action: np.ndarray, direction: np.ndarray, acting: np.ndarray) -> None:
    """Play one tick of all running matches.

    Actions on targets are applied first, to the targets that were in reach at the decision; then agents walk.

    Args:
        game: State to change.
        reach: Targets in reach at the decision.
        action: ``[B, 5] int64``, legal where acting.
        direction: ``[B, 5] int64``.
        acting: ``[B, 5] bool``: agents that decided.
    """
    game.events.clear()
    _advance_timers(game)
    targeted = acting & (action >= len(MOVES))
    if targeted.any():
        _apply_cat_actions(game, reach, action[:, 0], targeted[:, 0])
        _apply_mouse_actions(game, reach, action, targeted)
        _apply_common_actions(game, reach, action, direction=direction, targeted=targeted)
    walking = acting & ~targeted & (game.world.status == Status.FREE) & (game.world.bound == 0)
    motion.walk(game, np.where(walking, action, 0), walking)
    np.copyto(game.world.last_action, action, where=acting)
    motion.move_carried(game)
    items.trigger_hazards(game)
    capture.advance_clocks(game)
    items.burn_bombs(game)
    stages.advance_stage(game)
    _record_positions(game)


def _advance_timers(game: Game) -> None:
    """Decrease all timers by one tick, and regenerate the health of mice."""
    world = game.world
    for timer in (world.bound, world.safe, world.fast, world.cooldown, world.weapons):
        np.maximum(timer - 1, 0, out=timer)
    mice = world.health[:, 1:]
    recovered = np.minimum(mice + np.float32(game.rates.regeneration), 100)
    np.copyto(mice, recovered, where=(world.status[:, 1:] == Status.FREE) & world.running[:, None])


def _apply_cat_actions(game: Game, reach: Reach, action: np.ndarray, targeted: np.ndarray) -> None:
    """Apply the actions that only cats have."""
    if not targeted.any():
        return

    def choosing(name: str) -> np.ndarray:
        chosen: np.ndarray = targeted & (action == CAT[name])
        return chosen

    capture.hit(game, reach, choosing("hit"))
    capture.catch(game, reach, choosing("catch"))
    capture.tie(game, reach, choosing("tie"))
    items.place_hazard(game, choosing("trap"), 0)
    items.place_hazard(game, choosing("glove"), 1)


def _apply_mouse_actions(game: Game, reach: Reach, action: np.ndarray, targeted: np.ndarray) -> None:
    """Apply the actions that only mice have, except for mice that the cat has just stopped."""
    world = game.world
    free = targeted & (world.status == Status.FREE)
    free[:, 0] = False
    scouting = (world.stage == Stage.PREPARATION)[:, None]

    def choosing(name: str) -> np.ndarray:
        chosen: np.ndarray = free & (action == MOUSE[name])
        return chosen

    stages.take_cake(game, reach, choosing("grab") & scouting)
    stages.lift(game, reach, choosing("lift"))
    stages.push(game, reach, choosing("push"))
    stages.break_crack(game, reach, choosing("crack"))
    capture.rescue(game, reach, choosing("rescue"))
    items.disarm(game, reach, choosing("disarm"))


def _apply_common_actions(
    game: Game, reach: Reach, action: np.ndarray, *, direction: np.ndarray, targeted: np.ndarray
) -> None:
    """Apply the actions that both roles have."""
    world = game.world
    free = targeted & (world.status == Status.FREE)

    def choosing(name: str) -> np.ndarray:
        chosen: np.ndarray = (action == MOUSE[name]) & free
        chosen[:, 0] = free[:, 0] & (action[:, 0] == CAT[name])
        return chosen

    items.grab(game, reach, choosing("grab") & (world.stage != Stage.PREPARATION)[:, None])
    _drop(game, choosing("drop"))
    items.use(game, choosing("use"), direction)
    motion.use_ability(game, choosing("ability"), direction)


def _drop(game: Game, selected: np.ndarray) -> None:
    """Let the agents ``selected [B, 5] bool`` drop what they carry, or else their item."""
    carries = selected & (game.world.hold >= 0)
    capture.drop_mouse(game, carries[:, 0])
    drop_cheese(game.world, *np.nonzero(carries & (np.arange(AGENTS) > 0)))
    items.drop_item(game, selected & ~carries)


def _record_positions(game: Game) -> None:
    """Record the positions of agents in the history."""
    world = game.world
    matches, slot = np.arange(len(world.ticks)), world.ticks % world.history.shape[2]
    world.history[matches, :, slot, 0], world.history[matches, :, slot, 1] = world.x, world.y
