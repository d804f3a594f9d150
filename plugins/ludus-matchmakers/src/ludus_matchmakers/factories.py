"""From options to matchmakers."""

from __future__ import annotations

from collections.abc import Callable

from ludus.matchmaker import Matchmaker

from ludus_matchmakers.common import keeping
from ludus_matchmakers.config import (
    AnchorsConfig,
    LatestSelfPlayConfig,
    MixtureConfig,
    PFSPConfig,
    UniformHistoryConfig,
)
from ludus_matchmakers.history import PFSP, UniformHistory
from ludus_matchmakers.mixture import Mixture
from ludus_matchmakers.scripted import Anchors
from ludus_matchmakers.self_play import LatestSelfPlay

_Build = Callable[[str], Matchmaker]


def against_anchors(config: AnchorsConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``against-anchors``."""
    return Anchors(config.against, **keeping(config))


def latest_self_play(config: LatestSelfPlayConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``latest-self-play``."""
    return LatestSelfPlay(config.against, **keeping(config))


def uniform_history(config: UniformHistoryConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``uniform-history``."""
    return UniformHistory(config.pools, **keeping(config))


def pfsp(config: PFSPConfig, *, build: _Build) -> Matchmaker:  # noqa: ARG001 - no parts
    """Make ``pfsp``."""
    return PFSP(
        config.pools, weighting=config.weighting, p=config.p, prior_matches=config.prior_matches, **keeping(config)
    )


def mixture(config: MixtureConfig, *, build: _Build) -> Matchmaker:
    """Make ``mixture``; its parts are made by `build`."""
    parts = {name: build(name) for name in config.weights}
    return Mixture(parts=parts, weights=config.weights, **keeping(config))
