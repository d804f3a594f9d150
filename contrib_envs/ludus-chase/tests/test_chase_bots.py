"""Scripted agents: the better ones win from both sides."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.agent import RandomAgent
from ludus_chase.bot import make_bot
from ludus_chase.config import BotConfig, ChaseConfig
from ludus_chase.environment import Chase
from ludus_chase.plugin import ludus_register_agents
from ludus_chase.table import main, mean_mouse_points

STRENGTHS = ("weak", "medium", "strong")


def make_agent(name, environment, role):
    """Return an agent by its strength."""
    if name == "random":
        return RandomAgent(None, spec=environment.spec, role=role)
    return make_bot(BotConfig(strength=name), spec=environment.spec, role=role)


def decide(agent, seen, rng):
    """Return the actions ``[B, S, 2]`` of one role."""
    actions = np.zeros((*seen.acting.shape, 2), np.int64)
    rows, seats = np.nonzero(seen.acting)
    if len(rows):
        leaves = {name: leaf[rows, seats] for name, leaf in seen.observation.items()}
        seat_ids = rows * seen.acting.shape[1] + seats
        actions[rows, seats] = agent.act(leaves, action_mask=seen.action_mask[rows, seats], seat_ids=seat_ids, rng=rng)
    return actions


@pytest.fixture(scope="module")
def table():
    """Return the points of the mice by strength of cat and mice."""
    pairs = [(cat, mice) for cat in STRENGTHS for mice in STRENGTHS]
    found = mean_mouse_points([*pairs, ("weak", "random"), ("random", "weak")], ChaseConfig(tick_ms=400), matches=32)
    return {pair: points for pair, (points, _) in found.items()}


def test_stronger_mice_win_more(table):
    """The points of mice increase with their strength, against every cat."""
    for cat in STRENGTHS:
        weak, medium, strong = (table[cat, mice] for mice in STRENGTHS)
        assert weak < medium - 0.05
        assert medium <= strong


def test_stronger_cats_win_more(table):
    """Against medium mice, and for the strong cat against all mice."""
    weak, medium, strong = (1 - table[cat, "medium"] for cat in STRENGTHS)
    assert weak + 0.1 < medium < strong
    for mice in STRENGTHS:
        assert table["strong", mice] < table["weak", mice]


def test_the_stronger_side_wins(table):
    """Strong against weak, for both roles; equal sides both win some matches."""
    assert table["weak", "strong"] > 0.9
    assert table["strong", "weak"] < 0.1
    assert 0.2 < table["strong", "strong"] < 0.97


def test_bots_beat_random_agents(table):
    """Random mice never win, and a random cat mostly loses."""
    assert table["weak", "random"] == 0
    assert table["random", "weak"] > 0.5


def test_agents_are_registered():
    """The components name the environment `chase`."""
    components = {component.name: component for component in ludus_register_agents()}
    assert set(components) == {"chase-bot", "chase-random"}
    assert all(component.environments == ("chase",) for component in components.values())
    for component in components.values():
        component.load_factory()


def test_the_random_agent_takes_all_legal_actions():
    """It draws only legal actions."""
    environment = Chase(ChaseConfig(), num_matches=64)
    agent, rng = make_agent("random", environment, "cat"), np.random.default_rng(0)
    seen = environment.reset(np.arange(64, dtype=np.uint64)).roles["cat"]
    taken = {int(action) for _ in range(20) for action in decide(agent, seen, rng)[:, 0, 0]}
    assert taken == set(np.flatnonzero(seen.action_mask[0, 0, :18]).tolist())


def test_random_errors_of_a_bot_are_legal(scene):
    """Half of the actions of the weak bot are drawn from all legal ones."""
    match = scene()
    agent, rng = make_agent("weak", match.environment, "mouse"), np.random.default_rng(0)
    seen = match.tick.roles["mouse"]
    drawn = np.array([decide(agent, seen, rng)[0, :, 0] for _ in range(200)])
    assert all(seen.action_mask[0, seat, action] for row in drawn for seat, action in enumerate(row))
    assert len(np.unique(drawn[:, 0])) > 5


def test_the_table_shows_every_pair(capsys):
    """Options are given as name=value."""
    main(["matches=2", "columns=2", "rows=2", "tick_ms=1000", "push_s=4", "preparation_s=0", "time_over=draw"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0][-4:] == ["random", "weak", "medium", "strong"]
    assert [line[0] for line in lines[1:]] == ["random", "weak", "medium", "strong"]
    assert all(line[1:] == ["50.0", "%", "4"] * 4 for line in lines[1:])
