"""Lost connections and killed gateways cost no result."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from ludus.spaces import random_actions
from ludus_remote.config import RemoteConfig
from ludus_remote.environment import RemoteEnvironment
from ludus_remote.payload import ProtocolError
from ludus_remote.setup import open_gateway

GAME = Path(__file__).with_name("rounds_game.py")
TOKEN = "a-token-of-a-game-1"
ENVIRONMENT = """
import sys
import numpy as np
from ludus_remote.config import RemoteConfig
from ludus_remote.environment import RemoteEnvironment
environment = RemoteEnvironment(RemoteConfig(port=int(sys.argv[1])), num_matches=2)
environment.reset(np.zeros(2, np.uint64))
print("playing", flush=True)
sys.stdin.read()
"""


def random_legal(environment, tick, rng):
    """Return random legal actions."""
    role, seats = environment.spec.roles[0], tick.roles["player"]
    mask = (seats.action_mask | ~seats.acting[..., None]).reshape(-1, 3)
    return {"player": random_actions(role.action_space, len(mask), rng, mask=mask).reshape(*seats.acting.shape, 1)}


def play(environment, steps, *, disturb=lambda number: None):
    """Play random actions; return all rewards, the number of results and of void matches."""
    rng = np.random.default_rng(0)
    tick, rewards, ended, void = environment.reset(np.arange(environment.num_matches, dtype=np.uint64)), [], 0, 0
    for number in range(steps):
        disturb(number)
        tick = environment.step(random_legal(environment, tick, rng))
        rewards.append(tick.roles["player"].reward.copy())
        over = tick.terminated | tick.truncated
        ended, void = ended + int(over.sum()), void + int(tick.void.sum())
        indices = (over | tick.void).nonzero()[0]
        if indices.size:
            tick = environment.reset(indices.astype(np.uint64), indices=indices)
    return np.array(rewards), ended, void


def test_a_lost_connection_changes_nothing(open_environment):
    """Matches go on where they were, with the same rewards and results."""
    environment = open_environment(2, matches=2)
    expected, ended, void = play(environment, 30)
    gateway = environment._gateway

    def cut(number):
        if number % 4 == 1:
            (game,) = gateway.games.values()
            gateway._loop.call_soon_threadsafe(game.connection._transport.abort)

    again, *counts = play(environment, 30, disturb=cut)
    np.testing.assert_array_equal(again, expected)
    assert counts == [ended, void] == [12, 0]


def test_a_protocol_error_in_mid_match_is_a_void_match(open_environment):
    """The game starts a new session, and plays the match again."""
    environment = open_environment(1)
    gateway = environment._gateway

    def refuse(number):
        if number == 7:
            (game,) = gateway.games.values()
            error = ProtocolError("value", "a test")
            gateway._loop.call_soon_threadsafe(game.connection.refuse, error)

    _, ended, void = play(environment, 40, disturb=refuse)
    assert void == 1
    assert ended >= 6


@pytest.fixture
def attached_game(monkeypatch, free_port):
    """Return the port of a game that runs already."""
    monkeypatch.setenv("LUDUS_REMOTE_TOKENS", TOKEN)
    game = subprocess.Popen([sys.executable, str(GAME), str(free_port), TOKEN, "2"])
    yield free_port
    game.kill()
    game.wait()


@pytest.fixture
def free_port():
    """Return a port that this worker of the tests has for itself."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return 47_400 + 40 * worker


def test_a_game_finds_the_gateway_after_the_first_was_killed(attached_game):
    """In mid-match: the game forgets its matches, and plays those of the new gateway."""
    command = [sys.executable, "-c", ENVIRONMENT, str(attached_game)]
    first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with first:
        assert first.stdout.readline() == "playing\n"
        first.kill()
    with closing(RemoteEnvironment(RemoteConfig(port=attached_game), num_matches=2)) as environment:
        _, ended, void = play(environment, 20)
    assert (ended, void) == (8, 0)


def test_several_gateways_share_a_range_of_ports(free_port, monkeypatch):
    """Each takes the first free one."""
    monkeypatch.setenv("LUDUS_REMOTE_TOKENS", TOKEN)
    gateways = [open_gateway(RemoteConfig(port=free_port), 1)[0] for _ in range(3)]
    assert [gateway.port - free_port for gateway in gateways] == [0, 1, 2]
    for gateway in gateways:
        gateway.close()
