"""The rules of the scripted cat, the more urgent ones later."""

from __future__ import annotations

import numpy as np

from ludus_chase.actions import CAT
from ludus_chase.bot_mind import Choice, Group, Sight, Skill, aim, nearest

__all__ = ["decide_cat"]

_REACH = 1.9  # cells: hits mice that are nearer
_FRESH = 0.15  # of 30 s: goes to where a mouse was seen so recently
_GUARD = 9.0  # cells: leaves a mouse that is tied only for mice that are nearer


def decide_cat(sight: Sight, choice: Choice, skill: Skill) -> None:
    """Write what cats do into `choice`."""
    _patrol(sight, choice, skill)
    _chase(sight, choice, skill)
    if skill.tools:
        _lay(sight, choice)
        _use_items(sight, choice)
        _pounce(sight, choice)
    _hit(sight, choice)
    _capture(sight, choice)


def _patrol(sight: Sight, choice: Choice, skill: Skill) -> None:
    """Look after holes in which cheese is known to be, then the crack, then who is tied."""
    if not skill.rescues:
        return
    stuck, hole, far = nearest(sight.holes, sight.holes.flag("stuck"))
    choice.walk_to(stuck & (far > 3.0), sight.holes, hole)
    breaking = sight.common.flag("breaking")
    choice.walk_to(breaking, sight.crack, np.zeros(len(breaking), np.int64))
    lit, rocket, far = nearest(sight.rockets, sight.rockets.flag("lit"))
    guards = lit & (sight.common["tied"] > 0) & ~breaking
    choice.walk_to(guards & (far > 3.0), sight.rockets, rocket)
    choice.take(guards & (far <= 3.0), 0)


def _prey(sight: Sight, skill: Skill) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where ``[n]`` there is a mouse worth chasing, which, and how far it is."""
    mice = sight.mice
    wanted = mice.flag("is-free") & (mice["age"] < (_FRESH if skill.rescues else 0.02))
    there, mouse, far = nearest(mice, wanted)
    if not skill.rescues:
        return there, mouse, far
    guards = sight.rockets.present & sight.rockets.flag("lit") & (sight.rockets.far < _GUARD)
    return there & (~guards.any(axis=1) | (far < _GUARD)), mouse, far


def _chase(sight: Sight, choice: Choice, skill: Skill) -> None:
    """Run after the nearest mouse that is seen or was seen not long ago."""
    there, mouse, far = _prey(sight, skill)
    free = ~sight.own.flag("burdened")
    choice.walk_to(there & free & (far > 0.7), sight.mice, mouse)


def _lay(sight: Sight, choice: Choice) -> None:
    """Lay traps near holes and cheese, gloves near rockets."""
    goals = ((CAT["trap"], sight.holes), (CAT["trap"], sight.cheeses), (CAT["glove"], sight.rockets))
    for action, group in goals:
        choice.take(_beside(group) & ~_beside(sight.hazards), action)


def _beside(group: Group) -> np.ndarray:
    return np.asarray((group.here & (group.far < 2.5)).any(axis=1))


def _use_items(sight: Sight, choice: Choice) -> None:
    """Pick up items on the way; use milk when the ability rests, and the others when a mouse is near."""
    own, mice = sight.own, sight.mice
    there, mouse, far = nearest(mice, mice.flag("is-free") & mice.flag("visible") & mice.flag("same-room"))
    rows = np.arange(len(mouse))
    choice.take(~there, CAT["grab"])
    lit = own["fuse"] > 0
    near = there & ((own.flag("has-plate") & (far < 6.0)) | (own.flag("has-boots") & (far < 9.0)))
    near |= there & own.flag("has-bomb") & (far > 5.0) & (far < 10.0)
    near |= lit & (own["fuse"] < 0.04)
    near |= own.flag("has-milk") & (own["cooldown"] > 0.2)
    choice.take(near, CAT["use"], direction=aim(mice.dx[rows, mouse], mice.dy[rows, mouse]))


def _pounce(sight: Sight, choice: Choice) -> None:
    """Leap at a mouse that is as far as a leap."""
    mice = sight.mice
    there, mouse, far = nearest(mice, mice.flag("is-free") & mice.flag("visible") & mice.flag("same-room"))
    rows = np.arange(len(mouse))
    leaps = there & (far > 4.5) & (far < 8.5)
    choice.take(leaps, CAT["ability"], direction=aim(mice.dx[rows, mouse], mice.dy[rows, mouse]))


def _hit(sight: Sight, choice: Choice) -> None:
    """Hit a mouse in reach."""
    mice = sight.mice
    there, _, far = nearest(mice, mice.flag("is-free") & mice.flag("visible") & mice.flag("same-room"))
    choice.take(there & (far < _REACH), CAT["hit"])


def _capture(sight: Sight, choice: Choice) -> None:
    """Catch mice that are down, and tie them to the nearest free rocket; look for one where none is known."""
    mice, rockets, carries = sight.mice, sight.rockets, sight.own.flag("burdened")
    there, mouse, _ = nearest(mice, mice.flag("is-down"))
    choice.walk_to(there & ~carries, mice, mouse)
    choice.take(~carries, CAT["catch"])
    there, rocket, _ = nearest(rockets, ~rockets.flag("lit"))
    choice.walk_to(there & carries, rockets, rocket)
    choice.take(carries, CAT["tie"])
