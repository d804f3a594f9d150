"""The commands play games with roles, with many teams, and with one team."""

from __future__ import annotations

import io
import json
from pathlib import Path

import ludus
import pytest
from ludus import runs
from ludus.__main__ import main
from ludus._run import factories

GAMES = '''
"""Small games of one against four, five against each other, and one team of three."""

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Hide(ParallelEnv):
    """A hider whose cell the seeker names is found; the seeker wins if it finds two in four ticks."""

    metadata = {"name": "hide_v0"}
    possible_agents = ["hider_0", "hider_1", "hider_2", "hider_3", "seeker"]

    def observation_space(self, agent):
        return spaces.Box(0, 9, (2 if agent == "seeker" else 3,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3 if agent == "seeker" else 2)

    def observations(self):
        everything = np.array([self.now, self.start, 1], np.float32)
        return {agent: everything[: 2 if agent == "seeker" else 3] for agent in self.agents}

    def reset(self, seed=None, options=None):
        self.agents, self.now = self.possible_agents[:], 0
        self.start = int(np.random.default_rng(seed).integers(3))
        return self.observations(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.now += 1
        asked = self.agents
        found = [agent for agent in asked if agent != "seeker" and actions[agent] == actions["seeker"]]
        rewards = {agent: -1.0 if agent in found else 0.0 for agent in asked}
        rewards["seeker"] = float(len(found)) - 1.5
        ended = self.now == 4
        seen, infos = self.observations(), {agent: {} for agent in asked}
        self.agents = [] if ended else asked
        return seen, rewards, dict.fromkeys(asked, ended), dict.fromkeys(asked, False), infos


class Bid(ParallelEnv):
    """The highest of five bids wins."""

    metadata = {"name": "bid_v0"}
    possible_agents = [f"bidder_{i}" for i in range(5)]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        return {agent: np.zeros(1, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        asked, self.agents, best = self.agents, [], max(actions.values())
        seen = {agent: np.ones(1, np.float32) for agent in asked}
        rewards = {agent: float(actions[agent] == best) for agent in asked}
        return seen, rewards, dict.fromkeys(asked, True), dict.fromkeys(asked, False), {agent: {} for agent in asked}


class Meet(ParallelEnv):
    """One team of three wins if all choose the same."""

    metadata = {"name": "meet_v0"}
    possible_agents = ["a_0", "a_1", "a_2"]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        return {agent: np.zeros(1, np.float32) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        asked, self.agents = self.agents, []
        met = float(len(set(actions.values())) == 1)
        seen = {agent: np.ones(1, np.float32) for agent in asked}
        rewards = dict.fromkeys(asked, met)
        return seen, rewards, dict.fromkeys(asked, True), dict.fromkeys(asked, False), {agent: {} for agent in asked}
'''

PLAYER = {
    "algorithm": "dummy-gradient",
    "dummy-gradient": {"segment_decisions": 4, "batch_decisions": 64},
    "matchmaker": "latest-self-play",
    "freeze_every_decisions": 300,
}
HIDERS = {"seeker": ["seeker"], "hiders": ["hider_*"]}
RUNS = {
    "hide": (
        {"id": "toy_roles:Hide", "teams": HIDERS},
        {"seeker": {**PLAYER, "role": "seeker"}, "hider": {**PLAYER, "role": "hider", "freeze_every_decisions": 800}},
    ),
    "one_side": ({"id": "toy_roles:Hide", "teams": HIDERS}, {"hider": {**PLAYER, "role": "hider"}}),
    "bid": ({"id": "toy_roles:Bid"}, {"main": PLAYER}),
    "meet": ({"id": "toy_roles:Meet", "teams": {"all": ["*"]}, "outcome": "positive"}, {"main": PLAYER}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Train a short run of every game and return the run folders by name."""
    folder = tmp_path_factory.mktemp("roles")
    (folder / "toy_roles.py").write_text(GAMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        for name, (game, players) in RUNS.items():
            tables = {
                "run": {"workers": 0, "decisions": 2500 if name == "hide" else 1000},
                "environment": {"name": "pettingzoo", "pettingzoo": game},
                "sampling": {"matches": 16},
                "evaluation": {"matches": 16, "fixture_matches": 8, "final_matches": 8},
                "players": players,
                "anchors": {} if name == "bid" else {"random": {"agent": "random"}},
            }
            with ludus.train(tables, run_dir=folder / name):
                pass
        yield {name: folder / name for name in RUNS}


@pytest.fixture
def run(capsys, folders):
    """Return a function that runs a command line, in which a run is named by its game, and returns its output."""

    def command(line, *, status=0):
        words = [str(folders.get(word, word)) for word in line.split()]
        assert main(words) == status, capsys.readouterr()
        captured = capsys.readouterr()
        return captured.out or captured.err

    return command


def evaluation(run, line):
    """Return the JSON of ``ludus eval``."""
    return json.loads(run(f"eval {line} --matches 20 --json"))


@pytest.mark.parametrize("order", ["hider@latest random", "random hider@latest"])
def test_roles_may_be_named_in_any_order(run, order):
    """The model takes the four seats of its role, the agent the other one; the score is that of the first one."""
    result = evaluation(run, f"hide {order}")
    assert result["participants"] == ["hider@latest"] * 4 + ["random"]
    other = evaluation(run, f"hide {' '.join(reversed(order.split()))}")
    assert result["wins"] == other["losses"]


def test_models_of_one_role_meet_the_same_opponent(run):
    """Each plays the same number of matches against the newest model of the other role."""
    result = evaluation(run, "hide hider@1 hider@2")
    seeker = {contender["participants"][4] for contender in result["contenders"]}
    assert len(seeker) == 1
    assert seeker.pop().startswith("seeker@")
    assert [contender["participant"] for contender in result["contenders"]] == ["hider@1", "hider@2"]
    scores = [contender["score"] for contender in result["contenders"]]
    assert result["differences"][0]["score"][0] == pytest.approx(scores[0] - scores[1])
    text = run("eval hide hider@1 hider@2 --matches 8")
    assert text.startswith("seats that were not named: seeker by seeker@")
    assert "hider@1 minus hider@2: score " in text


def test_contenders_are_tested_in_pairs(run):
    """A pair has the points of the first and those that the second misses, on the same seed."""
    line = "gate meet main@1 random --max-matches 16 --json"
    first = json.loads(run(line, status=2))
    assert first["participants"] == ["main@1", "random"]
    assert sum(first["pairs"]) == 8


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bid main@latest main@1", "has 5 teams, and a pair of matches needs two"),
        ("hide hider@latest hider@1", "is scored by returns, and the test counts wins, draws and losses"),
    ],
)
def test_matches_that_are_no_pairs_are_refused(run, line, message):
    """The gate needs outcomes of two teams, or of one."""
    assert message in run(f"gate {line}", status=1)


def test_a_role_without_models_is_played_by_an_anchor(run):
    """The league trained one side only."""
    assert evaluation(run, "one_side hider@latest")["participants"][4] == "random"
    assert evaluation(run, "one_side seeker=random hider@1")["participants"] == ["hider@1"] * 4 + ["random"]


def test_an_anchor_that_cannot_play_a_role_does_not_fill_it(run, monkeypatch):
    """The next default does, here an installed agent; named, the anchor takes the role that it plays."""
    make = runs.make_anchor_agent

    def make_hider(config, anchor, role, spec):
        if role == "seeker":
            raise ludus.ConfigError(f"{anchor} plays hider")
        return make(config, anchor, role, spec)

    monkeypatch.setattr(runs, "make_anchor_agent", make_hider)
    assert evaluation(run, "one_side hider@latest")["participants"][4] == "dummy-random"
    assert evaluation(run, "one_side random dummy-random")["participants"] == ["random"] * 4 + ["dummy-random"]


def test_five_seats_each_for_itself(run):
    """A league without anchors plays against an installed agent; the second participant takes the other seats."""
    assert evaluation(run, "bid main@latest")["participants"] == ["main@latest"] + ["random"] * 4
    result = evaluation(run, "bid main@latest main@1")
    assert result["participants"] == ["main@latest"] + ["main@1"] * 4
    assert result["wins"] + result["draws"] + result["losses"] == 20
    assert evaluation(run, "bid 3=random main@1")["participants"][3] == "random"


def test_one_team_is_compared_on_the_same_seeds(run):
    """Participants that cannot meet are contenders."""
    assert evaluation(run, "meet main@latest")["participants"] == ["main@latest"] * 3
    result = evaluation(run, "meet main@latest random")
    assert [contender["participant"] for contender in result["contenders"]] == ["main@latest", "random"]


@pytest.mark.parametrize("game", RUNS)
@pytest.mark.parametrize(
    "command",
    ["overview", "payoffs", "ratings", "ratings --method elo", "ratings --method openskill", "ratings --method nash"],
)
def test_league_views(run, game, command):
    """The views are tables of at most 100 columns, with every participant that was rated."""
    if "openskill" in command:
        pytest.importorskip("openskill")
    text = run(f"league {command.replace(' ', f' {game} ', 1) if ' ' in command else f'{command} {game}'}")
    assert text
    assert max(map(len, text.splitlines())) <= 100


def test_comparison_of_roles(run):
    """Different roles are refused; models of one role are compared through their common opponents."""
    error = run("league compare hide seeker@1 hider@1", status=1)
    assert "seeker@1 plays seeker and hider@1 plays hider" in error
    assert error.count("\n") == 1
    text = " ".join(run("league compare hide hider@1 hider@2").split())
    assert "hider@2 against hider@1" in text
    assert " own matches 0 0 " in text


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("eval hide dog=random", "pettingzoo has no role or seat 'dog'; its roles are hider, seeker, its seats 0 to 4"),
        ("eval hide seeker=hider@1", "hider@1 plays the role hider, so it cannot play seeker"),
        ("eval hide hidre@1", "did you mean 'hider@1'? models are seeker@1 to seeker@"),
        ("eval hide hider@live", "hider@live is no frozen model; name one, for example hider@latest"),
        ("eval bid a", "participant 'a': not in this league"),
    ],
)
def test_wrong_names_are_one_line(run, line, problem):
    """The line has what exists."""
    error = run(line, status=1)
    assert problem in error
    assert error.count("\n") == 1


def test_play_match_takes_any_order(folders):
    """The Python API seats participants as the commands do."""
    with ludus.open_run(Path(folders["hide"])) as opened:
        match = ludus.play_match(opened, "seeker@latest", "hider@1", seed=3)
        assert match.participants == ("hider@1",) * 4 + ("seeker@latest",)
        assert ludus.play_match(opened, "hider@1", "seeker@latest", seed=3) == match
        assert len(match.returns) == 5


# -- agents of one role --------------------------------------------------------------------------------------------


def test_a_league_with_an_agent_of_one_role(folders, tmp_path, monkeypatch):
    """The agent, listed first, is met as the seeker only, in training, in rating matches and at the end."""
    make = factories.make_agent

    def make_seeker(selected, spec, role):
        if selected.name == "dummy-random" and role != "seeker":
            raise ludus.ConfigError("dummy-random plays seeker only")
        return make(selected, spec, role)

    monkeypatch.setattr(factories, "make_agent", make_seeker)
    game, players = RUNS["one_side"]
    tables = {
        "run": {"workers": 0, "decisions": 600},
        "environment": {"name": "pettingzoo", "pettingzoo": game},
        "sampling": {"matches": 8},
        "evaluation": {"matches": 8, "fixture_matches": 8, "final_matches": 8},
        "players": {"hider": {**players["hider"], "matchmaker": "against-anchors"}},
        "anchors": {"bot": {"agent": "dummy-random"}, "random": {"agent": "random"}},
    }
    with ludus.train(tables, run_dir=tmp_path / "run") as run:
        assert run.league.rated_anchors == ("seeker=bot", "seeker=random", "hider=random")
        assert run.league.team("bot") == 0
        played = {match.fixture.participants for match in run.matches()}
        assert {seats[0] for seats in played} & {"bot"} == set()
        assert "bot" in {seats[4] for seats in played}
        assert ludus.play_match(run, "bot", "hider@1").participants == ("hider@1",) * 4 + ("bot",)
    only = {"bot": {"agent": "dummy-random"}}
    with pytest.raises(ludus.ConfigError, match="role 'hider' has no player and no anchor"):
        ludus.train(
            {**tables, "players": {"seeker": {**players["hider"], "role": "seeker"}}, "anchors": only},
            run_dir=tmp_path / "other",
        )


def test_a_team_with_seats_of_several_roles_is_refused(folders, tmp_path):
    """The models of one player would have to play seats with other spaces."""
    tables = {
        "run": {"workers": 0, "decisions": 100},
        "environment": {"name": "pettingzoo", "pettingzoo": {"id": "toy_roles:Hide", "teams": {"all": ["*"]}}},
        "players": RUNS["hide"][1],
    }
    with pytest.raises(ludus.ConfigError) as error:
        ludus.train(tables, run_dir=tmp_path / "run")
    assert [line.partition(";")[0] for line in error.value.problems] == [
        f"config:players.{name}.role: team 0 of pettingzoo has seats of the roles hider, seeker"
        for name in ("seeker", "hider")
    ]


def test_a_role_of_several_but_not_all_teams_is_refused(folders, tmp_path):
    """Its models may take neither one fixed team nor any team."""
    teams = {f"team_{i}": [f"hider_{i}"] for i in range(4)} | {"seekers": ["seeker"]}
    tables = {
        "run": {"workers": 0, "decisions": 100},
        "environment": {"name": "pettingzoo", "pettingzoo": {"id": "toy_roles:Hide", "teams": teams}},
        "players": RUNS["hide"][1],
    }
    with pytest.raises(ludus.ConfigError, match="expected a role of one team or of all 5 teams") as error:
        ludus.train(tables, run_dir=tmp_path / "run")
    assert len(error.value.problems) == 1


# -- in the terminal -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chase(tmp_path_factory):
    """Train the mice of a short chase for a moment, and return the run folder."""
    player = {
        "role": "mouse",
        "algorithm": "ppo",
        "network": "mlp",
        "ppo": {"segment_decisions": 8, "batch_decisions": 64},
        "matchmaker": "against-anchors",
        "freeze_every_decisions": 200,
    }
    tables = {
        "run": {"workers": 0, "decisions": 400},
        "environment": {"name": "chase", "chase": {"push_s": 2.0, "escape_s": 1.0, "preparation_s": 0.5}},
        "sampling": {"matches": 4},
        "evaluation": {"enabled": False, "final_matches": 0},
        "players": {"mouse": player},
        "anchors": {"bot": {"agent": "chase-bot"}},
    }
    folder = tmp_path_factory.mktemp("chase") / "run"
    with ludus.train(tables, run_dir=folder):
        return folder


@pytest.fixture
def terminal(capsys, monkeypatch, chase):
    """Return a function that runs a command line on the run RUN with typed lines, and returns its lines."""

    def command(line, *, typed="", status=0):
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        assert main([str(chase) if word == "RUN" else word for word in line.split()]) == status
        captured = capsys.readouterr()
        return (captured.out + captured.err).splitlines()

    return command


@pytest.mark.parametrize(
    ("line", "first", "last"),
    [
        ("watch RUN", "bot against mouse@", "match 1: bot "),
        ("watch RUN mouse@1", "mouse@1 against bot; seed ", "match 1: mouse@1 "),
        ("watch RUN mouse@1 chase-random", "mouse@1 against chase-random; seed ", "match 1: mouse@1 "),
        ("watch RUN --seats bot mouse@latest", "bot against mouse@latest; seed ", "match 1: bot "),
        ("watch RUN 2=chase-random mouse@1", "chase-random with mouse@1 against bot; seed ", "match 1: chase-random "),
        ("watch --env chase chase-bot", "chase-bot against chase-bot; seed ", "match 1: chase-bot "),
        (
            "watch --env chase mouse=chase-bot chase-random",
            "chase-bot against chase-random; seed ",
            "match 1: chase-bot ",
        ),
    ],
)
def test_watch_seats_participants_by_role(terminal, line, first, last):
    """Names come in any order; other seats are filled."""
    shorter = " --set chase.push_s=2 --set chase.escape_s=1" if "--env" in line else ""
    lines = terminal(f"{line} --delay 0{shorter}")
    assert lines[0].startswith(first)
    assert lines[-1].startswith(last)


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("play RUN", ["you: seat 0 (cat); opponent: mouse@"]),
        ("play RUN --seat mouse", ["your team mates: mouse@", "you: seat 1 (mouse); opponent: bot; seed "]),
        ("play RUN --seat 3 --opponent mouse@1", ["your team mates: mouse@1", "you: seat 3 (mouse); opponent: bot; "]),
        (
            "play RUN --seat mouse --opponent cat=chase-random --opponent 2=bot",
            ["your team mates: bot, mouse@", "you: seat 1 (mouse); opponent: chase-random; seed "],
        ),
        (
            "play --env chase --opponent chase-bot --seat mouse",
            ["your team mates: chase-bot", "you: seat 1 (mouse); opponent: chase-bot; seed "],
        ),
    ],
)
def test_a_person_takes_a_seat_of_a_role(terminal, line, first):
    """The other seats are those of opponents and team mates."""
    lines = terminal(line, typed="quit\n")
    assert [text.startswith(start) for text, start in zip(lines, first, strict=False)] == [True] * len(first)
    assert lines[-1].endswith("bye")


@pytest.mark.parametrize(
    ("line", "status", "problem"),
    [
        ("play RUN --seat dog", 2, "chase has no role or seat 'dog'; its roles are cat, mouse, its seats 0 to 4"),
        ("play RUN --opponent cat@1", 1, "participant 'cat@1': not in this league; models are mouse@1 to mouse@"),
        ("play RUN --opponent 0=bot", 1, "seat 0 is named for you and bot"),
        ("watch RUN cat=mouse@1", 1, "cat=mouse@1: mouse@1 plays the role mouse, so it cannot play cat"),
        ("watch --env chase mouse=chase-bto", 1, "did you mean 'chase-bot'?"),
    ],
)
def test_wrong_seats_are_one_line(terminal, line, status, problem):
    """The line has what exists."""
    assert problem in " ".join(" ".join(terminal(line, status=status)).split())
