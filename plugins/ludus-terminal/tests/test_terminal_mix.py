"""``ludus league mix``: scheduled and played opponents, and the shares of the matches."""

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
    """Numbers are removed, so that equal reasons are grouped."""
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


def test_scheduled_and_played_matches_are_counted(made, data):
    """Matches are counted by kind of reason and opponents, also where none was played."""
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
    """Players have configured shares and shares of the training matches; evaluation matches do not count."""
    players = {row["player"]: row for row in data("mix", made.folder)["players"]}
    assert (players["main"]["share_wanted"], players["main"]["matches"]) == (0.75, 18)
    assert players["main"]["share_played"] == 18 / 24
    assert (players["other"]["share_wanted"], players["other"]["share_played"]) == (0.25, 6 / 24)


def test_a_removed_player_has_no_configured_share(made, data):
    """The matches of a player that the configuration no longer has are still counted."""
    made.store.set_meta("matchmaking", {"shares": {"main": 3.0}})
    made.store.commit()
    players = {row["player"]: row for row in data("mix", made.folder)["players"]}
    assert {name: row["share_wanted"] for name, row in players.items()} == {"main": 1.0, "other": 0.0}
    assert players["other"]["matches"] == 6


def test_the_mix_is_shown(made, show):
    """The mix is shown as two tables."""
    lines = [line.split() for line in show("mix", made.folder).splitlines()]
    assert ["main", "75.0%", "75.0%", "18"] in lines
    assert ["main", "pfsp", "its", "past", "25.0%", "22.2%", "4"] in lines


def test_late_shares_cover_the_last_half_of_the_ticks(made, data, show):
    """Shares are computed from the metrics; counts that restart when a run is resumed are ignored."""
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
    # the last 60 of 120 ticks: 40 at a configured share of 0.75 and 20 at 0.25; main played 35 of them
    assert late["main"]["wanted"] == pytest.approx((40 * 0.75 + 20 * 0.25) / 60)
    assert late["main"]["played"] == pytest.approx(35 / 60)
    assert late["main"]["learned"] == pytest.approx(700 / 1000)
    assert sum(row["played"] for row in late.values()) == pytest.approx(1)
    assert ["main", "58.3%", "58.3%", "70.0%"] in [line.split() for line in show("mix", made.folder).splitlines()]


def test_without_metrics_there_are_no_late_shares(made, data):
    """A run may have no metrics."""
    assert data("mix", made.folder)["late"] == []


def test_a_league_without_matches_has_a_mix(write, data):
    """All shares are 0, without a division by zero."""
    made = write()
    made.store.commit()
    mix = data("mix", made.folder)
    assert mix["opponents"] == []
    assert mix["players"] == [{"player": "main", "share_wanted": 1.0, "share_played": 0.0, "matches": 0}]
