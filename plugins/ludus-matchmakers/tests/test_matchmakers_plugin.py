"""The components of this package can be made from their options."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from ludus.testing import check_run
from ludus_matchmakers.config import MixtureConfig
from ludus_matchmakers.plugin import ludus_register_matchmakers

COMPONENTS = {component.name: component for component in ludus_register_matchmakers()}


def build(name):
    """Make a matchmaker with its default options, as the coordinator does for a mixture."""
    component = COMPONENTS[name]
    return component.load_factory()(component.load_config()(), build=build)


def test_the_default_mixture_is_that_of_the_paper():
    """[AET §3.3]: 80 % against the latest, 20 % by PFSP with p = 1 from a pool of 500."""
    matchmaker = build("mixture")
    assert matchmaker.weights == {"latest-self-play": 0.8, "pfsp": 0.2}
    assert (matchmaker.parts["pfsp"].p, matchmaker.parts["pfsp"].capacity) == (1.0, 500)


@pytest.mark.parametrize("weights", [{}, {"pfsp": 0}, {"pfsp": -1.0}, {"pfsp": "much"}, {"pfsp": float("nan")}])
def test_weights_must_be_shares(weights):
    """Empty, all zero, negative and non-numbers raise an error that names what is expected."""
    with pytest.raises(ValueError, match="a table of matchmaker names with numbers"):
        MixtureConfig(weights=weights)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ('alphastar-main = { exploiters = ["ex"] }', "there is no player 'ex'; players are main, other"),
        (
            'with-scenarios = { play = [{ scenario = "start", probability = 0.1, weaker = "other" }] }',
            r"next_fixture chose Scenario\(name='start', .* dummy-count has the scenarios default, start-at",
        ),
    ],
)
def test_errors_of_a_later_time_are_found_at_the_start(tmp_path, monkeypatch, options, problem):
    """A part with a small weight, and a modifier for a weaker side."""
    monkeypatch.setenv("LUDUS_ALLOW_PLUGINS", "dummy,ratings,matchmakers")
    path = tmp_path / "run.toml"
    path.write_text(
        f"""
[run]
workers = 0
[environment]
name = "dummy-count"
[players.main]
algorithm = "dummy-gradient"
matchmaker = "{options.split()[0]}"
{options}
[players.other]
algorithm = "dummy-gradient"
matchmaker = "latest-self-play"
"""
    )
    (failure,) = [finding.text for finding in check_run(path) if finding.status == "fail"]
    assert re.match(f"matchmaker of player 'main': {problem}", failure)


def test_the_plugin_module_imports_nothing_heavy():
    """Listing components loads neither the matchmakers nor torch."""
    code = (
        "import sys, ludus_matchmakers.plugin, ludus_matchmakers.config\n"
        "assert 'torch' not in sys.modules, 'torch'\n"
        "assert 'ludus_matchmakers.history' not in sys.modules, 'history'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
