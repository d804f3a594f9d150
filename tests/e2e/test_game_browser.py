"""The game of `examples/game-browser` trains in Node, and plays in real time in a browser."""

from __future__ import annotations

import functools
import http.server
import shlex
import shutil
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus_remote.config import RemoteConfig
from ludus_remote.environment import RemoteEnvironment
from ludus_remote.programs import COMMANDS_VARIABLE
from ludus_remote.setup import TOKENS_VARIABLE

ROOT = Path(__file__).parents[2]
TOKEN = "game-browser-token"
STAY, DOWN, UP, RIGHT = 8, 2, 6, 0


def need(name):
    """Return the path of a program; skip the test without it."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def aim(features):
    """Return the actions of a simple policy: go to the height of the opponent, then fire to the right."""
    above = features[..., 8] * 8
    move = np.where(above > 0.4, DOWN, np.where(above < -0.4, UP, RIGHT))
    return np.stack([move, move == RIGHT], axis=-1)


def legal(actions, mask):
    """Return actions that fire only where that is legal."""
    actions[..., 1] &= mask[..., 10]
    return actions


def test_matches_in_node(monkeypatch):
    """The scripted bot beats a fighter that stays, from both seats, and equal seeds give equal matches."""
    command = (need("node"), str(ROOT / "examples" / "game-browser" / "headless.js"), "{port}", "{token}", "4")
    monkeypatch.setenv(COMMANDS_VARIABLE, shlex.join(command))
    scenarios = [Scenario(builtin=("bot", "")), Scenario(builtin=("", "bot"))] * 2
    with closing(RemoteEnvironment(RemoteConfig(command=command), num_matches=4)) as environment:
        tick = environment.reset(np.array([1, 2, 1, 2], np.uint64), scenarios=scenarios)
        ended = np.zeros(4, bool)
        outcome = np.zeros((4, 2))
        returns = np.zeros((4, 2))
        for _ in range(300):
            features = tick.roles["fighter"].observation["features"][~ended]
            assert (features[: len(features) // 2] == features[len(features) // 2 :]).all()
            actions = np.full((4, 2, 2), [STAY, 0])
            tick = environment.step({"fighter": actions})
            returns += tick.roles["fighter"].reward
            outcome[tick.terminated] = tick.outcome[tick.terminated]
            ended |= tick.terminated
            if ended.all():
                break
    assert outcome.tolist() == [[1, 0], [0, 1]] * 2
    assert np.allclose(returns, [[1.75, -1.75], [-1.75, 1.75]] * 2)


@pytest.fixture
def page():
    """Serve the page; return its address."""
    serve = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(ROOT))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/examples/game-browser/?token={TOKEN}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def browser(page, tmp_path):
    """Run Chromium with the page, which connects to port 17700."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    program = subprocess.Popen([need("chromium"), *options, f"{page}&url=ws://127.0.0.1:17700/"])
    yield
    program.terminate()
    program.wait()


@pytest.mark.slow
def test_a_match_in_the_browser(browser, monkeypatch):
    """A policy that decides in real time beats a person who does not touch the keyboard."""
    monkeypatch.setenv(TOKENS_VARIABLE, TOKEN)
    config = RemoteConfig(mode="real-time", port=17700, period=3, max_age=30)
    with closing(RemoteEnvironment(config, num_matches=1)) as environment:
        tick = environment.reset(np.zeros(1, np.uint64), scenarios=[Scenario(builtin=("person", ""))])
        decisions = 0
        while not tick.terminated[0]:
            role = tick.roles["fighter"]
            decisions += int(role.acting.sum())
            tick = environment.step({"fighter": legal(aim(role.observation["features"]), role.action_mask)})
    assert tick.outcome.tolist() == [[0, 1]]
    assert tick.roles["fighter"].statistics["hits"].tolist() == [[0, 3]]
    assert decisions > 5
