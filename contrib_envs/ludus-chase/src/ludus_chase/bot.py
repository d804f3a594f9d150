"""Rules of scripted cats and mice of three strengths. Later rules take precedence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ludus.environment import EnvironmentSpec, Leaves, Role
from ludus.spaces import random_actions

from ludus_chase.actions import CAT, MOUSE
from ludus_chase.bot_policy import (
    SKILLS,
    Choice,
    DoorMemory,
    Entities,
    Observations,
    Skill,
    nearest_direction,
    nearest_entity,
)
from ludus_chase.config import BotConfig

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


def _visible_mouse(observed: Observations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return whether a free mouse is visible, ``[n] bool``, the direction to the nearest one, and its distance."""
    mice = observed.mice
    found, mouse, far = nearest_entity(mice, mice.flag("is-free") & mice.flag("visible") & mice.flag("same-room"))
    indices = np.arange(len(mouse))
    return found, nearest_direction(mice.dx[indices, mouse], mice.dy[indices, mouse]), far


def _use_items(observed: Observations, choice: Choice) -> None:
    """Pick up items; use milk while the ability cools down, and other items when a mouse is near."""
    own = observed.own
    found, direction, far = _visible_mouse(observed)
    choice.take(~found, CAT["grab"])
    lit = own["fuse"] > 0
    near = found & ((own.flag("has-plate") & (far < 6.0)) | (own.flag("has-boots") & (far < 9.0)))
    near |= found & own.flag("has-bomb") & (far > 5.0) & (far < 10.0)
    near |= lit & (own["fuse"] < 0.04)
    near |= own.flag("has-milk") & (own["cooldown"] > 0.2)
    choice.take(near, CAT["use"], direction=direction)


def _pounce(observed: Observations, choice: Choice) -> None:
    """Leap at a mouse at the distance of a leap."""
    found, direction, far = _visible_mouse(observed)
    choice.take(found & (far > 4.5) & (far < 8.5), CAT["ability"], direction=direction)


def _hit(observed: Observations, choice: Choice) -> None:
    """Hit a mouse in reach."""
    found, _, far = _visible_mouse(observed)
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


_ACTIONS = 18
_Decide = Callable[[Observations, Choice, Skill], None]


def make_bot(config: BotConfig, *, spec: EnvironmentSpec, role: str) -> ChaseBot:
    """Return a scripted cat or mouse."""
    return ChaseBot(SKILLS[config.strength], spec.role(role), decide_cat if role == "cat" else decide_mouse)


class ChaseBot:
    """Decides by rules, and with the probability `Skill.error` draws a legal action instead.

    Args:
        skill: Strength of the agent.
        role: Role ``"cat"`` or ``"mouse"``.
        decide: Rules of that role.
    """

    def __init__(self, skill: Skill, role: Role, decide: _Decide) -> None:
        self._skill, self._role, self._decide = skill, role, decide
        self._doors = DoorMemory(role.observation_space["doors"].shape[0])  # type: ignore[index]

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        assert action_mask is not None, "the chase always has masks"
        observed = Observations(observation, self._role.name)
        choice = Choice(action_mask[:, :_ACTIONS])
        choice.walk(np.ones(len(seat_ids), bool), *self._doors.oldest_door_direction(observed, seat_ids))
        self._decide(observed, choice, self._skill)
        chosen = np.stack([choice.action, choice.direction], axis=1)
        errs = rng.random(len(seat_ids)) < self._skill.error
        drawn = random_actions(self._role.action_space, len(seat_ids), rng, mask=action_mask)
        return np.where(errs[:, None], drawn, chosen)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the state of these seats."""
        self._doors.reset(seat_ids)
