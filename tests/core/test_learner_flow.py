"""Learners grant credits to samplers, drop stale blocks, acknowledge each block once and release its memory."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._messaging.messages import Credit, Hello, MetricsReport, SamplerLeft, Segments
from ludus.segment import SegmentBatch

# -- credits ---------------------------------------------------------------------------------------------------------


def test_blocks_are_acknowledged_at_once_while_data_is_missing(harness):
    """A batch larger than all credits together can arrive."""
    harness.block(1)
    harness.block(2)
    assert harness.acked() == 2
    assert not harness.learner.work()


def test_a_block_that_fills_the_batch_is_acknowledged_by_the_update(harness):
    """So the credits bound the queue."""
    for number in (1, 2, 3):
        harness.block(number)
    assert harness.acked() == 2
    assert harness.learner.work()
    assert harness.acked() == 3
    assert harness.learner.state.decisions == 12


@pytest.mark.parametrize("processes", [1, 3])
def test_blocks_far_beyond_the_credits_are_dropped(harness, processes):
    """They are counted; other samplers, and later blocks, are learned from."""
    for number in range(1, 101):
        harness.block(number, decisions=5, pid=number % processes)  # with any process id
    assert harness.learner.intake.queue.decisions == 80  # four times four blocks of five
    harness.block(1, decisions=5, peer="sampler-1")
    assert harness.learner.intake.queue.decisions == 85
    assert harness.learner.state.metrics.drops == {"dropped_surplus": 84}
    while harness.learner.work():
        pass
    harness.block(101, decisions=11, versions=(harness.learner.state.version,), pid=1 % processes)
    assert harness.learner.work()
    assert harness.acked() == 101


def test_blocks_within_the_credits_are_never_dropped(harness):
    """Not even if the credits were granted before many others joined, or the sampler restarts."""
    harness.block(1, decisions=1)
    allowed = granted(harness, "sampler-0")
    for peer in range(1, 20):
        harness.learner.handle(f"sampler-{peer}", Hello())
    for number in range(2, allowed + 2):
        harness.block(number, decisions=1)
    harness.learner.handle("sampler-0", Hello(pid=1))
    for number in range(1, allowed + 1):
        harness.block(number, decisions=1, pid=1)
    assert harness.learner.intake.queue.decisions == 2 * allowed + 1
    assert not harness.learner.state.metrics.drops["dropped_surplus"]


def credits_of(harness, peer):
    """Return all credits sent to a sampler."""
    return [message for who, message in harness.link.sent if who == peer and isinstance(message, Credit)]


def granted(harness, peer):
    """Return how many blocks a sampler may have in flight."""
    return credits_of(harness, peer)[-1].credits


def test_credits_cover_the_samplers_part_of_an_update(harness):
    """And one block more, so that it plays on during the update."""
    harness.block(1, decisions=2)
    assert granted(harness, "sampler-0") == 1 + 6
    harness.block(1, decisions=2, peer="sampler-1")
    assert granted(harness, "sampler-1") == 1 + 3
    harness.block(2, decisions=2, versions=(0,) * 6)
    harness.learner.work()
    assert granted(harness, "sampler-0") == 1 + 1


@pytest.mark.parametrize(
    ("max_staleness", "samplers", "credits"),
    [(0, 1, 1), (1, 1, 2), (1, 2, 1), (7, 1, 2), (7, 3, 2), (7, 4, 1), (7, 40, 1), (100, 40, 1), (108, 40, 2)],
)
def test_credits_keep_blocks_from_becoming_stale(make_harness, max_staleness, samplers, credits):
    """Blocks are an update each. While the learner waits for data, none becomes stale, and each sampler has two."""
    harness = make_harness(max_staleness=max_staleness)
    harness.welcome()
    for number in range(samplers + 1):
        harness.block(1 + number // samplers, decisions=11, peer=f"sampler-{number % samplers}")
    assert harness.learner.work()
    assert granted(harness, "sampler-0") == credits
    while harness.learner.work():
        pass
    assert granted(harness, "sampler-0") == 2


@pytest.mark.parametrize("samplers", [8, 9])
def test_too_many_samplers_are_logged_once(make_harness, caplog, samplers):
    """With blocks of an update each and a staleness of seven, eight samplers can be learned from in time."""
    harness = make_harness(max_staleness=7)
    harness.welcome()
    for number in range(1, 12):
        for sampler in range(samplers):
            harness.block(number, decisions=11, peer=f"sampler-{sampler}")
        harness.learner.work()
    assert harness.learner.state.metrics.drops["dropped_stale"]
    expected = "9 samplers have 99 decisions in flight together, an update takes 11, and max_staleness is 7"
    assert [expected in record.message for record in caplog.records] == [True] * (samplers - 8)


def test_off_policy_trainers_do_not_limit_credits(harness):
    """Their segments are never too stale."""
    harness.trainer.off_policy = True
    for number in range(40):
        harness.block(1, decisions=11, peer=f"sampler-{number}")
    assert harness.learner.work()
    assert granted(harness, "sampler-0") == 2


def test_credits_of_a_sampler_that_left_go_to_the_others(harness):
    """Otherwise the learner would wait for data that no sampler may send."""
    for peer in ("sampler-0", "sampler-1"):
        harness.block(1, decisions=2, peer=peer)
    assert granted(harness, "sampler-1") == 1 + 3
    harness.learner.handle("sampler-1", SamplerLeft())
    harness.block(2, decisions=2)
    assert granted(harness, "sampler-0") == 1 + 6


def test_queued_blocks_of_a_sampler_that_left_are_used(harness):
    """No credit is sent for them."""
    harness.block(1, decisions=10, peer="sampler-1")
    harness.learner.handle("sampler-1", SamplerLeft())
    assert harness.learner.work()
    assert harness.learner.state.decisions == 10
    assert credits_of(harness, "sampler-1") == []


@pytest.mark.parametrize("greets", [True, False])
def test_a_sampler_that_left_may_return(harness, greets):
    """It gets weights and acknowledgements, with or without a `Hello`."""
    harness.block(1, decisions=2, peer="sampler-1", pid=7)
    harness.learner.handle("sampler-1", SamplerLeft())
    if greets:
        harness.learner.handle("sampler-1", Hello(pid=7, block=1))
    else:
        harness.block(2, decisions=2, peer="sampler-1", pid=7)
    last = credits_of(harness, "sampler-1")[-1]
    block = 1 if greets else 2
    assert (last.pid, last.acked, last.version, list(last.weights)) == (7, block, 0, ["w"])
    harness.block(3, decisions=2, peer="sampler-1", pid=7)
    assert harness.acked("sampler-1") == 3


def test_an_unknown_sampler_may_leave(harness):
    """The message may arrive twice, or without a `Hello` before."""
    for _ in range(2):
        harness.learner.handle("sampler-1", SamplerLeft())
    harness.block(1)
    assert harness.acked() == 1


def test_queued_blocks_hold_no_credits_while_data_is_missing(harness):
    """Otherwise samplers and learner would wait for each other."""
    for number in (1, 2):
        harness.block(number, decisions=5, peer="sampler-1")
    for number in (1, 2):
        harness.block(number, decisions=4)
    assert harness.acked() is None
    assert harness.learner.work()
    assert harness.acked() == 2


def test_a_dropped_block_is_acknowledged_in_order(harness):
    """Together with the last block before it."""
    harness.block(1, decisions=10)
    harness.learner.state.version = 9
    harness.block(2, versions=(0,))
    assert harness.acked() is None
    harness.learner.work()
    assert harness.acked() == 2


def test_dropped_blocks_hold_no_credits_while_data_is_missing(harness):
    """Otherwise a sampler whose last blocks are all dropped would wait for ever."""
    harness.block(1)
    harness.learner.state.version = 9
    for number in (2, 3):
        harness.block(number, versions=(0,))
        assert harness.acked() == number
    assert not harness.learner.work()


def test_a_large_block_makes_several_updates(harness):
    """No decision is used twice, and the block is acknowledged with its last part."""
    harness.block(1, decisions=10, versions=(0, 0, 0))
    for updates in (1, 2):
        assert harness.learner.work()
        assert (harness.learner.state.version, harness.acked()) == (updates, 0)
    assert harness.learner.work()
    assert (harness.learner.state.decisions, harness.acked()) == (30, 1)
    assert not harness.learner.work()


def test_a_batch_larger_than_all_credits_does_not_deadlock(league):
    """Eight streams of four decisions against 5,000, through the whole league."""
    runner = league(players={"main": {"dummy-gradient": {"batch_decisions": 1000}}}, sampling={"credits": 1})
    runner.until(lambda: runner.learner("main").state.version, rounds=1000)
    assert runner.learner("main").state.decisions >= 900


# -- staleness -------------------------------------------------------------------------------------------------------


def test_stale_segments_are_dropped_individually(harness):
    """Fresh segments of the same block are trained on."""
    harness.learner.state.version = 5
    harness.block(1, decisions=10, versions=(0, 1, 2, 5))
    while harness.learner.work():
        pass
    assert [batch.num_decisions for batch in harness.trainer.batches] == [10, 10]
    harness.now = 2.0
    harness.learner.work()
    (report,) = harness.link.of(MetricsReport)
    assert report.values["dropped_stale"] == 2
    assert (report.values["staleness_mean"], report.values["staleness_max"]) == (3.0, 5.0)


@pytest.mark.parametrize("off_policy", [True, False])
def test_off_policy_trainers_use_segments_of_any_version(harness, off_policy):
    """Their staleness is measured all the same; only `off_policy = True` counts."""
    harness.trainer.off_policy = off_policy
    harness.learner.state.version = 50
    harness.block(1, decisions=10, versions=(0, 49))
    while harness.learner.work():
        pass
    assert harness.learner.state.decisions == (20 if off_policy else 10)
    harness.now = 2.0
    harness.learner.work()
    (report,) = harness.link.of(MetricsReport)
    assert report.values.get("dropped_stale", 0) == (0 if off_policy else 1)
    assert report.values["staleness_max"] == 50.0


def test_off_policy_trainers_drop_segments_from_before_a_reset(harness):
    """They belong to another generation."""
    harness.trainer.off_policy = True
    harness.learner.state.version = harness.learner.state.generation_version = 5
    harness.block(1, decisions=10, versions=(4, 5))
    assert harness.learner.state.metrics.drops == {"dropped_stale": 0, "dropped_reset": 1}


def test_empty_segments_are_not_stale(harness):
    """Their versions mean nothing."""
    harness.learner.state.version = 50
    harness.block(1, decisions=10, versions=(50, 49, 0), empty=1)
    while harness.learner.work():
        pass
    harness.now = 2.0
    harness.learner.work()
    (report,) = harness.link.of(MetricsReport)
    assert "dropped_stale" not in report.values
    assert (report.values["staleness_mean"], report.values["staleness_max"]) == (0.5, 1.0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda arrays: arrays.clear(), "float32[21, 0, 1] as 'observation/obs', got nothing"),
        (lambda arrays: arrays.pop("privileged/obs"), "float32[21, 1, 3] as 'privileged/obs', got nothing"),
        (lambda arrays: arrays.update(bonus=arrays["reward"]), "nothing as 'bonus', got float32[21, 1]"),
        (lambda arrays: arrays.update(decided=arrays["reward"]), "bool[21, 1] as 'decided', got float32[21, 1]"),
        (
            lambda arrays: arrays.update({"extras/value": np.zeros((21, 1))}),
            "float32[21, 1] as 'extras/value', got float64[21, 1]",
        ),
        (
            lambda arrays: arrays.update({"initial_state/memory": np.zeros((1, 6), np.float32)}),
            "float32[1, 5] as 'initial_state/memory', got float32[1, 6]",
        ),
        (lambda arrays: arrays.update(length=np.int32(4).reshape(())), "int32[1] as 'length', got int32[]"),
        (
            lambda arrays: arrays.update({name: a[:5] for name, a in arrays.items() if len(a) == 21}),
            "float32[21, 1, 1] as 'observation/obs', got float32[5, 1, 1]",
        ),
        (lambda arrays: arrays["length"].fill(21), "lengths must be in [0, 20]"),
        (lambda arrays: arrays["action"].fill(-1), "expected label 0 of actions in [0, 1], got -1…-1"),
    ],
    ids=["empty", "missing", "unknown", "dtype", "precision", "state", "scalar", "T", "length", "action"],
)
def test_malformed_blocks_are_dropped_and_counted(harness, caplog, change, problem):
    """They are acknowledged, so that their sampler plays on; others are learned from."""
    harness.block(1)
    arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in harness.learner.layout.block_shapes(1).items()}
    change(arrays)
    harness.learner.handle("sampler-0", Segments(player="main", block=2, arrays=arrays))
    assert harness.acked() == 2
    assert harness.learner.state.metrics.drops["dropped_malformed"] == 1
    assert "dropped malformed block 1, from sampler-0: seg" in caplog.text
    assert problem in caplog.text
    harness.block(3, decisions=10)
    assert harness.learner.work()


def test_blocks_are_checked_once(harness, monkeypatch):
    """When they are received; concatenating and splitting keeps them valid."""
    checked, check = [], SegmentBatch.check
    monkeypatch.setattr(SegmentBatch, "check", lambda batch: [checked.append(batch), check(batch)])
    for number in (1, 2, 3):
        harness.block(number)
    assert harness.learner.work()
    assert [batch.num_decisions for batch in checked] == [4, 4, 4]


# -- weights ---------------------------------------------------------------------------------------------------------


def test_weights_are_sent_once_per_version_and_sampler(harness):
    """Other credits have no weights."""
    harness.learner.handle("sampler-0", Hello())
    for number in (1, 2, 3):
        harness.block(number)
    harness.learner.work()
    sent = [(credit.version, credit.weights.get("w", np.array([])).tolist()) for credit in harness.link.of(Credit)]
    assert sent == [(0, [0]), (0, []), (0, []), (1, [1])]


# -- memory ----------------------------------------------------------------------------------------------------------


def released(harness):
    """Return the last block whose memory the sampler may reuse."""
    return [credit.released for credit in harness.link.of(Credit)][-1]


def test_acknowledged_blocks_are_released_by_the_update(harness):
    """Blocks acknowledged at once are still to be read."""
    harness.block(1)
    harness.block(2)
    assert (harness.acked(), released(harness)) == (2, 0)
    harness.block(3)
    harness.learner.work()
    assert (harness.acked(), released(harness)) == (3, 3)


def test_a_block_is_released_with_its_last_part(harness):
    """A large block makes several updates."""
    harness.block(1, decisions=5, versions=(0,) * 4)
    harness.learner.work()
    assert released(harness) == 0
    harness.learner.work()
    assert released(harness) == 1


def test_dropped_blocks_are_released(harness):
    """But no earlier block that is queued."""
    harness.block(1)
    harness.learner.handle("sampler-0", Segments(player="main", block=2, arrays={}))
    harness.block(3)
    assert released(harness) == 0
    harness.block(4)
    harness.learner.work()
    assert released(harness) == 4


def test_blocks_are_released_per_sampler(harness):
    """Each sampler has its own counters."""
    harness.block(1, peer="sampler-0")
    harness.block(1, versions=(0, 0), peer="sampler-1")
    harness.learner.work()
    harness.block(2, peer="sampler-1")
    last = {who: message.released for who, message in harness.link.sent if isinstance(message, Credit)}
    assert last == {"sampler-0": 1, "sampler-1": 1}


def test_late_blocks_of_a_killed_sampler_grant_no_credits(harness):
    """They are learned from, but their numbers mean nothing to the new process."""
    harness.learner.handle("sampler-0", Hello(pid=2))
    harness.block(57, pid=1)
    harness.block(1, pid=2)
    last = harness.link.of(Credit)[-1]
    assert (last.pid, last.acked, last.released) == (2, 1, 0)
    harness.block(2, pid=2)
    harness.learner.work()
    assert harness.trainer.batches[0].num_decisions == 12


def test_every_version_is_published_to_shared_memory(make_harness):
    """From the first one on, before any credit is sent."""
    shown = []

    class SharedMemory:
        def expect_blocks(self, check):
            pass

        def publish(self, weights, version):
            shown.append((weights["w"].tolist(), version, len(harness.link.of(Credit))))

    harness = make_harness(memory=SharedMemory())
    harness.learner.handle("sampler-0", Hello())
    harness.welcome()
    harness.block(1, decisions=10)
    harness.learner.work()
    assert shown == [([0.0], 0, 0), ([1.0], 1, 1)]


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([8, 8, 8], [8, 8, 8]),  # of batches of 11: 16 would be further off
        ([7, 7, 7, 7], [14, 14]),
        ([4, 4, 4, 4], [12]),
    ],
)
def test_an_update_takes_as_many_blocks_as_come_closest_to_a_batch(harness, sizes, batches):
    """Neither nearly two batches, nor half of one."""
    harness.welcome()
    for number, decisions in enumerate(sizes, start=1):
        harness.block(number, decisions=decisions)
        harness.learner.work()
    assert [batch.num_decisions for batch in harness.trainer.batches] == batches


def test_a_block_of_nearly_two_batches_makes_two_updates(harness):
    """Of 20 decisions, where a batch is 11."""
    harness.welcome()
    harness.block(1, decisions=2, versions=(0,) * 10)
    assert harness.learner.work()
    assert harness.learner.work()
    assert [batch.num_decisions for batch in harness.trainer.batches] == [10, 10]
