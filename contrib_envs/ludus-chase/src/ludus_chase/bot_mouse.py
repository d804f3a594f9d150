"""Rules of the scripted mice; later rules take precedence."""

from __future__ import annotations

import numpy as np

from ludus_chase.actions import MOUSE
from ludus_chase.bot_policy import Choice, Observations, Skill, nearest_direction, nearest_entity

__all__ = ["decide_mouse"]

_HELP = 6.0  # cells: extra distance that a mouse walks to push cheese rather than to fetch some
_STEP_X, _STEP_Y = np.array([1, 0, -1, 0]), np.array([0, 1, 0, -1])


def decide_mouse(observed: Observations, choice: Choice, skill: Skill) -> None:
    """Write the actions of mice into `choice`."""
    _scout(observed, choice)
    _fetch(observed, choice)
    _carry(observed, choice)
    _break_out(observed, choice)
    if skill.tools:
        _disarm(observed, choice)
    if skill.rescues:
        _rescue(observed, choice)
    if skill.caution:
        _flee(observed, choice, skill)
    if skill.tools:
        _use_tools(observed, choice)
    choice.take(_ready_to_escape(observed), MOUSE["crack"])


def _scout(observed: Observations, choice: Choice) -> None:
    """Search for cakes during the preparation."""
    preparing = observed.common.flag("preparation")
    found, cake, _ = nearest_entity(observed.cakes, observed.cakes.present)
    choice.walk_to(preparing & found & ~observed.own.flag("burdened"), observed.cakes, cake)
    choice.take(preparing, MOUSE["grab"])


def _fetch(observed: Observations, choice: Choice) -> None:
    """Fetch the nearest cheese that no teammate is nearer to, or push cheese that is in a hole."""
    able = observed.common.flag("pushing") & ~observed.own.flag("burdened")
    cheeses, holes = observed.cheeses, observed.holes
    free = cheeses.flag("floor") & cheeses.present
    mine = free & ~_mate_nearer(observed)
    for among in (free, mine):
        found, cheese, far = nearest_entity(cheeses, among)
        choice.walk_to(able & found, cheeses, cheese)
    stuck, hole, near = nearest_entity(holes, holes.flag("stuck"))
    far = np.where(mine.any(axis=1), far, np.inf)
    pushes = able & stuck & (near < far + _HELP)
    choice.take(able & found & ~pushes, MOUSE["lift"])
    choice.walk_to(pushes, holes, hole)
    choice.take(pushes, MOUSE["push"])


def _mate_nearer(observed: Observations) -> np.ndarray:
    """Return ``[n, 5] bool``: a free teammate without cheese is nearer to a cheese, in a straight line."""
    mates, cheeses = observed.teammates, observed.cheeses
    able = mates.present & mates.flag("is-free") & ~mates.flag("burdened")
    dx = cheeses.dx[:, :, None] - mates.dx[:, None]
    dy = cheeses.dy[:, :, None] - mates.dy[:, None]
    theirs = np.where(able[:, None], np.sqrt(dx * dx + dy * dy), np.inf).min(axis=2)
    own = np.sqrt(cheeses.dx**2 + cheeses.dy**2)
    nearer: np.ndarray = theirs < own - 0.5
    return nearer


def _carry(observed: Observations, choice: Choice) -> None:
    """Carry cheese to the nearest free hole."""
    carries = observed.common.flag("pushing") & observed.own.flag("burdened")
    found, hole, _ = nearest_entity(observed.holes, observed.holes.flag("free"))
    choice.walk_to(carries & found, observed.holes, hole)
    choice.take(carries, MOUSE["push"])


def _break_out(observed: Observations, choice: Choice) -> None:
    """Walk to the crack and break it."""
    breaking = observed.common.flag("breaking")
    choice.walk_to(breaking, observed.crack, np.zeros(len(breaking), np.int64))
    choice.take(breaking, MOUSE["crack"])


def _ready_to_escape(observed: Observations) -> np.ndarray:
    return observed.common.flag("crack-there") & (observed.common["crack-share"] <= 0)


def _disarm(observed: Observations, choice: Choice) -> None:
    """Disarm traps and gloves in reach."""
    choice.take(~observed.own.flag("burdened"), MOUSE["disarm"])


def _rescue(observed: Observations, choice: Choice) -> None:
    """Rescue the nearest tied teammate, unless two others are nearer or the cat stands beside it."""
    mates, cat = observed.teammates, observed.cat
    tied = mates.present & mates.flag("is-tied")
    found, mate, far = nearest_entity(mates, tied)
    indices = np.arange(len(mate))
    x, y = mates.dx[indices, mate], mates.dy[indices, mate]
    others = mates.present & mates.flag("is-free")
    nearer = others & ((mates.dx - x[:, None]) ** 2 + (mates.dy - y[:, None]) ** 2 < (x**2 + y**2)[:, None])
    guarded = (cat.flag("visible") & ((cat.dx - x[:, None]) ** 2 + (cat.dy - y[:, None]) ** 2 < 5.0**2))[:, 0]
    goes = found & (nearer.sum(axis=1) < 2) & (~guarded | (far < 3.0))
    choice.walk_to(goes, mates, mate)
    choice.take(goes, MOUSE["rescue"])


def _flee(observed: Observations, choice: Choice, skill: Skill) -> None:
    """Flee from a near cat: through a door that the mouse reaches first, else straight away."""
    cat, own = observed.cat, observed.own
    dx, dy = cat.dx[:, 0], cat.dy[:, 0]
    near = cat.in_room[:, 0] & cat.flag("visible")[:, 0] & (dx * dx + dy * dy < skill.caution**2)
    near &= ~cat.flag("burdened")[:, 0] & (own["safe"] <= 0.03) & ~_ready_to_escape(observed)
    choice.walk(near, -dx, -dy)
    open_, door_x, door_y = observed.own_doors
    mine = np.sqrt(door_x**2 + door_y**2)
    lead = np.sqrt((door_x - dx[:, None]) ** 2 + (door_y - dy[:, None]) ** 2) - mine
    lead = np.where(open_, lead, -np.inf)
    side, indices = lead.argmax(axis=1), np.arange(len(dx))
    through = near & (lead[indices, side] > 0.5)
    choice.walk(through, door_x[indices, side] + 1.5 * _STEP_X[side], door_y[indices, side] + 1.5 * _STEP_Y[side])
    if skill.tools:
        pressed = near & (dx * dx + dy * dy < 4.0**2)
        choice.take(pressed, MOUSE["ability"], direction=nearest_direction(-dx, -dy))


def _use_tools(observed: Observations, choice: Choice) -> None:
    """Pick up items; use milk when health is low, and other items when the cat is near."""
    own, cat = observed.own, observed.cat
    dx, dy = cat.dx[:, 0], cat.dy[:, 0]
    far = np.sqrt(dx * dx + dy * dy)
    visible = cat.in_room[:, 0] & cat.flag("visible")[:, 0]
    choice.take(~observed.common.flag("preparation") & ~(visible & (far < 7.0)), MOUSE["grab"])
    lit = own["fuse"] > 0
    throws = (own.flag("has-plate") & visible & (far < 6.0)) | (lit & visible & (far < 9.0))
    throws |= own.flag("has-bomb") & ~lit & visible & (far < 9.0)
    throws |= lit & (own["fuse"] < 0.04)
    others = (own.flag("has-milk") & (own["health"] < 0.55)) | (own.flag("has-boots") & visible & (far < 6.0))
    choice.take(throws | others, MOUSE["use"], direction=nearest_direction(dx, dy))
