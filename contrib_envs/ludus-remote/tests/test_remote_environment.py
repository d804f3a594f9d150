"""The environment keeps the contract, and survives what games do."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count

import attrs
import msgpack
import numpy as np
import pytest
from click.testing import CliRunner
from ludus.environment import Scenario
from ludus.errors import ConfigError, ContractError, WorkerError
from ludus.rendering import enable_rendering
from ludus.spaces import random_actions
from ludus.testing import check_environment
from ludus_remote.command import remote_schema
from ludus_remote.config import RemoteConfig
from ludus_remote.environment import RemoteEnvironment
from ludus_remote.plugin import ludus_register_environments
from ludus_remote.programs import COMMANDS_VARIABLE
from ludus_remote.schema import read_schema_file


class Player:
    """Plays random legal actions, and starts matches again that end or are void."""

    def __init__(self, environment):
        self.environment = environment
        self.rng = np.random.default_rng(0)
        self.tick = environment.reset(np.arange(environment.num_matches, dtype=np.uint64))
        self.ended = self.void = self.late = 0

    def actions(self):
        """Return random legal actions."""
        role, tick = self.environment.spec.roles[0], self.tick.roles["player"]
        mask = (tick.action_mask | ~tick.acting[..., None]).reshape(-1, 3)
        return random_actions(role.action_space, len(mask), self.rng, mask=mask).reshape(*tick.acting.shape, 1)

    def step(self):
        """Step once; return the tick before matches start again."""
        self.tick = tick = self.environment.step({"player": self.actions()})
        ended = tick.terminated | tick.truncated
        self.ended += int(ended.sum())
        self.late += tick.roles["player"].statistics.get("late_actions", np.zeros(ended.size))[ended].sum()
        self.void += int(tick.void.sum())
        copy = attrs.evolve(tick, elapsed_ticks=tick.elapsed_ticks.copy(), void=tick.void.copy())
        indices = (ended | tick.void).nonzero()[0]
        if indices.size:
            self.environment.reset(indices.astype(np.uint64), indices=indices)
        return copy


def test_the_environment_keeps_the_contract(options):
    """Over several matches of games in processes of their own."""
    (component,) = ludus_register_environments()
    check_environment(component, steps=15, options=options(matches=3))


def test_games_send_frames_where_they_are_watched(open_environment):
    """Those of the last message of a match; others send none."""
    with enable_rendering():
        watched = open_environment(1)
    other = open_environment(1)
    for environment, captions in ((watched, ["round 0", "round 1"]), (other, [])):
        player = Player(environment)
        frames = [environment.render_frame(0)]
        player.step()
        frames.append(environment.render_frame(0))
        assert [frame.caption for frame in frames if frame is not None] == captions


def test_matches_are_shared_among_games(open_environment):
    """Each game has as many as it offers, and all advance together."""
    environment = open_environment(4, matches=2, games=2)
    player = Player(environment)
    assert sorted(len(game.session.matches) for game in environment._gateway.games.values()) == [2, 2]
    for _ in range(5):
        elapsed = player.step().elapsed_ticks
    assert player.ended == 4
    assert elapsed.tolist() == [2, 2, 2, 2]


def test_a_match_is_void_when_its_game_crashes(open_environment, caplog):
    """It starts again in another process, and nothing else is lost."""
    player = Player(open_environment(1, behaviour="8"))
    for _ in range(40):
        player.step()
        if player.void:
            break
    assert (player.ended, player.void) == (1, 1)
    assert player.tick.roles["player"].acting.all()
    assert "status 3" in caplog.text


def test_a_match_is_void_when_its_game_hangs(open_environment):
    """The process is killed after step_timeout_s."""
    environment = open_environment(1, step_timeout_s=1.0)
    player = Player(environment)
    pid = environment._programs._programs[0].process.pid
    os.kill(pid, signal.SIGSTOP)
    player.step()
    assert player.void == 1
    assert environment._programs._programs[0].process.pid != pid


def test_a_game_that_uses_too_much_memory_is_restarted(open_environment, caplog):
    """Its match is void or starts again, and others go on."""
    environment = open_environment(1)
    player = Player(environment)
    environment._programs.memory_bytes = 1 << 20
    pid = environment._programs._programs[0].process.pid
    while environment._programs._programs[0].process.pid == pid:
        player.step()
    environment._programs.memory_bytes = 1 << 40
    assert "memory_mb" in caplog.text
    ended = player.ended
    while player.ended == ended:
        player.step()


def test_a_game_that_ends_at_once_is_one_line(options, monkeypatch):
    """After a few starts; the line names the command."""
    chosen = options(connect_timeout_s=30.0, restarts=1) | {"command": (sys.executable, "-c", "raise SystemExit(7)")}
    monkeypatch.setenv(COMMANDS_VARIABLE, f"{sys.executable} -c 'raise SystemExit(7)'")
    with pytest.raises(WorkerError, match=r"status 7.*raise SystemExit"):
        RemoteEnvironment(RemoteConfig(**chosen), num_matches=1)


def test_a_command_needs_permission(options, monkeypatch):
    """A run file alone starts nothing."""
    chosen = options()
    monkeypatch.delenv(COMMANDS_VARIABLE)
    with pytest.raises(ConfigError, match="not allowed on this machine"):
        RemoteEnvironment(RemoteConfig(**chosen), num_matches=1)


def test_a_file_of_the_user_allows_a_command(options, monkeypatch, tmp_path):
    """It lies beside the file of trusted modules."""
    chosen = options()
    (tmp_path / "ludus").mkdir()
    (tmp_path / "ludus" / "remote_commands.txt").write_text(os.environ[COMMANDS_VARIABLE] + "\n")
    monkeypatch.delenv(COMMANDS_VARIABLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with closing(RemoteEnvironment(RemoteConfig(**chosen), num_matches=1)) as environment:
        assert environment.spec.roles[0].name == "player"


def test_games_end_with_their_environment(open_environment):
    """No process is left."""
    environment = open_environment(1)
    process = environment._programs._programs[0].process
    environment.close()
    assert process.poll() is not None


def test_a_game_that_connects_at_the_end_is_disconnected(open_gateway, open_peer):
    """Also if its connection is accepted while the gateway stops."""
    gateway, is_connected = open_gateway(), threading.Event()
    loop = gateway._loop

    def stop_after_the_accept():
        assert is_connected.wait(5.0)
        loop.call_soon(loop.call_soon, gateway._stop)  # the loop accepts before it makes the second call

    loop.call_soon_threadsafe(stop_after_the_accept)
    peer = open_peer(gateway.port)
    is_connected.set()
    gateway._thread.join(5.0)
    with pytest.raises(ConnectionError):
        peer.receive()


def test_missing_games_are_one_line(monkeypatch):
    """It names the address, and what to do."""
    monkeypatch.setenv("LUDUS_REMOTE_TOKENS", "a-token-of-a-game-1")
    with pytest.raises(
        WorkerError, match=r"no game has connected within 1 s; games connect to 127.0.0.1:\d+; start the"
    ):
        RemoteEnvironment(RemoteConfig(port=47_210, connect_timeout_s=1.0), num_matches=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "port: expected the port"),
        ({"port": 47_220}, "tokens: LUDUS_REMOTE_TOKENS: expected at least one token"),
        ({"port": 47_220, "tokens": "no-such-file"}, "tokens: no-such-file"),
        ({"port": 47_220, "schema": "no-such-file"}, "schema: no-such-file"),
        ({"port": 47_220, "mode": "real-time", "delay": 9}, "max_age: expected at least the delay of 9"),
    ],
)
def test_wrong_options_are_one_line(changes, message, monkeypatch):
    """Before a port is opened."""
    monkeypatch.delenv("LUDUS_REMOTE_TOKENS", raising=False)
    with pytest.raises(ConfigError, match=message):
        RemoteEnvironment(RemoteConfig(**changes), num_matches=1)


def test_scenarios_reach_the_game(open_environment):
    """With their parameters; others are refused before anything is sent."""
    environment = open_environment(1)
    seeds = np.zeros(1, np.uint64)
    prize = environment.reset(seeds).roles["player"].observation["obs"][0, 0, 2].item()
    rich = Scenario(name="rich", parameters={"prize": 3.0})
    assert environment.reset(seeds, scenarios=[rich]).roles["player"].observation["obs"][0, 0, 2] == 3 * prize
    with pytest.raises(ContractError, match="poor"):
        environment.reset(seeds, scenarios=[Scenario(name="poor")])


def test_a_schema_file_replaces_the_first_game(options, monkeypatch, tmp_path, script):
    """The command writes it from a running game; another game is refused then."""
    path = tmp_path / "schema.json"
    chosen = options(connect_timeout_s=2.0)
    with closing(RemoteEnvironment(RemoteConfig(**chosen), num_matches=1)) as environment:
        data = environment.schema.data
    monkeypatch.setattr("ludus_remote.command.RemoteConfig", lambda **_: RemoteConfig(**chosen))
    result = CliRunner().invoke(remote_schema, [str(path), "--port", "47230"], catch_exceptions=False)
    assert result.output == f"wrote {path}: player; 2 seats\n"
    assert read_schema_file(path).difference(data) == ""
    path.write_text(path.read_text().replace('"wins"', '"losses"'))
    expected = pytest.raises(WorkerError, match=r"the schema differs from that of the run: roles.0.statistics.0")
    config = RemoteConfig(**chosen, schema=str(path))
    with closing(RemoteEnvironment(config, num_matches=1)) as environment, expected:
        environment.reset(np.zeros(1, np.uint64))


def test_an_action_names_the_observation_that_it_was_chosen_from(open_peer, script, tmp_path, monkeypatch):
    """Not one that has arrived meanwhile, which the next step answers."""
    monkeypatch.setenv("LUDUS_REMOTE_TOKENS", script["TOKEN"])
    (tmp_path / "schema.json").write_text(json.dumps(script["SCHEMA"]))
    config = RemoteConfig(port=47_240, mode="real-time", period=1, schema=str(tmp_path / "schema.json"))
    with closing(RemoteEnvironment(config, num_matches=1)) as environment, ThreadPoolExecutor(1) as thread:
        gateway, legal = environment._gateway, {"duelist": np.ones((1, 2, 2), np.float32)}
        peer = open_peer(gateway.port)
        observe = (script["observation"](seq, 1, 1, seq - 1, script["entry"](0, float(seq))) for seq in count(1))
        started = thread.submit(environment.reset, np.zeros(1, np.uint64))
        peer.send(msgpack.packb(script["hello"]()))
        assert [peer.receive()["type"] for _ in range(2)] == ["welcome", "match_start"]
        peer.send(msgpack.packb(next(observe)))
        started.result()
        for tick in range(3):
            peer.send(msgpack.packb(next(observe)))
            while not gateway.updates:
                time.sleep(0.001)
            seen = environment.step(legal).roles["duelist"]
            answer = peer.receive()
            assert (answer["tick"], [one["seat"] for one in answer["actions"]]) == (tick, [0])
            assert seen.acting.tolist() == [[True, False]]
            assert seen.observation["position"][0, 0, 0] == tick + 2


def test_a_real_time_game_does_not_wait(open_environment):
    """Its seats decide every period, and the ticks that pass are those of the game."""
    environment = open_environment(1, mode="real-time", period=5, delay=2, max_age=5)
    assert not environment.spec.repeatable
    player, decisions, elapsed = Player(environment), 0, 0
    while player.ended < 2:
        decisions += int(player.tick.roles["player"].acting.sum())
        tick = player.step()
        elapsed += int(tick.elapsed_ticks.sum())
    assert 60 <= elapsed <= 100  # two matches of five rounds of ten ticks; those before the first decision are left out
    assert 8 <= decisions <= 40  # every five ticks; those that come together are one


def test_late_actions_are_dropped_and_counted(open_environment):
    """A game that goes on while actions are under way drops those that are too old."""
    environment = open_environment(1, mode="real-time", behaviour="late", period=5, delay=0, max_age=2)
    player, dropped = Player(environment), 0
    while not player.ended:
        dropped += int(player.step().roles["player"].dropped.sum())
    assert player.late >= dropped >= 4  # every second action comes four ticks after its observation
    assert environment.spec.roles[0].statistics == ("wins", "late_actions")
