"""Samplers play on credit, send results until they are acknowledged, and never mix weights in a segment."""

from __future__ import annotations

import os
from collections import deque

import numpy as np
import pytest
from attrs import evolve
from ludus._messaging.messages import (
    Credit,
    FixtureRequest,
    Fixtures,
    Hello,
    MetricsReport,
    Results,
    ResultsAck,
    Segments,
)
from ludus._sampling.actors import LiveActor
from ludus._sampling.channels import SamplerMetrics
from ludus.environment import Scenario
from ludus.errors import WireError
from ludus.launcher import COORDINATOR, learner_name
from ludus.records import Fixture

SLOW = {"main": {"dummy-gradient": {"batch_decisions": 100_000}}}


def blocks(runner):
    """Return the blocks that samplers sent."""
    return runner.messages(Segments)


def run_with_slow_learner(runner):
    """Run a round; from time to time the learner receives nothing."""
    runner.paused = {"learner-main"} if runner.now_s % 0.8 < 0.5 else set()
    runner.round()


def test_learners_are_named_after_their_players():
    """Samplers derive the worker name from the player."""
    assert learner_name("main") == "learner-main"


def test_unacknowledged_blocks_do_not_exceed_the_credits(league):
    """For any behaviour of the learner."""
    runner = league(sampling={"credits": 5})
    lane, most = runner.sampler().channels["main"], 0
    while lane.sent < 50:
        run_with_slow_learner(runner)
        most = max(most, lane.sent - lane.acked)
    assert most == 5


def test_it_plays_only_with_credits(league):
    """No decision is lost or made with old weights meanwhile."""
    runner = league()
    runner.until(lambda: runner.sampler().channels["main"].sent)
    runner.paused = {"learner-main"}
    for _ in range(200):
        runner.round()
    stuck = runner.sampler().count
    for _ in range(20):
        runner.round()
    assert runner.sampler().count == stuck
    runner.paused = set()
    runner.until(lambda: runner.sampler().count > stuck + 100)


def make_credit(runner, *, credits=2):
    """Return the message of a learner that received all blocks and has newer weights."""
    lane = runner.sampler().channels["main"]
    return Credit(
        player="main",
        acked=lane.sent,
        credits=credits,
        version=lane.actor.version + 3,
        pid=os.getpid(),
        weights=runner.learner("main").state.trainer.weights(),
    )


def test_a_waiting_sampler_continues_with_the_newest_weights(league):
    """It holds no block back, and records the next one with the weights of the credit."""
    runner = league()
    lane = runner.sampler().channels["main"]
    runner.until(lambda: lane.sent)
    runner.paused = {"learner-main"}
    for _ in range(200):
        runner.round()
    assert not lane.ready
    assert not lane.outbox
    newest = make_credit(runner)
    runner.sampler().handle("learner-main", newest)
    assert lane.ready
    assert lane.actor.version == newest.version


def test_a_started_block_is_finished(league):
    """With the same weights, even if credits are reduced meanwhile."""
    runner = league()
    lane = runner.sampler().channels["main"]
    runner.until(lambda: lane.sent and lane.ready and lane.actor.recorder._position.max() > 2)
    before = lane.actor.version
    runner.sampler().handle("learner-main", make_credit(runner, credits=0))
    runner.sampler().handle("learner-main", make_credit(runner))
    assert lane.ready
    assert lane.actor.version == before


def test_weights_change_between_segments_only(league, monkeypatch):
    """A segment contains only a carried over decision when new weights are loaded."""
    runner = league()
    loads, load = [], LiveActor.load

    def noting(actor, weights, version):
        loads.append((version, int(actor.recorder._position.max())))
        load(actor, weights, version)

    monkeypatch.setattr(LiveActor, "load", noting)
    while runner.coordinator.league.decisions < 1000:
        run_with_slow_learner(runner)
    versions = [version for version, _ in loads]
    assert len(set(versions)) > 5
    assert versions == sorted(versions)
    assert max(position for _, position in loads) <= 1


def test_blocks_are_numbered_in_order(league):
    """1, 2, 3 …, per player."""
    runner = league()
    runner.train(500)
    assert [block.block for block in blocks(runner)] == list(range(1, len(blocks(runner)) + 1))
    assert {block.player for block in blocks(runner)} == {"main"}


def test_acknowledgements_of_an_earlier_process_are_ignored(league):
    """They count blocks that this process never sent."""
    runner = league(players=SLOW)
    runner.until(lambda: runner.sampler().channels["main"].sent >= 3)
    runner.start("sampler-0")
    lane = runner.sampler().channels["main"]
    runner.sampler().handle("learner-main", Credit(player="main", acked=57, credits=2, version=0))
    assert lane.acked == 0


def test_a_restarted_sampler_continues(league):
    """It counts blocks from 1 and gets weights and credits."""
    runner = league()
    runner.train(500)
    before = runner.coordinator.league.decisions
    runner.start("sampler-0")
    runner.train(before + 500)
    assert runner.messages(Hello, sender="sampler-0")[-1].block == 0
    numbers = [block.block for block in blocks(runner)]
    assert numbers.count(1) == 2


# -- results ---------------------------------------------------------------------------------------------------------


def test_results_are_sent_again_until_they_are_acknowledged(league):
    """The store counts every match once."""
    runner = league()
    runner.is_lost = lambda name, message: isinstance(message, ResultsAck) and runner.now_s < 6
    runner.until(lambda: runner.now_s > 7)
    runner.finish()
    results = runner.messages(Results, sender="sampler-0")
    reports = {message.report: message.arrays["number"].size for message in results}
    assert len(results) > len(reports)
    stored = [(match.fixture.id, match.number) for match in runner.store.matches.records(kind="train")]
    assert len(stored) == len(set(stored)) == runner.coordinator.counts.training == sum(reports.values())


def test_few_results_are_sent_after_some_time(league):
    """Even if a full report does not come together."""
    runner = league(run={"decisions": 0}, sampling={"matches": 1, "rows_per_fixture": 1}, evaluation={"enabled": False})
    runner.until(lambda: runner.messages(Results), rounds=200)
    assert 0 < runner.messages(Results)[0].arrays["number"].size < 64


@pytest.mark.parametrize(("ended", "calls"), [(1, 50), (511, 50), (512, 200), (2047, 200), (2048, 1)])
def test_many_results_are_sent_together(league, ended, calls):
    """They wait longer for others, up to a limit."""
    runner = league(run={"decisions": 0}, evaluation={"enabled": False})
    runner.until(lambda: runner.sampler().reports._collected)
    sampler = runner.sampler()
    results = sampler.reports._collected[0]
    sampler.reports.flush()
    sampler.reports.add({name: array[:1].repeat(ended, axis=0) for name, array in results.items()})
    reports = len(runner.messages(Results))
    for _ in range(calls - 1):
        sampler.reports.send(runner.now_s)
    assert len(runner.messages(Results)) == reports
    sampler.reports.send(runner.now_s)
    assert len(runner.messages(Results)) == reports + 1


def test_a_stop_sends_all_results(league):
    """All matches that ended are in the store."""
    runner = league()
    runner.train(200)
    runner.finish()
    assert runner.sampler().drained
    assert not runner.sampler().work()


# -- fixtures --------------------------------------------------------------------------------------------------------


def test_requests_are_repeated_with_increasing_intervals(league):
    """After one, two and four seconds: many samplers must not overload a slow coordinator."""
    runner = league(evaluation={"enabled": False})
    runner.is_lost = lambda name, message: isinstance(message, Fixtures) and runner.now_s < 8
    runner.until(lambda: runner.now_s > 7.5)
    assert len(runner.messages(FixtureRequest)) == 4
    runner.until(lambda: runner.coordinator.counts.training)
    runner.train(500)
    assert runner.sampler().requests.attempts <= 1


def test_it_requests_several_fixtures_at_once(league):
    """Every answer is a transaction; the reserve keeps match indices busy."""
    runner = league(
        run={"decisions": 0},
        sampling={"matches": 8, "rows_per_fixture": 4, "fixture_matches": 8},
        evaluation={"enabled": False},
    )
    runner.train(300)
    requests, started, idle = len(runner.messages(FixtureRequest)), runner.sampler().engine.num_started_fixtures, []
    for _ in range(1000):
        runner.round()
        idle.append(8 - runner.sampler().engine.num_running)
    requests, started = (
        len(runner.messages(FixtureRequest)) - requests,
        runner.sampler().engine.num_started_fixtures - started,
    )
    assert started > 100
    assert requests < started / 4
    assert sum(idle) < 0.05 * 8 * len(idle)


def test_results_are_repeated_with_increasing_intervals(league):
    """After 5, 10 and 20 seconds."""
    runner = league(run={"decisions": 0}, sampling={"matches": 1, "rows_per_fixture": 1}, evaluation={"enabled": False})
    runner.is_lost = lambda name, message: isinstance(message, ResultsAck)
    runner.until(lambda: runner.messages(Results))
    start, (first, *_) = runner.now_s, runner.messages(Results)
    runner.until(lambda: runner.now_s > start + 36)
    assert [message.report for message in runner.messages(Results)].count(first.report) == 4


def test_an_evaluator_without_work_requests_seldom(league):
    """It does not load the coordinator."""
    runner = league(anchors=())
    for _ in range(500):
        runner.round()
        if runner.coordinator.league.models:
            break
    requests = len(runner.messages(FixtureRequest, sender="evaluator-0"))
    assert 1 <= requests <= 11


def test_late_answers_increase_the_reserve(league):
    """Match indices do not wait long; the reserve shrinks when answers are fast again."""
    runner = league(
        run={"decisions": 0},
        sampling={"matches": 8, "rows_per_fixture": 4, "fixture_matches": 8},
        evaluation={"enabled": False},
    )
    late, idle, sampler = deque(), [], runner.sampler()

    def hold_back(name, message):
        if isinstance(message, Fixtures):
            late.append((runner.now_s + 0.5, message))
            return True
        return False

    runner.is_lost = hold_back
    for _ in range(2000):
        runner.round()
        while late and late[0][0] <= runner.now_s:
            sampler.handle(COORDINATOR, late.popleft()[1])
        idle.append(8 - sampler.engine.num_running)
    assert sum(idle[:200]) > 200 * 2
    assert sum(idle[-1000:]) < 1000 * 0.5
    runner.is_lost = lambda name, message: False
    runner.until(lambda: sampler.requests.spare == 0)


@pytest.mark.parametrize("name", ["sampler-0", "evaluator-0"])
def test_the_reserve_is_bounded(league, name):
    """Fixtures are chosen when they are sent, and evaluators may have little to rate."""
    runner = league()
    sampler = runner.sampler(name)
    for _ in range(10):
        sampler.requests.waited = True
        sampler.handle(COORDINATOR, Fixtures(fixtures=()))
    assert sampler.requests.spare == (32 if name == "sampler-0" else 0)


def test_an_evaluator_sends_no_segments(league):
    """It plays models and anchors."""
    runner = league(anchors=("random", "perfect"))
    runner.until(lambda: runner.store.matches.count() and list(runner.store.matches.records(kind="eval")))
    assert not runner.messages(Segments, sender="evaluator-0")


# -- metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_are_reported_once_a_second(league):
    """Ticks and decisions per second, and results of matches."""
    runner = league()
    runner.until(lambda: runner.now_s > 4.5)
    reports = [message.values for message in runner.messages(MetricsReport, sender="sampler-0")]
    assert len(reports) == 4
    last = reports[-1]
    rates = {"ticks_per_s", "decisions_per_s", "waiting"}
    assert rates | {"return_mean", "return_mean/main", "match_ticks", "statistic/player/added"} == set(last)
    total = sum(report["decisions_per_s"] for report in reports)
    assert total == pytest.approx(runner.sampler().count, rel=0.3)
    assert last["return_mean"] == 0.0
    assert 1 <= last["match_ticks"] <= 10


def test_segments_have_the_layout_of_the_learner(league):
    """T, fields and version survive the link."""
    runner = league()
    runner.until(lambda: blocks(runner))
    arrays = blocks(runner)[0].arrays
    assert arrays["decided"].shape[0] == 5
    assert arrays["extras/log_prob"].dtype == np.float32
    assert arrays["length"].max() <= 4


def test_returns_are_reported_by_player():
    """As means over the seats of each; the mean over all seats of a game with winners and losers is 0."""
    metrics = SamplerMetrics("train")
    metrics.report(0.0, ticks=0, decisions=0, waiting=False)
    kept = metrics.add_results(
        {
            "returns": np.float32([[1, -1], [1, -1], [3, -3]]),
            "ticks": np.int32([4, 4, 4]),
            "player/main": np.array([1.0, np.nan, 3.0]),
            "player/other": np.array([-1.0, np.nan, np.nan]),
            "player/idle": np.array([np.nan, np.nan, np.nan]),
        }
    )
    values = metrics.report(1.0, ticks=12, decisions=24, waiting=False)
    assert kept.keys() == {"ticks"}
    assert values["return_mean"] == 0.0
    assert {name: value for name, value in values.items() if name.startswith("return_mean/")} == {
        "return_mean/main": 2.0,
        "return_mean/other": -1.0,
    }
    metrics.add_results({"returns": np.float32([[1, -1]]), "ticks": np.int32([4])})
    assert "return_mean/main" not in metrics.report(2.0, ticks=12, decisions=24, waiting=False)


def test_credits_of_another_player_are_refused(league):
    """A learner may send weights of its own player only."""
    sampler = league(players={"main": {}, "other": {}}).sampler()
    version = sampler.live["other"].version
    message = Credit(player="other", acked=0, credits=2, version=99, weights={"w": np.zeros(1, np.float32)})
    with pytest.raises(WireError, match="Credit of player 'other', which is not that of its learner"):
        sampler.handle("learner-main", message)
    sampler.handle("learner-nobody", Credit(player="nobody", acked=0, credits=2, version=99))  # of no player
    assert sampler.live["other"].version == version


@pytest.mark.parametrize(
    "changes",
    [
        {"participants": ("main@1+",)},
        {"participants": ("main@1+", "nobody@1+")},
        {"matches": 0},
        {"matches": 2**40},
        {"seed": -1},
        {"id": -1},
        {"scenario": Scenario(name="nowhere")},
        {"scenario": Scenario(builtin=("easy", ""))},
    ],
    ids=str,
)
def test_fixtures_that_cannot_be_played_are_refused(league, changes):
    """All fixtures of the message are, and nothing is queued."""
    runner = league()
    sampler = runner.sampler()
    sound = Fixture(id=5, kind="train", player="main", participants=("main@1+", "random"), seed=1, matches=4, reason="")
    queued = sampler.engine.num_wanted_fixtures()
    with pytest.raises(WireError, match=r"^fixture "):
        sampler.handle(COORDINATOR, Fixtures(fixtures=(sound, evolve(sound, **changes))))
    assert sampler.engine.num_wanted_fixtures() == queued
    sampler.handle(COORDINATOR, Fixtures(fixtures=(sound,)))
