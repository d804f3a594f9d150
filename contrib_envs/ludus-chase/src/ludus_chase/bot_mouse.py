"""The rules of scripted mice, the more urgent ones later."""

from __future__ import annotations

import numpy as np

from ludus_chase.actions import MOUSE
from ludus_chase.bot_mind import Choice, Sight, Skill, aim, nearest

__all__ = ["decide_mouse"]

_HELP = 6.0  # cells that a mouse walks further to help pushing rather than to fetch cheese
_STEP_X, _STEP_Y = np.array([1, 0, -1, 0]), np.array([0, 1, 0, -1])


def decide_mouse(sight: Sight, choice: Choice, skill: Skill) -> None:
    """Write what mice do into `choice`."""
    _scout(sight, choice)
    _fetch(sight, choice)
    _carry(sight, choice)
    _break_out(sight, choice)
    if skill.tools:
        _disarm(sight, choice)
    if skill.rescues:
        _rescue(sight, choice)
    if skill.caution:
        _flee(sight, choice, skill)
    if skill.tools:
        _use_tools(sight, choice)
    choice.take(_ready_to_escape(sight), MOUSE["crack"])


def _scout(sight: Sight, choice: Choice) -> None:
    """In the preparation: look for cakes."""
    preparing = sight.common.flag("preparation")
    there, cake, _ = nearest(sight.cakes, sight.cakes.present)
    choice.walk_to(preparing & there & ~sight.own.flag("burdened"), sight.cakes, cake)
    choice.take(preparing, MOUSE["grab"])


def _fetch(sight: Sight, choice: Choice) -> None:
    """Fetch the nearest cheese that is nearer to no mate, or help pushing one that is in a hole."""
    able = sight.common.flag("pushing") & ~sight.own.flag("burdened")
    cheeses, holes = sight.cheeses, sight.holes
    free = cheeses.flag("floor") & cheeses.present
    mine = free & ~_mate_nearer(sight)
    for among in (free, mine):
        there, cheese, far = nearest(cheeses, among)
        choice.walk_to(able & there, cheeses, cheese)
    stuck, hole, near = nearest(holes, holes.flag("stuck"))
    far = np.where(mine.any(axis=1), far, np.inf)
    pushes = able & stuck & (near < far + _HELP)
    choice.take(able & there & ~pushes, MOUSE["lift"])
    choice.walk_to(pushes, holes, hole)
    choice.take(pushes, MOUSE["push"])


def _mate_nearer(sight: Sight) -> np.ndarray:
    """Return ``[n, 5] bool``: whether a free mate without cheese is nearer to a cheese, as the crow flies."""
    mates, cheeses = sight.teammates, sight.cheeses
    able = mates.present & mates.flag("is-free") & ~mates.flag("burdened")
    dx = cheeses.dx[:, :, None] - mates.dx[:, None]
    dy = cheeses.dy[:, :, None] - mates.dy[:, None]
    theirs = np.where(able[:, None], np.sqrt(dx * dx + dy * dy), np.inf).min(axis=2)
    own = np.sqrt(cheeses.dx**2 + cheeses.dy**2)
    nearer: np.ndarray = theirs < own - 0.5
    return nearer


def _carry(sight: Sight, choice: Choice) -> None:
    """Carry cheese to the nearest free hole."""
    carries = sight.common.flag("pushing") & sight.own.flag("burdened")
    there, hole, _ = nearest(sight.holes, sight.holes.flag("free"))
    choice.walk_to(carries & there, sight.holes, hole)
    choice.take(carries, MOUSE["push"])


def _break_out(sight: Sight, choice: Choice) -> None:
    """Go to the crack and break it."""
    breaking = sight.common.flag("breaking")
    choice.walk_to(breaking, sight.crack, np.zeros(len(breaking), np.int64))
    choice.take(breaking, MOUSE["crack"])


def _ready_to_escape(sight: Sight) -> np.ndarray:
    return sight.common.flag("crack-there") & (sight.common["crack-share"] <= 0)


def _disarm(sight: Sight, choice: Choice) -> None:
    """Take away traps and gloves that are in reach."""
    choice.take(~sight.own.flag("burdened"), MOUSE["disarm"])


def _rescue(sight: Sight, choice: Choice) -> None:
    """Free the nearest mate that is tied, unless two others are nearer or the cat stands beside it."""
    mates, cat = sight.teammates, sight.cat
    tied = mates.present & mates.flag("is-tied")
    there, mate, far = nearest(mates, tied)
    rows = np.arange(len(mate))
    x, y = mates.dx[rows, mate], mates.dy[rows, mate]
    others = mates.present & mates.flag("is-free")
    nearer = others & ((mates.dx - x[:, None]) ** 2 + (mates.dy - y[:, None]) ** 2 < (x**2 + y**2)[:, None])
    guarded = (cat.flag("visible") & ((cat.dx - x[:, None]) ** 2 + (cat.dy - y[:, None]) ** 2 < 5.0**2))[:, 0]
    goes = there & (nearer.sum(axis=1) < 2) & (~guarded | (far < 3.0))
    choice.walk_to(goes, mates, mate)
    choice.take(goes, MOUSE["rescue"])


def _flee(sight: Sight, choice: Choice, skill: Skill) -> None:
    """Run from a cat that is near: through a door that it is further from, else straight away."""
    cat, own = sight.cat, sight.own
    dx, dy = cat.dx[:, 0], cat.dy[:, 0]
    near = cat.here[:, 0] & cat.flag("visible")[:, 0] & (dx * dx + dy * dy < skill.caution**2)
    near &= ~cat.flag("burdened")[:, 0] & (own["safe"] <= 0.03) & ~_ready_to_escape(sight)
    choice.walk(near, -dx, -dy)
    open_, door_x, door_y = sight.own_doors
    mine = np.sqrt(door_x**2 + door_y**2)
    lead = np.sqrt((door_x - dx[:, None]) ** 2 + (door_y - dy[:, None]) ** 2) - mine
    lead = np.where(open_, lead, -np.inf)
    side, rows = lead.argmax(axis=1), np.arange(len(dx))
    through = near & (lead[rows, side] > 0.5)
    choice.walk(through, door_x[rows, side] + 1.5 * _STEP_X[side], door_y[rows, side] + 1.5 * _STEP_Y[side])
    if skill.tools:
        pressed = near & (dx * dx + dy * dy < 4.0**2)
        choice.take(pressed, MOUSE["ability"], direction=aim(-dx, -dy))


def _use_tools(sight: Sight, choice: Choice) -> None:
    """Pick items up on the way, and use them: milk when hurt, the others when the cat is near."""
    own, cat = sight.own, sight.cat
    dx, dy = cat.dx[:, 0], cat.dy[:, 0]
    far = np.sqrt(dx * dx + dy * dy)
    visible = cat.here[:, 0] & cat.flag("visible")[:, 0]
    choice.take(~sight.common.flag("preparation") & ~(visible & (far < 7.0)), MOUSE["grab"])
    lit = own["fuse"] > 0
    throws = (own.flag("has-plate") & visible & (far < 6.0)) | (lit & visible & (far < 9.0))
    throws |= own.flag("has-bomb") & ~lit & visible & (far < 9.0)
    throws |= lit & (own["fuse"] < 0.04)
    others = (own.flag("has-milk") & (own["health"] < 0.55)) | (own.flag("has-boots") & visible & (far < 6.0))
    choice.take(throws | others, MOUSE["use"], direction=aim(dx, dy))
