"""A TOML file reaches all of Arena: joint seats, interfaces side by side, on environments, agents and anchors."""

from __future__ import annotations

import tomllib
from contextlib import closing

import ludus
import numpy as np
import pytest
from ludus.installed import open_agent, open_game, open_interfaces
from ludus.interface import Spaces
from ludus.spaces import label_sizes, leaf_spaces

RUN = """
run = { workers = 0, decisions = 600 }
sampling = { matches = 4, rows_per_fixture = 4 }
evaluation = { enabled = false, final_matches = 0 }

[environment]
name = "as-team"
[environment.as-team]
game = "chase"
role = "mouse"
options = { push_s = 4.0, escape_s = 2.0, preparation_s = 1.0, tick_ms = 500 }

[players.cat]
role = "cat"
algorithm = "ppo"
network = "mlp"
matchmaker = "latest-self-play"
interfaces = ["chase-nearest"]
ppo = { segment_decisions = 8, batch_decisions = 64 }

[players.mice]  # four mice as one agent, each part behind its own interfaces, a stack of two frames around them
role = "mouse"
algorithm = "ppo"
network = "mlp"
matchmaker = "latest-self-play"
interfaces = ["combine", "flatten", "frame-stack"]
frame-stack = { frames = 2 }
ppo = { segment_decisions = 8, batch_decisions = 64 }
[players.mice.combine]
parts = [["chase-nearest"], [{ name = "chase-nearest", keep = { mice = 1 } }, "flatten"], ["flatten"], []]

[anchors.bots]
agent = "team-agent"
[anchors.bots.team-agent]
agents = ["chase-bot", { agent = "chase-bot", options = { strength = "weak" } }, "random", {AGENT}]

[anchors.random]
agent = "random"
interfaces = ["frame-stack"]
frame-stack = { frames = 3 }
""".replace("{AGENT}", '{ agent = "random", interfaces = ["merge-labels"] }')


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Train the run for a moment."""
    with ludus.train(tomllib.loads(RUN), run_dir=tmp_path_factory.mktemp("arena") / "run") as opened:
        yield opened


def test_the_seats_of_a_team_are_one_seat(run):
    """The game keeps its name, so agents of the game play it too."""
    assert [(seat.role, seat.team) for seat in run.seats] == [("cat", 0), ("mouse", 1)]
    environment = run.make_environment(1)
    mouse = environment.spec.role("mouse")
    assert environment.spec.name == "chase"
    assert label_sizes(mouse.action_space) == (18, 16) * 4
    environment.close()


def test_models_and_team_agents_play_each_other(run):
    """Joint seats are filled by name as others are; the first agent of a team agent plays the cat."""
    match = ludus.play_match(run, "bots", "cat@latest", seed=1)
    assert match.participants == ("cat@latest", "bots")
    assert ludus.play_match(run, "bots", "mice@latest", seed=1).participants == ("bots", "mice@latest")
    assert ludus.play_match(run, "mice@latest", "random", seed=1).participants == ("random", "mice@latest")


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ('environment.as-team.game="chsae"', "environment.as-team.game: no installed plugin provides the environment"),
        ("environment.as-team.options={push=1.0}", "environment.as-team.options.push: unknown key"),
        ('environment.as-team.role="dog"', "chase has no role 'dog' whose seats could be joined; it has cat, mouse"),
        (
            'players.mice.combine.parts=[[{name="frame-stack",frame=2}],[],[],[]]',
            "players.mice.combine.parts.0.frame-stack.frame: unknown key",
        ),
        (
            'players.mice.combine.parts=[[],["flaten"],[],[]]',
            "players.mice.combine.parts.1.flaten: no installed plugin provides the interface 'flaten'",
        ),
        ("players.mice.combine.parts=[1]", "combine.parts: expected a list of lists of interface names"),
        ("players.mice.combine.parts=[[],[],[]]", "expected the observation of 3 parts"),
        (
            'anchors.bots.team-agent.agents=["chase-bto","random","random","random"]',
            "team-agent.agents.0.chase-bto: no installed plugin provides the agent 'chase-bto'",
        ),
        ("anchors.bots.team-agent.agents=[[]]", "expected a list of agents, each a name or"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, override, problem):
    """The message has the path of the option."""
    with pytest.raises(ludus.LudusError) as error:
        ludus.train(tomllib.loads(RUN), run_dir=tmp_path / "run", overrides=[override])
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_an_environment_behind_interfaces_by_role():
    """Training sees the transformed spaces of each role [Arena 2.4.2]."""
    interfaces = {"mouse": ["chase-nearest", "flatten"], "cat": [{"name": "select-leaves", "keep": ["self"]}]}
    with_interfaces = {"game": "chase", "options": {"push_s": 4.0}, "interfaces": interfaces}
    environment = open_game("with-interfaces", options={"with-interfaces": with_interfaces}).make_environment(2)
    tick = environment.reset(np.arange(2, dtype=np.uint64))
    assert list(tick.roles["mouse"].observation) == ["obs"]
    assert list(tick.roles["cat"].observation) == ["self"]
    environment.close()


def test_an_agent_behind_interfaces_plays_the_raw_game():
    """It observes one merged label, and its choice is split into the labels of the game."""
    with_interfaces = {"agent": "random", "interfaces": ["flatten", {"name": "merge-labels", "max_choices": 300}]}
    game = open_game("chase", ["with-interfaces"], options={"with-interfaces": with_interfaces})
    environment = game.make_environment(1)
    tick = environment.reset(np.zeros(1, np.uint64))
    agent = game.agent("with-interfaces", "cat", environment=environment)
    role = tick.roles["cat"]
    action = agent.act(
        {name: leaf[:, 0] for name, leaf in role.observation.items()},
        action_mask=role.action_mask[:, 0],
        seat_ids=np.zeros(1, np.int64),
        rng=np.random.default_rng(0),
    )
    assert action.shape == (1, 2)
    assert role.action_mask[0, 0, action[0, 0]]
    assert role.action_mask[0, 0, 18 + action[0, 1]]
    environment.close()


def test_interfaces_and_agents_are_made_by_name():
    """The options of an interface are in its table."""
    with closing(open_game("chase").make_environment(1)) as environment:
        spec = environment.spec
        cat = spec.role("cat")
        bound = open_interfaces(["flatten", {"name": "frame-stack", "frames": 3}]).bind(
            Spaces(cat.observation_space, cat.action_space)
        )
        assert leaf_spaces(bound.observation)["obs"].shape[0] == 3
        assert open_agent("chase-bot", spec=spec, role="cat", options={"strength": "weak"})
    with pytest.raises(ludus.ConfigError, match="did you mean 'flatten'"):
        open_interfaces(["flaten"])
