"""``ludus league mix``: who was asked for, who was met, and how the matches were shared."""

from __future__ import annotations

import pytest
from ludus_terminal.mix import kind_of_reason


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("pfsp: win rate 0.31, p 0.12", "pfsp"),
        ("mixture → pfsp: win rate 0.31", "mixture → pfsp"),
        ("pfsp: win rate 0.3; uniform: of 7; pfsp: win rate 0.4", "pfsp; uniform"),
        ("latest-self-play", "latest-self-play"),
        ("", ""),
    ],
)
def test_reasons_have_kinds(reason, kind):
    """Numbers are left out, so that the same reason is one."""
    assert kind_of_reason(reason) == kind


@pytest.fixture
def made(write):
    """Return a league of two players, of which one plays three kinds of opponents."""
    made = write({"main": ("player", None), "other": ("player", None)})
    made.freeze("main")
    made.freeze("other")
    train = {"kind": "train", "player": "main"}
    made.duel("main@1+", "main@1+", [1] * 6, reason="self", **train)
    made.duel("main@1", "main@1+", [1] * 3, reason="pfsp: win rate 0.2", **train)
    made.duel("main@1+", "main@1", [1] * 3, reason="pfsp: win rate 0.4", only=1, **train)
    made.duel("main@1+", "other@1", [1] * 4, reason="pfsp: win rate 0.1", only=0, **train)
    made.duel("main@1+", "random", [1] * 4, reason="anchor", **train)
    made.duel("main@1+", "other@1+", [1] * 4, reason="rival", **train)
    made.duel("other@1+", "main@1", [1] * 6, reason="self", kind="train", player="other")
    made.duel("main@1", "random", [1] * 50)
    made.store.set_meta("matchmaking", {"shares": {"main": 3.0, "other": 1.0}})
    made.store.commit()
    return made


def test_what_was_asked_for_stands_beside_what_was_played(made, data):
    """By kind of reason and opponents, also where nothing was played."""
    rows = data("mix", made.folder)["opponents"]
    found = {(row["player"], row["reason"], row["opponents"]): (row["asked"], row["played"]) for row in rows}
    assert found == {
        ("main", "self", "itself"): (6, 6),
        ("main", "pfsp", "its past"): (6, 4),
        ("main", "pfsp", "other, past"): (4, 0),
        ("main", "anchor", "random"): (4, 4),
        ("main", "rival", "other, live"): (4, 4),
        ("other", "self", "main, past"): (6, 6),
    }
    for player in ("main", "other"):
        for share in ("share_asked", "share_played"):
            assert sum(row[share] for row in rows if row["player"] == player) == pytest.approx(1)


def test_players_have_shares(made, data):
    """Those that the league wants now, and those of the matches played; evaluations do not count."""
    players = {row["player"]: row for row in data("mix", made.folder)["players"]}
    assert (players["main"]["share_wanted"], players["main"]["matches"]) == (0.75, 18)
    assert players["main"]["share_played"] == 18 / 24
    assert (players["other"]["share_wanted"], players["other"]["share_played"]) == (0.25, 6 / 24)


def test_the_mix_is_shown(made, show):
    """As two tables."""
    lines = [line.split() for line in show("mix", made.folder).splitlines()]
    assert ["main", "75.0%", "75.0%", "18"] in lines
    assert ["main", "pfsp", "its", "past", "25.0%", "22.2%", "4"] in lines


def test_a_league_without_matches_has_a_mix(write, data):
    """Everything is 0, nothing is divided by it."""
    made = write()
    made.store.commit()
    mix = data("mix", made.folder)
    assert mix["opponents"] == []
    assert mix["players"] == [{"player": "main", "share_wanted": 1.0, "share_played": 0.0, "matches": 0}]
