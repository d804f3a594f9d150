"""From options to matchmakers."""

from __future__ import annotations

from collections.abc import Callable

from ludus.matchmaker import Matchmaker

from ludus_matchmakers import config as options
from ludus_matchmakers.alphastar import Curriculum, Forgotten
from ludus_matchmakers.common import keeping
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


def against_anchors(config: options.AnchorsConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``against-anchors``."""
    return Anchors(config.against, **keeping(config))


def alphastar_league_exploiter(
    config: options.LeagueExploiterConfig,
    *,
    build: _Build,  # noqa: ARG001 - no parts
) -> Matchmaker:
    """Make ``alphastar-league-exploiter``."""
    return PFSP(
        config.pools,
        weighting="capped",
        prior_matches=config.prior_matches,
        label="alphastar-league-exploiter",
        **keeping(config),
    )


def alphastar_main(config: options.AlphaStarMainConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - its own parts
    """Make ``alphastar-main``."""
    prior, kept = config.prior_matches, keeping(config)
    parts: dict[str, Matchmaker] = {
        "self-play": Curriculum(config.against, below=0.3, share=1.0, prior_matches=prior, **kept),
        "pfsp": PFSP(config.pools, p=2.0, prior_matches=prior, **kept),
        "forgotten": Forgotten(config.against, exploiters=config.exploiters, prior_matches=prior, **kept),
    }
    weights = {"self-play": config.self_play, "pfsp": config.pfsp, "forgotten": config.forgotten}
    return Mixture(parts=parts, weights=weights, **kept)


def curriculum(config: options.CurriculumConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``curriculum``."""
    return Curriculum(
        config.against,
        below=config.below,
        share=config.share,
        prior_matches=config.prior_matches,
        **keeping(config),
    )


def forgotten(config: options.ForgottenConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``forgotten``."""
    return Forgotten(
        config.against,
        exploiters=config.exploiters,
        forgotten=config.forgotten,
        exploited=config.exploited,
        p=config.p,
        prior_matches=config.prior_matches,
        **keeping(config),
    )


def latest_frozen(config: options.LatestFrozenConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``latest-frozen``."""
    return LatestFrozen(config.against, **keeping(config))


def latest_self_play(config: options.LatestSelfPlayConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``latest-self-play``."""
    return LatestSelfPlay(config.against, **keeping(config))


def minimax_main(config: options.MinimaxMainConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``minimax-main``."""
    return PFSP(
        config.pools,
        uniform=config.uniform,
        prior_matches=config.prior_matches,
        label="minimax-main",
        **keeping(config),
    )


def mixture(config: options.MixtureConfig, *, build: _Build) -> Matchmaker:
    """Make ``mixture``; its parts are made by `build`."""
    parts = {name: build(name) for name in config.weights}
    return Mixture(parts=parts, weights=config.weights, **keeping(config))


def msm(config: options.MSMConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``msm``."""
    return MSM(
        config.pools,
        alpha=config.alpha,
        p=config.p,
        temperature=config.temperature,
        prior_matches=config.prior_matches,
        **keeping(config),
    )


def nash(config: options.NashConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``nash``."""
    return Nash(config.pools, models=config.models, prior_matches=config.prior_matches, **keeping(config))


def pfsp(config: options.PFSPConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``pfsp``."""
    return PFSP(
        config.pools,
        weighting=config.weighting,
        p=config.p,
        uniform=config.uniform,
        prior_matches=config.prior_matches,
        **keeping(config),
    )


def rating_mixture(config: options.RatingMixtureConfig, *, build: _Build) -> Matchmaker:
    """Make ``rating-mixture``; its parts are made by `build`."""
    parts = {name: build(name) for name in config.weights}
    return RatingMixture(parts=parts, weights=config.weights, **keeping(config))


def screening(config: ScreeningConfig) -> Screening:
    """Make what tournament and superior share."""
    return Screening(
        players=config.players,
        candidates=config.candidates,
        top=config.top,
        enough=config.enough_matches,
        best=config.best,
    )


def tournament(config: ScreeningConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``tournament``."""
    return Tournament(screening=screening(config))


def uncertain(config: options.UncertainConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``uncertain``."""
    return Uncertain(
        pools=config.pools, deviation=config.deviation, prior_matches=config.prior_matches, **keeping(config)
    )


def uniform_history(config: options.UniformHistoryConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``uniform-history``."""
    return UniformHistory(config.pools, **keeping(config))


def with_scenarios(config: options.ScenariosConfig, *, build: _Build) -> Matchmaker:
    """Make ``with-scenarios``; the matchmaker inside is made by `build`."""
    return Scenarios(
        inner=build(config.matchmaker),
        play=config.play,
        models=config.models,
        balanced=config.balanced,
        enough=config.enough_matches,
    )
