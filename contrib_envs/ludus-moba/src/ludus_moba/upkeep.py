"""What happens by itself: timers, recovery, waves, health packs, the monster, and heroes that return."""

from __future__ import annotations

import numpy as np

from ludus_moba import rules
from ludus_moba.rules import HERO, LENGTH, MONSTER, TICK_S, ticks_of
from ludus_moba.skills import SHIELD_TICKS_SHARE
from ludus_moba.world import World

_PERIOD, _FIRST = ticks_of(rules.WAVE_PERIOD_S), ticks_of(rules.FIRST_WAVE_S)
_PACK, _MONSTER = ticks_of(rules.PACK_S), ticks_of(rules.MONSTER_S)
_KIND = rules.KINDS["monster"]
_MONSTER_WAIT = ticks_of(_KIND.attack_s)
_BASE, _HEALTH, _MANA = (
    np.float32(share * TICK_S)
    for share in (rules.BASE_RECOVERY_PER_S, rules.FIELD_HEALTH_PER_S, rules.FIELD_MANA_PER_S)
)
_GROUPS = ((rules.MELEE, 3), (rules.RANGED, 3), (rules.SIEGE, 1))


def count_down(world: World) -> None:
    """Advance all timers by one tick; a complete recall moves the hero to its base."""
    home = world.recall == 1
    timers = (
        world.stun,
        world.slow,
        world.mark,
        world.recall,
        world.heal_wait,
        world.anger,
        world.provoked,
        world.pack_wait,
        world.skill_wait,
        world.wait,
        world.monster_wait,
        world.monster_pause,
    )
    for timer in timers:
        np.maximum(timer - 1, 0, out=timer)
    world.shield *= SHIELD_TICKS_SHARE
    world.shield[world.shield < 1.0] = 0.0
    np.copyto(world.x[:, :, HERO], np.float32(rules.START_X), where=home)
    np.copyto(world.y[:, :, HERO], np.float32(rules.LANE_Y), where=home)


def recover(world: World) -> None:
    """Return health and mana, and heal heroes on their side's pack or the enemy's."""
    base = world.x[:, :, HERO] <= rules.BASE_X
    alive = world.alive
    health, top = world.health[:, :, HERO], world.max_health[:, :, HERO]
    gain = np.where(base, _BASE, _HEALTH) * top
    gain += _pick_packs(world) * np.float32(rules.PACK_SHARE) * top
    health += gain * alive
    np.minimum(health, top, out=health)
    world.mana += np.where(base, _BASE, _MANA) * world.max_mana * alive
    np.minimum(world.mana, world.max_mana, out=world.mana)


def _pick_packs(world: World) -> np.ndarray:
    """Return ``[B, 2] int64``: packs that each hero takes; one that both reach heals both."""
    taken = np.zeros(world.kind.shape, np.int64)
    y2 = (world.y[:, :, HERO] - rules.PACK_Y) ** 2
    for own in (True, False):
        pack_x = rules.PACK_X if own else LENGTH - rules.PACK_X
        ready = (world.pack_wait if own else world.pack_wait[:, ::-1]) == 0
        at = (world.x[:, :, HERO] - pack_x) ** 2 + y2 <= rules.PACK_RADIUS**2
        taken += at & ready & world.alive
        gone = at & ready & world.alive
        world.pack_wait[(gone if own else gone[:, ::-1])] = -_PACK
    np.abs(world.pack_wait, out=world.pack_wait)
    return taken


def send_waves(world: World) -> None:
    """Place new minions of both sides in free slots, on the ticks on which waves come."""
    since = world.ticks - _FIRST
    due = np.flatnonzero((since >= 0) & (since % _PERIOD == 0) & world.running)
    if not due.size:
        return
    number = since[due] // _PERIOD
    growth = (1.0 + rules.GROWTH_PER_MINUTE * world.ticks[due] * TICK_S / 60.0).astype(np.float32)
    for group, size in _GROUPS:
        free = world.health[due, :, group] <= 0
        chosen = free & (free.cumsum(axis=2) <= size)
        if group is rules.SIEGE:
            chosen &= (number % rules.SIEGE_PERIOD == rules.SIEGE_PERIOD - 1)[:, None, None]
        row, side, slot = np.nonzero(chosen)
        unit, match = slot + group.start, due[row]
        for name in ("health", "max_health"):
            getattr(world, name)[match, side, unit] = rules.by_slot("health")[unit] * growth[row]
        world.attack[match, side, unit] = rules.by_slot("attack")[unit] * growth[row]
        behind = {rules.MELEE.start: 0.0, rules.RANGED.start: 2.5, rules.SIEGE.start: 4.0}[group.start]
        world.x[match, side, unit] = rules.WAVE_X - behind
        world.y[match, side, unit] = rules.LANE_Y + rules.MINION_Y[unit - 1]
        world.wait[match, side, unit] = 0


def revive(world: World) -> None:
    """Return heroes whose time is over to their base, and the monster to its place."""
    returns = world.respawn == 1
    world.respawn -= world.respawn > 0
    if returns.any():
        world.health[:, :, HERO] = np.where(returns, world.max_health[:, :, HERO], world.health[:, :, HERO])
        world.mana[:] = np.where(returns, world.max_mana, world.mana)
        np.copyto(world.x[:, :, HERO], np.float32(rules.START_X), where=returns)
        np.copyto(world.y[:, :, HERO], np.float32(rules.LANE_Y), where=returns)
    ready = (world.monster_wait == 0) & (world.monster_health <= 0)
    np.copyto(world.monster_health, np.float32(_KIND.health), where=ready)


def monster_attack(world: World) -> np.ndarray:
    """Return ``[B, 2] float32``: damage of the monster to heroes that provoked it and are in its reach."""
    near = (world.distance2[:, :, HERO, MONSTER] <= _KIND.reach**2) & (world.provoked > 0) & world.alive
    strikes = near & ((world.monster_pause == 0) & (world.monster_health > 0))[:, None]
    world.monster_pause[strikes.any(axis=1)] = _MONSTER_WAIT
    damage = _KIND.attack * 100.0 / (100.0 + world.armour[:, :, HERO])
    calm = (world.provoked.max(axis=1) == 0) & (world.monster_health > 0)
    np.copyto(world.monster_health, np.float32(_KIND.health), where=calm)
    return np.asarray(np.where(strikes, damage, 0.0).astype(np.float32))


def start_monster_wait(world: World, died: np.ndarray) -> None:
    """Let the monster of matches ``died [B] bool`` return later."""
    world.monster_wait[died] = _MONSTER
