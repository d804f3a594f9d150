"""Rules of the scripted cat; later rules take precedence."""

from __future__ import annotations

import numpy as np

from ludus_chase.actions import CAT
from ludus_chase.bot_policy import Choice, Entities, Observations, Skill, nearest_direction, nearest_entity

__all__ = ["decide_cat"]

_REACH = 1.9  # cells: distance at which it hits a mouse
_FRESH = 0.15  # in units of 30 s: maximum age of a sighting that it follows
_GUARD = 9.0  # cells: it leaves a tied mouse only for nearer mice


def decide_cat(observed: Observations, choice: Choice, skill: Skill) -> None:
    """Write the actions of cats into `choice`."""
    _patrol(observed, choice, skill)
    _chase(observed, choice, skill)
    if skill.tools:
        _place_hazards(observed, choice)
        _use_items(observed, choice)
        _pounce(observed, choice)
    _hit(observed, choice)
    _capture(observed, choice)


def _patrol(observed: Observations, choice: Choice, skill: Skill) -> None:
    """Walk to holes that hold cheese, then to the crack, then to tied mice."""
    if not skill.rescues:
        return
    stuck, hole, far = nearest_entity(observed.holes, observed.holes.flag("stuck"))
    choice.walk_to(stuck & (far > 3.0), observed.holes, hole)
    breaking = observed.common.flag("breaking")
    choice.walk_to(breaking, observed.crack, np.zeros(len(breaking), np.int64))
    lit, rocket, far = nearest_entity(observed.rockets, observed.rockets.flag("lit"))
    guards = lit & (observed.common["tied"] > 0) & ~breaking
    choice.walk_to(guards & (far > 3.0), observed.rockets, rocket)
    choice.take(guards & (far <= 3.0), 0)


def _find_prey(observed: Observations, skill: Skill) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return whether there is a mouse to chase, ``[n] bool``, its index and its distance."""
    mice = observed.mice
    wanted = mice.flag("is-free") & (mice["age"] < (_FRESH if skill.rescues else 0.02))
    found, mouse, far = nearest_entity(mice, wanted)
    if not skill.rescues:
        return found, mouse, far
    guards = observed.rockets.present & observed.rockets.flag("lit") & (observed.rockets.far < _GUARD)
    return found & (~guards.any(axis=1) | (far < _GUARD)), mouse, far


def _chase(observed: Observations, choice: Choice, skill: Skill) -> None:
    """Walk to the nearest mouse that is visible or was seen recently."""
    found, mouse, far = _find_prey(observed, skill)
    free = ~observed.own.flag("burdened")
    choice.walk_to(found & free & (far > 0.7), observed.mice, mouse)


def _place_hazards(observed: Observations, choice: Choice) -> None:
    """Place traps near holes and cheese, and gloves near rockets."""
    goals = ((CAT["trap"], observed.holes), (CAT["trap"], observed.cheeses), (CAT["glove"], observed.rockets))
    for action, group in goals:
        choice.take(_beside(group) & ~_beside(observed.hazards), action)


def _beside(group: Entities) -> np.ndarray:
    return np.asarray((group.in_room & (group.far < 2.5)).any(axis=1))


def _use_items(observed: Observations, choice: Choice) -> None:
    """Pick up items; use milk while the ability cools down, and other items when a mouse is near."""
    own, mice = observed.own, observed.mice
    found, mouse, far = nearest_entity(mice, mice.flag("is-free") & mice.flag("visible") & mice.flag("same-room"))
    indices = np.arange(len(mouse))
    choice.take(~found, CAT["grab"])
    lit = own["fuse"] > 0
    near = found & ((own.flag("has-plate") & (far < 6.0)) | (own.flag("has-boots") & (far < 9.0)))
    near |= found & own.flag("has-bomb") & (far > 5.0) & (far < 10.0)
    near |= lit & (own["fuse"] < 0.04)
    near |= own.flag("has-milk") & (own["cooldown"] > 0.2)
    choice.take(near, CAT["use"], direction=nearest_direction(mice.dx[indices, mouse], mice.dy[indices, mouse]))


def _pounce(observed: Observations, choice: Choice) -> None:
    """Leap at a mouse at the distance of a leap."""
    mice = observed.mice
    found, mouse, far = nearest_entity(mice, mice.flag("is-free") & mice.flag("visible") & mice.flag("same-room"))
    indices = np.arange(len(mouse))
    leaps = found & (far > 4.5) & (far < 8.5)
    choice.take(leaps, CAT["ability"], direction=nearest_direction(mice.dx[indices, mouse], mice.dy[indices, mouse]))


def _hit(observed: Observations, choice: Choice) -> None:
    """Hit a mouse in reach."""
    mice = observed.mice
    found, _, far = nearest_entity(mice, mice.flag("is-free") & mice.flag("visible") & mice.flag("same-room"))
    choice.take(found & (far < _REACH), CAT["hit"])


def _capture(observed: Observations, choice: Choice) -> None:
    """Catch mice that are down and tie them to the nearest free rocket."""
    mice, rockets, carries = observed.mice, observed.rockets, observed.own.flag("burdened")
    found, mouse, _ = nearest_entity(mice, mice.flag("is-down"))
    choice.walk_to(found & ~carries, mice, mouse)
    choice.take(~carries, CAT["catch"])
    found, rocket, _ = nearest_entity(rockets, ~rockets.flag("lit"))
    choice.walk_to(found & carries, rockets, rocket)
    choice.take(carries, CAT["tie"])
