"""Replays of every own deterministic game equal their records."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._replays.files import ReplayFolder, ReplayWriter
from ludus._replays.player import ReplayPlayer
from ludus._replays.recorder import ReplayRecorder
from ludus._sampling.actors import make_agent_actor
from ludus._sampling.evaluation import play_out
from ludus.agent import RandomAgent
from ludus.errors import UnknownComponent
from ludus.installed import open_game
from ludus.records import Fixture

SHORT_CHASE = ("chase.preparation_s=0.0", "chase.push_s=3.0", "chase.escape_s=1.0")
GAMES = {
    "tictactoe": (),
    "connect4": (),
    "pong2p": (),
    "duel": (),
    "chase": SHORT_CHASE,
    "moba": ("moba.time_limit_s=15.0",),
    "pommerman": (),
    "skirmish": (),
}
MATCHES = 4


def record_matches(environment, folder):
    """Play matches of two fixtures between random agents; return their results and replays."""
    spec, rng = environment.spec, np.random.default_rng(0)
    actors = [make_agent_actor(RandomAgent(None, spec=spec, role=seat.role), rng) for seat in spec.seats]
    fixtures = [
        Fixture(
            id=number,
            kind="eval",
            player="",
            participants=("random",) * len(spec.seats),
            seed=40 + number,
            matches=MATCHES // 2,
            reason="test",
        )
        for number in (1, 2)
    ]
    recorder = ReplayRecorder(spec, environment.num_matches, ReplayWriter(folder, "evaluator-0", 2**24).write)
    results = play_out(environment, fixtures, lambda fixture, seat: (actors[seat], 0), replays=recorder)
    recorder.flush()
    return results, [replay for block in ReplayFolder(folder).blocks() for replay in block.replays()]


@pytest.mark.parametrize("name", GAMES)
def test_replays_equal_their_records(name, tmp_path):
    """In a batch of another size, at other match indices, also where roles and seats differ."""
    try:
        game = open_game(name, overrides=GAMES[name])
    except UnknownComponent:
        pytest.skip(f"{name} is not installed")
    environment = game.make_environment(2)
    results, replays = record_matches(environment, tmp_path)
    environment.close()
    assert sorted(replay.name for replay in replays) == sorted(f"{f}.{n}" for f in (1, 2) for n in range(MATCHES // 2))
    by_name = {f"{f}.{n}": i for i, (f, n) in enumerate(zip(results["fixture"], results["number"], strict=True))}
    for replay in replays:
        assert replay.ticks == results["ticks"][by_name[replay.name]]
        assert replay.outcome == tuple(results["outcome"][by_name[replay.name]].tolist())
    environment = game.make_environment(3)
    player = ReplayPlayer(environment)
    assert player.find_differences(replays) == [""] * MATCHES
    assert any(player.find_differences([replay for replay in replays if change_action(replay)]))  # some change nothing
    environment.close()


def change_action(replay):
    """Exchange the first actions of a role that differ, and return whether there were any."""
    for actions in replay.actions.values():
        differing = np.flatnonzero((actions != actions[:1]).any(axis=1))
        if differing.size:
            actions.flags.writeable = True
            actions[[0, differing[0]]] = actions[[differing[0], 0]]
            return True
    return False
