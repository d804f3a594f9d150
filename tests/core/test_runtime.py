"""The runner of a league in one process closes its workers."""

from __future__ import annotations

import pytest
from ludus.errors import ConfigError
from ludus_dummy.count import Count


def test_workers_are_closed_if_another_one_cannot_be_made(league, monkeypatch):
    """Their environments are closed."""
    held, make, close = [], Count.__init__, Count.close

    def made(game, config, *, num_matches):
        if held:
            raise ConfigError("no room for another game")
        make(game, config, num_matches=num_matches)
        held.append(game)

    monkeypatch.setattr(Count, "__init__", made)
    monkeypatch.setattr(Count, "close", lambda game: [held.remove(game), close(game)])
    with pytest.raises(ConfigError, match="no room for another game"):
        league()
    assert held == []
