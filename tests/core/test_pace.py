"""`ludus check` measures how fast a player gets decisions, and states what suits a slow game."""

from __future__ import annotations

import time

import pytest
from attrs import evolve
from ludus._config.run_config import parse_config
from ludus._plugins.manager import load_plugins
from ludus._sampling.match_engine import MatchEngine
from ludus.testing import check_run
from ludus.testing._pace import Pace, PaceMeter, check_pace


@pytest.fixture
def configure(tables):
    """Return a function that makes a configuration and its only player."""

    def make(batch=8192, segment=32, **sections):
        options = {"segment_decisions": segment, "batch_decisions": batch}
        players = {"main": {"freeze_every_decisions": 500_000, "dummy-gradient": options}}
        config = parse_config(tables(players=players, **sections), source="test", plugins=load_plugins())
        return config, config.players["main"]

    return make


def lines(config, player, pace, *, batch=8192, seats=2):
    """Return the texts of the findings, which are warnings."""
    findings = list(check_pace(config, player, pace, batch=batch, seats=seats))
    assert all((finding.status, finding.subject) == ("warn", "player main") for finding in findings)
    return [finding.text for finding in findings]


def test_a_fast_game_needs_no_advice(configure):
    """An update fills in less than 30 s."""
    assert lines(*configure(), Pace(start_s=0.01, decisions_per_s=300.0)) == []


def test_a_slow_game_gets_a_smaller_batch(configure):
    """About ten seconds of decisions, blocks that are no larger, and a model every five minutes."""
    (text,) = lines(*configure(sampling={"matches": 128}), Pace(start_s=0.01, decisions_per_s=50.0))
    assert text.startswith("at 50 decisions/s an update of 8,192 decisions fills in about 164 s; for a slow game: ")
    assert "players.main.dummy-gradient.batch_decisions = 500" in text
    assert "sampling.matches = 7" in text
    assert "players.main.freeze_every_decisions = 15000" in text
    assert "evaluation.share = 0.1" in text  # rating matches take a core from training matches
    assert "preset" not in text  # the algorithm has none


def test_limited_evaluation_needs_no_advice(configure):
    """Nor does a run without rating matches."""
    for evaluation in ({"share": 0.5}, {"enabled": False}):
        (text,) = lines(*configure(evaluation=evaluation), Pace(start_s=0.01, decisions_per_s=50.0))
        assert "evaluation.share" not in text


def test_a_very_slow_game_gets_shorter_segments(configure):
    """A batch has at least 256 decisions, of several matches."""
    (text,) = lines(*configure(segment=128), Pace(start_s=0.01, decisions_per_s=5.0))
    assert "batch_decisions = 256" in text
    assert "segment_decisions = 32" in text
    assert "sampling.matches = 4" in text


def test_shares_divide_the_decisions(tables):
    """A player with half of the ticks gets half of the decisions."""
    given = tables(players={"main": {}, "other": {}})
    config = parse_config(given, source="test", plugins=load_plugins())
    (text,) = lines(config, config.players["main"], Pace(start_s=0.0, decisions_per_s=400.0))
    assert text.startswith("at 200 decisions/s")


def test_slow_starts_are_stated(configure):
    """With the time of all first matches."""
    (text, _) = lines(*configure(sampling={"matches": 128}), Pace(start_s=2.0, decisions_per_s=50.0))
    assert text.startswith("a match takes 2 s to start, the first 128 of a sampler 256 s: fewer sampling.matches")
    assert "environment.dummy-count.workers" in text
    assert "run.stall_s" in text


def test_pace_of_a_game(scripted, fixture_of, logging_actor, monkeypatch):
    """Starts count with their share of a match; the first steps, which compile and allocate, do not count."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    game, step, reset = scripted({"player": (0, 1)}, 2, length=lambda row: 4), None, None
    step, reset = game.step, game.reset

    def slow_step(actions):
        now[0] += 60.0 if meter._steps < 3 else 0.1
        return step(actions)

    def slow_reset(seeds, **options):
        now[0] += 2.0 * seeds.size
        return reset(seeds, **options)

    game.step, game.reset = slow_step, slow_reset
    meter, actor = PaceMeter(game), logging_actor()
    engine = MatchEngine(meter, lambda fixture, seat: (actor, 0), meter.count_ended)
    engine.add_fixture(fixture_of("ab", matches=100))
    while engine.ticks < 40:
        meter.measure_step(engine)
    pace = meter.pace(engine, share_of_seats=1.0)
    assert pace.start_s == pytest.approx(2.0)
    decisions_per_tick = meter._decisions / meter._ticks
    assert pace.decisions_per_s == pytest.approx(decisions_per_tick / (0.05 + 2.0 / 4))


def test_an_update_without_samples_is_a_warning(toml, monkeypatch):
    """It does not show that the player learns."""
    from ludus_dummy.algorithm import GradientTrainer

    update = GradientTrainer.update
    monkeypatch.setattr(
        GradientTrainer,
        "update",
        lambda self, batch, *, progress: evolve(update(self, batch, progress=progress), samples=0),
    )
    (finding,) = (finding for finding in check_run(toml()) if finding.status == "warn")
    assert finding.subject == "player main"
    assert finding.text.startswith("the update trained on 0 of ")
