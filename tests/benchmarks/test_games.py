"""The TOML files of the games that are compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from ludus import load_plugins
from ludus._config.run_config import load_config

GAMES = sorted((Path(__file__).parents[2] / "benchmarks" / "games").glob("*.toml"))


@pytest.mark.parametrize("path", GAMES, ids=[path.stem for path in GAMES])
def test_files_are_valid(path):
    """Each names installed components and has random play as an anchor, which the scores refer to."""
    config = load_config(path, plugins=load_plugins())
    assert config.anchors["random"].agent.name == "random"
