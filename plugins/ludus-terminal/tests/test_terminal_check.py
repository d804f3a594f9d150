"""``ludus check``: the findings about a run, printed."""

from __future__ import annotations

import json

import pytest
from ludus.__main__ import main

COUNT = """
[run]
launcher = "dummy-threads"
[environment]
name = "dummy-count"
[players.main]
algorithm = "dummy-gradient"
matchmaker = "dummy-uniform"
[anchors.perfect]
agent = "dummy-perfect"
"""


@pytest.fixture(autouse=True)
def _only_dummy(monkeypatch):
    """Load only the plugins that the tests need."""
    monkeypatch.setenv("LUDUS_ALLOW_PLUGINS", "dummy,ratings,terminal")


@pytest.fixture
def path(tmp_path):
    """Return a valid file."""
    path = tmp_path / "run.toml"
    path.write_text(COUNT)
    return path


def test_command_succeeds(path, capsys):
    """Print one line per finding and exit with 0."""
    assert main(["check", str(path)]) == 0
    out = capsys.readouterr().out
    assert "ok    configuration: 1 player, 1 anchor" in out
    assert "ready to train (in " in out


def test_command_fails(path, capsys):
    """A failed check makes the exit status 1; overrides are applied."""
    assert main(["check", str(path), "--set", "run.seed=x"]) == 1
    out = capsys.readouterr().out
    assert "fail  configuration: " in out
    assert "1 of 2 checks failed in " in out


def test_missing_file_is_one_line(tmp_path, capsys):
    """A missing file is a finding, not a traceback."""
    assert main(["check", str(tmp_path / "no.toml")]) == 1
    assert f"fail  configuration: {tmp_path / 'no.toml'}: no such file" in capsys.readouterr().out


def test_json(path, capsys):
    """--json prints the findings as JSON."""
    assert main(["check", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is True
    assert data["findings"][0] == {"status": "ok", "subject": "plugins", "text": "dummy, ratings, terminal"}
