"""From options to matchmakers."""

from __future__ import annotations

from collections.abc import Callable

from ludus.matchmaker import Matchmaker

from ludus_matchmakers import config as options
from ludus_matchmakers.alphastar import Curriculum, Forgotten
from ludus_matchmakers.common import arguments, made_of
from ludus_matchmakers.history import PFSP, UniformHistory
from ludus_matchmakers.mixture import Mixture
from ludus_matchmakers.msm import MSM
from ludus_matchmakers.nash import Nash
from ludus_matchmakers.rating import RatingMixture, Uncertain
from ludus_matchmakers.rule_config import ScreeningConfig
from ludus_matchmakers.scenarios import Scenarios
from ludus_matchmakers.screening import Screening, Tournament
from ludus_matchmakers.scripted import Anchors
from ludus_matchmakers.self_play import LatestFrozen, LatestSelfPlay

_Build = Callable[[str], Matchmaker]

against_anchors = made_of(Anchors)
alphastar_league_exploiter = made_of(PFSP, weighting="capped", label="alphastar-league-exploiter")
curriculum = made_of(Curriculum)
forgotten = made_of(Forgotten)
latest_frozen = made_of(LatestFrozen)
latest_self_play = made_of(LatestSelfPlay)
minimax_main = made_of(PFSP, label="minimax-main")
msm = made_of(MSM)
nash = made_of(Nash)
pfsp = made_of(PFSP)
uncertain = made_of(Uncertain)
uniform_history = made_of(UniformHistory)


def alphastar_main(config: options.AlphaStarMainConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - its own parts
    """Make ``alphastar-main``."""
    prior, kept = config.prior_matches, arguments(config, options.MatchmakerConfig)
    parts: dict[str, Matchmaker] = {
        "self-play": Curriculum(config.against, below=0.3, share=1.0, prior_matches=prior, **kept),
        "pfsp": PFSP(config.pools, p=2.0, prior_matches=prior, **kept),
        "forgotten": Forgotten(config.against, exploiters=config.exploiters, prior_matches=prior, **kept),
    }
    weights = {"self-play": config.self_play, "pfsp": config.pfsp, "forgotten": config.forgotten}
    return Mixture(parts=parts, weights=weights, **kept)


def mixture(config: options.MixtureConfig, *, build: _Build) -> Matchmaker:
    """Make ``mixture``; its parts are made by `build`."""
    return Mixture(parts={name: build(name) for name in config.weights}, **arguments(config))


def rating_mixture(config: options.RatingMixtureConfig, *, build: _Build) -> Matchmaker:
    """Make ``rating-mixture``; its parts are made by `build`."""
    return RatingMixture(parts={name: build(name) for name in config.weights}, **arguments(config))


def screening(config: ScreeningConfig) -> Screening:
    """Make what tournament and superior share."""
    return Screening(**arguments(config, ScreeningConfig))


def tournament(config: ScreeningConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``tournament``."""
    return Tournament(screening=screening(config))


def with_scenarios(config: options.ScenariosConfig, *, build: _Build) -> Matchmaker:
    """Make ``with-scenarios``; the matchmaker inside is made by `build`."""
    given = arguments(config)
    return Scenarios(inner=build(given.pop("matchmaker")), **given)
