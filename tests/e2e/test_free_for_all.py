"""A game of several teams with one seat each: learned, rated, and met by anchors at the end."""

from __future__ import annotations

import ludus
import numpy as np
import pytest

GAME = '''
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Env(ParallelEnv):
    """A choice of 1 earns 1, so a player that has learned beats a random one."""

    metadata = {"name": "choices_v0"}

    def __init__(self, n):
        self.possible_agents = [f"p_{i}" for i in range(n)]

    def observation_space(self, agent):
        return spaces.Box(0, 6, (2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.t = list(self.possible_agents), 0
        return self._observations(), {a: {} for a in self.agents}

    def _observations(self):
        return {a: np.full(2, self.t, np.float32) for a in self.agents}

    def step(self, actions):
        self.t += 1
        agents, over, seen = self.agents, self.t == 6, self._observations()
        if over:
            self.agents = []
        rewards = {a: float(actions[a]) for a in agents}
        ends, cuts = dict.fromkeys(agents, over), dict.fromkeys(agents, False)
        return seen, rewards, ends, cuts, {a: {} for a in agents}
'''


def tables(rating, *, teams, anchors):
    """Return the tables of a run of a few seconds in this process."""
    player = {
        "algorithm": "ppo",
        "network": "mlp",
        "mlp": {"hidden": [16]},
        "ppo": {"batch_decisions": 1024, "learning_rate": 0.01},
        "matchmaker": "mixture",
        "freeze_every_decisions": 4096,
    }
    return {
        "run": {"workers": 0, "decisions": 12_000, "seed": 1},
        "environment": {"name": "pettingzoo", "pettingzoo": {"id": "choices:Env", "options": {"n": teams}}},
        "sampling": {"matches": 16, "rows_per_fixture": 4},
        "players": {"main": player},
        "anchors": {name: {"agent": "random"} for name in anchors},
        "evaluation": {"final_matches": 60, "fixture_matches": 4, "matches": 16},
        "league": {"rating": rating},
    }


@pytest.fixture
def game(tmp_path, monkeypatch):
    """Make the game importable."""
    (tmp_path / "choices.py").write_text(GAME)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("game")
@pytest.mark.parametrize("rating", ["elo", "openskill"])
@pytest.mark.parametrize("teams", [3, 4])
def test_models_are_rated_and_meet_anchors(tmp_path, rating, teams):
    """The newest model is rated above `random` and has played the final matches from every team."""
    with ludus.train(tables(rating, teams=teams, anchors=["random"]), run_dir=tmp_path / "run") as run:
        newest = run.league.players["main"].models[-1]
        assert run.league.rating("random").mean == min(run.league.rating(name).mean for name in (*run.models, "random"))
        assert run.league.rating("random").matches > 0
        final = [match for match in run.matches(kind="eval") if match.fixture.reason == "final evaluation"]
        against = [match.fixture.participants for match in final if "random" in match.fixture.participants]
        assert len(against) == 60
        assert {seats.index(newest) for seats in against} == set(range(teams))
        assert {seats.count("random") for seats in against} == {teams - 1}
        wins, draws, losses = run.payoffs()["eval", newest, "random"]
        assert wins > losses
        assert wins + draws + losses >= 60
        assert all(np.array_equal(run.recompute_payoffs()[key], count) for key, count in run.payoffs().items())


@pytest.mark.usefixtures("game")
@pytest.mark.parametrize("rating", ["elo", "openskill"])
def test_without_anchors_models_rate_each_other(tmp_path, rating):
    """Every model has a rating, also where one model is all there is at first."""
    with ludus.train(tables(rating, teams=4, anchors=[]), run_dir=tmp_path / "run") as run:
        assert len(run.models) >= 2
        assert all(run.league.rating(name).matches for name in run.models)
