"""Registration of the components of ludus-matchmakers; imports nothing heavy."""

from __future__ import annotations

from functools import partial

from ludus import Component, hookimpl

LUDUS_API = 1


def _matchmaker(name: str, config: str, summary: str, *, module: str = "config") -> Component:
    return Component(
        name=name,
        factory=f"ludus_matchmakers.factories:{name.replace('-', '_')}",
        config=f"ludus_matchmakers.{module}:{config}",
        summary=summary,
    )


_rule = partial(_matchmaker, module="rule_config")


@hookimpl
def ludus_register_matchmakers() -> list[Component]:
    """Register the matchmakers."""
    return [
        _matchmaker("against-anchors", "AnchorsConfig", "Anchors with equal probability"),
        _matchmaker("alphastar-league-exploiter", "LeagueExploiterConfig", "The whole league by PFSP, as in AlphaStar"),
        _matchmaker(
            "alphastar-main", "AlphaStarMainConfig", "Self-play, PFSP over the league, forgotten models: 35/50/15"
        ),
        _matchmaker(
            "curriculum", "CurriculumConfig", "A main agent's live weights, or its models while those are too strong"
        ),
        _matchmaker("forgotten", "ForgottenConfig", "Models that are not beaten any more; self-play if there are none"),
        _matchmaker("gate-matches", "GateConfig", "Ratings: new models, for the rule gate", module="rule_config"),
        _matchmaker("latest-frozen", "LatestFrozenConfig", "The newest frozen model of other players, for exploiters"),
        _matchmaker("latest-self-play", "LatestSelfPlayConfig", "Live weights of the player or of the other side"),
        _matchmaker(
            "minimax-main", "MinimaxMainConfig", "Frozen models in proportion to their win rates, 10 % uniformly"
        ),
        _matchmaker("mixture", "MixtureConfig", "Other matchmakers, each with a share of the fixtures"),
        _matchmaker("msm", "MSMConfig", "Live weights, or models of five pools (model sampling method of DIS)"),
        _matchmaker("nash", "NashConfig", "Frozen models by an equilibrium of the game between them (PSRO)"),
        _matchmaker("pfsp", "PFSPConfig", "Frozen models by win rate (prioritized fictitious self-play)"),
        _matchmaker("rating-mixture", "RatingMixtureConfig", "Ratings: other matchmakers, each with a share"),
        _matchmaker(
            "tournament",
            "ScreeningConfig",
            "Ratings: candidates against each other, for the rule superior",
            module="rule_config",
        ),
        _matchmaker("uncertain", "UncertainConfig", "Ratings: the pair whose win rate is least certain"),
        _matchmaker(
            "uniform-history", "UniformHistoryConfig", "Frozen models with equal probability (fictitious self-play)"
        ),
        _matchmaker(
            "with-scenarios", "ScenariosConfig", "Another matchmaker, with scenarios and modifiers drawn at random"
        ),
    ]


@hookimpl
def ludus_register_rules() -> list[Component]:
    """Register the rules."""
    return [
        _rule("ada", "ADAConfig", "Larger shares for the side that loses (adaptive data adjustment)"),
        _rule("alphastar", "AlphaStarConfig", "Freezes and resets of main agents and exploiters, as in AlphaStar"),
        _rule("freeze-when", "FreezeWhenConfig", "Freezes by time, by decisions, or once a pool is beaten"),
        _rule("gate", "GateConfig", "Models enter a pool once a sequential test finds them stronger"),
        _rule(
            "generations", "GenerationsConfig", "Freezes of a converged main agent, and resets of converged exploiters"
        ),
        _rule("restart-from", "RestartFromConfig", "Periodic resets of players to another player's newest model"),
        _rule(
            "superior",
            "SuperiorConfig",
            "The best candidates of tournaments enter pools, and the best of those the finalists",
        ),
    ]
