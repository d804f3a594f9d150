"""The resource manager: which workers harvest what, and queens that speed up larvae."""

from __future__ import annotations

from attrs import define, field

from ludus_sc2.commands import GATHER, GATHERS, INJECT, Command, command
from ludus_sc2.layout import GAS_FIRST, MINERAL_FIRST, NONE
from ludus_sc2.situation import SeenUnit, Situation, nearest

_INJECT_ENERGY = 25.0
_FIELD_RADIUS = 11.0
_MOVES = 3  # workers that change between minerals and gas at a decision


@define
class HarvestManager:
    """Keeps workers busy, by the last strategy that was chosen."""

    _strategy: int = field(init=False, default=MINERAL_FIRST)

    def harvest(self, situation: Situation, strategy: int) -> list[Command]:
        """Return the commands of a strategy.

        Args:
            situation: What the seat sees.
            strategy: `GAS_FIRST`, `MINERAL_FIRST`, or `NONE` to keep the last one.
        """
        if strategy != NONE:
            self._strategy = strategy
        if not situation.bases:
            return []
        fields = _mineral_fields(situation)
        idle = [unit for unit in situation.of("drone") if unit.is_idle]
        commands = _inject(situation)
        if self._strategy == GAS_FIRST:
            commands += _fill_extractors(situation, idle)
        elif fields:
            commands += _leave_extractors(situation, fields)
        for worker in idle:
            if fields:
                commands += command(GATHER, [worker], nearest(fields, worker.position).tag)
        return commands


def choose_by_rules(situation: Situation) -> int:
    """Return the strategy of the rule-based manager: gas while there is much less of it than of minerals."""
    player = situation.raw.player_common
    return GAS_FIRST if player.vespene < min(400, 100 + player.minerals // 2) else MINERAL_FIRST


def _mineral_fields(situation: Situation) -> list[SeenUnit]:
    """Return the mineral fields of own bases that want workers, of all own bases if none does."""
    wanting = [base for base in situation.bases if base.raw.assigned_harvesters < base.raw.ideal_harvesters]
    found = []
    for base in wanting or situation.bases:
        place = base.position
        found += [field for field in situation.minerals if abs(field.position - place).max() < _FIELD_RADIUS]
    return found


def _fill_extractors(situation: Situation, idle: list[SeenUnit]) -> list[Command]:
    """Return commands that send workers to extractors with vacancies; idle ones are used and removed from the list."""
    commands: list[Command] = []
    miners = [unit for unit in situation.of("drone") if _gathers(unit) and not _is_at(situation, unit, "extractor")]
    for extractor in situation.of("extractor"):
        vacancies = extractor.raw.ideal_harvesters - extractor.raw.assigned_harvesters
        for _ in range(min(vacancies, _MOVES) if extractor.is_finished else 0):
            source = idle or miners
            if source:
                worker = nearest(source, extractor.position)
                source.remove(worker)
                commands += command(GATHER, [worker], extractor.tag)
    return commands


def _gathers(worker: SeenUnit) -> bool:
    return any(order.ability_id in GATHERS for order in worker.raw.orders)


def _leave_extractors(situation: Situation, fields: list[SeenUnit]) -> list[Command]:
    """Return commands that send some workers from gas back to minerals."""
    workers = [unit for unit in situation.of("drone") if _is_at(situation, unit, "extractor")]
    return [
        one for worker in workers[:_MOVES] for one in command(GATHER, [worker], nearest(fields, worker.position).tag)
    ]


def _is_at(situation: Situation, worker: SeenUnit, kind: str) -> bool:
    tags = {unit.tag for unit in situation.of(kind)}
    return any(order.target_unit_tag in tags for order in worker.raw.orders)


def _inject(situation: Situation) -> list[Command]:
    """Return commands by which idle queens inject larvae into the nearest bases."""
    bases = situation.bases
    return [
        one
        for queen in situation.of("queen")
        if queen.is_idle and queen.raw.energy >= _INJECT_ENERGY
        for one in command(INJECT, [queen], nearest(bases, queen.position).tag)
    ]
