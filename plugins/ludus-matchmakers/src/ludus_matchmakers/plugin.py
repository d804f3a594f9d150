"""What ludus-matchmakers offers; imports nothing heavy."""

from __future__ import annotations

from ludus import Component, hookimpl

LUDUS_API = 1


def _matchmaker(name: str, config: str, summary: str) -> Component:
    factory = name.replace("-", "_")
    module = "rule_config" if name == "tournament" else "config"
    return Component(
        name=name,
        factory=f"ludus_matchmakers.factories:{factory}",
        config=f"ludus_matchmakers.{module}:{config}",
        summary=summary,
    )


def _rule(name: str, config: str, summary: str) -> Component:
    factory = name.replace("-", "_")
    return Component(
        name=name,
        factory=f"ludus_matchmakers.rule_factories:{factory}",
        config=f"ludus_matchmakers.rule_config:{config}",
        summary=summary,
    )


@hookimpl
def ludus_register_matchmakers() -> list[Component]:
    """Offer the matchmakers."""
    return [
        _matchmaker("against-anchors", "AnchorsConfig", "Scripted agents, all equally often"),
        _matchmaker(
            "alphastar-league-exploiter", "LeagueExploiterConfig", "The whole league by PFSP, as AlphaStar's exploiters"
        ),
        _matchmaker(
            "alphastar-main", "AlphaStarMainConfig", "Self-play, PFSP over the league and what was forgotten: 35/50/15"
        ),
        _matchmaker(
            "curriculum", "CurriculumConfig", "A main agent's live weights, its models while those are too strong"
        ),
        _matchmaker("forgotten", "ForgottenConfig", "Models that are not beaten any more; self-play if there are none"),
        _matchmaker(
            "latest-frozen", "LatestFrozenConfig", "The newest frozen model of other players, as exploiters do"
        ),
        _matchmaker(
            "latest-self-play", "LatestSelfPlayConfig", "Always against the latest weights, its own or the other side's"
        ),
        _matchmaker(
            "minimax-main", "MinimaxMainConfig", "Frozen models in proportion to their win rates, 10 % uniformly"
        ),
        _matchmaker("mixture", "MixtureConfig", "Other matchmakers, each with a share of the matches"),
        _matchmaker("msm", "MSMConfig", "The current weights, or models of five pools, as DIS samples them"),
        _matchmaker("nash", "NashConfig", "Frozen models as an equilibrium between them plays them (PSRO)"),
        _matchmaker(
            "pfsp", "PFSPConfig", "Frozen models, the harder the more often (prioritized fictitious self-play)"
        ),
        _matchmaker("rating-mixture", "RatingMixtureConfig", "Ratings: other matchmakers, each with a share of them"),
        _matchmaker("tournament", "ScreeningConfig", "Ratings: candidates against each other, for the rule superior"),
        _matchmaker("uncertain", "UncertainConfig", "Ratings: the pair whose win rate is least certain"),
        _matchmaker(
            "uniform-history", "UniformHistoryConfig", "Frozen models, all equally often (fictitious self-play)"
        ),
        _matchmaker("with-scenarios", "ScenariosConfig", "Another matchmaker, with scenarios and modifiers by chance"),
    ]


@hookimpl
def ludus_register_rules() -> list[Component]:
    """Offer the rules."""
    return [
        _rule("ada", "ADAConfig", "The side that loses gets more of the matches (adaptive data adjustment)"),
        _rule("alphastar", "AlphaStarConfig", "Freezes and new starts of main agents and exploiters, as in AlphaStar"),
        _rule("freeze-when", "FreezeWhenConfig", "Freezes by time, by decisions, or once a pool is beaten"),
        _rule(
            "generations", "GenerationsConfig", "A main agent and exploiters that start anew once they have converged"
        ),
        _rule("restart-from", "RestartFromConfig", "Players that start again from another's newest model now and then"),
        _rule("superior", "SuperiorConfig", "The best candidates of tournaments enter pools and wait for a person"),
    ]
