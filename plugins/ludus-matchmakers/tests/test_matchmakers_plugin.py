"""The components of this package can be made from their options."""

from __future__ import annotations

import subprocess
import sys

import pytest
from ludus_matchmakers.config import (
    AnchorsConfig,
    LatestSelfPlayConfig,
    MixtureConfig,
    PFSPConfig,
    UniformHistoryConfig,
)
from ludus_matchmakers.history import PFSP, UniformHistory
from ludus_matchmakers.mixture import Mixture
from ludus_matchmakers.plugin import ludus_register_matchmakers
from ludus_matchmakers.scripted import Anchors
from ludus_matchmakers.self_play import LatestSelfPlay

COMPONENTS = {component.name: component for component in ludus_register_matchmakers()}
KEPT = {"capacity": 7, "enough": 8, "recent": 9}
OPTIONS = {"capacity": 7, "enough_matches": 8, "recent_models": 9}


def build(name):
    """Make a matchmaker with its default options, as the coordinator does for a mixture."""
    component = COMPONENTS[name]
    return component.load_factory()(component.load_config()(), build=build)


@pytest.mark.parametrize(
    ("name", "config", "expected"),
    [
        ("against-anchors", AnchorsConfig(against=("bot",), **OPTIONS), Anchors(("bot",), **KEPT)),
        ("latest-self-play", LatestSelfPlayConfig(against=("a",), **OPTIONS), LatestSelfPlay(("a",), **KEPT)),
        ("uniform-history", UniformHistoryConfig(pools=("best",), **OPTIONS), UniformHistory(("best",), **KEPT)),
        (
            "pfsp",
            PFSPConfig(pools=("best",), weighting="even", p=2.0, prior_matches=5.0, **OPTIONS),
            PFSP(("best",), weighting="even", p=2.0, prior_matches=5.0, **KEPT),
        ),
        (
            "mixture",
            MixtureConfig(weights={"pfsp": 1.0}, **OPTIONS),
            Mixture(parts={"pfsp": PFSP(())}, weights={"pfsp": 1.0}, **KEPT),
        ),
    ],
)
def test_options_reach_the_matchmaker(name, config, expected):
    """Values of the configuration are those of the object; a mixture builds its parts."""
    assert COMPONENTS[name].load_factory()(config, build=build) == expected


def test_the_default_mixture_is_that_of_the_paper():
    """[AET §3.3]: 80 % against the latest, 20 % by PFSP with p = 1 from a pool of 500."""
    matchmaker = build("mixture")
    assert matchmaker.weights == {"latest-self-play": 0.8, "pfsp": 0.2}
    assert (matchmaker.parts["pfsp"].p, matchmaker.parts["pfsp"].capacity) == (1.0, 500)


@pytest.mark.parametrize("weights", [{}, {"pfsp": 0}, {"pfsp": -1.0}, {"pfsp": "much"}, {"pfsp": float("nan")}])
def test_weights_must_be_shares(weights):
    """Empty, all zero, negative and non-numbers are refused with the words for what is expected."""
    with pytest.raises(ValueError, match="a table of matchmaker names with numbers"):
        MixtureConfig(weights=weights)


def test_the_plugin_module_imports_nothing_heavy():
    """Listing components loads neither the matchmakers nor torch."""
    code = (
        "import sys, ludus_matchmakers.plugin, ludus_matchmakers.config\n"
        "assert 'torch' not in sys.modules, 'torch'\n"
        "assert 'ludus_matchmakers.history' not in sys.modules, 'history'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
