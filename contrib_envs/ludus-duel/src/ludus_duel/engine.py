"""One tick of all fights, and the attacks that reach the opponent in it: strikes, grabs and throws.

Both fighters of a match are updated at once from the same state, so that neither seat has an advantage.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from ludus_duel.actions import NUMBER
from ludus_duel.fight import Fight
from ludus_duel.tables import ticks_of


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


_NEAREST_CM = 100.0  # minimum distance between fighters
_COUNTER_PUSH_CM = 40.0  # how far a counter pushes each fighter back
_ADVANCE, _RETREAT, _COUNTER = (NUMBER[name] for name in ("advance", "retreat", "counter"))
_STANCES = (NUMBER["stance-left"], NUMBER["stance-right"])


class Engine:
    """Advances fights by one tick.

    Args:
        fight: State to advance.
    """

    def __init__(self, fight: Fight) -> None:
        config, seconds = fight.config, fight.config.tick_ms / 1000
        self._fight = fight
        self._stance_ticks = ticks_of(config.stance_ms, config)
        self._slowdown_ticks = ticks_of(config.exhausted_slowdown_ms, config)
        self._stamina_per_tick = config.stamina_per_s * seconds
        self._breath_per_tick = config.breath_per_s * seconds
        self._recovered_stamina = config.exhausted_until * config.stamina
        self._steps_cm = {_ADVANCE: config.walk_cm_s * seconds, _RETREAT: -config.retreat_cm_s * seconds}
        self._recoil, self._breathe = fight.tables.number("recoil"), fight.tables.number("breathe")

    def advance(self, actions: np.ndarray, running: np.ndarray) -> None:
        """Advance all fights by one tick.

        Args:
            actions: ``[F] int64``: legal actions, 0 for fighters that do not decide.
            running: ``[F] bool``: fighters of running matches; attacks of others do not land.
        """
        fight = self._fight
        fight.walk.fill(0.0)
        self._apply_actions(np.flatnonzero(actions), actions)
        fight.move_ticks += fight.move > 0
        fight.update_ages()
        fight.free_ticks += 1
        self._turn_stances()
        self._move_fighters()
        fight.scored.fill(False)
        fight.unhurt_ticks += 1
        due = fight.tables.lands.take(fight.age) & ~fight.resolved & running
        if due.any():
            resolve_attacks(fight, np.flatnonzero(due))
        self._recover_stamina()
        self._end_moves()

    def _apply_actions(self, fighters: np.ndarray, actions: np.ndarray) -> None:
        """Begin the actions of ``fighters [n] int64``."""
        fight = self._fight
        chosen = actions.take(fighters)
        stances = (chosen >= _STANCES[0]) & (chosen <= _STANCES[1])
        if stances.any():
            self._change_stances(fighters[stances], chosen[stances] - _STANCES[0])
        for action, step_cm in self._steps_cm.items():
            fight.walk[fighters[chosen == action]] = step_cm
        moves = fight.tables.of_action.take(chosen)
        starting = moves > 0
        fighters, chosen, moves = fighters[starting], chosen[starting], moves[starting]
        if not fighters.size:
            return
        slow = fight.exhausted[fighters] & fight.tables.is_strike[moves]
        fight.begin(fighters, moves)
        fight.move_ticks[fighters] = -self._slowdown_ticks * slow
        fight.spend_stamina(fighters, fight.tables.cost.take(chosen))
        side = fight.tables.side.take(moves)
        self._set_stances(fighters[side >= 0], side[side >= 0])
        self._push_apart(fighters[chosen == _COUNTER])

    def _change_stances(self, fighters: np.ndarray, side: np.ndarray) -> None:
        """Begin to change stances to ``side [n] int64``; a change to that side that is under way continues."""
        fight = self._fight
        continued = (fight.new_stance[fighters] == side) & (fight.turn_ticks[fighters] > 0)
        fight.turn_ticks[fighters] = np.where(
            continued, fight.turn_ticks[fighters], self._stance_ticks * (fight.stance[fighters] != side)
        )
        fight.new_stance[fighters] = side

    def _set_stances(self, fighters: np.ndarray, side: np.ndarray) -> None:
        """Change stances at once, as attacks and parries of a side do."""
        fight = self._fight
        fight.stance[fighters] = fight.new_stance[fighters] = side
        fight.turn_ticks[fighters] = 0

    def _push_apart(self, fighters: np.ndarray) -> None:
        """Push held ``fighters [n] int64`` that counter and the opponents that hold them apart."""
        fight = self._fight
        if fighters.size:
            holders = fight.opponent[fighters]
            for pushed in (fighters, holders):
                fight.room[pushed] = np.maximum(fight.room[pushed] - _COUNTER_PUSH_CM, 0.0)
            fight.begin(holders, np.full(len(fighters), self._recoil))

    def _turn_stances(self) -> None:
        """Advance stance changes by one tick."""
        fight = self._fight
        np.copyto(fight.stance, fight.new_stance, where=fight.turn_ticks == 1)
        fight.turn_ticks -= fight.turn_ticks > 0

    def _move_fighters(self) -> None:
        """Move all fighters; two that would collide share the space between them in proportion to their speeds."""
        fight = self._fight
        way = fight.tables.glide.take(fight.age)
        way += fight.walk
        np.maximum(way, -fight.room, out=way)  # the wall
        forward = np.maximum(way, 0.0)
        back = way - forward
        closing, retreating = forward + forward.take(fight.opponent), back + back.take(fight.opponent)
        space = np.maximum(fight.gap() - retreating - _NEAREST_CM, 0.0)
        share = np.where(closing > space, space / np.maximum(closing, 1e-9), 1.0)
        forward *= share
        np.add(forward, back, out=fight.speed)
        fight.room += fight.speed

    def _recover_stamina(self) -> None:
        """Return stamina and update which fighters are exhausted."""
        fight = self._fight
        breathing = fight.move == self._breathe
        resting = breathing | (fight.stamina_pause <= 0)
        fight.exhausted |= fight.stamina <= 0
        fight.stamina += self._stamina_per_tick * resting + self._breath_per_tick * breathing
        np.minimum(fight.stamina, fight.config.stamina, out=fight.stamina)
        fight.stamina_pause -= fight.stamina_pause > 0
        fight.exhausted &= fight.stamina < self._recovered_stamina

    def _end_moves(self) -> None:
        """Return fighters whose animation is over to idle."""
        fight = self._fight
        fight.free_ticks *= fight.move == 0
        ended = np.flatnonzero((fight.move > 0) & (fight.move_ticks >= fight.tables.duration.take(fight.move)))
        fight.begin(ended, np.zeros(len(ended), np.int64))
        fight.update_ages()
