"""One tick of the game, in the order of its rules."""

from __future__ import annotations

import numpy as np

from ludus_chase import capture, cheese, hazards, items, motion, stages
from ludus_chase.actions import CAT, MOUSE, MOVES
from ludus_chase.blows import Game, drop_cheese
from ludus_chase.reach import Reach
from ludus_chase.world import AGENTS, FREE, PREPARATION

__all__ = ["advance"]


def advance(game: Game, reach: Reach, *, action: np.ndarray, direction: np.ndarray, acting: np.ndarray) -> None:
    """Play one tick of all running matches.

    Hands come before feet: whoever does something does it to what was in reach when it decided; then all walk.

    Args:
        game: The game.
        reach: What was in reach when agents decided.
        action: ``[B, 5] int64``, legal where acting.
        direction: ``[B, 5] int64``.
        acting: ``[B, 5] bool``: who decided.
    """
    game.events.clear()
    _tick_down(game)
    hands = acting & (action >= len(MOVES))
    if hands.any():
        _cat_hands(game, reach, action[:, 0], hands[:, 0])
        _mouse_hands(game, reach, action, hands)
        _common_hands(game, reach, action, direction=direction, hands=hands)
    walking = acting & ~hands & (game.world.status == FREE) & (game.world.bound == 0)
    motion.walk(game, np.where(walking, action, 0), walking)
    np.copyto(game.world.last, action, where=acting)
    motion.follow(game)
    hazards.spring(game)
    capture.run_clocks(game)
    items.burn_bombs(game)
    stages.advance_stage(game)
    _remember_places(game)


def _tick_down(game: Game) -> None:
    """Let a tick pass for everything that lasts, and let mice recover."""
    world = game.world
    for lasting in (world.bound, world.safe, world.fast, world.cooldown, world.weapons):
        np.maximum(lasting - 1, 0, out=lasting)
    mice = world.health[:, 1:]
    well = np.minimum(mice + np.float32(game.rates.regeneration), 100)
    np.copyto(mice, well, where=(world.status[:, 1:] == FREE) & world.going[:, None])


def _cat_hands(game: Game, reach: Reach, action: np.ndarray, hands: np.ndarray) -> None:
    """Let cats ``[B] bool`` do what only cats do."""
    if not hands.any():
        return

    def does(name: str) -> np.ndarray:
        chosen: np.ndarray = hands & (action == CAT[name])
        return chosen

    capture.hit(game, reach, does("hit"))
    capture.catch(game, reach, does("catch"))
    capture.tie(game, reach, does("tie"))
    hazards.lay(game, does("trap"), 0)
    hazards.lay(game, does("glove"), 1)


def _mouse_hands(game: Game, reach: Reach, action: np.ndarray, hands: np.ndarray) -> None:
    """Let mice ``[B, 5] bool`` do what only mice do, unless the cat has just stopped them."""
    world = game.world
    free = hands & (world.status == FREE)
    free[:, 0] = False
    scouting = (world.stage == PREPARATION)[:, None]

    def does(name: str) -> np.ndarray:
        chosen: np.ndarray = free & (action == MOUSE[name])
        return chosen

    stages.take_cake(game, reach, does("grab") & scouting)
    cheese.lift(game, reach, does("lift"))
    cheese.push(game, reach, does("push"))
    stages.gnaw(game, reach, does("crack"))
    capture.rescue(game, reach, does("rescue"))
    hazards.disarm(game, reach, does("disarm"))


def _common_hands(game: Game, reach: Reach, action: np.ndarray, *, direction: np.ndarray, hands: np.ndarray) -> None:
    """Let agents ``[B, 5] bool`` do what cat and mice do alike."""
    world = game.world
    free = hands & (world.status == FREE)

    def does(name: str) -> np.ndarray:
        chosen: np.ndarray = (action == MOUSE[name]) & free
        chosen[:, 0] = free[:, 0] & (action[:, 0] == CAT[name])
        return chosen

    items.grab(game, reach, does("grab") & (world.stage != PREPARATION)[:, None])
    _drop(game, does("drop"))
    items.use(game, does("use"), direction)
    motion.use_ability(game, does("ability"), direction)


def _drop(game: Game, who: np.ndarray) -> None:
    """Let agents ``[B, 5] bool`` drop what they carry, or else the item that they have."""
    carries = who & (game.world.hold >= 0)
    capture.let_go(game, carries[:, 0])
    drop_cheese(game.world, *np.nonzero(carries & (np.arange(AGENTS) > 0)))
    items.drop_item(game, who & ~carries)


def _remember_places(game: Game) -> None:
    """Write the places of agents into their history."""
    world = game.world
    rows, slot = np.arange(len(world.ticks)), world.ticks % world.history.shape[2]
    world.history[rows, :, slot, 0], world.history[rows, :, slot, 1] = world.x, world.y
