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

import pytest
from ludus.runs import open_run

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
    end_s = time.monotonic() + 60
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
        command, env={**os.environ, "CHROMIUM": CHROMIUM}, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_every_page_is_accessible_and_quiet(folder, address):
    """In light and dark colors: contrast, labels, no error in the console, all charts drawn."""
    base, token = re.fullmatch(r"(.*)/(\?token=.*)", address).groups()
    pages = ("", "/payoffs", "/matches", "/lineage", "/opponents", "/pools", "/files", "/models/main@1")
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
