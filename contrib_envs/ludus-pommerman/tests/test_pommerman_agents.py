"""Scripted agents: each priority on a hand-made board, and matches that agree with other implementations."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_pommerman.agents import SimpleAgent, StopAgent
from ludus_pommerman.calibrate import TABLE, Row, deviations, play
from ludus_pommerman.plugin import ludus_register_agents
from ludus_pommerman.rules import ACTIONS


@pytest.fixture
def chosen(match):
    """Return a function that lets seat 0 decide 200 times from the same state."""

    def decide(game, *, state=None):
        game.step()  # writes the observations of what the test has set up
        spec, rng = game.environment.spec, np.random.default_rng(0)
        leaves = {name: np.repeat(leaf[:, 0], 200, axis=0) for name, leaf in game.seen.observation.items()}
        agent = SimpleAgent(None, spec=spec, role="player")
        agent.reset(np.arange(200))
        if state:
            for name, value in state.items():
                agent._states[name] = value
        action = agent.act(leaves, action_mask=None, seat_ids=np.arange(200), rng=rng)
        return {ACTIONS[number] for number in action[:, 0]}

    return decide


def test_agents_leave_the_line_of_a_bomb(match, chosen):
    """To the sides, or away from it."""
    assert chosen(match().agent(0, 5, 5).bomb(5, 6, strength=3)) == {"up", "down", "left"}


def test_agents_ignore_bombs_that_are_out_of_reach(match, chosen):
    """They take the item."""
    assert chosen(match().agent(0, 5, 5).bomb(5, 9, strength=3).put("kick", (5, 6))) == {"right"}


def test_agents_leave_their_bomb_by_the_way_out(match, chosen):
    """The other directions are dead ends."""
    game = match().agent(0, 5, 5).bomb(5, 5, strength=4)
    game.put("rigid", (4, 5), (6, 5), (5, 3), (4, 4), (6, 4), (4, 6))
    assert chosen(game) == {"right"}


def test_agents_without_a_way_out_stay(match, chosen):
    """On their bomb."""
    assert chosen(match().agent(0, 5, 5).bomb(5, 5).put("rigid", (4, 5), (6, 5), (5, 4), (5, 6))) == {"stop"}


def test_agents_bomb_adjacent_enemies(match, chosen):
    """If they can get away."""
    assert chosen(match().agent(0, 5, 5).agent(1, 5, 6)) == {"bomb"}


def test_agents_without_ammunition_do_not_bomb(match, chosen):
    """They walk towards the enemy."""
    assert chosen(match().agent(0, 5, 5, ammo=0).agent(1, 5, 6)) == {"right"}


def test_agents_do_not_bomb_teammates(match, chosen):
    """They are no enemies."""
    assert "bomb" not in chosen(match(variant="team").agent(0, 5, 5).agent(2, 5, 6))


def test_agents_approach_enemies_within_three_steps(match, chosen):
    """Farther ones do not attract them."""
    assert chosen(match().agent(0, 5, 4).agent(1, 5, 7)) == {"right"}
    assert len(chosen(match().agent(0, 5, 4).agent(1, 5, 8))) > 1


def test_agents_attack_in_one_direction_half_of_the_time(match, chosen):
    """If it was the last one; else they walk at random."""
    assert chosen(match().agent(0, 5, 4).agent(1, 5, 7), state={"last": 4}) == {"up", "down", "left", "right"}


def test_agents_take_items_within_two_steps(match, chosen):
    """By a shortest way; there may be two."""
    assert chosen(match().agent(0, 5, 5).put("range", (6, 6))) == {"down", "right"}
    assert chosen(match().agent(0, 5, 5).put("range", (6, 6)).put("rigid", (6, 5))) == {"right"}


def test_agents_bomb_wood(match, chosen):
    """If they can get away; else they stay."""
    assert chosen(match().agent(0, 5, 5).put("wood", (5, 6))) == {"bomb"}
    assert chosen(match().agent(0, 5, 5, ammo=0).put("wood", (5, 6))) == {"stop"}
    boxed = match().agent(0, 5, 5).put("wood", (5, 6)).put("rigid", (4, 5), (6, 5), (5, 4))
    assert chosen(boxed) == {"stop"}


def test_agents_walk_to_wood_within_two_steps(match, chosen):
    """Unless the way leads into the line of a bomb."""
    assert chosen(match().agent(0, 5, 5).put("wood", (5, 7))) == {"right"}
    assert "right" not in chosen(match().agent(0, 5, 5).put("wood", (5, 7)).bomb(7, 6, strength=3))


def test_agents_walk_about(match, chosen):
    """To cells that they have not visited, away from lines of bombs; they stay if nothing else is possible."""
    assert chosen(match().agent(0, 5, 5)) == {"up", "down", "left", "right"}
    visited = {"recent": [0, 0, 0, 4 * 13 + 6 + 13, 6 * 13 + 6 + 13, 0]}
    assert chosen(match().agent(0, 5, 5), state=visited) == {"left", "right"}
    assert chosen(match().agent(0, 5, 5).put("rigid", (4, 5), (6, 5), (5, 4), (5, 6))) == {"stop"}


def test_fog_is_a_way_out(match, chosen):
    """Cells that are not seen may be free."""
    game = match(variant="team", view=1).agent(0, 5, 5).bomb(5, 5).put("rigid", (4, 4), (4, 6), (6, 4), (6, 6))
    assert chosen(game) == {"stop"}
    assert chosen(match(variant="team", view=1).agent(0, 5, 5).bomb(5, 6).put("rigid", (4, 5), (6, 5))) == {"left"}


def test_states_belong_to_seats(match):
    """A seat that was reset has forgotten its last attack."""
    game = match().agent(0, 5, 4).agent(1, 5, 7).step()
    agent = SimpleAgent(None, spec=game.environment.spec, role="player")
    leaves = {name: np.repeat(leaf[:, 0], 2, axis=0) for name, leaf in game.seen.observation.items()}
    agent.act(leaves, action_mask=None, seat_ids=np.array([3, 8]), rng=np.random.default_rng(0))
    agent.reset(np.array([3]))
    assert agent._states["last"][[3, 8]].tolist() == [0, 4]


@pytest.mark.parametrize(("variant", "width"), [("team", 1), ("radio", 3)])
def test_actions_have_the_labels_of_the_variant(match, variant, width):
    """With radio, scripted agents send zeros."""
    game = match(variant=variant)
    leaves = {name: leaf[0] for name, leaf in game.seen.observation.items()}
    for make in (SimpleAgent, StopAgent):
        agent = make(None, spec=game.environment.spec, role="player")
        action = agent.act(leaves, action_mask=None, seat_ids=np.arange(4), rng=np.random.default_rng(0))
        assert action.shape == (4, width)
        assert (action[:, 1:] == 0).all()


@pytest.mark.parametrize(
    ("row", "matches"), [(0, 512), (2, 64), (3, 24), (5, 32)], ids=lambda value: TABLE[value].name if value < 6 else ""
)
def test_matches_agree_with_the_table(row, matches):
    """Lengths and results differ by chance only."""
    line = TABLE[row]
    found = deviations(line, play(line.variant, line.agents, matches=matches, seed=1))
    assert max(map(abs, found.values())) < 3.5, found


def test_deviations_find_differences():
    """In lengths and in shares."""
    row = Row(name="", variant="ffa", agents=("random",) * 4, games=1000, length=24, shares={"0": 0.9, "tie": 0.03})
    found = deviations(row, play("ffa", row.agents, matches=128))
    assert found["0"] < -10
    assert abs(found["tie"]) < 3


def test_agents_are_registered():
    """For this environment only."""
    components = ludus_register_agents()
    assert [component.name for component in components] == ["pommerman-simple", "pommerman-random", "pommerman-stop"]
    for component in components:
        assert component.environments == ("pommerman",)
        component.load_factory()
