"""One step of all matches, in the order of the rules."""

from __future__ import annotations

import numpy as np

from ludus_pommerman.blasts import age_flames, collapse, explode, kill
from ludus_pommerman.moves import move
from ludus_pommerman.rules import RINGS, STOP, Variant, steps
from ludus_pommerman.world import World


class Engine:
    """Advances matches.

    Args:
        variant: Variant of the game.
        max_strength: Greatest strength of bombs.
        time_limit: Steps of a match.
        first_collapse: Step of the first collapse, for variants with collapses.
    """

    def __init__(self, variant: Variant, max_strength: int, time_limit: int, first_collapse: int) -> None:
        self._steps, self._max_strength = steps(variant.size), max_strength
        self._teams = np.array(variant.teams)
        self._rings: list[tuple[int, np.ndarray]] = []
        if variant.collapse:
            row, column = np.indices((variant.size + 2,) * 2).reshape(2, -1) - 1
            depth = np.minimum.reduce([row, column, variant.size - 1 - row, variant.size - 1 - column])
            pause = max((time_limit - first_collapse) // RINGS, 1)
            self._rings = [(first_collapse + pause * ring, np.flatnonzero(depth == ring)) for ring in range(RINGS)]

    def advance(self, world: World, actions: np.ndarray) -> None:
        """Advance all running matches by one step.

        Args:
            world: State to change.
            actions: ``[B, A, L] int64``: action, and in variants with radio two words.
        """
        acts = world.acting & (world.still <= world.ticks[:, None])
        action = np.where(acts, actions[..., 0], STOP)
        running = world.running
        if actions.shape[2] > 1:
            world.words[running] = np.where(acts[..., None], actions[..., 1:], 0)[running]
        world.ticks += running
        age_flames(world)
        move(world, action, self._steps, self._max_strength)
        explode(world, self._steps)
        kill(world, self._teams)
        for step, ring in self._rings:
            collapse(world, ring, np.flatnonzero(running & (world.ticks == step)))
