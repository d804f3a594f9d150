"""Metrics of a run are collected, reported, summarized, written and read."""

from __future__ import annotations

import json
import math
import resource
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ludus._league.statistics import score
from ludus._messaging.messages import Credit, Fixtures
from ludus._run.metric_file import MetricFile, read_metrics, thinned
from ludus._run.metrics import StallWatchdog, collect_metrics, spread_evenly, summarize
from ludus.matchmaker import PlayerView, Rating, Statistic
from ludus.metrics import Metric


def metric(name, value, *, decisions=100, elapsed_s=1.5):
    """Return a metric."""
    return Metric(name=name, value=value, decisions=decisions, elapsed_s=elapsed_s)


@pytest.fixture
def path(tmp_path):
    """Return the path of the file."""
    return tmp_path / "metrics.jsonl"


def test_metrics_come_back_in_order(path):
    """The file is read by another process than the writer."""
    first = [metric("learner/main_agent/entropy", 0.25), metric("samples", 7.0)]
    second = [metric("samples", 9.0, decisions=200, elapsed_s=2.5)]
    sink = MetricFile(path)
    sink.write(first)
    sink.write(second)
    sink.close()
    assert list(read_metrics(path)) == first + second


def test_file_format(path):
    """The documented format is also read by other tools."""
    sink = MetricFile(path)
    sink.write([metric("a", 1.0), metric("b", 2.0)])
    sink.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"t": 1.5, "d": 100, "m": {"a": 1.0, "b": 2.0}}
    ]


def test_metrics_of_several_moments(path):
    """One write may hold metrics of several times."""
    metrics = [metric("a", 1.0), metric("a", 2.0, decisions=101), metric("b", 3.0, decisions=101)]
    sink = MetricFile(path)
    sink.write(metrics)
    sink.close()
    assert list(read_metrics(path)) == metrics
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_null(path, value):
    """JSON has no NaN; null is read as NaN."""
    sink = MetricFile(path)
    sink.write([metric("a", value)])
    sink.close()
    assert '"a": null' in path.read_text()
    [read] = read_metrics(path)
    assert math.isnan(read.value)


def test_empty_write_adds_no_line(path):
    """The file is unchanged."""
    sink = MetricFile(path)
    sink.write([])
    sink.close()
    assert path.read_bytes() == b""


def test_metrics_can_be_read_before_closing(path):
    """A dashboard reads the file of a running run."""
    sink = MetricFile(path)
    sink.write([metric("a", 1.0)])
    assert len(list(read_metrics(path))) == 1
    sink.close()


def test_reopening_appends(path):
    """A resumed run continues the file."""
    for value in (1.0, 2.0):
        sink = MetricFile(path)
        sink.write([metric("a", value)])
        sink.close()
        sink.close()
    assert [read.value for read in read_metrics(path)] == [1.0, 2.0]


@pytest.mark.parametrize("torn", [b'{"t": 1.5, "d"', b"\x00" * 200_000, b"x"])
@pytest.mark.parametrize("lines", [0, 1, 2000])
def test_incomplete_last_line_is_skipped_and_removed(path, lines, torn):
    """A crash during a write loses that line only."""
    sink = MetricFile(path)
    for _ in range(lines):
        sink.write([metric("a", 1.0)])
    sink.close()
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert len(list(read_metrics(path))) == lines
    MetricFile(path).close()
    assert path.read_bytes() == whole


def test_failed_write_leaves_the_file_unchanged(path):
    """A nearly full disk writes a part of a line, which would damage the next one."""
    sink = MetricFile(path)
    sink.write([metric("a", 1.0)])
    whole, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            sink.write([metric("a", 2.0)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == whole
    sink.write([metric("a", 3.0)])
    sink.close()
    assert [read.value for read in read_metrics(path)] == [1.0, 3.0]


def test_reopening_reads_the_end_of_the_file_only(path):
    """The metrics of a long run do not fit into memory."""
    line = b'{"t": 1, "d": 2, "m": {}}\n'
    path.write_bytes(line * 100_000 + b"torn")
    tracemalloc.start()
    MetricFile(path).close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size == len(line) * 100_000
    assert peak < path.stat().st_size / 5


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"\0" * 10,
        b"\x80\xff{}",
        b"{}",
        b'{"t": 1, "d": 2, "m": {"a": "b"}}',
        b'{"d": 2, "m": {"a": 1}}',
        b'{"t": 1, "d": Infinity, "m": {"a": 1}}',
        b"[" * 100_000,
    ],
    ids=lambda line: repr(line[:40]),
)
def test_damaged_lines_are_skipped(path, line, caplog):
    """All others are read, and one warning has the number of damaged ones."""
    sound = b'{"t": 1, "d": 2, "m": {"a": 3}}\n'
    path.write_bytes(sound + line + b"\n" + sound + line + b"\n" + sound)
    assert [read.value for read in read_metrics(path)] == [3.0] * 3
    [record] = caplog.records
    assert record.getMessage() == f"{path}: skipped 2 damaged lines, the first is line 2"


def test_sound_file_gives_no_warning(path, caplog):
    """An incomplete last line is left by a crash or a running run."""
    path.write_bytes(b'{"t": 1, "d": 2, "m": {"a": 3}}\n{"t": 1')
    assert len(list(read_metrics(path))) == 1
    assert not caplog.records


def test_metrics_are_written_after_damage(path):
    """A file that thins out keeps its damaged lines."""
    lines = [b'{"t": 1, "d": 2, "m": {}}\n', b'{"t": 1e+.e, "d": 2, "m": {}}\n', b"\0" * 100 + b"\n"]
    assert list(thinned(lines, now_s=1e6, full_s=0.0)) == lines


LEARNER = {"samples_per_s": 5000.0, "policy_loss": -0.0123, "dropped_stale": 12.0}
SAMPLING = {"ticks_per_s": 7000.0, "decisions_per_s": 6500.0, "return_mean": 0.25}


class Standings:
    """A league of one player with three models, a second one that has done nothing yet, and two anchors."""

    def __init__(self):
        models = ("main@1", "main@2", "main@3")
        common = {"role": "player", "team": None}
        main = {"models": models, "decisions": 123456, "generation_starts": (0, 2), "share": 0.5}
        self.anchors, self.elapsed_s, self.decisions, self.progress = ("random", "strong"), 61.0, 123456, 0.4
        self.players = {
            "main": PlayerView(name="main", live="main@3+", **main, **common),
            "idle": PlayerView(name="idle", live="idle@0+", models=(), decisions=0, share=1.5, **common),
        }
        self.ratings = {"main@1": Rating(1000.0, 50.0, 10), "main@3": Rating(1234.0, 20.0, 50)}
        self.counts = {"random": (30, 10, 10), "main@1": (40, 0, 10)}

    def rating(self, participant):
        return self.ratings.get(participant, Rating(1500.0, 350.0, 0))

    def statistics(self, participant):
        returns = {"main@3": Statistic(mean=3.0, deviation=2.0, matches=5)}
        return {"player/return": returns[participant]} if participant in returns else {}

    def payoff(self, participant, opponents):
        assert participant == "main@3"
        return np.array([self.counts.get(name, (0, 0, 0)) for name in opponents], float)


@pytest.fixture
def coordinator():
    """Return what is asked of the coordinator of that league."""
    return SimpleNamespace(
        league=Standings(),
        membership=SimpleNamespace(
            metrics={"learner-main": LEARNER, "sampler-0": SAMPLING, "service-x": {"calls": 3.0}}
        ),
        refusals=SimpleNamespace(total=2),
        quarantine=SimpleNamespace(hosts={"box": "why"}),
        counts=SimpleNamespace(training=789, by_player={"main": 700}, ticks_by_player={"main": 5600}),
    )


def test_metrics_of_a_league(coordinator):
    """They hold rates, learning curves, ratings and scores with their intervals, each with decisions and time."""
    metrics = collect_metrics(coordinator)
    values = {metric.name: metric.value for metric in metrics}
    expected = {f"learner/main/{name}": value for name, value in LEARNER.items()}
    expected |= {f"sampling/{name}": value for name, value in SAMPLING.items()}
    result = score(30, 10, 10)
    expected |= {
        "league/progress": 0.4,
        "league/matches": 789.0,
        "league/refused_messages": 2.0,
        "league/quarantined_hosts": 1.0,
        "league/main/models": 3.0,
        "league/main/generation": 1.0,
        "league/main/share": 0.25,
        "league/main/matches": 700.0,
        "league/main/ticks": 5600.0,
        "league/main/decisions": 123456.0,
        "league/main/rating": 1234.0,
        "league/main/rating_deviation": 20.0,
        "league/main/rated_model": 3.0,
        "league/main/score_v_random": 0.7,
        "league/main/score_v_random/low": result.low,
        "league/main/score_v_random/high": result.high,
    }
    expected |= {f"league/idle/{name}": 0.0 for name in ("models", "generation", "matches", "ticks", "decisions")}
    expected |= {"league/idle/share": 0.75, "service-x/calls": 3.0}
    assert values == expected
    assert {(metric.decisions, metric.elapsed_s) for metric in metrics} == {(123456, 61.0)}


def test_anchor_named_like_a_bound_of_another(coordinator):
    """Each anchor has its own score and bounds."""
    league = coordinator.league
    league.anchors, league.counts["random_low"] = ("random", "random_low"), (10, 0, 40)
    values = {metric.name: metric.value for metric in collect_metrics(coordinator)}
    for anchor in league.anchors:
        name = f"league/main/score_v_{anchor}"
        assert values[f"{name}/low"] < values[name] < values[f"{name}/high"]


@pytest.mark.parametrize(
    ("count", "most", "indices"), [(0, 4, []), (1, 4, [0]), (3, 4, [0, 1, 2]), (61, 4, [0, 20, 40, 60])]
)
def test_spread_evenly(count, most, indices):
    """The indices include the first and the last."""
    assert spread_evenly(count, most) == indices


def test_summary_is_json(coordinator):
    """An unknown score is null, and unrated models have no rating."""
    data = json.loads(json.dumps(summarize(coordinator)), parse_constant=pytest.fail)
    player = data["players"]["main"]
    assert (data["matches"], player["newest"], player["models"]) == (789, "main@3", 3)
    assert player["ratings"] == [1000.0, 1234.0]  # of main@1 and main@3
    assert player["anchors"]["random"]["score"] == 0.7
    assert player["anchors"]["strong"]["score"] is None
    assert (player["milestones"]["main@1"]["wins"], set(player["milestones"])) == (40, {"main@1", "main@2"})
    half = 1.959963984540054  # of a deviation of 2 in 5 matches: s = 2 · √(5 / 4), s / √5 = 1
    assert player["returns"] == {"main@3": {"player": {"mean": 3.0, "interval": [3 - half, 3 + half], "matches": 5}}}
    assert data["players"]["idle"] == {
        "newest": "",
        "models": 0,
        "decisions": 0,
        "ratings": [],
        "anchors": {},
        "returns": {},
        "milestones": {},
    }


def test_sampling_metrics_are_combined_over_samplers(league):
    """Rates are added up and other values averaged; evaluators do not count."""
    runner = league()
    runner.coordinator.membership.metrics |= {
        "sampler-0": {"decisions_per_s": 100.0, "match_ticks": 10.0},
        "sampler-1": {"decisions_per_s": 50.0, "match_ticks": 20.0, "return_mean": 1.0},
        "evaluator-0": {"decisions_per_s": 7.0},
        "learner-main": {"entropy": 0.5},
    }
    values = {metric.name: metric.value for metric in collect_metrics(runner.coordinator)}
    sampling = {name: value for name, value in values.items() if name.startswith("sampling/")}
    assert sampling == {
        "sampling/decisions_per_s": 150.0,
        "sampling/match_ticks": 15.0,
        "sampling/return_mean": 1.0,
    }
    assert values["learner/main/entropy"] == 0.5
    assert values["league/main/models"] == 0
    assert "league/main/rating" not in values


def test_summary_of_a_trained_league(league):
    """Models, ratings and scores against the anchors come from its log."""
    runner = league()
    runner.until(lambda: list(runner.store.matches.records(kind="eval")))
    player = summarize(runner.coordinator)["players"]["main"]
    league_so_far = runner.coordinator.league
    models = league_so_far.players["main"].models
    assert (player["newest"], player["models"]) == (models[-1], len(models))
    rated = [league_so_far.rating(model) for model in models if league_so_far.rating(model).matches]
    assert rated
    assert player["ratings"] == [rating.mean for rating in rated]
    assert set(player["anchors"]) == {"random"}


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        (Credit, "every sampler waits for a learner"),
        (Fixtures, "samplers have no matches, or make no progress in them"),
    ],
    ids=["credits", "fixtures"],
)
def test_stall_is_reported_once(league, lost, reason):
    """Without credits or fixtures nothing is played; a stall is reported again only after progress."""
    runner, warnings = league(run={"decisions": 0}), []
    watchdog = StallWatchdog(timeout_s=2.0)

    def run_rounds(rounds):
        for _ in range(rounds):
            runner.round()
            if warning := watchdog.check(runner.coordinator):
                warnings.append(warning)

    runner.train(64)
    run_rounds(300)
    assert not warnings
    for _ in range(2):
        runner.is_lost = lambda _, message: isinstance(message, lost)
        runner.until(lambda: run_rounds(10) or warnings)
        run_rounds(300)
        assert warnings == [f"nothing was played for 2 s: {reason}"]
        warnings.clear()
        runner.is_lost = lambda *_: False
        runner.train(runner.coordinator.league.decisions + 64)
        run_rounds(300)
        assert not warnings


def test_stall_of_samplers_that_omit_metrics(coordinator):
    """The metrics of another host may be incomplete; only those present count."""
    coordinator.membership.metrics = {"sampler-0": {"return_mean": 0.25}}
    coordinator.clock = lambda: 7.0
    watchdog = StallWatchdog(timeout_s=0.0)
    assert watchdog.check(coordinator).startswith("nothing was played for 0 s: samplers have no matches")


# -- thinning --------------------------------------------------------------------------------------------------------

HOUR_S = 3600.0


def times(path):
    """Return the times of the reports in a file."""
    return [read.elapsed_s for read in read_metrics(path)]


@pytest.fixture
def thins_soon(monkeypatch):
    """Thin files of more than 20 kB."""
    monkeypatch.setattr("ludus._run.metric_file._THINNED_BYTES", 20_000)


def test_reports_thin_out_with_age(path, thins_soon):
    """All of two hours, one per minute of the day before, one per ten minutes of the rest: the last of each."""
    sink = MetricFile(path)
    seconds = np.arange(0, 30 * HOUR_S, 20.0)
    for second in seconds:
        sink.write([metric("a", second, elapsed_s=float(second), decisions=int(second))])
    sink._thin(float(seconds[-1]))
    sink.close()
    found, now = np.array(times(path)), seconds[-1]
    assert found[found >= now - 2 * HOUR_S].tolist() == seconds[seconds >= now - 2 * HOUR_S].tolist()
    day = found[(found < now - 2 * HOUR_S - 60) & (found > now - 26 * HOUR_S + 60)]
    assert (day % 60 == 40).all()
    assert (np.diff(day) == 60).all()
    old = found[found < now - 26 * HOUR_S - 600]
    assert (np.diff(old) == 600).all()
    assert (old % 600 == 580).all()


def test_size_is_bounded(path, thins_soon):
    """The file doubles at most between two thinnings."""
    sink, largest = MetricFile(path, full_s=600.0), 0
    for second in range(0, 48 * 3600, 6):
        sink.write([metric("a", 1.0, elapsed_s=float(second), decisions=second)])
        largest = max(largest, path.stat().st_size)
    sink._thin(48 * HOUR_S)
    sink.close()
    assert len(times(path)) < 600 / 6 + 24 * 60 + 24 * 6 + 3
    assert largest < 2.1 * path.stat().st_size


def test_thinning_is_repeatable(path):
    """Thinning again at the same time changes nothing; later, only what has aged."""
    lines = [b'{"t": %d, "d": 0, "m": {}}\n' % second for second in range(0, 40 * 3600, 30)]
    once = list(thinned(lines, now_s=40 * HOUR_S, full_s=2 * HOUR_S))
    assert list(thinned(once, now_s=40 * HOUR_S, full_s=2 * HOUR_S)) == once
    later = list(thinned(lines, now_s=60 * HOUR_S, full_s=2 * HOUR_S))
    assert list(thinned(once, now_s=60 * HOUR_S, full_s=2 * HOUR_S)) == later


def test_damaged_lines_are_kept(path):
    """Reading reports them."""
    lines = [b'{"t": 1, "d": 0, "m": {}}\n', b"damaged\n", b'{"t": 2, "d": 0, "m": {}}\n']
    assert list(thinned(lines, now_s=40 * HOUR_S, full_s=0.0)) == lines


def test_a_reader_sees_the_whole_old_file(path, thins_soon):
    """The new one takes its name; what follows is appended to that."""
    sink = MetricFile(path)
    for second in range(10):
        sink.write([metric("a", 1.0, elapsed_s=float(second))])
    reader = read_metrics(path)
    assert next(reader).elapsed_s == 0.0
    sink._thin(40 * HOUR_S)
    sink.write([metric("a", 2.0, elapsed_s=40 * HOUR_S)])
    sink.close()
    assert [read.elapsed_s for read in reader] == [float(second) for second in range(1, 10)]
    assert times(path) == [9.0, 40 * HOUR_S]


def test_a_crash_while_thinning_loses_nothing(path, thins_soon, monkeypatch):
    """The old file stays until the new one is complete."""
    sink = MetricFile(path)
    for second in range(10):
        sink.write([metric("a", 1.0, elapsed_s=float(second))])
    before = path.read_bytes()
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError("no space")))
    sink._thin(40 * HOUR_S)
    assert path.read_bytes() == before
    sink.write([metric("a", 1.0, elapsed_s=10.0)])
    sink.close()
    assert len(times(path)) == 11
    assert list(path.parent.iterdir()) == [path]
