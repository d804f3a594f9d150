"""``ludus league mix``: who was asked for, who was met, and how the matches were shared."""

from __future__ import annotations

import json

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


def test_who_has_left_is_wanted_no_more(made, data):
    """Of a league that goes on without it, nobody wants matches of it; those that it played are counted."""
    made.store.set_meta("matchmaking", {"shares": {"main": 3.0}})
    made.store.commit()
    players = {row["player"]: row for row in data("mix", made.folder)["players"]}
    assert {name: row["share_wanted"] for name, row in players.items()} == {"main": 1.0, "other": 0.0}
    assert players["other"]["matches"] == 6


def test_the_mix_is_shown(made, show):
    """As two tables."""
    lines = [line.split() for line in show("mix", made.folder).splitlines()]
    assert ["main", "75.0%", "75.0%", "18"] in lines
    assert ["main", "pfsp", "its", "past", "25.0%", "22.2%", "4"] in lines


def test_what_was_wanted_of_late_stands_beside_what_was_played(made, data, show):
    """Over the last half of the ticks, by the metrics; counts that begin anew at a resume take nothing away."""
    moments = [(0.5, 0, 0, 0, 0), (0.5, 30, 30, 400, 400), (0.75, 10, 10, 400, 400), (0.25, 40, 20, 1000, 600)]
    moments.append((0.25, 45, 35, 1100, 700))
    lines = []
    for t, (share, *counts) in enumerate(moments):
        names = ("main/ticks", "other/ticks", "main/decisions", "other/decisions")
        values = {"league/main/share": share, "league/other/share": 1 - share}
        values |= {f"league/{name}": count for name, count in zip(names, counts, strict=True)}
        lines.append(json.dumps({"t": float(t), "d": 0, "m": values}))
    (made.folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    late = {row["player"]: row for row in data("mix", made.folder)["late"]}
    # of 120 ticks the last 60: 40 while 0.75 was wanted and 20 while 0.25 was; 35 of them of main
    assert late["main"]["wanted"] == pytest.approx((40 * 0.75 + 20 * 0.25) / 60)
    assert late["main"]["played"] == pytest.approx(35 / 60)
    assert late["main"]["learned"] == pytest.approx(700 / 1000)
    assert sum(row["played"] for row in late.values()) == pytest.approx(1)
    assert ["main", "58.3%", "58.3%", "70.0%"] in [line.split() for line in show("mix", made.folder).splitlines()]


def test_without_metrics_nothing_is_said_of_late(made, data):
    """A run need not write any."""
    assert data("mix", made.folder)["late"] == []


def test_a_league_without_matches_has_a_mix(write, data):
    """Everything is 0, nothing is divided by it."""
    made = write()
    made.store.commit()
    mix = data("mix", made.folder)
    assert mix["opponents"] == []
    assert mix["players"] == [{"player": "main", "share_wanted": 1.0, "share_played": 0.0, "matches": 0}]
