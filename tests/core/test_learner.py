"""Learners take what is fresh, acknowledge everything once, and leave models and checkpoints behind."""

from __future__ import annotations

import numpy as np
import pytest
from ludus._learner import Learner, LearnerOptions
from ludus._messages import (
    Checkpoint,
    CheckpointAck,
    Credit,
    Hello,
    MetricsReport,
    ModelAck,
    ModelFrozen,
    Progress,
    Segments,
    Stop,
    Welcome,
)
from ludus._models import load_arrays, load_manifest
from ludus.algorithm import UpdateResult
from ludus.errors import ContractError, ModelError, RunError
from ludus.launcher import COORDINATOR


class Counter:
    """A trainer that counts: its one weight is the number of updates."""

    batch_decisions = 10

    def __init__(self):
        self.updates, self.momentum, self.failing, self.batches, self.progress = 0, 0.0, False, [], []

    def update(self, batch, *, progress):
        if self.failing:
            raise ContractError("the loss is not finite")
        self.updates += 1
        self.momentum += 0.5
        self.batches.append(batch)
        self.progress.append(progress)
        return UpdateResult(metrics={"entropy": 0.25}, samples=2 * batch.num_decisions, gradient_steps=2)

    def weights(self):
        return {"w": np.array([self.updates], np.float32)}

    def load_weights(self, weights):
        self.updates = int(weights["w"][0])

    def state(self):
        return {"momentum": np.array([self.momentum])}

    def load_state(self, state):
        self.momentum = float(state["momentum"][0])


class Link:
    """Keeps what is sent."""

    def __init__(self):
        self.sent = []

    def send(self, peer, message):
        self.sent.append((peer, message))
        return True

    def of(self, kind):
        return [message for _, message in self.sent if isinstance(message, kind)]


class Desk:
    """A learner with its trainer, link and clock."""

    def __init__(self, run_dir, **options):
        self.now, self.link, self.trainer, self.run_dir = 0.0, Link(), Counter(), run_dir
        self.made = []
        self.learner = Learner(
            player="main",
            make_trainer=self.make_trainer,
            run_dir=run_dir,
            options=LearnerOptions(
                **{"credits": 2, "max_staleness": 3, "freeze_every_decisions": 10**6, "checkpoint_s": 1e9} | options
            ),
            link=self.link,
            clock=lambda: self.now,
        )
        self.learner.start()

    def make_trainer(self, generation, init):
        """Return the first trainer, and others for later generations."""
        self.made.append((generation, init))
        return Counter() if generation else self.trainer

    def welcome(self, **what):
        self.learner.handle(COORDINATOR, Welcome(**what))

    def block(self, number, *, decisions=4, versions=(0,), empty=0, peer="sampler-0", pid=0):
        """Send a block of one segment per version, each with so many decisions but the last `empty`, with none."""
        segments = len(versions)
        shape = (decisions + 1, segments)
        arrays = {
            "observation/obs": np.zeros((*shape, 1), np.float32),
            "action": np.zeros((*shape, 1), np.int64),
            "reward": np.zeros(shape, np.float32),
            "terminated": np.zeros(shape, bool),
            "truncated": np.zeros(shape, bool),
            "decided": np.ones(shape, bool),
            "elapsed_ticks": np.ones(shape, np.int32),
            "length": np.array([decisions] * (segments - empty) + [0] * empty, np.int32),
            "version": np.array(versions, np.int64),
        }
        self.learner.handle(peer, Segments(worker=peer, player="main", block=number, pid=pid, arrays=arrays))

    def acked(self, peer="sampler-0"):
        """Return the last block that a sampler heard to be taken."""
        acked = [message.acked for who, message in self.link.sent if who == peer and isinstance(message, Credit)]
        return acked[-1] if acked else None


@pytest.fixture
def desk(tmp_path):
    """Return a learner that was welcomed."""
    made = Desk(tmp_path)
    made.welcome()
    return made


# -- credits ---------------------------------------------------------------------------------------------------------


def test_blocks_are_taken_at_once_while_data_is_missing(desk):
    """A batch larger than all credits together comes together all the same."""
    desk.block(1)
    desk.block(2)
    assert desk.acked() == 2
    assert not desk.learner.work()


def test_a_block_that_fills_the_batch_is_acknowledged_by_the_update(desk):
    """So no more waits than the credits allow."""
    for number in (1, 2, 3):
        desk.block(number)
    assert desk.acked() == 2
    assert desk.learner.work()
    assert desk.acked() == 3
    assert desk.learner.decisions == 12


def test_credits_suffice_for_what_an_update_takes(desk):
    """A sampler may have its part of an update under way and a block more, so that it plays on meanwhile."""

    def granted(peer):
        return [message.credits for who, message in desk.link.sent if who == peer and isinstance(message, Credit)][-1]

    desk.block(1, decisions=2)
    assert granted("sampler-0") == 1 + 5
    desk.block(1, decisions=2, peer="sampler-1")
    assert granted("sampler-1") == 1 + 3
    desk.block(2, decisions=2, versions=(0,) * 6)
    desk.learner.work()
    assert granted("sampler-0") == 1 + 1


def test_what_waits_after_an_update_does_not_hold_credits_while_data_is_missing(desk):
    """Otherwise samplers that wait for credits and a learner that waits for data wait for each other."""
    for number in (1, 2):
        desk.block(number, decisions=5, peer="sampler-1")
    for number in (1, 2):
        desk.block(number, decisions=4)
    assert desk.acked() is None
    assert desk.learner.work()
    assert desk.acked() == 2


def test_a_dropped_block_acknowledges_none_that_still_waits(desk):
    """Blocks are acknowledged in order: the dropped one with the last that came before it."""
    desk.block(1, decisions=10)
    desk.learner.version = 9
    desk.block(2, versions=(0,))
    assert desk.acked() is None
    desk.learner.work()
    assert desk.acked() == 2


def test_dropped_blocks_hold_no_credits_while_data_is_missing(desk):
    """Else a sampler whose last blocks are all dropped waits for a learner that waits for more of it."""
    desk.block(1)
    desk.learner.version = 9
    for number in (2, 3):
        desk.block(number, versions=(0,))
        assert desk.acked() == number
    assert not desk.learner.work()


def test_a_large_block_makes_several_updates(desk):
    """None of its decisions is used twice, and it is acknowledged with its last part."""
    desk.block(1, decisions=10, versions=(0, 0, 0))
    for updates in (1, 2):
        assert desk.learner.work()
        assert (desk.learner.version, desk.acked()) == (updates, 0)
    assert desk.learner.work()
    assert (desk.learner.decisions, desk.acked()) == (30, 1)
    assert not desk.learner.work()


def test_a_batch_larger_than_all_credits_does_not_deadlock(league):
    """Eight streams of four decisions against 5,000, through the whole league."""
    runner = league(players={"main": {"dummy-gradient": {"batch_decisions": 1000}}}, sampling={"credits": 1})
    runner.until(lambda: runner.learner("main").version, rounds=1000)
    assert runner.learner("main").decisions >= 900


# -- staleness -------------------------------------------------------------------------------------------------------


def test_stale_segments_are_dropped_and_counted_one_by_one(desk):
    """Fresh segments of the same block are trained on."""
    desk.learner.version = 5
    desk.block(1, decisions=10, versions=(0, 1, 2, 5))
    while desk.learner.work():
        pass
    assert [batch.num_decisions for batch in desk.trainer.batches] == [10, 10]
    desk.now = 2.0
    desk.learner.work()
    (report,) = desk.link.of(MetricsReport)
    assert report.values["dropped_stale"] == 2
    assert (report.values["staleness_mean"], report.values["staleness_max"]) == (3.0, 5.0)


def test_empty_segments_are_not_stale(desk):
    """A stream that was not used says nothing of the versions it might have had."""
    desk.learner.version = 50
    desk.block(1, decisions=10, versions=(50, 49, 0), empty=1)
    while desk.learner.work():
        pass
    desk.now = 2.0
    desk.learner.work()
    (report,) = desk.link.of(MetricsReport)
    assert "dropped_stale" not in report.values
    assert (report.values["staleness_mean"], report.values["staleness_max"]) == (0.5, 1.0)


def test_malformed_blocks_are_dropped_and_counted(desk):
    """And acknowledged, so that their sampler goes on."""
    arrays = {"decided": np.ones((5, 1), bool)}
    desk.learner.handle("sampler-0", Segments(worker="sampler-0", player="main", block=1, arrays=arrays))
    assert desk.acked() == 1
    assert desk.learner._meter.drops["malformed"] == 1


# -- weights ---------------------------------------------------------------------------------------------------------


def test_weights_are_sent_once_per_version_and_sampler(desk):
    """A credit without newer weights carries none."""
    desk.learner.handle("sampler-0", Hello(worker="sampler-0"))
    for number in (1, 2, 3):
        desk.block(number)
    desk.learner.work()
    sent = [(credit.version, credit.weights.get("w", np.array([])).tolist()) for credit in desk.link.of(Credit)]
    assert sent == [(0, [0]), (0, []), (0, []), (1, [1])]


# -- memory ----------------------------------------------------------------------------------------------------------


def released(desk):
    """Return up to which block the sampler may use its memory again."""
    return [credit.released for credit in desk.link.of(Credit)][-1]


def test_acknowledged_blocks_are_released_when_they_are_learned_from(desk):
    """Those taken at once still wait to be read."""
    desk.block(1)
    desk.block(2)
    assert (desk.acked(), released(desk)) == (2, 0)
    desk.block(3)
    desk.learner.work()
    assert (desk.acked(), released(desk)) == (3, 3)


def test_a_block_is_released_with_its_last_part(desk):
    """A large one makes several updates."""
    desk.block(1, decisions=5, versions=(0,) * 4)
    desk.learner.work()
    assert released(desk) == 0
    desk.learner.work()
    assert released(desk) == 1


def test_dropped_blocks_are_released(desk):
    """But none before them that still waits."""
    desk.block(1)
    desk.learner.handle("sampler-0", Segments(worker="sampler-0", player="main", block=2, arrays={}))
    desk.block(3)
    assert released(desk) == 0
    desk.block(4)
    desk.learner.work()
    assert released(desk) == 4


def test_the_blocks_of_one_sampler_do_not_hold_those_of_another(desk):
    """Each counts its own."""
    desk.block(1, peer="sampler-0")
    desk.block(1, versions=(0, 0), peer="sampler-1")
    desk.learner.work()
    desk.block(2, peer="sampler-1")
    last = {who: message.released for who, message in desk.link.sent if isinstance(message, Credit)}
    assert last == {"sampler-0": 1, "sampler-1": 1}


def test_the_last_words_of_a_killed_sampler_are_no_credit_for_its_successor(desk):
    """They are learned from, but what they are numbered means nothing to the new process."""
    desk.learner.handle("sampler-0", Hello(worker="sampler-0", pid=2))
    desk.block(57, pid=1)
    desk.block(1, pid=2)
    last = desk.link.of(Credit)[-1]
    assert (last.pid, last.acked, last.released) == (2, 1, 0)
    desk.block(2, pid=2)
    desk.learner.work()
    assert desk.trainer.batches[0].num_decisions == 12


def test_every_version_is_shown_where_there_is_memory(tmp_path):
    """From the first one on, before anybody is told of it."""
    shown = []

    class Memory:
        def publish(self, weights, version):
            shown.append((weights["w"].tolist(), version, len(desk.link.of(Credit))))

    desk = Desk(tmp_path)
    desk.learner.memory = Memory()
    desk.learner.handle("sampler-0", Hello(worker="sampler-0"))
    desk.welcome()
    desk.block(1, decisions=10)
    desk.learner.work()
    assert shown == [([0.0], 0, 0), ([1.0], 1, 1)]


# -- restarts --------------------------------------------------------------------------------------------------------


def test_nobody_plays_before_the_coordinator_said_where_to_go_on(tmp_path):
    """A sampler that is early gets its credit after the welcome."""
    desk = Desk(tmp_path)
    desk.learner.handle("sampler-0", Hello(worker="sampler-0"))
    assert desk.acked() is None
    desk.welcome()
    assert desk.acked() == 0


def test_it_says_hello_until_it_is_welcomed(tmp_path):
    """Once a second."""
    desk = Desk(tmp_path)
    for _ in range(35):
        desk.now += 0.1
        desk.learner.work()
    assert len(desk.link.of(Hello)) == 4


def test_a_restarted_learner_counts_on_from_what_its_samplers_sent(tmp_path):
    """What was under way to its predecessor is gone and holds no credit."""
    desk = Desk(tmp_path)
    desk.welcome()
    desk.learner.handle("sampler-0", Hello(worker="sampler-0", block=17))
    assert desk.acked() == 17
    desk.block(18)
    assert desk.acked() == 18


def test_a_restarted_sampler_counts_from_the_start(desk):
    """Blocks of its predecessor no longer count."""
    desk.block(40, decisions=20)
    desk.learner.handle("sampler-0", Hello(worker="sampler-0", block=0))
    assert desk.acked() == 0
    desk.learner.work()
    assert desk.acked() == 0
    desk.block(1)
    assert desk.acked() == 1


def test_a_league_goes_on_after_its_learner_was_restarted(league):
    """From its last checkpoint, and the sampler notices by itself."""
    runner = league(run={"checkpoint_s": 1})
    runner.train(700)
    before = runner.coordinator.league.players["main"]
    runner.start("learner-main")
    runner.train(1600)
    assert runner.learner("main").decisions >= 1600
    assert len(runner.coordinator.league.players["main"].models) > len(before.models)


# -- refused updates -------------------------------------------------------------------------------------------------


def test_a_refused_update_is_dropped(desk):
    """Version and decisions stay, its blocks are given back, and the next one counts."""
    desk.trainer.failing = True
    desk.block(1, decisions=10)
    desk.learner.work()
    assert (desk.learner.version, desk.learner.decisions, desk.acked()) == (0, 0, 1)
    assert desk.learner._meter.drops["refused"] == 1
    desk.trainer.failing = False
    desk.block(2, decisions=10)
    desk.learner.work()
    assert desk.learner.version == 1


def test_three_refused_updates_in_a_row_end_it(desk):
    """The line names the player; two in a row with a good one between do not count."""
    for number, failing in enumerate((True, True, False, True, True), start=1):
        desk.trainer.failing = failing
        desk.block(number, decisions=10)
        desk.learner.work()
    desk.block(6, decisions=10)
    with pytest.raises(ContractError, match="player 'main': the loss is not finite — 3 updates in a row"):
        desk.learner.work()


# -- models and checkpoints ------------------------------------------------------------------------------------------


def test_models_are_frozen_by_decisions(tmp_path):
    """The file and its manifest are there before the coordinator hears of them."""
    desk = Desk(tmp_path, freeze_every_decisions=20, manifest={"algorithm": "counter"})
    desk.welcome()
    for number in range(1, 5):
        desk.block(number, decisions=10)
        desk.learner.work()
    first, second = desk.link.of(ModelFrozen)
    assert [(m.number, m.decisions, m.version) for m in (first, second)] == [(1, 20, 2), (2, 40, 4)]
    assert load_arrays(tmp_path / "models", second.hash)["w"].tolist() == [4]
    assert load_manifest(tmp_path / "models", second.hash)["algorithm"] == "counter"


def test_promises_are_repeated_until_they_are_kept(tmp_path):
    """After five seconds, until the coordinator has committed them."""
    desk = Desk(tmp_path, freeze_every_decisions=10)
    desk.welcome()
    desk.block(1, decisions=10)
    desk.learner.work()
    desk.now = 6.0
    desk.learner.work()
    assert [m.number for m in desk.link.of(ModelFrozen)] == [1, 1]
    assert not desk.learner.settled
    desk.learner.handle(COORDINATOR, ModelAck(player="main", number=1))
    desk.now = 12.0
    desk.learner.work()
    assert len(desk.link.of(ModelFrozen)) == 2


def test_a_checkpoint_holds_everything(tmp_path):
    """Another learner goes on from it: weights, state, counters."""
    desk = Desk(tmp_path, checkpoint_s=1.0)
    desk.welcome()
    desk.now = 2.0
    desk.block(1, decisions=10)
    desk.learner.work()
    (saved,) = desk.link.of(Checkpoint)
    other = Desk(tmp_path)
    other.welcome(models=0, checkpoint=saved.path, checkpoint_hash=saved.hash)
    assert (other.trainer.updates, other.trainer.momentum) == (1, 0.5)
    assert (other.learner.version, other.learner.decisions) == (1, 10)
    assert other.learner._meter.totals == desk.learner._meter.totals


@pytest.mark.parametrize("folder", ["models", "learners"])
def test_what_cannot_be_written_ends_the_run_with_what_to_do(tmp_path, folder):
    """A full disk or a missing right is cured by a person, not by another start of the learner."""
    (tmp_path / folder).touch()  # a file in the place of the folder
    desk = Desk(tmp_path, freeze_every_decisions=10)
    desk.welcome()
    desk.block(1, decisions=10)
    with pytest.raises(RunError, match=r"cannot be used: .* make room or rights there and go on with `ludus resume "):
        desk.learner.work()


def test_only_the_newest_checkpoint_settles_what_was_promised(tmp_path):
    """While the store may still refer to an older one, none is deleted."""
    desk = Desk(tmp_path, checkpoint_s=1.0)
    desk.welcome()
    for number in range(1, 5):
        desk.now += 2.0
        desk.block(number, decisions=10)
        desk.learner.work()
    *_, older, newest = desk.link.of(Checkpoint)
    desk.learner.handle(COORDINATOR, CheckpointAck(player="main", path=older.path))
    assert not desk.learner.settled
    assert len(list((tmp_path / "learners" / "main").glob("*.safetensors"))) == 4
    desk.learner.handle(COORDINATOR, CheckpointAck(player="main", path=newest.path))
    assert desk.learner.settled
    left = sorted((tmp_path / "learners" / "main").glob("*.safetensors"))
    assert [str(path.relative_to(tmp_path)) for path in left] == [older.path, newest.path]


def test_a_damaged_checkpoint_is_refused(tmp_path):
    """The hash is compared first."""
    desk = Desk(tmp_path, checkpoint_s=1.0)
    desk.welcome()
    desk.now = 2.0
    desk.block(1, decisions=10)
    desk.learner.work()
    (saved,) = desk.link.of(Checkpoint)
    with pytest.raises(ModelError, match="damaged"):
        Desk(tmp_path).welcome(checkpoint=saved.path, checkpoint_hash="0" * 64)


def test_the_last_weights_are_left_as_a_model_and_a_checkpoint(desk):
    """A stop loses nothing that was learned, and freezes nothing twice."""
    desk.block(1, decisions=10)
    desk.learner.work()
    desk.learner.handle(COORDINATOR, Stop())
    assert [m.decisions for m in desk.link.of(ModelFrozen)] == [10]
    assert [m.decisions for m in desk.link.of(Checkpoint)] == [10]
    desk.learner.handle(COORDINATOR, Stop())
    assert len(desk.link.of(ModelFrozen)) == 1
    desk.block(2, decisions=10)
    assert not desk.learner.work()


def test_a_learner_that_never_learned_freezes_no_model(desk):
    """There is nothing to remember but a checkpoint."""
    desk.learner.handle(COORDINATOR, Stop())
    assert not desk.link.of(ModelFrozen)


# -- progress and metrics --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "elapsed_s", "progress"),
    [
        ({}, 100.0, 0.0),
        ({"budget_decisions": 40}, 0.0, 0.25),
        ({"budget_s": 20.0}, 5.0, 0.5),
        ({"budget_decisions": 40, "budget_s": 20.0}, 5.0, 0.5),
        ({"budget_s": 20.0}, 500.0, 1.0),
    ],
)
def test_progress_is_the_larger_share_of_the_budgets(tmp_path, options, elapsed_s, progress):
    """It drives schedules and counts over all resumes."""
    desk = Desk(tmp_path, **options)
    desk.welcome(elapsed_s=elapsed_s)
    desk.now = 5.0
    for number in (1, 2):
        desk.block(number, decisions=10)
        desk.learner.work()
    assert desk.trainer.progress[-1] == progress


def test_decisions_of_others_count_for_progress(tmp_path):
    """As heard with the welcome, then as heard last, with its own since."""
    desk = Desk(tmp_path, budget_decisions=100)
    desk.welcome(others=30)
    for number, others in ((1, 30), (2, 30), (3, 60)):
        desk.learner.handle(COORDINATOR, Progress(worker=COORDINATOR, count=others))
        desk.block(number, decisions=10)
        desk.learner.work()
    assert desk.trainer.progress == [0.3, 0.4, 0.8]


def test_the_share_of_waiting_is_reported(desk):
    """From the first look without enough data to the update; across reports too."""
    desk.learner.work()  # nothing there: it waits from 0 s
    for now, block in ((1.5, 0), (2.5, 3), (4.0, 0), (6.0, 0)):
        desk.now = now
        if block:
            desk.block(block, decisions=10)
        desk.learner.work()
    shares = [report.values["idle_share"] for report in desk.link.of(MetricsReport)]
    assert shares == [1.0, 1.0, 0.0, 1.0]


def test_a_report_holds_rates_and_the_last_metrics(desk):
    """Once a second of the clock: updates, samples, reuse, queue, and what the algorithm says."""
    desk.learner.work()
    for number in (1, 2, 3):
        desk.block(number, decisions=10)
    desk.learner.work()
    desk.learner.work()
    desk.now = 2.0
    desk.learner.work()
    (report,) = desk.link.of(MetricsReport)
    expected = {
        "samples_per_s": 20.0,
        "updates_per_s": 1.0,
        "updates": 2.0,
        "idle_share": 0.0,
        "sample_reuse": 40 / 30,
        "entropy": 0.25,
        "version": 2,
        "decisions": 20,
        "queue_blocks": 1,
        "staleness_mean": 0.0,
        "staleness_max": 0.0,
    }
    assert report.values == expected
