"""Learners grant credits to samplers, drop stale blocks, acknowledge each block once and release its memory."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._messaging.messages import Credit, Hello, MetricsReport, SamplerLeft, Segments
from ludus.segment import SegmentBatch

# -- credits ---------------------------------------------------------------------------------------------------------


def test_blocks_are_acknowledged_at_once_while_data_is_missing(desk):
    """A batch larger than all credits together can arrive."""
    desk.block(1)
    desk.block(2)
    assert desk.acked() == 2
    assert not desk.learner.work()


def test_a_block_that_fills_the_batch_is_acknowledged_by_the_update(desk):
    """So the credits bound the queue."""
    for number in (1, 2, 3):
        desk.block(number)
    assert desk.acked() == 2
    assert desk.learner.work()
    assert desk.acked() == 3
    assert desk.learner.state.decisions == 12


@pytest.mark.parametrize("processes", [1, 3])
def test_blocks_far_beyond_the_credits_are_dropped(desk, processes):
    """They are counted; other samplers, and later blocks, are learned from."""
    for number in range(1, 101):
        desk.block(number, decisions=5, pid=number % processes)  # with any process id
    assert desk.learner.intake.queue.decisions == 80  # four times four blocks of five
    desk.block(1, decisions=5, peer="sampler-1")
    assert desk.learner.intake.queue.decisions == 85
    assert desk.learner.metrics.drops == {"dropped_surplus": 84}
    while desk.learner.work():
        pass
    desk.block(101, decisions=11, versions=(desk.learner.state.version,), pid=1 % processes)
    assert desk.learner.work()
    assert desk.acked() == 101


def test_blocks_within_the_credits_are_never_dropped(desk):
    """Not even if the credits were granted before many others joined, or the sampler restarts."""
    desk.block(1, decisions=1)
    allowed = granted(desk, "sampler-0")
    for peer in range(1, 20):
        desk.learner.handle(f"sampler-{peer}", Hello())
    for number in range(2, allowed + 2):
        desk.block(number, decisions=1)
    desk.learner.handle("sampler-0", Hello(pid=1))
    for number in range(1, allowed + 1):
        desk.block(number, decisions=1, pid=1)
    assert desk.learner.intake.queue.decisions == 2 * allowed + 1
    assert not desk.learner.metrics.drops["dropped_surplus"]


def credits_of(desk, peer):
    """Return all credits sent to a sampler."""
    return [message for who, message in desk.link.sent if who == peer and isinstance(message, Credit)]


def granted(desk, peer):
    """Return how many blocks a sampler may have in flight."""
    return credits_of(desk, peer)[-1].credits


def test_credits_cover_the_samplers_part_of_an_update(desk):
    """And one block more, so that it plays on during the update."""
    desk.block(1, decisions=2)
    assert granted(desk, "sampler-0") == 1 + 6
    desk.block(1, decisions=2, peer="sampler-1")
    assert granted(desk, "sampler-1") == 1 + 3
    desk.block(2, decisions=2, versions=(0,) * 6)
    desk.learner.work()
    assert granted(desk, "sampler-0") == 1 + 1


@pytest.mark.parametrize(
    ("max_staleness", "samplers", "credits"),
    [(0, 1, 1), (1, 1, 2), (1, 2, 1), (7, 1, 2), (7, 3, 2), (7, 4, 1), (7, 40, 1), (100, 40, 1), (108, 40, 2)],
)
def test_credits_keep_blocks_from_becoming_stale(new_desk, max_staleness, samplers, credits):
    """Blocks are an update each. While the learner waits for data, none becomes stale, and each sampler has two."""
    desk = new_desk(max_staleness=max_staleness)
    desk.welcome()
    for number in range(samplers + 1):
        desk.block(1 + number // samplers, decisions=11, peer=f"sampler-{number % samplers}")
    assert desk.learner.work()
    assert granted(desk, "sampler-0") == credits
    while desk.learner.work():
        pass
    assert granted(desk, "sampler-0") == 2


@pytest.mark.parametrize("samplers", [8, 9])
def test_too_many_samplers_are_logged_once(new_desk, caplog, samplers):
    """With blocks of an update each and a staleness of seven, eight samplers can be learned from in time."""
    desk = new_desk(max_staleness=7)
    desk.welcome()
    for number in range(1, 12):
        for sampler in range(samplers):
            desk.block(number, decisions=11, peer=f"sampler-{sampler}")
        desk.learner.work()
    assert desk.learner.metrics.drops["dropped_stale"]
    expected = "9 samplers have 99 decisions in flight together, an update takes 11, and max_staleness is 7"
    assert [expected in record.message for record in caplog.records] == [True] * (samplers - 8)


def test_off_policy_trainers_do_not_limit_credits(desk):
    """Their segments are never too stale."""
    desk.trainer.off_policy = True
    for number in range(40):
        desk.block(1, decisions=11, peer=f"sampler-{number}")
    assert desk.learner.work()
    assert granted(desk, "sampler-0") == 2


def test_credits_of_a_sampler_that_left_go_to_the_others(desk):
    """Otherwise the learner would wait for data that no sampler may send."""
    for peer in ("sampler-0", "sampler-1"):
        desk.block(1, decisions=2, peer=peer)
    assert granted(desk, "sampler-1") == 1 + 3
    desk.learner.handle("sampler-1", SamplerLeft())
    desk.block(2, decisions=2)
    assert granted(desk, "sampler-0") == 1 + 6


def test_queued_blocks_of_a_sampler_that_left_are_used(desk):
    """No credit is sent for them."""
    desk.block(1, decisions=10, peer="sampler-1")
    desk.learner.handle("sampler-1", SamplerLeft())
    assert desk.learner.work()
    assert desk.learner.state.decisions == 10
    assert credits_of(desk, "sampler-1") == []


@pytest.mark.parametrize("greets", [True, False])
def test_a_sampler_that_left_may_return(desk, greets):
    """It gets weights and acknowledgements, with or without a `Hello`."""
    desk.block(1, decisions=2, peer="sampler-1", pid=7)
    desk.learner.handle("sampler-1", SamplerLeft())
    if greets:
        desk.learner.handle("sampler-1", Hello(pid=7, block=1))
    else:
        desk.block(2, decisions=2, peer="sampler-1", pid=7)
    last = credits_of(desk, "sampler-1")[-1]
    block = 1 if greets else 2
    assert (last.pid, last.acked, last.version, list(last.weights)) == (7, block, 0, ["w"])
    desk.block(3, decisions=2, peer="sampler-1", pid=7)
    assert desk.acked("sampler-1") == 3


def test_an_unknown_sampler_may_leave(desk):
    """The message may arrive twice, or without a `Hello` before."""
    for _ in range(2):
        desk.learner.handle("sampler-1", SamplerLeft())
    desk.block(1)
    assert desk.acked() == 1


def test_queued_blocks_hold_no_credits_while_data_is_missing(desk):
    """Otherwise samplers and learner would wait for each other."""
    for number in (1, 2):
        desk.block(number, decisions=5, peer="sampler-1")
    for number in (1, 2):
        desk.block(number, decisions=4)
    assert desk.acked() is None
    assert desk.learner.work()
    assert desk.acked() == 2


def test_a_dropped_block_is_acknowledged_in_order(desk):
    """Together with the last block before it."""
    desk.block(1, decisions=10)
    desk.learner.state.version = 9
    desk.block(2, versions=(0,))
    assert desk.acked() is None
    desk.learner.work()
    assert desk.acked() == 2


def test_dropped_blocks_hold_no_credits_while_data_is_missing(desk):
    """Otherwise a sampler whose last blocks are all dropped would wait for ever."""
    desk.block(1)
    desk.learner.state.version = 9
    for number in (2, 3):
        desk.block(number, versions=(0,))
        assert desk.acked() == number
    assert not desk.learner.work()


def test_a_large_block_makes_several_updates(desk):
    """No decision is used twice, and the block is acknowledged with its last part."""
    desk.block(1, decisions=10, versions=(0, 0, 0))
    for updates in (1, 2):
        assert desk.learner.work()
        assert (desk.learner.state.version, desk.acked()) == (updates, 0)
    assert desk.learner.work()
    assert (desk.learner.state.decisions, desk.acked()) == (30, 1)
    assert not desk.learner.work()


def test_a_batch_larger_than_all_credits_does_not_deadlock(league):
    """Eight streams of four decisions against 5,000, through the whole league."""
    runner = league(players={"main": {"dummy-gradient": {"batch_decisions": 1000}}}, sampling={"credits": 1})
    runner.until(lambda: runner.learner("main").state.version, rounds=1000)
    assert runner.learner("main").state.decisions >= 900


# -- staleness -------------------------------------------------------------------------------------------------------


def test_stale_segments_are_dropped_individually(desk):
    """Fresh segments of the same block are trained on."""
    desk.learner.state.version = 5
    desk.block(1, decisions=10, versions=(0, 1, 2, 5))
    while desk.learner.work():
        pass
    assert [batch.num_decisions for batch in desk.trainer.batches] == [10, 10]
    desk.now = 2.0
    desk.learner.work()
    (report,) = desk.link.of(MetricsReport)
    assert report.values["dropped_stale"] == 2
    assert (report.values["staleness_mean"], report.values["staleness_max"]) == (3.0, 5.0)


@pytest.mark.parametrize("off_policy", [True, False])
def test_off_policy_trainers_use_segments_of_any_version(desk, off_policy):
    """Their staleness is measured all the same; only `off_policy = True` counts."""
    desk.trainer.off_policy = off_policy
    desk.learner.state.version = 50
    desk.block(1, decisions=10, versions=(0, 49))
    while desk.learner.work():
        pass
    assert desk.learner.state.decisions == (20 if off_policy else 10)
    desk.now = 2.0
    desk.learner.work()
    (report,) = desk.link.of(MetricsReport)
    assert report.values.get("dropped_stale", 0) == (0 if off_policy else 1)
    assert report.values["staleness_max"] == 50.0


def test_off_policy_trainers_drop_segments_from_before_a_reset(desk):
    """They belong to another generation."""
    desk.trainer.off_policy = True
    desk.learner.state.version = desk.learner.state.generation_version = 5
    desk.block(1, decisions=10, versions=(4, 5))
    assert desk.learner.metrics.drops == {"dropped_stale": 0, "dropped_reset": 1}


def test_empty_segments_are_not_stale(desk):
    """Their versions mean nothing."""
    desk.learner.state.version = 50
    desk.block(1, decisions=10, versions=(50, 49, 0), empty=1)
    while desk.learner.work():
        pass
    desk.now = 2.0
    desk.learner.work()
    (report,) = desk.link.of(MetricsReport)
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
def test_malformed_blocks_are_dropped_and_counted(desk, caplog, change, problem):
    """They are acknowledged, so that their sampler plays on; others are learned from."""
    desk.block(1)
    arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in desk.learner.layout.block_shapes(1).items()}
    change(arrays)
    desk.learner.handle("sampler-0", Segments(player="main", block=2, arrays=arrays))
    assert desk.acked() == 2
    assert desk.learner.metrics.drops["dropped_malformed"] == 1
    assert "dropped malformed block 1, from sampler-0: seg" in caplog.text
    assert problem in caplog.text
    desk.block(3, decisions=10)
    assert desk.learner.work()


def test_blocks_are_checked_once(desk, monkeypatch):
    """When they are received; concatenating and splitting keeps them valid."""
    checked, check = [], SegmentBatch.check
    monkeypatch.setattr(SegmentBatch, "check", lambda batch: [checked.append(batch), check(batch)])
    for number in (1, 2, 3):
        desk.block(number)
    assert desk.learner.work()
    assert [batch.num_decisions for batch in checked] == [4, 4, 4]


# -- weights ---------------------------------------------------------------------------------------------------------


def test_weights_are_sent_once_per_version_and_sampler(desk):
    """Other credits have no weights."""
    desk.learner.handle("sampler-0", Hello())
    for number in (1, 2, 3):
        desk.block(number)
    desk.learner.work()
    sent = [(credit.version, credit.weights.get("w", np.array([])).tolist()) for credit in desk.link.of(Credit)]
    assert sent == [(0, [0]), (0, []), (0, []), (1, [1])]


# -- memory ----------------------------------------------------------------------------------------------------------


def released(desk):
    """Return the last block whose memory the sampler may reuse."""
    return [credit.released for credit in desk.link.of(Credit)][-1]


def test_acknowledged_blocks_are_released_by_the_update(desk):
    """Blocks acknowledged at once are still to be read."""
    desk.block(1)
    desk.block(2)
    assert (desk.acked(), released(desk)) == (2, 0)
    desk.block(3)
    desk.learner.work()
    assert (desk.acked(), released(desk)) == (3, 3)


def test_a_block_is_released_with_its_last_part(desk):
    """A large block makes several updates."""
    desk.block(1, decisions=5, versions=(0,) * 4)
    desk.learner.work()
    assert released(desk) == 0
    desk.learner.work()
    assert released(desk) == 1


def test_dropped_blocks_are_released(desk):
    """But no earlier block that is queued."""
    desk.block(1)
    desk.learner.handle("sampler-0", Segments(player="main", block=2, arrays={}))
    desk.block(3)
    assert released(desk) == 0
    desk.block(4)
    desk.learner.work()
    assert released(desk) == 4


def test_blocks_are_released_per_sampler(desk):
    """Each sampler has its own counters."""
    desk.block(1, peer="sampler-0")
    desk.block(1, versions=(0, 0), peer="sampler-1")
    desk.learner.work()
    desk.block(2, peer="sampler-1")
    last = {who: message.released for who, message in desk.link.sent if isinstance(message, Credit)}
    assert last == {"sampler-0": 1, "sampler-1": 1}


def test_late_blocks_of_a_killed_sampler_grant_no_credits(desk):
    """They are learned from, but their numbers mean nothing to the new process."""
    desk.learner.handle("sampler-0", Hello(pid=2))
    desk.block(57, pid=1)
    desk.block(1, pid=2)
    last = desk.link.of(Credit)[-1]
    assert (last.pid, last.acked, last.released) == (2, 1, 0)
    desk.block(2, pid=2)
    desk.learner.work()
    assert desk.trainer.batches[0].num_decisions == 12


def test_every_version_is_published_to_shared_memory(new_desk):
    """From the first one on, before any credit is sent."""
    shown = []

    class SharedMemory:
        def publish(self, weights, version):
            shown.append((weights["w"].tolist(), version, len(desk.link.of(Credit))))

    desk = new_desk(memory=SharedMemory())
    desk.learner.handle("sampler-0", Hello())
    desk.welcome()
    desk.block(1, decisions=10)
    desk.learner.work()
    assert shown == [([0.0], 0, 0), ([1.0], 1, 1)]


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([8, 8, 8], [8, 8, 8]),  # of batches of 11: 16 would be further off
        ([7, 7, 7, 7], [14, 14]),
        ([4, 4, 4, 4], [12]),
    ],
)
def test_an_update_takes_as_many_blocks_as_come_closest_to_a_batch(desk, sizes, batches):
    """Neither nearly two batches, nor half of one."""
    desk.welcome()
    for number, decisions in enumerate(sizes, start=1):
        desk.block(number, decisions=decisions)
        desk.learner.work()
    assert [batch.num_decisions for batch in desk.trainer.batches] == batches


def test_a_block_of_nearly_two_batches_makes_two_updates(desk):
    """Of 20 decisions, where a batch is 11."""
    desk.welcome()
    desk.block(1, decisions=2, versions=(0,) * 10)
    assert desk.learner.work()
    assert desk.learner.work()
    assert [batch.num_decisions for batch in desk.trainer.batches] == [10, 10]
