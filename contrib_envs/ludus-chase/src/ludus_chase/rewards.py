"""The rewards of the paper as named parts [AET Appendix C, tables 5 and 6]."""

from __future__ import annotations

import numpy as np

from ludus_chase.game import Events
from ludus_chase.perception import Paths
from ludus_chase.world import MICE, Cheese, Stage, Status, Thing, World

#: Weight of each part of the cat's reward; a loss costs as much as a `win` pays.
CAT_PARTS = {
    "place_trap": 0.025,
    "catch": 0.1,
    "tie": 0.1,
    "eliminate": 2.0,
    "cheese_pushed": -0.25,
    "crack_health": 0.01,  # per percent
    "win": 5.0,
    "find_rocket": 0.05,
    "find_hole": 0.05,
    "first_damage": 0.15,
    "wreck_scout": 0.5,
    "cakes": -1.0,
}
#: The same for mice. The `near_` parts are per cell of approach; the paper's factor, which falls from
#: 5 to 1 (rockets: from 3) is split into what stays and what fades.
MOUSE_PARTS = {
    "near_cheese": 0.001,
    "near_cheese_fading": 0.004,
    "near_rocket": 0.01,
    "near_rocket_fading": 0.02,
    "near_hole": 0.001,
    "near_hole_fading": 0.004,
    "near_crack": 0.001,
    "near_crack_fading": 0.004,
    "lift_cheese": 0.05,
    "health": 0.003,
    "caught": -0.2,
    "eliminated": -2.0,
    "rescue": 0.5,
    "throw_bomb": 0.15,
    "disarm_glove": 0.15,
    "disarm_trap": 0.15,
    "push": 1.0,
    "cheese_pushed": 0.5,
    "break_crack": 2.0,
    "open_crack": 1.0,
    "win": 5.0,
    "scout_wrecked": -0.5,
    "cakes": 1.0,
}
#: Guidance of the mice that decays in training [AET table 6]; that of the cat is given once per match only.
FADING_PARTS = ("near_cheese_fading", "near_rocket_fading", "near_hole_fading", "near_crack_fading", "lift_cheese")
_FAR = np.float32(1e6)


def score_cat(events: Events, parts: dict[str, np.ndarray], *, won: np.ndarray) -> None:
    """Write the parts ``[B, 1] float32`` of the cat's reward.

    Args:
        events: Events of the tick.
        parts: Arrays to write to.
        won: ``[B] float32``: 1 where the cat has won, -1 where it has lost, else 0.
    """
    counts = {
        "place_trap": events.laid,
        "catch": events.caught.sum(axis=1),
        "tie": events.tied,
        "eliminate": events.eliminated.sum(axis=1),
        "cheese_pushed": events.filled,
        "crack_health": events.crack * 100,
        "win": won,
        "find_rocket": events.found_rocket,
        "find_hole": events.found_hole,
        "first_damage": events.first_damage,
        "wreck_scout": events.wrecked.sum(axis=1),
        "cakes": events.cake.sum(axis=1),
    }
    for name, count in counts.items():
        np.multiply(count, np.float32(CAT_PARTS[name]), out=parts[name][:, 0])


def score_mice(events: Events, parts: dict[str, np.ndarray], shaping: ShapingRewards, *, won: np.ndarray) -> None:
    """Write the parts ``[B, 4] float32`` of the mice's rewards.

    Args:
        events: Events of the tick.
        parts: Arrays to write to.
        shaping: Writes the parts for approach and health.
        won: ``[B] float32``: 1 where the mice have won, -1 where they have lost, else 0.
    """
    alone = {
        "lift_cheese": events.lifted,
        "caught": events.caught,
        "eliminated": events.eliminated,
        "rescue": events.rescued,
        "throw_bomb": events.threw_late,
        "disarm_glove": events.disarmed_glove,
        "disarm_trap": events.disarmed_trap,
        "push": events.pushed,
        "break_crack": events.cracked,
        "scout_wrecked": events.wrecked,
        "cakes": events.cake,
    }
    team = {"cheese_pushed": events.filled, "open_crack": events.opened, "win": won}
    for name, count in alone.items():
        np.multiply(count[:, 1:], np.float32(MOUSE_PARTS[name]), out=parts[name])
    present = (shaping.world.status[:, 1:] != Status.ABSENT).astype(np.float32)
    for name, count in team.items():
        np.multiply(present, (np.float32(MOUSE_PARTS[name]) * count)[:, None], out=parts[name])
    shaping.score(parts)


class ShapingRewards:
    """Rewards mice for approaching known targets and for health, from the difference of two ticks.

    Args:
        world: State of the matches.
    """

    def __init__(self, world: World) -> None:
        shape = (len(world.ticks), MICE)
        self.world = world
        self._far = {kind: np.zeros((*shape, count), np.float32) for kind, count in _KINDS.items()}
        self._wanted = {kind: np.zeros((*shape, count), bool) for kind, count in _KINDS.items()}
        self._health = np.zeros(shape, np.float32)
        self._parts = {kind: np.zeros(shape, np.float32) for kind in _KINDS}
        self._gain = np.zeros(shape, np.float32)

    def update(self, ways: Paths, at: np.ndarray | slice, *, gains: bool) -> None:
        """Store distances and health of the mice, and compute the gains since the previous tick.

        Args:
            ways: ``[n, 4, 33 + …]`` to things as the mice remember them, then other agents.
            at: Matches to update.
            gains: Whether to compute gains; False after a reset.
        """
        world = self.world.take(at)
        wanted, far = _wanted(world), _distances(ways.far)
        for kind in _KINDS:
            if gains:
                self._parts[kind][at] = _nearer(self._far[kind][at], far[kind], self._wanted[kind][at] & wanted[kind])
            self._far[kind][at], self._wanted[kind][at] = far[kind], wanted[kind]
        if gains:
            self._gain[at] = world.health[:, 1:] - self._health[at]
        self._health[at] = world.health[:, 1:]

    def score(self, parts: dict[str, np.ndarray]) -> None:
        """Write the parts for approach and health."""
        np.multiply(self._gain, np.float32(MOUSE_PARTS["health"]), out=parts["health"])
        for kind, gain in self._parts.items():
            for name in (f"near_{kind}", f"near_{kind}_fading"):
                np.multiply(gain, np.float32(MOUSE_PARTS[name]), out=parts[name])


_KINDS = {"cheese": 5, "rocket": MICE, "hole": 5, "crack": 1}


def _distances(far: np.ndarray) -> dict[str, np.ndarray]:
    """Return walking distances to targets, ``[n, 4, k] float32`` each; a rocket is where its tied mouse is."""
    return {
        "cheese": far[:, :, Thing.CHEESES],
        "rocket": far[:, :, -MICE:],
        "hole": far[:, :, Thing.HOLES],
        "crack": far[:, :, Thing.CRACK : Thing.CRACK + 1],
    }


def _wanted(world: World) -> dict[str, np.ndarray]:
    """Return the targets whose approach is rewarded, ``[n, 4, k] bool`` each."""
    status = world.status[:, 1:]
    able = (status == Status.FREE) & ((world.stage != Stage.PREPARATION) & world.running)[:, None]
    carries = able & (world.hold[:, 1:] >= 0)
    known, state = world.known[:, 1], world.seen_state[:, 1]
    cheese = known[:, Thing.CHEESES] & (state[:, Thing.CHEESES] == Cheese.FLOOR)
    hole = known[:, Thing.HOLES] & (state[:, Thing.HOLES] == 0)
    crack = world.present[:, Thing.CRACK, None]
    return {
        "cheese": (able & ~carries)[:, :, None] & cheese[:, None],
        "rocket": able[:, :, None] & (status == Status.TIED)[:, None],
        "hole": carries[:, :, None] & hole[:, None],
        "crack": able[:, :, None] & crack[:, None],
    }


def _nearer(before: np.ndarray, now: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return how many cells mice ``[n, 4]`` approached the target that was nearest, of ``[n, 4, k]``."""
    masked = np.where(wanted, before, _FAR)
    nearest = masked.argmin(axis=-1)[..., None]
    gain = np.take_along_axis(before, nearest, axis=-1) - np.take_along_axis(now, nearest, axis=-1)
    return np.where(wanted.any(axis=-1), gain[..., 0], np.float32(0))
