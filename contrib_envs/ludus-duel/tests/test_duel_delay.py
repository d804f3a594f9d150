"""Fighters whose actions are delayed, in a game that a seat does not act in on every tick."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.installed import open_agent, open_interfaces
from ludus.interface import Spaces, wrap_agent
from ludus.runs import play_matches
from ludus_duel.config import DuelConfig
from ludus_duel.environment import Duel


def play(*delays_ms, matches=48, seed=3):
    """Return results of the strong bot in every seat, behind a delay, or without the interface where it is None."""
    pytest.importorskip("ludus_interfaces")
    environment = Duel(DuelConfig(time_limit_s=15), num_matches=matches)
    role, agents = environment.spec.role("fighter"), []
    for delay_ms in delays_ms:
        agent = open_agent("duel-bot", spec=environment.spec, role="fighter")
        if delay_ms is not None:
            options = {"name": "delay", "tick_ms": 100.0, "fixed_ms": delay_ms, "actions": -1}
            raw = Spaces(role.observation_space, role.action_space)
            agent = wrap_agent(agent, open_interfaces([options]), raw=raw)
        agents.append(agent)
    (results,) = play_matches(environment, [agents], matches=matches, seed=seed)
    return results


def test_no_delay_changes_nothing():
    """Outcome, length and statistics of every match are those without the interface."""
    without, delayed = play(None, None), play(0.0, 0.0)
    for name, array in without.items():
        assert np.array_equal(array, delayed[name]), name


def test_a_late_fighter_loses_to_a_prompt_one():
    """Fighters of one match may have different delays; 300 ms cost a bot most of its matches."""
    assert play(0.0, 300.0)["outcome"][:, 0].mean() > 0.7
    assert play(300.0, 0.0)["outcome"][:, 0].mean() < 0.3
