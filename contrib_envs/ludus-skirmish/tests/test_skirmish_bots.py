"""Scripted armies: stronger ones win, they play by the masks, and decide for armies as for single units."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_skirmish.actions import DIRECTIONS, choice_name
from ludus_skirmish.bot import SkirmishBot
from ludus_skirmish.config import BotConfig, SkirmishConfig
from ludus_skirmish.environment import Skirmish
from ludus_skirmish.plugin import ludus_register_agents
from ludus_skirmish.table import mean_score


def choose(match, strength, side=0):
    """Return the names of the choices of all units of a side."""
    seen = match.seen
    bot = SkirmishBot(BotConfig(strength=strength), spec=match.environment.spec, role="army")
    leaves = {name: leaf[:, side] for name, leaf in seen.observation.items()}
    mask, rng = seen.action_mask[:, side], np.random.default_rng(0)
    return [choice_name(n) for n in bot.act(leaves, action_mask=mask, seat_ids=np.array([side]), rng=rng)[0].tolist()]


@pytest.mark.parametrize("battle", ["5i", "3i2z", "mab"])
@pytest.mark.parametrize(("first", "second"), [(1, 0), (2, 1), (3, 2)])
def test_stronger_bots_win(battle, first, second):
    """Against the next weaker one."""
    assert mean_score(first, second, battle=battle, matches=64) > 0.54


def test_the_weakest_attacks_the_nearest(field):
    """With every unit that has a target; the others stop."""
    match = field([("archer", 12, 12), ("brute", 12, 14)], [("flyer", 15, 12)])
    assert choose(match, 1)[:3] == ["attack", "stop", "stop"]


def test_fire_is_focused_on_the_weakest(field):
    """The enemy in reach that needs the fewest attacks, though another is nearer."""
    match = field([("archer", 12, 11), ("archer", 12, 13)], [("brute", 15, 12), ("archer", 16, 12)])
    assert choose(match, 2)[:2] == ["attack:1", "attack:1"]


def test_fire_on_enemies_out_of_reach(field):
    """The nearest one."""
    match = field([("archer", 2, 12)], [("brute", 15, 12), ("runner", 18, 12)])
    assert choose(match, 2)[0] == "attack:0"


def test_ranged_units_step_back_while_they_wait(field):
    """From a melee unit close to them; ready ones attack."""
    match = field([("archer", 12, 12)], [("runner", 13.5, 12)]).put(0, wait=3)
    assert choose(match, 2)[0] == "attack:0"
    assert choose(match, 3)[0] == "move:w"
    assert choose(match.put(0, wait=1), 3)[0] == "attack:0"


def test_only_wounded_units_step_back_from_equals(field):
    """Those without shield and with little health."""
    match = field([("walker", 10, 12)], [("walker", 15, 12)]).put(0, wait=4)
    assert choose(match, 3)[0] == "attack:0"
    assert choose(match.put(0, shield=0.0, health=60.0), 3)[0] == "move:w"


def test_retreats_avoid_edges(field):
    """A unit at an edge leaves along it."""
    match = field([("archer", 1, 12)], [("runner", 2.5, 11)]).put(0, wait=3)
    assert choose(match, 3)[0] in {f"move:{name}" for name in DIRECTIONS if "w" not in name}


def test_units_decide_as_their_army():
    """The same bot as 50 seats and as two."""
    armies = Skirmish(SkirmishConfig(battle="mab"), num_matches=2)
    units = Skirmish(SkirmishConfig(battle="mab", seats="unit"), num_matches=2)
    config, rng = BotConfig(strength=3), np.random.default_rng(0)
    army = SkirmishBot(config, spec=armies.spec, role="army")
    unit = SkirmishBot(config, spec=units.spec, role="unit")
    seeds = np.arange(2, dtype=np.uint64)
    one, other = armies.reset(seeds).roles["army"], units.reset(seeds).roles["unit"]
    for _ in range(40):
        whole = {name: leaf.reshape(4, *leaf.shape[2:]) for name, leaf in one.observation.items()}
        single = {name: leaf.reshape(100, *leaf.shape[2:]) for name, leaf in other.observation.items()}
        joint = army.act(whole, action_mask=one.action_mask.reshape(4, -1), seat_ids=np.arange(4), rng=rng)
        each = unit.act(single, action_mask=other.action_mask.reshape(100, -1), seat_ids=np.arange(100), rng=rng)
        np.testing.assert_array_equal(joint.ravel(), each.ravel())
        one = armies.step({"army": joint.reshape(2, 2, 25)}).roles["army"]
        other = units.step({"unit": each.reshape(2, 50, 1)}).roles["unit"]


def test_the_bot_is_registered():
    """For this environment only."""
    (component,) = ludus_register_agents()
    assert (component.name, component.environments) == ("skirmish-bot", ("skirmish",))
    component.load_factory()
