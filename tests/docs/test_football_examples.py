"""The football leagues of ``examples/`` are those of DIS, and so are their ablations."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from ludus._config.run_config import load_config
from ludus._plugins.manager import load_plugins
from ludus._run.factories import make_matchmaker
from ludus.testing import FakeLeague, fake_player

ROOT = Path(__file__).parents[2]
EXAMPLES = ("dis_football_small", "dis_football", "dis_football_paper")
KINDS = {"main": "main", "rnd": "method", "mappo": "method"}  # all others are policy explorers


@pytest.fixture(scope="module")
def plugins():
    """Return the installed plugins."""
    return load_plugins()


@pytest.fixture(params=EXAMPLES)
def config(request, plugins):
    """Return each configuration."""
    return load_config(ROOT / "examples" / f"{request.param}.toml", plugins=plugins)


def kind(name):
    """Return the kind of a player."""
    return KINDS.get(name.partition("_")[0], "policy")


def msm(player):
    """Return the options by which a player chooses models."""
    return player.parts["msm"].config


def test_each_kind_of_player_has_a_third(config):
    """[DIS §4.1]: main agent, policy explorers and method explorers share the resources."""
    shares = Counter()
    for name, player in config.players.items():
        shares[kind(name)] += player.share
    assert len(set(shares.values())) == 1
    assert set(shares) == {"main", "policy", "method"}


def test_players_meet_the_pools_that_they_share(config):
    """[DIS §3.1]: DPMP has models of main agent and policy explorers, DMMP those of all."""
    (shared,) = (rule.config.shared for rule in config.league.rules if rule.name == "superior")
    assert set(shared["policies"]) == {name for name in config.players if kind(name) != "method"}
    for name, player in config.players.items():
        met = {pool for pool in msm(player).pools if pool in shared}
        assert met == {"methods", "policies"} - ({"policies"} if kind(name) == "method" else set())
        assert (msm(player).alpha, msm(player).temperature) == (0.6, 0.3)


def test_policy_explorers_restart_from_the_main_agent(config):
    """[DIS §4.1], and only they."""
    (restart,) = (rule.config for rule in config.league.rules if rule.name == "restart-from")
    assert restart.source == "main_agent"
    assert set(restart.players) == {name for name in config.players if kind(name) == "policy"}


def test_both_screenings_use_the_same_numbers(config):
    """The evaluator plays the matches that the rule waits for."""
    (rule,) = (rule.config for rule in config.league.rules if rule.name == "superior")
    tournament = config.evaluation.parts["tournament"].config
    for option in ("candidates", "top", "enough_matches"):
        assert getattr(rule, option) == getattr(tournament, option)


def test_the_paper_has_the_numbers_of_its_table_4(plugins):
    """[DIS appendix E], for all players; the entropy bonus of the main agent alone decreases."""
    config = load_config(ROOT / "examples" / "dis_football_paper.toml", plugins=plugins)
    for name, player in config.players.items():
        options = player.algorithm.config
        assert (options.batch_decisions, options.segment_decisions, options.epochs) == (80_000, 128, 1.0)
        assert (options.learning_rate, options.gamma, options.max_grad_norm) == (5e-5, 0.9995, 10.0)
        assert (options.ent_coef, options.ent_coef_final) == (0.01, 0.001 if name == "main_agent" else None)
        assert (msm(player).capacity, msm(player).long_s) == (100, 12 * 3600.0)
    assert sum(player.learner_processes for player in config.players.values()) == 24


def test_a_quarter_of_the_fixtures_trains_specific_scenarios(config, plugins):
    """[DIS §3.2.4]: every player meets all five kinds; the paper gives no share."""
    for name, player in config.players.items():
        matchmaker, rng = make_matchmaker(plugins, player), np.random.default_rng(0)
        league = FakeLeague(players=[fake_player(other, 0) for other in config.players])
        drawn = Counter(matchmaker.next_fixture(league, name, rng).scenario.name for _ in range(2000))
        assert set(drawn) == {"default", "kickoff", "corner", "freekick", "penalty-area", "solo"}
        assert drawn["default"] / 2000 == pytest.approx(0.95**3 * 0.92**2, abs=0.04)


def ablations(study):
    """Return the options of every run of a study, from the commands that the script prints."""
    script = [sys.executable, "benchmarks/ablations.py", study, "--seeds", "1", "--commands"]
    printed = subprocess.run(script, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    runs = [shlex.split(line) for line in printed.splitlines()]
    assert all(run[4].endswith("examples/dis_football_small.toml") for run in runs)
    return [[value for key, value in pairwise(run) if key == "--set"] for run in runs]


def test_pools_are_removed_one_by_one(plugins):
    """[DIS table 1]: the pools of the main agent, and how often it plays against itself."""
    found = []
    for options in ablations("dis-football-pools"):
        config = load_config(ROOT / "examples" / "dis_football_small.toml", overrides=options, plugins=plugins)
        found.append((msm(config.players["main_agent"]).pools, msm(config.players["main_agent"]).alpha))
        assert all(
            "policies" not in msm(config.players[name]).pools for name in config.players if kind(name) == "method"
        )
    pools = ("own", "own/long", "own/superior", "policies", "methods")
    assert found == [*((pools[:count], 0.6) for count in (5, 4, 3, 2, 1)), (pools, 1.0)]


def test_single_factors_are_changed(plugins):
    """[DIS figure 11]: models at random, no specific scenarios, built-in AI in 10 %, a mask; and no explorers."""
    configs = [
        load_config(ROOT / "examples" / "dis_football_small.toml", overrides=options, plugins=plugins)
        for options in ablations("dis-football-factors")
    ]
    base, uniform, plain, builtin, masked, alone = configs
    assert msm(uniform.players["main_agent"]).temperature > 1000 * msm(base.players["main_agent"]).temperature
    assert not plain.players["main_agent"].matchmaker.config.play
    league = FakeLeague(players=[fake_player(name, 0) for name in base.players], anchors=["random", "easy"])
    matchmaker, rng = make_matchmaker(plugins, builtin.players["main_agent"]), np.random.default_rng(0)
    opponents = [matchmaker.next_fixture(league, "main_agent", rng).opponents for _ in range(2000)]
    assert np.mean([names == ("easy",) for names in opponents]) == pytest.approx(0.1, abs=0.03)
    assert (base.environment.config.mask, masked.environment.config.mask) == ("none", "rules")
    assert [player.share for player in alone.players.values()] == [2.0, 0, 0, 0, 0]
