"""Factories of the rules."""

from __future__ import annotations

from ludus.rule import Rule

from ludus_matchmakers import rule_config as options
from ludus_matchmakers.ada import ADA
from ludus_matchmakers.alphastar_rule import AlphaStar
from ludus_matchmakers.common import factory_of
from ludus_matchmakers.factories import screening
from ludus_matchmakers.generations import Generations
from ludus_matchmakers.superior import Superior
from ludus_matchmakers.timing import FreezeWhen, RestartFrom

ada = factory_of(ADA)
alphastar = factory_of(AlphaStar)
freeze_when = factory_of(FreezeWhen)
generations = factory_of(Generations)
restart_from = factory_of(RestartFrom)


def superior(config: options.SuperiorConfig) -> Rule:
    """Make ``superior``."""
    return Superior(screening=screening(config), shared=config.shared, final=config.final, judged=config.judged)
