"""From options to rules."""

from __future__ import annotations

from ludus.rule import Rule

from ludus_matchmakers import rule_config as options
from ludus_matchmakers.ada import ADA
from ludus_matchmakers.alphastar_rule import AlphaStar
from ludus_matchmakers.factories import screening
from ludus_matchmakers.generations import Generations
from ludus_matchmakers.superior import Superior
from ludus_matchmakers.timing import FreezeWhen, RestartFrom


def ada(config: options.ADAConfig) -> Rule:
    """Make ``ada``."""
    return ADA(
        players=config.players,
        hard=config.hard,
        low=config.low,
        high=config.high,
        behind=config.behind,
        ahead=config.ahead,
        enough=config.enough_matches,
    )


def alphastar(config: options.AlphaStarConfig) -> Rule:
    """Make ``alphastar``."""
    return AlphaStar(
        main_agents=config.main_agents,
        main_exploiters=config.main_exploiters,
        league_exploiters=config.league_exploiters,
        pools=config.pools,
        converged=config.converged,
        enough=config.enough_matches,
        least=config.least_decisions,
        most=config.most_decisions,
        reset=config.reset,
    )


def freeze_when(config: options.FreezeWhenConfig) -> Rule:
    """Make ``freeze-when``."""
    return FreezeWhen(
        players=config.players,
        seconds=config.seconds,
        decisions=config.decisions,
        win_rate=config.win_rate,
        pools=config.pools,
        enough=config.enough_matches,
    )


def generations(config: options.GenerationsConfig) -> Rule:
    """Make ``generations``."""
    return Generations(
        main=config.main,
        exploiters=config.exploiters,
        anchors=config.anchors,
        pools=config.pools,
        converged=config.converged,
        enough=config.enough_matches,
        share=config.share,
    )


def restart_from(config: options.RestartFromConfig) -> Rule:
    """Make ``restart-from``."""
    return RestartFrom(source=config.source, players=config.players, decisions=config.decisions, seconds=config.seconds)


def superior(config: options.SuperiorConfig) -> Rule:
    """Make ``superior``."""
    return Superior(screening=screening(config), shared=config.shared, final=config.final, judged=config.judged)
