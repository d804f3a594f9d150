"""The three managers of a seat: which choices are legal, and the commands that an action becomes."""

from __future__ import annotations

import numpy as np
from attrs import define, field

from ludus_sc2 import combat, harvest, production
from ludus_sc2.commands import Command
from ludus_sc2.layout import ATTACK_AREA, LABEL_SIZES, MAX_AREAS, NONE, RULES
from ludus_sc2.names import ITEMS
from ludus_sc2.situation import Situation

_FIRST_ITEM = 2


def write_mask(mask: np.ndarray, situation: Situation) -> None:
    """Write which choices are legal.

    Items must be available, and areas exist; all strategies of harvesting, zones and other choices are always legal.

    Args:
        mask: ``[190] bool``, the choices of all labels side by side.
        situation: What the seat sees.
    """
    mask[:] = True
    mask[_FIRST_ITEM : LABEL_SIZES[0]] = [production.is_available(situation, item) for item in ITEMS]
    areas = LABEL_SIZES[0] + LABEL_SIZES[1] + ATTACK_AREA
    mask[areas : areas + MAX_AREAS] = np.arange(MAX_AREAS) < len(situation.terrain.areas)


@define
class Managers:
    """Turns the actions of a seat into commands."""

    _production: production.ProductionManager = field(init=False, factory=production.ProductionManager)
    _harvest: harvest.HarvestManager = field(init=False, factory=harvest.HarvestManager)
    _combat: combat.CombatRules = field(init=False, factory=combat.CombatRules)

    def decide(self, situation: Situation, action: np.ndarray) -> list[Command]:
        """Return the commands of an action.

        Args:
            situation: What the seat saw when it chose the action.
            action: ``[3] int64``: legal choices of the labels ``production``, ``resource`` and ``combat``.
        """
        item, strategy, order = map(int, action)
        produced = self._produce(situation, item)
        strategy = harvest.choose_by_rules(situation) if strategy == RULES else strategy
        others = self._harvest.harvest(situation, strategy)
        order = self._combat.choose(situation) if order == RULES else order
        if order != NONE:
            others += combat.give_orders(situation, order)
        used = {tag for command in produced for tag in command.tags}
        return produced + [rest for command in others for rest in command.without(used)]

    def _produce(self, situation: Situation, choice: int) -> list[Command]:
        if choice == NONE:
            return []
        item = production.choose_by_rules(situation) if choice == RULES else ITEMS[choice - _FIRST_ITEM]
        return [] if item is None else self._production.produce(situation, item)
