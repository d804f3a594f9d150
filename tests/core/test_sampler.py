"""Samplers play on credit, say everything until it is heard, and never mix weights inside a segment."""

from __future__ import annotations

import os
from collections import deque

import numpy as np
import pytest
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
from ludus.launcher import COORDINATOR, learner_name

SLOW = {"main": {"dummy-gradient": {"batch_decisions": 100_000}}}


def blocks(runner):
    """Return the blocks that samplers sent."""
    return runner.messages(Segments)


def doze(runner):
    """Run a round; the learner hears nothing for some time now and then."""
    runner.asleep = {"learner-main"} if runner.now_s % 0.8 < 0.5 else set()
    runner.round()


def test_a_learner_is_named_after_its_player():
    """Everybody finds it by that name."""
    assert learner_name("main") == "learner-main"


def test_no_more_blocks_are_under_way_than_there_are_credits(league):
    """Whatever the learner does, what is sent and not acknowledged stays within the credits."""
    runner = league(sampling={"credits": 5})
    lane, most = runner.sampler().channels["main"], 0
    while lane.sent < 50:
        doze(runner)
        most = max(most, lane.sent - lane.acked)
    assert most == 5


def test_it_stands_still_without_credits_and_goes_on_with_them(league):
    """Nothing is played that could not leave; nothing is lost or played on old weights meanwhile."""
    runner = league()
    runner.until(lambda: runner.sampler().channels["main"].sent)
    runner.asleep = {"learner-main"}
    for _ in range(200):
        runner.round()
    stuck = runner.sampler().count
    for _ in range(20):
        runner.round()
    assert runner.sampler().count == stuck
    runner.asleep = set()
    runner.until(lambda: runner.sampler().count > stuck + 100)


def credit(runner, *, credits=2):
    """Return what the learner would say if it had taken all blocks and had newer weights."""
    lane = runner.sampler().channels["main"]
    return Credit(
        player="main",
        acked=lane.sent,
        credits=credits,
        version=lane.actor.version + 3,
        pid=os.getpid(),
        weights=runner.learner("main").state.trainer.weights(),
    )


def test_a_sampler_that_waited_goes_on_with_the_newest_weights(league):
    """It keeps no block in hand, and the one that a credit allows is played with the weights that come with it."""
    runner = league()
    lane = runner.sampler().channels["main"]
    runner.until(lambda: lane.sent)
    runner.asleep = {"learner-main"}
    for _ in range(200):
        runner.round()
    assert not lane.ready
    assert not lane.outbox
    newest = credit(runner)
    runner.sampler().handle("learner-main", newest)
    assert lane.ready
    assert lane.actor.version == newest.version


def test_a_block_that_was_begun_is_played_to_its_end(league):
    """With the same weights, though credits become fewer meanwhile, as they do when other samplers join."""
    runner = league()
    lane = runner.sampler().channels["main"]
    runner.until(lambda: lane.sent and lane.ready and lane.actor.recorder._position.max() > 2)
    before = lane.actor.version
    runner.sampler().handle("learner-main", credit(runner, credits=0))
    runner.sampler().handle("learner-main", credit(runner))
    assert lane.ready
    assert lane.actor.version == before


def test_weights_change_between_segments_only(league, monkeypatch):
    """When newer weights are taken, a segment holds nothing but what was carried over from the one before."""
    runner = league()
    loads, load = [], LiveActor.load

    def noting(actor, weights, version):
        loads.append((version, int(actor.recorder._position.max())))
        load(actor, weights, version)

    monkeypatch.setattr(LiveActor, "load", noting)
    while runner.coordinator.decisions < 1000:
        doze(runner)
    versions = [version for version, _ in loads]
    assert len(set(versions)) > 5
    assert versions == sorted(versions)
    assert max(position for _, position in loads) <= 1


def test_blocks_are_numbered_in_order(league):
    """1, 2, 3 …, of its own player."""
    runner = league()
    runner.train(500)
    assert [block.block for block in blocks(runner)] == list(range(1, len(blocks(runner)) + 1))
    assert {block.player for block in blocks(runner)} == {"main"}


def test_acknowledgements_of_a_predecessor_are_no_credit(league):
    """A restarted sampler may be told of blocks that it never sent."""
    runner = league(players=SLOW)
    runner.until(lambda: runner.sampler().channels["main"].sent >= 3)
    runner.start("sampler-0")
    lane = runner.sampler().channels["main"]
    runner.sampler().handle("learner-main", Credit(player="main", acked=57, credits=2, version=0))
    assert lane.acked == 0


def test_a_restarted_sampler_is_welcome(league):
    """It starts counting at 1 and gets weights and credits."""
    runner = league()
    runner.train(500)
    before = runner.coordinator.decisions
    runner.start("sampler-0")
    runner.train(before + 500)
    assert runner.messages(Hello, sender="sampler-0")[-1].block == 0
    numbers = [block.block for block in blocks(runner)]
    assert numbers.count(1) == 2


# -- results ---------------------------------------------------------------------------------------------------------


def test_results_are_repeated_until_they_are_acknowledged(league):
    """The store counts every match once, however often it is told."""
    runner = league()
    runner.lost = lambda name, message: isinstance(message, ResultsAck) and runner.now_s < 6
    runner.until(lambda: runner.now_s > 7)
    runner.finish()
    told = runner.messages(Results, sender="sampler-0")
    reports = {message.report: message.arrays["number"].size for message in told}
    assert len(told) > len(reports)
    stored = [(match.fixture.id, match.number) for match in runner.store.matches.records(kind="train")]
    assert len(stored) == len(set(stored)) == runner.coordinator.counts.training == sum(reports.values())


def test_few_results_do_not_wait_for_ever(league):
    """They leave after some work even where no full report comes together."""
    runner = league(run={"decisions": 0}, sampling={"matches": 1, "rows_per_fixture": 1}, evaluation={"enabled": False})
    runner.until(lambda: runner.messages(Results), rounds=200)
    assert 0 < runner.messages(Results)[0].arrays["number"].size < 64


@pytest.mark.parametrize(("ended", "calls"), [(1, 50), (511, 50), (512, 200), (2047, 200), (2048, 1)])
def test_many_results_leave_together(league, ended, calls):
    """They wait longer for others, but not for too many."""
    runner = league(run={"decisions": 0}, evaluation={"enabled": False})
    runner.until(lambda: runner.sampler().reports._collected)
    sampler = runner.sampler()
    told = sampler.reports._collected[0]
    sampler.reports.flush()
    sampler.reports.add({name: array[:1].repeat(ended, axis=0) for name, array in told.items()})
    reports = len(runner.messages(Results))
    for _ in range(calls - 1):
        sampler.reports.send(runner.now_s)
    assert len(runner.messages(Results)) == reports
    sampler.reports.send(runner.now_s)
    assert len(runner.messages(Results)) == reports + 1


def test_all_results_are_said_before_it_ends(league):
    """After a stop, every match that ended is in the store."""
    runner = league()
    runner.train(200)
    runner.finish()
    assert runner.sampler().drained
    assert not runner.sampler().work()


# -- fixtures --------------------------------------------------------------------------------------------------------


def test_it_asks_again_when_no_answer_comes(league):
    """After a second, then two, then four: many samplers must not bury a coordinator that is late."""
    runner = league(evaluation={"enabled": False})
    runner.lost = lambda name, message: isinstance(message, Fixtures) and runner.now_s < 8
    runner.until(lambda: runner.now_s > 7.5)
    assert len(runner.messages(FixtureRequest)) == 4
    runner.until(lambda: runner.coordinator.counts.training)
    runner.train(500)
    assert runner.sampler().requests.attempts <= 1


def test_it_asks_for_several_fixtures_at_once(league):
    """Every answer is a transaction; what is begun in between lies in reserve, so that hardly any row waits."""
    runner = league(
        run={"decisions": 0},
        sampling={"matches": 8, "rows_per_fixture": 4, "fixture_matches": 8},
        evaluation={"enabled": False},
    )
    runner.train(300)
    asked, begun, idle = len(runner.messages(FixtureRequest)), runner.sampler().engine.num_started_fixtures, []
    for _ in range(1000):
        runner.round()
        idle.append(8 - runner.sampler().engine.num_running)
    asked, begun = len(runner.messages(FixtureRequest)) - asked, runner.sampler().engine.num_started_fixtures - begun
    assert begun > 100
    assert asked < begun / 4
    assert sum(idle) < 0.05 * 8 * len(idle)


def test_results_are_repeated_less_and_less_often(league):
    """After five seconds, then ten, then twenty."""
    runner = league(run={"decisions": 0}, sampling={"matches": 1, "rows_per_fixture": 1}, evaluation={"enabled": False})
    runner.lost = lambda name, message: isinstance(message, ResultsAck)
    runner.until(lambda: runner.messages(Results))
    start, (first, *_) = runner.now_s, runner.messages(Results)
    runner.until(lambda: runner.now_s > start + 36)
    assert [message.report for message in runner.messages(Results)].count(first.report) == 4


def test_where_there_is_no_work_it_asks_now_and_then(league):
    """An evaluator with nobody to rate does not keep the coordinator busy."""
    runner = league(anchors=())
    for _ in range(500):
        runner.round()
        if runner.coordinator.league.models:
            break
    asked = len(runner.messages(FixtureRequest, sender="evaluator-0"))
    assert 1 <= asked <= 11


def test_where_answers_come_late_it_keeps_more_fixtures_in_reserve(league):
    """Short matches do not wait for the coordinator for long; when answers come soon again, the reserve is used up."""
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

    runner.lost = hold_back
    for _ in range(2000):
        runner.round()
        while late and late[0][0] <= runner.now_s:
            sampler.handle(COORDINATOR, late.popleft()[1])
        idle.append(8 - sampler.engine.num_running)
    assert sum(idle[:200]) > 200 * 2
    assert sum(idle[-1000:]) < 1000 * 0.5
    runner.lost = lambda name, message: False
    runner.until(lambda: sampler.requests.spare == 0)


@pytest.mark.parametrize("name", ["sampler-0", "evaluator-0"])
def test_the_reserve_is_bounded(league, name):
    """Fixtures are chosen when they are handed out; and what there is to rate may be little."""
    runner = league()
    sampler = runner.sampler(name)
    for _ in range(10):
        sampler.requests.waited = True
        sampler.handle(COORDINATOR, Fixtures(fixtures=()))
    assert sampler.requests.spare == (32 if name == "sampler-0" else 0)


def test_an_evaluator_rates_without_learning(league):
    """It plays models and anchors and sends no segments."""
    runner = league(anchors=("random", "perfect"))
    runner.until(lambda: runner.store.matches.count() and list(runner.store.matches.records(kind="eval")))
    assert not runner.messages(Segments, sender="evaluator-0")


# -- metrics ---------------------------------------------------------------------------------------------------------


def test_rates_are_reported_once_a_second(league):
    """Ticks and decisions per second of the clock, and how the matches went."""
    runner = league()
    runner.until(lambda: runner.now_s > 4.5)
    reports = [message.values for message in runner.messages(MetricsReport, sender="sampler-0")]
    assert len(reports) == 4
    last = reports[-1]
    assert {"ticks_per_s", "decisions_per_s", "waiting", "return_mean", "match_ticks"} == set(last)
    total = sum(report["decisions_per_s"] for report in reports)
    assert total == pytest.approx(runner.sampler().count, rel=0.3)
    assert last["return_mean"] == 0.0
    assert 1 <= last["match_ticks"] <= 10


def test_segments_are_what_the_learner_expects(league):
    """They pass the wire with T, the fields and the version."""
    runner = league()
    runner.until(lambda: blocks(runner))
    arrays = blocks(runner)[0].arrays
    assert arrays["decided"].shape[0] == 5
    assert arrays["extras/log_prob"].dtype == np.float32
    assert arrays["length"].max() <= 4
