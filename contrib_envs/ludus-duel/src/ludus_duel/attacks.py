"""Attacks that reach the opponent: strikes, grabs and throws."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from ludus_duel.fight import Fight

__all__ = ["resolve_attacks"]


@frozen
class _Attacks:
    """Attacks of n fighters on their opponents; all arrays are ``[n] int64``.

    Moves and ages are those before any of these attacks is resolved, so that simultaneous attacks trade.
    """

    attackers: np.ndarray
    targets: np.ndarray
    move: np.ndarray
    target_move: np.ndarray
    target_age: np.ndarray


@frozen
class _Reactions:
    """Fighters ``[n] int64`` and the moves that attacks force on them, ``[n] int64``."""

    fighters: np.ndarray
    moves: np.ndarray


_NO_REACTIONS = _Reactions(np.zeros(0, np.int64), np.zeros(0, np.int64))


def resolve_attacks(fight: Fight, due: np.ndarray) -> None:
    """Resolve all attacks of a tick at once.

    A strike is evaded, parried or blocked, or it hits. A grab bounces off an attack, misses a target that cannot be
    grabbed, or holds. A throw moves a held target. The move forced on a target replaces the result of the target's own
    attack.

    Args:
        fight: State to change.
        due: ``[n] int64``: fighters whose attack may land on this tick.
    """
    tables, targets = fight.tables, fight.opponent[due]
    gap = fight.config.arena_cm - (fight.room[due] + fight.room[targets])
    near = gap <= tables.reach[fight.move[due]]
    attackers, targets = due[near], targets[near]
    if attackers.size:
        attacks = _Attacks(attackers, targets, fight.move[attackers], fight.move[targets], fight.age[targets])
        hit = _resolve_strikes(fight, attacks)
        held = _resolve_grabs(fight, attacks)
        thrown = _resolve_throws(fight, attacks)
        for reactions in (hit, held, thrown):
            fight.begin(reactions.fighters, reactions.moves)
        hurt = np.concatenate([hit.fighters, thrown.fighters])
        fight.unhurt_ticks[hurt] = 0
        fight.scored[fight.opponent[hurt]] = True


def _resolve_strikes(fight: Fight, attacks: _Attacks) -> _Reactions:
    """Apply strikes and return the reactions of the targets that are hit."""
    tables, move, target_move = fight.tables, attacks.move, attacks.target_move
    side, strike = tables.side[move], tables.is_strike[move]
    evaded = tables.safe[attacks.target_age] & tables.dodgeable[move] & (tables.dodge_side[target_move] != side)
    meets = strike & ~evaded
    parried = meets & tables.parries[attacks.target_age] & (side == tables.side[target_move])
    guarded = (
        tables.guards[target_move] & (fight.turn_ticks[attacks.targets] == 0) & (fight.stance[attacks.targets] == side)
    )
    blocked = meets & guarded
    hit = meets & ~parried & ~blocked
    fight.resolved[attacks.attackers[meets]] = True
    loss = tables.damage[move] * hit + tables.chip[move] * blocked
    fight.health[attacks.targets] -= loss
    _apply_parries(fight, attacks, parried)
    fight.begin(attacks.attackers[blocked], tables.recoil[move[blocked]])
    fight.begin(attacks.targets[blocked], tables.guard[move[blocked]])
    return _Reactions(attacks.targets[hit], tables.stun[move[hit]])


def _apply_parries(fight: Fight, attacks: _Attacks, parried: np.ndarray) -> None:
    """Bind parried attackers and take stamina from them; their targets are free at once."""
    attackers = attacks.attackers[parried]
    if attackers.size:
        fight.begin(attackers, fight.tables.parried[attacks.move[parried]])
        fight.spend_stamina(attackers, np.full(len(attackers), fight.config.parry_drain))
        fight.begin(attacks.targets[parried], np.zeros(len(attackers), np.int64))


def _resolve_grabs(fight: Fight, attacks: _Attacks) -> _Reactions:
    """Apply grabs to the attackers and return the reactions of the targets that are held."""
    tables = fight.tables
    grabs = tables.is_grab[attacks.move]
    if not grabs.any():
        return _NO_REACTIONS
    bounced = grabs & tables.attacks[attacks.target_age]
    caught = grabs & ~bounced & tables.grabbable[attacks.target_move]
    alert = tables.alert[attacks.target_move] & ~fight.exhausted[attacks.targets]
    fight.begin(attacks.attackers[bounced], np.full(bounced.sum(), tables.number("recoil")))
    fight.begin(attacks.attackers[caught], np.full(caught.sum(), tables.number("grip")))
    held = np.where(alert, tables.number("held"), tables.number("broken"))
    return _Reactions(attacks.targets[caught], held[caught])


def _resolve_throws(fight: Fight, attacks: _Attacks) -> _Reactions:
    """Apply throws and return the reactions of the targets that are thrown."""
    tables = fight.tables
    throws = tables.is_throw[attacks.move]
    if not throws.any():
        return _NO_REACTIONS
    landed = throws & tables.caught[attacks.target_move]
    attackers, targets, move = attacks.attackers[landed], attacks.targets[landed], attacks.move[landed]
    turned = move == tables.number("throw-back")
    own_room, target_room = fight.room[attackers], fight.room[targets]
    fight.room[attackers] = np.where(turned, target_room, own_room)
    behind = np.where(turned, own_room, target_room)
    wall = behind < tables.push[move]
    fight.room[targets] = np.maximum(behind - tables.push[move], 0.0)
    fight.health[targets] -= tables.damage[move] + fight.config.wall_damage * wall
    return _Reactions(targets, np.where(wall, tables.number("fallen"), tables.number("thrown")))
