"""Deathmatches against bots and between players, with real engines."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from ludus.environment import Scenario, Tick
from ludus.errors import WorkerError
from ludus.testing import check_environment
from ludus_vizdoom.config import DeathmatchConfig
from ludus_vizdoom.deathmatch import PARTS, ROLE, bot_names, make_environment
from ludus_vizdoom.party import free_port
from ludus_vizdoom.plugin import ludus_register_environments

SMALL = {"height": 24, "width": 32}


@pytest.fixture
def make():
    """Make environments, and close them after the test."""
    made = []

    def make_one(num_matches=1, **options):
        made.append(make_environment(DeathmatchConfig(**SMALL, **options), num_matches=num_matches))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def start(env, *seeds, builtin=()) -> Tick:
    """Start all matches."""
    return env.reset(np.array(seeds, np.uint64), scenarios=[Scenario(builtin=builtin)] * len(seeds))


def play(env, ticks, *, seed=0) -> list[np.ndarray]:
    """Play random actions for some ticks, or until all matches end, and return the screens and statistics."""
    role = env.spec.roles[0]
    role.action_space.seed(seed)
    seen = []
    for _ in range(ticks):
        choices = [role.action_space.sample() for _ in range(role.num_seats)]
        tick = env.step({ROLE: np.broadcast_to(np.array(choices), (env.num_matches, *np.shape(choices)))})
        seen.append(tick.roles[ROLE].observation["screen"].copy())
        if (tick.terminated | tick.truncated).all():
            break
    return seen


@pytest.mark.slow
def test_keeps_the_contract_against_bots():
    """The kit finds no violation, also in another process."""
    environment = ludus_register_environments()[1]
    check_environment(environment, options={"bots": 2, "time_limit_s": 1.0, **SMALL}, steps=10)


def test_bots_play_and_frags_are_counted(make):
    """The reward of frags is their statistic, and bots kill a player that moves at random."""
    env = make(bots=6, time_limit_s=40.0, frame_skip=10, damage_taken=-0.01)
    tick = start(env, 1)
    total = dict.fromkeys(PARTS, 0.0)
    role = env.spec.roles[0]
    role.action_space.seed(0)
    while not tick.terminated.any():
        tick = env.step({ROLE: role.action_space.sample()[None, None]})
        for part, values in tick.roles[ROLE].reward_parts.items():
            total[part] += float(values[0, 0])
    player = tick.roles[ROLE]
    assert total["frag"] == player.statistics["frags"][0, 0]
    assert total["damage_taken"] < -0.5
    assert player.statistics["deaths"][0, 0] >= 1
    assert tick.outcome[0, 0] in (0.0, 0.5, 1.0)
    assert player.observation["variables"][0, 0, -1] == 0.0  # no time is left
    assert env.spec.score == "return"


def test_equal_seeds_give_equal_deathmatches_of_players(make):
    """Two players and a bot: no order of packets decides on which tic an action takes effect."""
    env = make(2, players=2, bots=1)
    start(env, 5, 6)
    first = play(env, 30)
    start(env, 5, 6)
    again = play(env, 30)
    assert all((one == other).all() for one, other in zip(first, again, strict=True))
    assert (first[-1][0] != first[-1][1]).any()
    assert (first[-1][:, 0] != first[-1][:, 1]).any()


def test_three_players_end_a_match(make):
    """The match is terminated at its time, and points are given to the players with the most frags."""
    env = make(players=3, bots=0, time_limit_s=2.0)
    start(env, 5)
    assert len(play(env, 30)) == 18  # 70 tics in decisions of 4
    tick = env._arrays.tick
    assert tick.terminated.all()
    frags = tick.roles[ROLE].statistics["frags"][0]
    assert ((tick.outcome[0] > 0) == (frags == frags.max())).all()


def test_a_bot_of_the_game_plays_a_seat(make):
    """Its seat does not act, and its frags are counted by the server."""
    env = make(players=2, bots=0, frame_skip=10)
    tick = start(env, 3, builtin=("", "bot"))
    assert tick.roles[ROLE].acting.tolist() == [[True, False]]
    game = env._games._games[0]
    play(env, 5)
    server = game._party.games[0].get_server_state()
    assert server.player_count == 2
    assert game._bots[0] in bot_names()
    assert game._bots[0] in server.players_names
    start(env, 3, builtin=("bot", "bot"))
    assert len(play(env, 3)) == 3


def test_a_bot_that_plays_a_seat_is_rewarded_for_its_frags(make):
    """One against a player that never defends itself scores."""
    env = make(players=2, bots=0, frame_skip=35, time_limit_s=120.0, arguments=("+sv_respawnprotect 0",))
    tick = start(env, 3, builtin=("", "bot"))
    total = 0.0
    idle = np.zeros((1, 2, len(env.spec.roles[0].action_space.nvec)), np.int64)
    while not tick.terminated.any():
        tick = env.step({ROLE: idle})
        total += float(tick.roles[ROLE].reward[0, 1])
    assert total == tick.roles[ROLE].statistics["frags"][0, 1]
    assert total >= 1
    assert tick.outcome.tolist() == [[0.0, 1.0]]


def test_engines_that_do_not_start_in_time_are_one_line(make, monkeypatch):
    """All are killed, the host too, which waits for a player that does not come."""
    monkeypatch.setattr("ludus_vizdoom.party._ATTEMPTS", 1)
    monkeypatch.setattr("ludus_vizdoom.party.Party._configure_player", lambda self, game, **_: host_only(self, game))
    env = make(players=2, start_timeout_s=3.0)
    with pytest.raises(WorkerError, match="2 of 2 ViZDoom engines did not start within 3 s"):
        start(env, 1)


def host_only(party, game):
    """Set up a host for three players."""
    party._configure(game, 0)
    game.add_game_args(f"-host 3 -port {free_port()}")


def test_an_engine_that_stops_is_one_line(make, wait_for_end):
    """The other one would wait for it."""
    env = make(players=2, step_timeout_s=1.0, bots=0)
    start(env, 1)
    engine = env._games._games[0]._party._engines[1]
    os.kill(engine.processes()[0], signal.SIGSTOP)
    with pytest.raises(WorkerError, match="2 ViZDoom engines of a match did not advance within 1 s"):
        play(env, 1)
    wait_for_end(engine)
