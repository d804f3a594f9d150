"""Games that nothing wins are measured by returns: one team, and rewards that do not sum to 0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ludus.__main__ import main
from ludus.runs import open_run
from ludus_pettingzoo.config import PettingZooConfig
from ludus_pettingzoo.environment import make_environment

GAME = '''
"""Two agents earn 1 on each of three ticks on which both choose 1."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Together(ParallelEnv):
    metadata = {"name": "together_v0"}
    possible_agents = ["left_0", "left_1"]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def look(self):
        return {agent: np.ones(1, np.float32) for agent in self.possible_agents}

    def reset(self, seed=None, options=None):
        self.agents, self.now = list(self.possible_agents), 0
        return self.look(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.now += 1
        agents, ended = self.agents, self.now == 3
        if ended:
            self.agents = []
        rewards = dict.fromkeys(agents, float(all(actions.values())))
        return self.look(), rewards, dict.fromkeys(agents, ended), dict.fromkeys(agents, False), {a: {} for a in agents}
'''
RUN = """
[run]
seed = 1
workers = 0
decisions = 4000
[environment]
name = "pettingzoo"
[environment.pettingzoo]
id = "toy_returns:Together"
teams = { all = ["*"] }
[sampling]
matches = 8
fixture_matches = 8
rows_per_fixture = 8
[players.main]
algorithm = "dummy-gradient"
network = "dummy-linear"
matchmaker = "latest-self-play"
freeze_every_decisions = 2000
[anchors.random]
agent = "random"
[evaluation]
final_matches = 40
"""


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    """Write the module of the game where Python finds it."""
    folder = tmp_path_factory.mktemp("game")
    Path(folder, "toy_returns.py").write_text(GAME, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("LUDUS_TRUST_MODULES", "toy_returns")
        yield folder


@pytest.fixture(scope="module")
def run_dir(game):
    """Return the folder of a run of one team."""
    (game / "run.toml").write_text(RUN, encoding="utf-8")
    assert main(["train", str(game / "run.toml"), "--run", str(game / "run"), "--json"]) == 0
    return str(game / "run")


def output(capsys, *arguments):
    """Return the parsed output of a command."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("options", "score"),
    [
        ({}, "outcome"),
        ({"score": "return"}, "return"),
        ({"teams": {"all": ["*"]}}, "return"),
        ({"teams": {"all": ["*"]}, "win_return": 1.0}, "outcome"),
        ({"teams": {"all": ["*"]}, "score": "outcome"}, "outcome"),
    ],
)
def test_what_measures_a_game(game, options, score):
    """Returns measure a game of one team that nothing wins, and any game by option."""
    assert make_environment(PettingZooConfig(id="toy_returns:Together", **options), num_matches=1).spec.score == score


def test_a_game_of_one_team_ends_with_evaluation_matches(run_dir, capsys):
    """Random play earns 3/4 on average; the model earns more, by an interval that excludes 0."""
    rows = {row["participant"]: row for row in output(capsys, "league", run_dir)["returns"]}
    newest = max(name for name in rows if name.startswith("main@"))
    assert rows["random"]["matches"] == rows[newest]["matches"] == 40
    low, high = rows["random"]["interval"]
    assert low < 0.75 < high
    assert rows[newest]["gain"]["over"] == "random"
    assert rows[newest]["gain"]["mean"] == pytest.approx(rows[newest]["mean"] - rows["random"]["mean"])
    assert rows[newest]["gain"]["interval"][0] > 0


def test_tables_show_returns_instead_of_wins(run_dir, capsys):
    """There is neither a score against an anchor nor a rating."""
    for command in ("league", "report"):
        capsys.readouterr()
        assert main([command, run_dir]) == 0
        shown = capsys.readouterr().out
        assert "mean return [95 %]" in shown
        assert "gain over random" in shown
        assert "score" not in shown
        assert "Ratings" not in shown


def test_eval_prints_the_return_with_its_interval(run_dir, capsys):
    """No matches are counted as won."""
    result = output(capsys, "eval", run_dir, "random", "--matches", "64")
    low, high = result["return_interval"]
    assert low < 0.75 < high
    assert low < result["mean_return"] < high
    assert main(["eval", run_dir, "random", "--matches", "64"]) == 0
    shown = capsys.readouterr().out
    assert "in 64 matches, 3.0 ticks per match" in shown
    assert "wins" not in shown


def test_a_resumed_run_does_not_repeat_its_final_matches(run_dir, capsys):
    """The matches of all participants are in the log."""
    before = output(capsys, "league", run_dir)["returns"]
    main(["resume", run_dir, "--json"])
    assert output(capsys, "league", run_dir)["returns"] == before


@pytest.mark.parametrize("matchmaker", ["pfsp", "mixture"])
def test_matchmakers_and_rules_of_win_rates_do_without_wins(game, capsys, matchmaker):
    """A player trains alone; the check warns of a rule."""
    text = RUN.replace("latest-self-play", matchmaker) + '[league]\nrules = ["ada"]\n'
    (game / "alone.toml").write_text(text, encoding="utf-8")
    assert main(["check", str(game / "alone.toml")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "main would first play alone" in shown
    assert "warn rule ada: a game of one team has no wins" in shown


HUNT = '''
"""A hunter and two runners choose 0 or 1; it earns -1 or 1 per tick, each of them 0 or 0.1."""

from toy_returns import Together, np, spaces


class Hunt(Together):
    possible_agents = ["hunter_0", "runner_0", "runner_1"]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (1 if agent == "hunter_0" else 2,), np.float32)

    def look(self):
        return {agent: np.ones(1 if agent == "hunter_0" else 2, np.float32) for agent in self.possible_agents}

    def step(self, actions):
        observed, rewards, terminated, truncated, infos = super().step(actions)
        rewards = {agent: 0.1 * int(action) for agent, action in actions.items()}
        rewards["hunter_0"] = 20 * rewards["hunter_0"] - 1.0
        return observed, rewards, terminated, truncated, infos
'''
HUNT_RUN = """
[run]
seed = 1
workers = 0
decisions = 6000
[environment]
name = "pettingzoo"
[environment.pettingzoo]
id = "toy_hunt:Hunt"
teams = { hunter = ["hunter_*"], runners = ["runner_*"] }
[sampling]
matches = 8
fixture_matches = 8
rows_per_fixture = 8
[players.hunter]
role = "hunter"
algorithm = "dummy-gradient"
network = "dummy-linear"
matchmaker = "pfsp"
freeze_every_decisions = 1000
[players.runner]
role = "runner"
algorithm = "dummy-gradient"
network = "dummy-linear"
matchmaker = "pfsp"
freeze_every_decisions = 2000
[anchors.random]
agent = "random"
[evaluation]
final_matches = 40
"""


@pytest.fixture(scope="module")
def hunt(game):
    """Return the folder of a run of two sides whose rewards have nothing in common."""
    (game / "toy_hunt.py").write_text(HUNT, encoding="utf-8")
    (game / "hunt.toml").write_text(HUNT_RUN, encoding="utf-8")
    trusted = ("--trust-module", "toy_hunt", "--trust-module", "toy_returns")
    assert main(["train", str(game / "hunt.toml"), "--run", str(game / "hunt"), "--json", *trusted]) == 0
    return str(game / "hunt")


def test_sides_are_compared_with_random_play(hunt, capsys):
    """A match is decided by what the hunter earns; still both models win most matches against random play."""
    rows = {row["name"]: row for row in output(capsys, "league", hunt)["players"]}
    for name in ("hunter", "runner"):
        record = rows[name]["anchors"]["random"]
        assert record["interval"][0] > record["baseline"]["score"]
        assert 0.3 < record["baseline"]["score"] < 0.7
    assert main(["league", "verify", hunt]) == 0


def test_returns_are_compared_by_opponent(hunt, capsys):
    """With those of random play against the same opponent in the same role."""
    rows = output(capsys, "league", hunt)["returns"]
    by_place = {(row["participant"].partition("@")[0], row["role"]): row for row in rows}
    assert set(by_place) == {("hunter", "hunter"), ("runner", "runner"), ("random", "hunter"), ("random", "runner")}
    assert all(row["against"] == "random" for row in rows)
    gain = by_place["hunter", "hunter"]["gain"]
    assert gain["mean"] == pytest.approx(by_place["hunter", "hunter"]["mean"] - by_place["random", "hunter"]["mean"])
    assert gain["interval"][0] > 0
    for command in ("league", "report"):
        main([command, hunt])
        assert "standard deviations above that of random play" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "names", [("hunter@latest", "random"), ("random", "hunter@latest"), ("runner@latest", "random")]
)
def test_eval_counts_wins_by_returns(hunt, capsys, names):
    """In both orders of the participants."""
    result = output(capsys, "eval", hunt, *names, "--matches", "100")
    share = result["wins"] / 100 + result["draws"] / 200
    assert (share > 0.6) == (names[0] != "random")


def test_resumed_runs_compare_as_before(hunt, capsys):
    """Random play is measured once."""
    with open_run(hunt) as run:
        before = run.return_outcome
    assert before.matches == 64
    assert (before.mean, before.scale) == (pytest.approx((0, 0.15), abs=0.6), pytest.approx((3**0.5, 0.06), rel=0.3))
    assert main(["resume", hunt, "--set", "run.decisions=7000", "--trust-module", "toy_hunt"]) == 0
    assert "returns of random play" not in capsys.readouterr().out
    with open_run(hunt) as run:
        assert run.return_outcome == before
