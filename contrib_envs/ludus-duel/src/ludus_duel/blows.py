"""What happens when a blow, a grab or a throw reaches the opponent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

if TYPE_CHECKING:
    from ludus_duel.fight import Fight

__all__ = ["land"]


@frozen
class _Meeting:
    """Attackers and their targets, n of each; all arrays are ``[n]``.

    Everything is read from the state before any of these blows landed, which is what makes trades fair.
    """

    who: np.ndarray
    targets: np.ndarray
    move: np.ndarray
    target_move: np.ndarray
    target_age: np.ndarray


def land(fight: Fight, due: np.ndarray) -> None:
    """Work out attacks that may land now, for all of them at once.

    A strike is evaded, or parried, or blocked, or hits. A grab bounces off an attack, misses who cannot be grabbed, or
    holds. A throw moves who is held. What a fighter suffers counts for more than what the own attack leads to.

    Args:
        fight: Its state is changed.
        due: ``[n] int64``: fighters whose attack may land on this tick.
    """
    table, targets = fight.tables, fight.other[due]
    gap = fight.config.arena_cm - (fight.room[due] + fight.room[targets])
    near = gap <= table.reach[fight.move[due]]
    who, targets = due[near], targets[near]
    if who.size:
        meeting = _Meeting(who, targets, fight.move[who], fight.move[targets], fight.age[targets])
        struck = _strike(fight, meeting)
        held = _grab(fight, meeting)
        thrown = _throw(fight, meeting)
        for after in (struck, held, thrown):
            fight.put(after.who, after.move)
        suffered = np.concatenate([struck.who, thrown.who])
        fight.unhurt[suffered] = 0
        fight.given[fight.other[suffered]] = True


@frozen
class _After:
    """Fighters ``who [n]`` and the moves that blows have brought upon them, ``move [n]``."""

    who: np.ndarray
    move: np.ndarray


def _strike(fight: Fight, meeting: _Meeting) -> _After:
    """Apply strikes to all but those they hit, who are returned."""
    table, move, target = fight.tables, meeting.move, meeting.target_move
    side, strike = table.side[move], table.is_strike[move]
    safe = table.safe[meeting.target_age] & table.dodgeable[move] & (table.dodge_side[target] != side)
    meets = strike & ~safe
    same = side == table.side[target]
    parried = meets & table.parries[meeting.target_age] & same
    guarded = table.guards[target] & (fight.turning[meeting.targets] == 0) & (fight.stance[meeting.targets] == side)
    blocked = meets & guarded
    hit = meets & ~parried & ~blocked
    fight.done[meeting.who[meets]] = True
    loss = table.damage[move] * hit + table.chip[move] * blocked
    fight.health[meeting.targets] -= loss
    _turn_aside(fight, meeting, parried)
    fight.put(meeting.who[blocked], table.recoil[move[blocked]])
    fight.put(meeting.targets[blocked], table.guard[move[blocked]])
    return _After(meeting.targets[hit], table.stun[move[hit]])


def _turn_aside(fight: Fight, meeting: _Meeting, parried: np.ndarray) -> None:
    """Apply parries: the attacker is bound and loses stamina, the other is free at once."""
    who = meeting.who[parried]
    if who.size:
        fight.put(who, fight.tables.parried[meeting.move[parried]])
        fight.spend(who, np.full(len(who), fight.config.parry_drain))
        fight.put(meeting.targets[parried], np.zeros(len(who), np.int64))


def _grab(fight: Fight, meeting: _Meeting) -> _After:
    """Apply grabs to those who grab; return who is held."""
    table = fight.tables
    grabs = table.is_grab[meeting.move]
    if not grabs.any():
        return _nobody()
    bounced = grabs & table.attacks[meeting.target_age]
    caught = grabs & ~bounced & table.grabbable[meeting.target_move]
    alert = table.alert[meeting.target_move] & ~fight.exhausted[meeting.targets]
    fight.put(meeting.who[bounced], np.full(bounced.sum(), table.number("recoil")))
    fight.put(meeting.who[caught], np.full(caught.sum(), table.number("grip")))
    held = np.where(alert, table.number("held"), table.number("broken"))
    return _After(meeting.targets[caught], held[caught])


def _throw(fight: Fight, meeting: _Meeting) -> _After:
    """Apply throws to those who throw; return who is thrown."""
    table = fight.tables
    throws = table.is_throw[meeting.move]
    if not throws.any():
        return _nobody()
    landed = throws & table.caught[meeting.target_move]
    who, targets, move = meeting.who[landed], meeting.targets[landed], meeting.move[landed]
    turned = move == table.number("throw-back")
    rooms = fight.room[who], fight.room[targets]
    fight.room[who] = np.where(turned, rooms[1], rooms[0])
    behind = np.where(turned, rooms[0], rooms[1])
    wall = behind < table.push[move]
    fight.room[targets] = np.maximum(behind - table.push[move], 0.0)
    fight.health[targets] -= table.damage[move] + fight.config.wall_damage * wall
    return _After(targets, np.where(wall, table.number("fallen"), table.number("thrown")))


def _nobody() -> _After:
    nobody = np.zeros(0, np.int64)
    return _After(nobody, nobody)
