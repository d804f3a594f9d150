"""Factories of the matchmakers and rules."""

from __future__ import annotations

from collections.abc import Callable

from ludus.matchmaker import Matchmaker
from ludus.rule import Rule
from ludus_ratings.sequential import SequentialTest

from ludus_matchmakers import config as options
from ludus_matchmakers.ada import ADA
from ludus_matchmakers.alphastar import AlphaStar, Curriculum, Forgotten
from ludus_matchmakers.common import factory_of, option_arguments
from ludus_matchmakers.gate import Gate, GateMatches, Trials
from ludus_matchmakers.generations import Generations
from ludus_matchmakers.history import PFSP, UniformHistory
from ludus_matchmakers.mixture import Mixture
from ludus_matchmakers.msm import MSM
from ludus_matchmakers.nash import Nash
from ludus_matchmakers.rating import RatingMixture, Uncertain
from ludus_matchmakers.rule_config import GateConfig, ScreeningConfig, SuperiorConfig
from ludus_matchmakers.scenarios import Scenarios
from ludus_matchmakers.screening import Screening, Superior, Tournament
from ludus_matchmakers.self_play import Anchors, LatestFrozen, LatestSelfPlay
from ludus_matchmakers.timing import FreezeWhen, RestartFrom

_Build = Callable[[str], Matchmaker]

against_anchors = factory_of(Anchors)
alphastar_league_exploiter = factory_of(PFSP, weighting="capped", label="alphastar-league-exploiter")
curriculum = factory_of(Curriculum)
forgotten = factory_of(Forgotten)
latest_frozen = factory_of(LatestFrozen)
latest_self_play = factory_of(LatestSelfPlay)
minimax_main = factory_of(PFSP, label="minimax-main")
msm = factory_of(MSM)
nash = factory_of(Nash)
pfsp = factory_of(PFSP)
uncertain = factory_of(Uncertain)
uniform_history = factory_of(UniformHistory)

ada = factory_of(ADA)
alphastar = factory_of(AlphaStar)
freeze_when = factory_of(FreezeWhen)
generations = factory_of(Generations)
restart_from = factory_of(RestartFrom)


def alphastar_main(config: options.AlphaStarMainConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - the parts are fixed
    """Make ``alphastar-main``."""
    prior, kept = config.prior_matches, option_arguments(config, options.MatchmakerConfig)
    parts: dict[str, Matchmaker] = {
        "self-play": Curriculum(config.against, below=0.3, share=1.0, prior_matches=prior, **kept),
        "pfsp": PFSP(config.pools, p=2.0, prior_matches=prior, results=config.results, **kept),
        "forgotten": Forgotten(config.against, exploiters=config.exploiters, prior_matches=prior, **kept),
    }
    weights = {"self-play": config.self_play, "pfsp": config.pfsp, "forgotten": config.forgotten}
    return Mixture(parts=parts, weights=weights, **kept)


def mixture(config: options.MixtureConfig, *, build: _Build) -> Matchmaker:
    """Make ``mixture``; `build` makes its parts."""
    return Mixture(parts={name: build(name) for name in config.weights}, **option_arguments(config))


def rating_mixture(config: options.RatingMixtureConfig, *, build: _Build) -> Matchmaker:
    """Make ``rating-mixture``; `build` makes its parts."""
    return RatingMixture(parts={name: build(name) for name in config.weights}, **option_arguments(config))


def trials(config: GateConfig) -> Trials:
    """Make the tests of ``gate-matches`` and ``gate``."""
    test = SequentialTest(elo0=config.elo0, elo1=config.elo1, alpha=config.alpha, beta=config.beta)
    return Trials(players=config.players, test=test, max_matches=config.max_matches)


def gate_matches(config: GateConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``gate-matches``."""
    return GateMatches(trials=trials(config))


def gate(config: GateConfig) -> Rule:
    """Make ``gate``."""
    return Gate(trials=trials(config))


def screening(config: ScreeningConfig) -> Screening:
    """Make the screening of ``tournament`` and ``superior``."""
    return Screening(**option_arguments(config, ScreeningConfig))


def tournament(config: ScreeningConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``tournament``."""
    return Tournament(screening=screening(config))


def with_scenarios(config: options.ScenariosConfig, *, build: _Build) -> Matchmaker:
    """Make ``with-scenarios``; `build` makes its inner matchmaker."""
    given = option_arguments(config)
    return Scenarios(inner=build(given.pop("matchmaker")), **given)


def superior(config: SuperiorConfig) -> Rule:
    """Make ``superior``."""
    return Superior(screening=screening(config), shared=config.shared, final=config.final, judged=config.judged)
