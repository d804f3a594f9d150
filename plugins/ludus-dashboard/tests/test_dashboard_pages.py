"""The pages show what the run is."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from ludus._league.human_matches import HumanMatch, add_human_match
from ludus._league.league import League
from ludus.environment import Seat
from ludus.runs import score
from ludus_ratings.elo_table import EloTable

SCORE = score(2, 1, 1)
INTERVAL = f"{SCORE.low:.1%} to {SCORE.high:.1%}"
PAGES = ("", "/payoffs", "/matches", "/lineage", "/opponents", "/pools", "/behaviour", "/files", "/models/main@2")


class Table(HTMLParser):
    """Collects the cells of all table rows of a page."""

    def __init__(self):
        super().__init__()
        self.rows, self._cell = [], None

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append(" ".join("".join(self._cell).split()))
            self._cell = None

    def handle_data(self, data):
        if self._cell is not None:
            self._cell.append(data)


def rows(text):
    """Return the cells of all table rows of a page."""
    table = Table()
    table.feed(text)
    return table.rows


def charts(text):
    """Return the values of all charts of a page by title."""
    found = [json.loads(unescape(value)) for value in re.findall(r"data-chart='([^']*)'", text)]
    return {chart["title"]: chart for chart in found}


@pytest.fixture
def get(run, browse):
    """Return a function that loads a page of the run."""
    client = browse()

    def load(path="", status=200):
        response = client.get(f"/runs/run{path}")
        assert response.status_code == status, response.text
        return response.text

    return load


def test_the_list_of_runs(run, browse):
    """It shows the numbers of the last report."""
    (_, row) = rows(browse().get("/").text)
    assert row[1:4] == ["run", "a-game", "running"]
    assert row[5:8] == ["3.0", "3,000", "70"]
    assert row[8] == "main v random 62.5%"


def test_a_folder_without_runs(browse):
    """The page states how a run appears."""
    assert "ludus train" in browse().get("/").text


def test_a_run_folder_alone(run, browse):
    """The command may be given one run."""
    assert browse(root=run.folder).get("/runs/run").status_code == 200


def test_compared_runs(run, write, browse):
    """Each run is a curve over its own minutes."""
    other = write("other")
    other.report(30.0, 500, **{"league/main/score_v_random": 0.25})
    other.store.commit()
    text = browse().get("/compare?run=run&run=other&run=none").text
    chart = charts(text)["Score of main against random"]
    assert chart["x"] == [0.5, 1.0, 2.0, 3.0]
    assert [(one["label"], one["values"]) for one in chart["series"]] == [
        ("run", [None, 0.625, 0.625, 0.625]),
        ("other", [0.25, None, None, None]),
    ]


def test_the_overview(get):
    """It has the scores with intervals, the ratings, and the metrics of the learners."""
    text = get()
    found = rows(text)
    assert ["main@2", "random", "4", "62.5%", INTERVAL, ""] in found
    assert [row[1] for row in found if row[0] in ("1", "2", "3")] == ["main@1", "main@2", "random"]
    (player,) = (row for row in found if row[:2] == ["main", "player"])
    assert player[2:6] == ["main@2", "2", "0", "2,000"]
    assert player[7] == "2.5"
    assert "1,234" in text
    shown = charts(text)
    assert shown["Ratings of frozen models, with 95 % bands"]["x"] == [1.0, 2.0]
    assert shown["Mean staleness of what is learned, in updates"]["series"][0]["values"] == [2.5, 2.5, 2.5]


def test_ratings_of_sides_are_apart(write, browse):
    """In a game of roles every role has its own table and chart."""
    made = write(players={"cat": ("cat", 0), "mouse": ("mouse", 1)}, seats=(Seat("cat", 0, 0), Seat("mouse", 0, 1)))
    made.freeze("cat")
    made.freeze("mouse")
    made.play("cat@1", "mouse@1", [1, 0, 1])
    made.store.commit()
    text = browse().get("/runs/run").text
    assert {title for title in charts(text) if "Ratings" in title} == {
        "Ratings of cat, with 95 % bands",
        "Ratings of mouse, with 95 % bands",
    }
    assert "Ratings of mouse</h2>" in text


def test_payoffs_link_to_matches(get):
    """A cell has the score of the row, a shade, and a link."""
    text = get("/payoffs?kind=eval")
    assert re.search(
        r'class="s12"><a href="/runs/run/matches\?a=main%402&amp;b=random&amp;kind=eval"[^>]*>0\.62<', text
    )
    header = rows(text)[0]
    assert header == ["participant", "pools", "main@2", "main@1", "random"]


def test_payoffs_of_a_pool(get):
    """They show its models and the anchors, and mark pools."""
    assert [row[:2] for row in rows(get("/payoffs?pool=history&kind=eval"))[1:]] == [
        ["main@2", "history"],
        ["random", ""],
    ]


def test_a_model(get):
    """The page has its parent, pools, results, behaviour and manifest."""
    text = get("/models/main@2")
    found = rows(text)
    assert ["parent", "main@1"] in found
    assert ["reason", "stagnation"] in found
    assert ["pools", "history"] in found
    assert ["random", "rating", "2", "1", "1", "62.5%", INTERVAL, "all lost"] in found
    assert ["player/hits", "main@2", "8.000", "7.307 to 8.693", ""] in found
    assert "&#34;reason&#34;: &#34;stagnation&#34;" in text


def test_the_lineage(get):
    """Every model is a link at its time, with a line from its parent."""
    text = get("/lineage")
    assert text.count("<circle") == 2
    assert text.count("<path") == 1
    assert ["main@2", "main@1", "0", "2,000", "2.0", "", "stagnation"] in rows(text)


def test_a_new_start_is_marked(write, browse):
    """A ring ends a generation."""
    made = write()
    made.freeze("main")
    made.freeze("main", generation=1)
    made.store.commit()
    text = browse().get("/runs/run/lineage").text
    assert "new start from initial weights" in text
    assert text.count("<circle") == 3


def test_opponents_asked_and_played(get):
    """The mix has a row per reason, and the chart the shares over time."""
    text = get("/opponents")
    assert ["main", "pfsp", "its past", "96.8%", "96.8%", "", "60", "matches"] in rows(text)
    chart = charts(text)["Shares of the ticks of training matches"]
    assert [one["values"] for one in chart["series"]] == [[1.0, 1.0], [1.0, 1.0]]


def test_pools_and_their_changes(get):
    """The newest change comes first."""
    found = rows(get("/pools"))
    assert ["history", "1", "main@2", "payoffs"] in found
    assert [row[1:4] for row in found if len(row) == 5 and row[0] != "time"] == [
        ["history", "main@1", "left"],
        ["history", "main@2", "entered"],
        ["history", "main@1", "entered"],
    ]
    assert "stagnation" in get("/pools")


def test_behaviour_over_training(get):
    """Profiles of newest models and anchors, and a curve with a band per statistic."""
    text = get("/behaviour")
    assert ["player/hits", "main@2", "8.000", "7.307 to 8.693", ""] in rows(text)
    (chart,) = charts(text).values()
    assert (chart["title"], chart["x"]) == ("player/hits", [1.0, 2.0])
    (series,) = chart["series"]
    assert series["values"] == [4.0, 8.0]
    assert series["low"][1] == pytest.approx(7.307, abs=1e-3)


def test_the_diversity_of_pools(run, get):
    """It has the mean distance of the members, on the scale of pools and anchors."""
    run.enter("all", "main@1", "main@2")
    run.store.commit()
    found = [row for row in rows(get("/behaviour")) if len(row) == 6]  # none of the pool "history" with one member
    assert found[1:] == [["all", "player", "2", "1", "0.571", "0.071"]]  # 4 and 8 on a scale from 1 to 8


def test_figures(get, run, browse):
    """PNG files of the run, and no others."""
    assert "There are no figures" in get("/behaviour")
    plots = run.folder / "plots"
    plots.mkdir()
    (plots / "drift of <b>.png").write_bytes(b"\x89PNG content")
    (plots / "notes.txt").write_text("none")
    (plots / "link.png").symlink_to(run.folder / "run.toml")
    (address,) = re.findall(r'<img src="([^"]*)"', browse().get("/runs/run/behaviour").text)
    answer = browse().get(unescape(address))
    assert (answer.content, answer.headers["content-type"]) == (b"\x89PNG content", "image/png")
    for name in ("notes.txt", "link.png", "..%2Frun.toml", "other.png"):
        assert browse().get(f"/runs/run/plots/{name}").status_code == 404, name


def test_files(get, run):
    """The end of a log, and the configuration."""
    (run.folder / "logs").mkdir()
    (run.folder / "logs" / "sampler-0.log").write_text("first line\nlast <b>line</b>\n")
    text = get("/files")
    assert "last &lt;b&gt;line&lt;/b&gt;" in text
    assert "name = &#34;a-game&#34;" in text


def test_matches_are_paged_newest_first(get):
    """A page ends within a fixture, and the next one continues there."""
    text = get("/matches")
    first = [row[0] for row in rows(text)[1:]]
    assert first == ["4.1", "4.0", *(f"3.{number}" for number in range(59, 11, -1))]
    (before,) = re.findall(r'name="before" value="([^"]*)"', text)
    rest = get(f"/matches?before={before}")
    assert [row[0] for row in rows(rest)[1:]] == [
        *(f"3.{number}" for number in range(11, -1, -1)),
        *(f"{fixture}.{number}" for fixture in (2, 1) for number in (3, 2, 1, 0)),
    ]
    assert 'name="before"' not in rest


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("a=random&kind=eval", ["2.3", "2.2", "2.1", "2.0", "1.3", "1.2", "1.1", "1.0"]),
        ("a=main@2&outcome=lost", ["2.2"]),
        ("a=main@1&outcome=drew", ["1.3"]),
        ("a=main&b=idle", ["4.1", "4.0"]),
        ("a=main&b=idle&outcome=won", ["4.1"]),
        ("reason=ANCHORS", ["4.1", "4.0"]),
        ("scenario=late&a=main@1&outcome=won", []),
        ("a=main@9", []),
        ("before=2.2", ["2.1", "2.0", "1.3", "1.2", "1.1", "1.0"]),
        ("before=1.0", []),
    ],
)
def test_matches_are_filtered(get, query, found):
    """By participants, the outcome for the first of them, reason, scenario and kind."""
    assert [row[0] for row in rows(get(f"/matches?{query}"))[1:]] == found


def test_a_changed_run_gives_a_new_page(run, browse, monkeypatch):
    """The reader notices the commit."""
    monkeypatch.setattr("ludus_dashboard.reader._INTERVAL_S", 0.0)
    monkeypatch.setattr("ludus_dashboard.reader._MAX_LOAD", 1e9)
    client = browse()
    assert "main@3" not in client.get("/runs/run").text
    run.freeze("main")
    run.store.commit()
    assert "main@3" in client.get("/runs/run").text


def test_another_run_of_the_same_name(run, write, browse, monkeypatch):
    """A folder that was deleted and made again shows the new run only."""
    monkeypatch.setattr("ludus_dashboard.reader._INTERVAL_S", 0.0)
    monkeypatch.setattr("ludus_dashboard.reader._MAX_LOAD", 1e9)
    client = browse()
    assert "pfsp" in client.get("/runs/run/opponents").text
    run.store.close()
    run.folder.rename(run.folder.parent.parent / "old")
    again = write()
    again.play("main@0+", "idle", [1], kind="train", player="main", reason="new reason")
    again.store.commit()
    text = client.get("/runs/run/opponents").text
    assert "new reason" in text
    assert "pfsp" not in text


def test_equal_pages_are_rendered_once(run, browse, monkeypatch):
    """All clients share what one of them has caused."""
    from ludus_dashboard import reader

    opened = []
    monkeypatch.setattr(
        reader, "open_run", lambda folder, open_run=reader.open_run: opened.append(1) or open_run(folder)
    )
    client = browse()
    assert len({client.get("/runs/run").text for _ in range(20)}) == 1
    assert len(opened) == 1


def test_a_run_that_is_stopped(run, browse):
    """No process holds its lock."""
    run.store.close()
    assert "stopped</span>" in browse().get("/runs/run").text


def test_a_stall_is_shown(run, browse, monkeypatch):
    """A run that reports nothing new for a minute is stalled."""
    monkeypatch.setattr("ludus_dashboard.history._QUIET_S", -1.0)
    text = browse().get("/runs/run").text
    assert "stalled</span>" in text
    assert "no match has ended" in text


def test_who_waits_for_which_worker(run, browse):
    """The metrics of samplers and learners show it."""
    run.report(200.0, 4000, **{"sampling/waiting": 0.75, "learner/main/idle_share": 0.9})
    text = browse().get("/runs/run").text
    assert "75% of the samplers wait for a learner" in text
    assert "the learner of main waits for samplers 90% of its time" in text


def test_a_new_run_without_anything(write, browse):
    """Every page works before the first match."""
    write().store.commit()
    client = browse()
    for page in PAGES[:-1]:
        assert client.get(f"/runs/run{page}").status_code == 200, page


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_documents_with_one_heading(get, page):
    """They have a language, a title, one main part and labelled regions."""
    text = get(quote(page, safe="/@"))
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert len(re.findall("<h1>", text)) == len(re.findall("<main ", text)) == 1


def test_people_are_rated_apart(run, browse):
    """On the scale of the models, whose own ratings do not change."""
    before = League.of(run.store, EloTable).rating("main@2")
    match = {"seed": 5, "scenario": "default", "outcome": [1, 0], "returns": [0, 0], "ticks": 3, "reason": "test"}
    for _ in range(20):
        add_human_match(run.store, HumanMatch(participants=["human:anna", "main@2"], **match))
    run.store.commit()
    client = browse()
    text = client.get("/runs/run/payoffs?kind=human").text
    ((rating, matches),) = re.findall(r"human:anna</th><td class=\"n\">([\d,]+)</td>.*?>(\d+)</td></tr>", text)
    assert (matches, float(rating.replace(",", "")) > before.mean) == ("20", True)
    assert "human:anna" not in client.get("/runs/run/payoffs").text
    assert League.of(run.store, EloTable).rating("main@2").mean == before.mean
