"""A running league in Chromium: no console message, no finding of axe-core, and the keyboard alone suffices."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import ludus
import pytest
from ludus.replays import verify_replays
from ludus.runs import open_run, running_pid, verify_database

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NODE_MODULES = Path(os.environ.get("LUDUS_NODE_MODULES", "node_modules")).resolve()
HERE = Path(__file__).parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None or shutil.which("node") is None, reason="needs chromium and node"),
    pytest.mark.skipif(
        not (NODE_MODULES / "playwright-core").is_dir() or not (NODE_MODULES / "axe-core").is_dir(),
        reason="needs `npm install playwright-core axe-core`; LUDUS_NODE_MODULES names the folder",
    ),
]


def wait(test):
    """Wait until a test is true."""
    end_s = time.monotonic() + 300
    while not test():
        assert time.monotonic() < end_s
        time.sleep(0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, dummy_run):
    """Return the folder of a run that goes on, with models and rating matches."""
    root = tmp_path_factory.mktemp("runs")
    (root / "run.toml").write_text(dummy_run)
    command = [sys.executable, "-m", "ludus", "train", root / "run.toml", "--run", root / "live"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def has_models():
        if not (root / "live" / "metrics.jsonl").exists():
            return False
        with open_run(root / "live") as run:
            return len(run.models) > 3 and run.num_matches(kind="eval") > 50

    wait(has_models)
    yield root / "live"
    process.terminate()
    process.wait(60)


GAMES = {  # short matches: options of the environment, and roles by player
    "connect4": ({}, {"main": ""}),
    "pong2p": ({"points": 1}, {"main": ""}),
    "duel": ({"time_limit_s": 3.0}, {"main": ""}),
    "chase": ({"preparation_s": 1.0, "push_s": 5.0}, {"cat": "cat", "mice": "mouse"}),
}


@pytest.fixture(scope="module")
def games(folder):
    """Train a short run of each of four games beside the run that goes on."""
    for name, (options, players) in GAMES.items():
        lines = ["run.workers = 0", "run.decisions = 60", "evaluation.final_matches = 0"]
        lines += [f'environment.name = "{name}"', 'anchors.random = { agent = "random" }']
        lines += [f"environment.{name}.{option} = {value}" for option, value in options.items()]
        for player, role in players.items():
            parts = ['algorithm = "dummy-gradient"', 'matchmaker = "dummy-uniform"', "freeze_every_decisions = 5"]
            parts += [f'role = "{role}"'] if role else []
            lines.append(f"players.{player} = {{ {', '.join(parts)} }}")
        path = folder.parent / f"{name}.toml"
        path.write_text("\n".join(lines))
        ludus.train(path, run_dir=folder.parent / name).__exit__(None, None, None)
    return folder.parent


@pytest.fixture(scope="module")
def address(folder):
    """Return the address of a dashboard that offers actions, with its token."""
    command = [sys.executable, "-m", "ludus", "dashboard", folder.parent, "--port", "0", "--allow-actions"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process.stdout.readline().strip()
        process.terminate()


def node(script, *arguments):
    """Run a script and return the JSON that it prints."""
    command = ["node", HERE / script, NODE_MODULES, *arguments]
    result = subprocess.run(
        command, env={**os.environ, "CHROMIUM": CHROMIUM}, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_every_page_is_accessible_and_quiet(folder, address):
    """In light and dark colors: contrast, labels, no error in the console, all charts drawn."""
    base, token = re.fullmatch(r"(.*)/(\?token=.*)", address).groups()
    pages = (
        "",
        "/payoffs",
        "/matches",
        "/lineage",
        "/opponents",
        "/pools",
        "/behaviour",
        "/files",
        "/models/main@1",
        "/play",
    )
    forms = ("promote?model=main@1", "share?player=main", "stop", "resume")
    paths = [f"/{token}", "/compare?run=live", *(f"/runs/live{page}" for page in pages), "/runs/none"]
    paths += [f"/runs/live/actions/{form}" for form in forms]
    findings = node("browse.mjs", base, *paths)
    assert [one for one in findings if (one["page"], one["kind"]) != ("/runs/none", "console error")] == []


def test_the_keyboard_suffices(folder, address):
    """From the list of runs to a lost match, with a visible focus; and the overview follows the run."""
    found = node("keyboard.mjs", address, folder.name)
    assert found["commands"]
    assert all(command.startswith("ludus replay ") for command in found["commands"])
    assert [one["name"] for one in found["reached"] if not one["isVisible"]] == []


def test_games_are_played_to_the_end(games, address):
    """With keys alone and with the mouse, in turns and with a clock, at any seat; every match has its replay."""
    arrows, columns = ["ArrowUp", "ArrowLeft"], ["1", "2", "3", "4", "5", "6", "7"]
    matches = [
        {"run": "connect4", "keys": columns},
        {"run": "connect4", "seat": "1", "how": "mouse", "keys": columns, "others": {"0": "main@1,temperature=2"}},
        {"run": "pong2p", "how": "hold", "speed": "8", "keys": arrows},
        {"run": "duel", "how": "hold", "speed": "4", "keys": ["ArrowRight", "a", "s", "d"]},
        {"run": "chase", "seat": "3", "how": "hold", "speed": "8", "keys": arrows},
        {"run": "chase", "seat": "0", "how": "mouse", "speed": "8", "keys": arrows},
    ]
    found = node("play.mjs", address, *map(json.dumps, matches))
    assert [one["run"] for one in found] == [one["run"] for one in matches]
    for one in found:
        assert (one["focused"], one["messages"], one["accessibility"]) == ("viewer", [], [])
        assert re.fullmatch(r"(You won|A draw|You lost)\. Watch match \d+\.0", one["status"])
    for name in GAMES:
        with open_run(games / name) as run:
            played = run.num_matches(kind="human")
            assert played == sum(one["run"] == name for one in matches)
            assert verify_replays(run).problems == verify_database(run).problems == ()
            lineups = [match.fixture.participants for match in run.matches(kind="human")]
            assert name != "chase" or [lineup.index("human:guest") for lineup in lineups] == [3, 0]


def test_a_match_of_a_run_that_goes_on(folder, address):
    """Its coordinator writes the match, and the log agrees with itself."""
    pid = running_pid(folder)
    (found,) = node("play.mjs", address, json.dumps({"run": folder.name, "how": "buttons", "keys": ["1"]}))
    assert (found["messages"], found["accessibility"]) == ([], [])
    assert "Watch match" in found["status"]
    assert running_pid(folder) == pid
    with open_run(folder) as run:
        assert run.num_matches(kind="human") == 1
        assert verify_database(run).problems == ()


def test_a_lost_match_is_watched_and_played(folder, address):
    """From the list of runs with few clicks: the newest model, a match that it lost, and a match against it."""
    found = node("walk.mjs", address, folder.name)
    assert found["messages"] == []
    assert found["watched"].startswith("Match ")
    assert found["clicks"] == 6
