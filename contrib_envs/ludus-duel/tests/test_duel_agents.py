"""The scripted fighters: how strong they are, that they follow their rules, and that nothing simple beats them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from attrs import fields
from ludus.runs import score
from ludus_duel.actions import ACTIONS, NUMBER
from ludus_duel.bot import DuelBot, RandomAgent
from ludus_duel.config import BotConfig, DuelConfig, RandomConfig
from ludus_duel.environment import SCENARIOS, Duel
from ludus_duel.plugin import ludus_register_agents

SPEC = Duel(DuelConfig(), num_matches=1).spec


def bot(strength):
    """Return a scripted fighter."""
    return DuelBot(BotConfig(strength=strength), spec=SPEC, role="fighter")


def random_agent(idle=0.5):
    """Return a random fighter."""
    return RandomAgent(RandomConfig(idle=idle), spec=SPEC, role="fighter")


class Constant:
    """Repeats one action per match whenever it is legal."""

    def __init__(self, actions):
        self.actions = actions

    def act(self, observation, *, action_mask, seat_ids, rng):
        wanted = self.actions[seat_ids // 2]
        legal = action_mask[np.arange(len(seat_ids)), wanted]
        return np.where(legal, wanted, 0)[:, None]

    def reset(self, seat_ids):
        pass


def fight(one, other, *, matches, seed=0):
    """Return the points ``[matches]`` of `one`; it plays seat 0 of even matches and seat 1 of odd ones."""
    environment, rng = Duel(DuelConfig(), num_matches=matches), np.random.default_rng(seed)
    tick = environment.reset(np.arange(matches, dtype=np.uint64) + np.uint64(seed))
    seats, points = np.arange(matches) % 2, np.full(matches, np.nan)
    for agent in (one, other):
        agent.reset(np.arange(2 * matches))
    while np.isnan(points).any():
        fighter = tick.roles["fighter"]
        actions = np.zeros((matches, 2, 1), np.int64)
        for agent, own in ((one, seats), (other, 1 - seats)):
            rows = np.flatnonzero(fighter.acting[np.arange(matches), own])
            if rows.size:
                seen = fighter.observation["obs"][rows, own[rows]]
                mask = fighter.action_mask[rows, own[rows]]
                actions[rows, own[rows]] = agent.act(
                    {"obs": seen}, action_mask=mask, seat_ids=2 * rows + own[rows], rng=rng
                )
        tick = environment.step({"fighter": actions})
        ended = np.flatnonzero(tick.terminated)
        points[ended] = tick.outcome[ended, seats[ended]]
    return points


def interval(points):
    """Return the 95 % interval of a score."""
    counted = score(int((points == 1).sum()), int((points == 0.5).sum()), int((points == 0).sum()))
    return counted.low, counted.high


def test_weak_beats_random():
    """The lower bound of the 95 % interval of its score is over 0.9."""
    assert interval(fight(bot("weak"), random_agent(), matches=512))[0] > 0.9


def test_strong_beats_weak():
    """The lower bound of the 95 % interval of its score is over 0.8."""
    assert interval(fight(bot("strong"), bot("weak"), matches=256))[0] > 0.8


def test_equal_bots_score_one_half():
    """Neither seat has an advantage between two strong bots."""
    low, high = interval(fight(bot("strong"), bot("strong"), matches=256))
    assert low < 0.5 < high


def test_no_single_action_beats_the_strong_bot():
    """Each action, repeated whenever it is legal, scores at most 0.3."""
    matches = 24
    actions = np.repeat(np.arange(len(ACTIONS)), matches)
    points = fight(Constant(actions), bot("strong"), matches=len(actions)).reshape(len(ACTIONS), matches)
    shares = dict(zip(ACTIONS, points.mean(axis=1), strict=True))
    assert {name: share for name, share in shares.items() if share > 0.3} == {}


@pytest.mark.parametrize("agent", [bot("weak"), bot("strong"), random_agent()])
def test_agents_choose_legal_actions(agent):
    """The environment raises for any other action."""
    assert len(fight(agent, random_agent(idle=0.0), matches=32)) == 32


def test_the_bot_depends_on_its_generator_alone():
    """The same seed gives the same matches, also for a bot that has played before."""
    used = bot("strong")
    first, again = (fight(used, bot("weak"), matches=8, seed=1).tolist() for _ in range(2))
    assert first == again


def observe(ring, agent, seat, *, tries=400):
    """Return how often a fresh agent chooses each action in the current situation of a seat."""
    seen = np.repeat(ring.seen.observation["obs"][:, seat], tries, axis=0)
    mask = np.repeat(ring.seen.action_mask[:, seat], tries, axis=0)
    agent.reset(np.arange(tries))
    chosen = agent.act({"obs": seen}, action_mask=mask, seat_ids=np.arange(tries), rng=np.random.default_rng(0))
    return {ACTIONS[n]: count / tries for n, count in enumerate(np.bincount(chosen[:, 0], minlength=36)) if count}


def test_the_strong_bot_parries_late(ring):
    """Two ticks before a heavy attack lands, it parries on the correct side in about half of all cases."""
    chosen = observe(ring().step("heavy-right").step(times=5), bot("strong"), 1)
    assert 0.35 < chosen["parry-right"] < 0.6
    assert "parry-left" not in chosen
    assert chosen["dodge-left"] > 0.1


@pytest.mark.parametrize(("strength", "ticks"), [("weak", 3), ("strong", 1)])
def test_the_bot_has_a_reaction_time(ring, strength, ticks):
    """300 ms or 100 ms; before that it acts as if the opponent were free."""
    fight = ring().step("heavy-right").step(times=ticks - 1)
    assert observe(fight, bot(strength), 1).get("stance-right", 0) > 0.3
    if ticks > 1:
        early = ring().step("heavy-right").step(times=ticks - 2)
        assert observe(early, bot(strength), 1).get("stance-right", 0) < 0.1


def test_the_bot_punishes_openings(ring):
    """It attacks a parried opponent."""
    fight = ring().step("heavy-left").step(times=5).step(second="parry-left").step()
    chosen = observe(fight, bot("strong"), 1)
    assert sum(share for name, share in chosen.items() if name.startswith("light")) > 0.7


def test_the_bot_counters_guard_breaks(ring):
    """The strong bot counters more often than the weak one."""
    held = ring(distance=150).step("guard-break").step(times=3)
    weak, strong = (observe(held, bot(strength), 1)["counter"] for strength in ("weak", "strong"))
    assert 0.3 < weak < 0.5 < strong < 0.8


def test_the_bot_draws_one_plan_per_attack(ring):
    """The plan against an attack is drawn once, not on every tick."""
    fight = ring().step("heavy-left").step()
    agent, seat_ids, rng = bot("strong"), np.arange(200), np.random.default_rng(0)
    plans = []
    for _ in range(3):
        view = {"obs": np.repeat(fight.seen.observation["obs"][:, 1], 200, axis=0)}
        mask = np.repeat(fight.seen.action_mask[:, 1], 200, axis=0)
        plans.append(agent.act(view, action_mask=mask, seat_ids=seat_ids, rng=rng)[:, 0] == NUMBER["stance-left"])
        fight.step()
    assert plans[0].sum() > 100
    assert plans[2].sum() < 195
    assert (plans[0] & ~plans[1]).sum() <= 4  # a bot that ignores the attack may change its stance


def test_the_bot_learns_how_often_heavy_attacks_are_feints(ring):
    """After feints it dodges back from the next heavy attack; after real heavy attacks, or nothing, it does not."""
    feint = ring().step("heavy-left").step(times=3).step("feint")
    meant = ring().step("heavy-left").step(times=6)
    heavy, seat_ids, rng = ring().step("heavy-right").step(), np.arange(200), np.random.default_rng(0)

    def stepping_back(*shown, agent):
        agent.reset(seat_ids)
        for fight in (*shown, heavy):
            view = {"obs": np.repeat(fight.seen.observation["obs"][:, 1], 200, axis=0)}
            mask = np.repeat(fight.seen.action_mask[:, 1], 200, axis=0)
            chosen = agent.act(view, action_mask=mask, seat_ids=seat_ids, rng=rng)
        return (chosen == NUMBER["dodge-back"]).mean()

    agent, idle = bot("strong"), ring()
    wary = stepping_back(feint, idle, feint, idle, feint, agent=agent)
    assert wary > 0.5
    assert stepping_back(feint, idle, feint, idle, feint, meant, meant, meant, agent=agent) < wary - 0.2
    assert stepping_back(agent=agent) < 0.05


def test_the_random_agent_waits_with_the_given_probability(ring):
    """It draws every other legal action about equally often."""
    chosen = observe(ring(), random_agent(idle=0.25), 0, tries=4000)
    assert 0.22 < chosen["wait"] < 0.28
    others = [chosen[name] for name in ring().legal() - {"wait"}]
    assert max(others) < 3 * min(others)


def test_agents_are_for_this_game():
    """The components name the environment `duel`."""
    assert {agent.name: agent.environments for agent in ludus_register_agents()} == {
        "duel-bot": ("duel",),
        "duel-random": ("duel",),
    }


def test_the_readme_names_everything():
    """The README names all actions, scenarios and options."""
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    names = [
        *ACTIONS,
        *SCENARIOS,
        *(each.name for kind in (DuelConfig, BotConfig, RandomConfig) for each in fields(kind)),
    ]
    assert [name for name in names if f"`{name}`" not in text] == []
