"""Learners resume after restarts and refused updates, and write models and checkpoints."""

from __future__ import annotations

from pathlib import PurePath

import pytest
from ludus._messaging.messages import (
    Checkpoint,
    CheckpointAck,
    FreezeRequest,
    Heartbeat,
    Hello,
    MetricsReport,
    ModelAck,
    ModelFrozen,
    PeerRefused,
    Stop,
    TrainingProgress,
)
from ludus._store.model_files import load_arrays, load_manifest, save_checkpoint
from ludus._training_budget import TrainingBudget
from ludus.activity import UPDATING, report_activity
from ludus.errors import ContractError, ModelError, RunError
from ludus.launcher import COORDINATOR

# -- restarts --------------------------------------------------------------------------------------------------------


def test_no_credits_before_the_welcome(make_harness):
    """A sampler that registers early gets its credit after the welcome."""
    harness = make_harness()
    harness.learner.handle("sampler-0", Hello())
    assert harness.acked() is None
    harness.welcome()
    assert harness.acked() == 0


def test_hello_is_sent_until_the_welcome(make_harness):
    """Once a second."""
    harness = make_harness()
    for _ in range(35):
        harness.now += 0.1
        harness.learner.work()
    assert len(harness.link.of(Hello)) == 4


def test_a_restarted_learner_counts_on_from_the_last_block_sent(make_harness):
    """Blocks in flight to its predecessor are lost and hold no credit."""
    harness = make_harness()
    harness.welcome()
    harness.learner.handle("sampler-0", Hello(block=17))
    assert harness.acked() == 17
    harness.block(18)
    assert harness.acked() == 18


def test_a_restarted_sampler_counts_from_the_start(harness):
    """Blocks of its predecessor do not count."""
    harness.block(40, decisions=20)
    harness.learner.handle("sampler-0", Hello(block=0))
    assert harness.acked() == 0
    harness.learner.work()
    assert harness.acked() == 0
    harness.block(1)
    assert harness.acked() == 1


def test_a_league_continues_after_a_learner_restart(league):
    """The learner resumes from its checkpoint, and the sampler reconnects."""
    runner = league(run={"checkpoint_s": 1})
    runner.train(700)
    before = runner.coordinator.league.players["main"]
    runner.start("learner-main")
    runner.train(1600)
    assert runner.learner("main").state.decisions >= 1600
    assert len(runner.coordinator.league.players["main"].models) > len(before.models)


# -- refused updates -------------------------------------------------------------------------------------------------


def test_a_refused_update_is_dropped(harness):
    """Version and decisions stay, its blocks are acknowledged, and the next update counts."""
    harness.trainer.failing = True
    harness.block(1, decisions=10)
    harness.learner.work()
    assert (harness.learner.state.version, harness.learner.state.decisions, harness.acked()) == (0, 0, 1)
    assert harness.learner.state.metrics.drops["dropped_refused"] == 1
    harness.trainer.failing = False
    harness.block(2, decisions=10)
    harness.learner.work()
    assert harness.learner.state.version == 1


def test_three_refused_updates_in_a_row_raise(harness):
    """The error names the player; a successful update resets the count."""
    for number, failing in enumerate((True, True, False, True, True), start=1):
        harness.trainer.failing = failing
        harness.block(number, decisions=10)
        harness.learner.work()
    harness.block(6, decisions=10)
    with pytest.raises(ContractError, match="player 'main': the loss is not finite — 3 updates in a row"):
        harness.learner.work()


def test_refused_updates_with_data_of_another_host_cut_it_off(harness):
    """They do not end the learner; those without its data still do."""
    harness.trainer.failing = True
    for number in range(1, 17):
        harness.block(number, decisions=10, peer="sampler-box-0")
        assert not harness.link.of(PeerRefused)
        harness.learner.work()
    (message,) = harness.link.of(PeerRefused)
    assert message.peer == "sampler-box-0"
    assert "a batch with its segments has been refused: the loss is not finite" in message.problem
    for number in (1, 2, 3):
        harness.block(number, decisions=10)
        if number < 3:
            harness.learner.work()
    with pytest.raises(ContractError, match="3 updates in a row"):
        harness.learner.work()


def test_a_learner_sends_heartbeats_during_an_update(harness, monkeypatch):
    """For every activity that its trainer reports, so that a long update is not taken for a hanging one."""
    update = harness.trainer.update

    def report_and_update(batch, *, progress):
        report_activity(UPDATING, 0, 2)
        assert len(harness.link.of(Heartbeat)) == 1
        return update(batch, progress=progress)

    monkeypatch.setattr(harness.trainer, "update", report_and_update)
    harness.block(1, decisions=10)
    harness.learner.work()
    assert [message.count for message in harness.link.of(Heartbeat)] == [0, 10]


@pytest.mark.parametrize("blocks", [1, 2])
def test_batches_are_read_only(harness, blocks):
    """Whether blocks are concatenated or not."""
    for number in range(1, blocks + 1):
        harness.block(number, decisions=10 // blocks)
    harness.learner.work()
    (batch,) = harness.trainer.batches
    assert not any(array.flags.writeable for array in batch.arrays().values())


# -- models and checkpoints ------------------------------------------------------------------------------------------


def test_models_are_frozen_by_decisions(make_harness, tmp_path):
    """File and manifest are written before the coordinator is notified."""
    harness = make_harness(freeze_every_decisions=20, manifest={"algorithm": "counter"})
    harness.welcome()
    for number in range(1, 5):
        harness.block(number, decisions=10)
        harness.learner.work()
    first, second = harness.link.of(ModelFrozen)
    assert [(m.number, m.decisions, m.version) for m in (first, second)] == [(1, 20, 2), (2, 40, 4)]
    assert load_arrays(tmp_path / "models", second.hash)["w"].tolist() == [4]
    assert load_manifest(tmp_path / "models", second.hash)["algorithm"] == "counter"


def test_unacknowledged_models_are_sent_again(make_harness):
    """After five seconds, until the coordinator has committed them."""
    harness = make_harness(freeze_every_decisions=10)
    harness.welcome()
    harness.block(1, decisions=10)
    harness.learner.work()
    harness.now = 6.0
    harness.learner.work()
    assert [m.number for m in harness.link.of(ModelFrozen)] == [1, 1]
    assert not harness.learner.drained
    harness.learner.handle(COORDINATOR, ModelAck(number=1, models=1))
    harness.now = 12.0
    harness.learner.work()
    assert len(harness.link.of(ModelFrozen)) == 2


def test_the_model_count_follows_the_acknowledgements(make_harness):
    """The league may have the model already, from before a restart."""
    harness = make_harness(freeze_every_decisions=20)
    harness.welcome(models=1)
    for number in (1, 2, 3):
        harness.block(number, decisions=10)
        harness.learner.work()
    assert [m.number for m in harness.link.of(ModelFrozen)] == [2]
    harness.learner.handle(COORDINATOR, ModelAck(number=2, models=1))
    harness.learner.handle(COORDINATOR, FreezeRequest(player="main", model=2, generation=0, reason="a rule"))
    assert [m.reason for m in harness.link.of(ModelFrozen)] == ["", "a rule"]


def test_slow_checkpoints_are_written_less_often(make_harness, monkeypatch):
    """A large replay buffer takes seconds to write; at most a twentieth of the time is used."""
    harness = make_harness(checkpoint_s=1.0)

    def slow(*arguments):
        harness.now += 10.0
        return save_checkpoint(*arguments)

    monkeypatch.setattr("ludus._learning.publisher.save_checkpoint", slow)
    harness.welcome()
    saved = []
    for number in range(1, 31):
        harness.now += 15.0
        harness.block(number, decisions=10, versions=(number - 1,))
        harness.learner.work()
        saved += [number] * (len({message.path for message in harness.link.of(Checkpoint)}) > len(saved))
    assert saved == [1, 15, 29]


def test_a_checkpoint_restores_weights_state_and_counters(make_harness):
    """Another learner resumes from it."""
    harness = make_harness(checkpoint_s=1.0)
    harness.welcome()
    harness.now = 2.0
    harness.block(1, decisions=10)
    harness.learner.work()
    (saved,) = harness.link.of(Checkpoint)
    other = make_harness()
    other.welcome(models=0, checkpoint=saved.path, checkpoint_hash=saved.hash)
    assert (other.trainer.updates, other.trainer.momentum) == (1, 0.5)
    assert (other.learner.state.version, other.learner.state.decisions) == (1, 10)
    assert other.learner.state.metrics.totals == harness.learner.state.metrics.totals


@pytest.mark.parametrize("folder", ["models", "learners"])
def test_write_errors_name_the_folder_and_the_remedy(make_harness, tmp_path, folder):
    """A full disk or a missing permission is not cured by a restart."""
    (tmp_path / folder).touch()  # a file in the place of the folder
    harness = make_harness(freeze_every_decisions=10)
    harness.welcome()
    harness.block(1, decisions=10)
    with pytest.raises(
        RunError, match=r"cannot be used: .* free disk space or fix its permissions and continue with `ludus resume "
    ):
        harness.learner.work()


def test_only_the_newest_checkpoint_is_acknowledged(make_harness, tmp_path):
    """No file is deleted while the store may refer to an older one."""
    harness = make_harness(checkpoint_s=1.0)
    harness.welcome()
    for number in range(1, 5):
        harness.now += 2.0
        harness.block(number, decisions=10)
        harness.learner.work()
    *_, older, newest = harness.link.of(Checkpoint)
    harness.learner.handle(COORDINATOR, CheckpointAck(path=older.path))
    assert not harness.learner.drained
    assert len(list((tmp_path / "learners" / "main").glob("*.safetensors"))) == 4
    kept = [PurePath(checkpoint.path).name for checkpoint in (older, newest)]
    harness.learner.handle(COORDINATOR, CheckpointAck(path=newest.path, kept=tuple(kept)))
    assert harness.learner.drained
    left = sorted((tmp_path / "learners" / "main").glob("*.safetensors"))
    assert [str(path.relative_to(tmp_path)) for path in left] == [older.path, newest.path]


def test_a_damaged_checkpoint_is_refused(make_harness):
    """The hash is compared before the file is parsed."""
    harness = make_harness(checkpoint_s=1.0)
    harness.welcome()
    harness.now = 2.0
    harness.block(1, decisions=10)
    harness.learner.work()
    (saved,) = harness.link.of(Checkpoint)
    with pytest.raises(ModelError, match="damaged"):
        make_harness().welcome(checkpoint=saved.path, checkpoint_hash="0" * 64)


def test_a_stop_saves_a_model_and_a_checkpoint(harness):
    """Only once; no update follows."""
    harness.block(1, decisions=10)
    harness.learner.work()
    harness.learner.handle(COORDINATOR, Stop())
    assert [m.decisions for m in harness.link.of(ModelFrozen)] == [10]
    assert [m.decisions for m in harness.link.of(Checkpoint)] == [10]
    harness.learner.handle(COORDINATOR, Stop())
    assert len(harness.link.of(ModelFrozen)) == 1
    harness.block(2, decisions=10)
    assert not harness.learner.work()


def test_a_stop_without_updates_freezes_no_model(harness):
    """Only a checkpoint is written."""
    harness.learner.handle(COORDINATOR, Stop())
    assert not harness.link.of(ModelFrozen)


# -- progress and metrics --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "elapsed_s", "progress"),
    [
        (TrainingBudget(), 100.0, 0.0),
        (TrainingBudget(decisions=40), 0.0, 0.25),
        (TrainingBudget(seconds=20.0), 5.0, 0.5),
        (TrainingBudget(decisions=40, seconds=20.0), 5.0, 0.5),
        (TrainingBudget(seconds=20.0), 500.0, 1.0),
    ],
)
def test_progress_is_the_larger_share_of_the_budget(make_harness, budget, elapsed_s, progress):
    """Time counts over all resumes."""
    harness = make_harness(budget=budget)
    harness.welcome(elapsed_s=elapsed_s)
    harness.now = 5.0
    for number in (1, 2):
        harness.block(number, decisions=10)
        harness.learner.work()
    assert harness.trainer.progress[-1] == progress


def test_decisions_of_other_players_count_for_progress(make_harness):
    """As of the welcome, then of the last heartbeat, plus own decisions."""
    harness = make_harness(budget=TrainingBudget(decisions=100))
    harness.welcome(other_decisions=30)
    for number, others in ((1, 30), (2, 30), (3, 60)):
        harness.learner.handle(COORDINATOR, TrainingProgress(other_decisions=others))
        harness.block(number, decisions=10)
        harness.learner.work()
    assert harness.trainer.progress == [0.3, 0.4, 0.8]


def test_the_idle_share_is_reported(harness):
    """From the first call without enough data to the update, across reports too."""
    harness.learner.work()  # nothing there: it waits from 0 s
    for now, block in ((1.5, 0), (2.5, 3), (4.0, 0), (6.0, 0)):
        harness.now = now
        if block:
            harness.block(block, decisions=10)
        harness.learner.work()
    shares = [report.values["idle_share"] for report in harness.link.of(MetricsReport)]
    assert shares == [1.0, 1.0, 0.0, 1.0]


def test_a_report_contains_rates_and_the_last_metrics(harness):
    """Once a second: updates, samples, reuse, queue, and the algorithm's metrics."""
    harness.learner.work()
    for number in (1, 2, 3):
        harness.block(number, decisions=10)
    harness.learner.work()
    harness.learner.work()
    harness.now = 2.0
    harness.learner.work()
    (report,) = harness.link.of(MetricsReport)
    expected = {
        "samples_per_s": 20.0,
        "updates_per_s": 1.0,
        "updates": 2.0,
        "idle_share": 0.0,
        "sample_reuse": 40 / 30,
        "entropy": 0.25,
        "version": 2,
        "decisions": 20,
        "received": 30,
        "batch_decisions": 11,
        "queue_blocks": 1,
        "staleness_mean": 0.0,
        "staleness_max": 0.0,
    }
    assert report.values == expected
