"""Learners resume after restarts and refused updates, and write models and checkpoints."""

from __future__ import annotations

import pytest
from ludus._messaging.messages import (
    Checkpoint,
    CheckpointAck,
    FreezeRequest,
    Hello,
    MetricsReport,
    ModelAck,
    ModelFrozen,
    Stop,
    TrainingProgress,
)
from ludus._store.model_files import load_arrays, load_manifest, save_checkpoint
from ludus._training_budget import TrainingBudget
from ludus.errors import ContractError, ModelError, RunError
from ludus.launcher import COORDINATOR

# -- restarts --------------------------------------------------------------------------------------------------------


def test_no_credits_before_the_welcome(new_desk):
    """A sampler that registers early gets its credit after the welcome."""
    desk = new_desk()
    desk.learner.handle("sampler-0", Hello())
    assert desk.acked() is None
    desk.welcome()
    assert desk.acked() == 0


def test_hello_is_sent_until_the_welcome(new_desk):
    """Once a second."""
    desk = new_desk()
    for _ in range(35):
        desk.now += 0.1
        desk.learner.work()
    assert len(desk.link.of(Hello)) == 4


def test_a_restarted_learner_counts_on_from_the_last_block_sent(new_desk):
    """Blocks in flight to its predecessor are lost and hold no credit."""
    desk = new_desk()
    desk.welcome()
    desk.learner.handle("sampler-0", Hello(block=17))
    assert desk.acked() == 17
    desk.block(18)
    assert desk.acked() == 18


def test_a_restarted_sampler_counts_from_the_start(desk):
    """Blocks of its predecessor do not count."""
    desk.block(40, decisions=20)
    desk.learner.handle("sampler-0", Hello(block=0))
    assert desk.acked() == 0
    desk.learner.work()
    assert desk.acked() == 0
    desk.block(1)
    assert desk.acked() == 1


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


def test_a_refused_update_is_dropped(desk):
    """Version and decisions stay, its blocks are acknowledged, and the next update counts."""
    desk.trainer.failing = True
    desk.block(1, decisions=10)
    desk.learner.work()
    assert (desk.learner.state.version, desk.learner.state.decisions, desk.acked()) == (0, 0, 1)
    assert desk.learner.metrics.drops["dropped_refused"] == 1
    desk.trainer.failing = False
    desk.block(2, decisions=10)
    desk.learner.work()
    assert desk.learner.state.version == 1


def test_three_refused_updates_in_a_row_raise(desk):
    """The error names the player; a successful update resets the count."""
    for number, failing in enumerate((True, True, False, True, True), start=1):
        desk.trainer.failing = failing
        desk.block(number, decisions=10)
        desk.learner.work()
    desk.block(6, decisions=10)
    with pytest.raises(ContractError, match="player 'main': the loss is not finite — 3 updates in a row"):
        desk.learner.work()


@pytest.mark.parametrize("blocks", [1, 2])
def test_batches_are_read_only(desk, blocks):
    """Whether blocks are concatenated or not."""
    for number in range(1, blocks + 1):
        desk.block(number, decisions=10 // blocks)
    desk.learner.work()
    (batch,) = desk.trainer.batches
    assert not any(array.flags.writeable for array in batch.arrays().values())


# -- models and checkpoints ------------------------------------------------------------------------------------------


def test_models_are_frozen_by_decisions(new_desk, tmp_path):
    """File and manifest are written before the coordinator is notified."""
    desk = new_desk(freeze_every_decisions=20, manifest={"algorithm": "counter"})
    desk.welcome()
    for number in range(1, 5):
        desk.block(number, decisions=10)
        desk.learner.work()
    first, second = desk.link.of(ModelFrozen)
    assert [(m.number, m.decisions, m.version) for m in (first, second)] == [(1, 20, 2), (2, 40, 4)]
    assert load_arrays(tmp_path / "models", second.hash)["w"].tolist() == [4]
    assert load_manifest(tmp_path / "models", second.hash)["algorithm"] == "counter"


def test_unacknowledged_models_are_sent_again(new_desk):
    """After five seconds, until the coordinator has committed them."""
    desk = new_desk(freeze_every_decisions=10)
    desk.welcome()
    desk.block(1, decisions=10)
    desk.learner.work()
    desk.now = 6.0
    desk.learner.work()
    assert [m.number for m in desk.link.of(ModelFrozen)] == [1, 1]
    assert not desk.learner.drained
    desk.learner.handle(COORDINATOR, ModelAck(number=1, models=1))
    desk.now = 12.0
    desk.learner.work()
    assert len(desk.link.of(ModelFrozen)) == 2


def test_the_model_count_follows_the_acknowledgements(new_desk):
    """The league may have the model already, from before a restart."""
    desk = new_desk(freeze_every_decisions=20)
    desk.welcome(models=1)
    for number in (1, 2, 3):
        desk.block(number, decisions=10)
        desk.learner.work()
    assert [m.number for m in desk.link.of(ModelFrozen)] == [2]
    desk.learner.handle(COORDINATOR, ModelAck(number=2, models=1))
    desk.learner.handle(COORDINATOR, FreezeRequest(player="main", model=2, generation=0, reason="a rule"))
    assert [m.reason for m in desk.link.of(ModelFrozen)] == ["", "a rule"]


def test_slow_checkpoints_are_written_less_often(new_desk, monkeypatch):
    """A large replay buffer takes seconds to write; at most a twentieth of the time is used."""
    desk = new_desk(checkpoint_s=1.0)

    def slow(*arguments):
        desk.now += 10.0
        return save_checkpoint(*arguments)

    monkeypatch.setattr("ludus._learning.publisher.save_checkpoint", slow)
    desk.welcome()
    saved = []
    for number in range(1, 31):
        desk.now += 15.0
        desk.block(number, decisions=10, versions=(number - 1,))
        desk.learner.work()
        saved += [number] * (len({message.path for message in desk.link.of(Checkpoint)}) > len(saved))
    assert saved == [1, 15, 29]


def test_a_checkpoint_restores_weights_state_and_counters(new_desk):
    """Another learner resumes from it."""
    desk = new_desk(checkpoint_s=1.0)
    desk.welcome()
    desk.now = 2.0
    desk.block(1, decisions=10)
    desk.learner.work()
    (saved,) = desk.link.of(Checkpoint)
    other = new_desk()
    other.welcome(models=0, checkpoint=saved.path, checkpoint_hash=saved.hash)
    assert (other.trainer.updates, other.trainer.momentum) == (1, 0.5)
    assert (other.learner.state.version, other.learner.state.decisions) == (1, 10)
    assert other.learner.metrics.totals == desk.learner.metrics.totals


@pytest.mark.parametrize("folder", ["models", "learners"])
def test_write_errors_name_the_folder_and_the_remedy(new_desk, tmp_path, folder):
    """A full disk or a missing permission is not cured by a restart."""
    (tmp_path / folder).touch()  # a file in the place of the folder
    desk = new_desk(freeze_every_decisions=10)
    desk.welcome()
    desk.block(1, decisions=10)
    with pytest.raises(
        RunError, match=r"cannot be used: .* free disk space or fix its permissions and continue with `ludus resume "
    ):
        desk.learner.work()


def test_only_the_newest_checkpoint_is_acknowledged(new_desk, tmp_path):
    """No file is deleted while the store may refer to an older one."""
    desk = new_desk(checkpoint_s=1.0)
    desk.welcome()
    for number in range(1, 5):
        desk.now += 2.0
        desk.block(number, decisions=10)
        desk.learner.work()
    *_, older, newest = desk.link.of(Checkpoint)
    desk.learner.handle(COORDINATOR, CheckpointAck(path=older.path))
    assert not desk.learner.drained
    assert len(list((tmp_path / "learners" / "main").glob("*.safetensors"))) == 4
    desk.learner.handle(COORDINATOR, CheckpointAck(path=newest.path))
    assert desk.learner.drained
    left = sorted((tmp_path / "learners" / "main").glob("*.safetensors"))
    assert [str(path.relative_to(tmp_path)) for path in left] == [older.path, newest.path]


def test_a_damaged_checkpoint_is_refused(new_desk):
    """The hash is compared before the file is parsed."""
    desk = new_desk(checkpoint_s=1.0)
    desk.welcome()
    desk.now = 2.0
    desk.block(1, decisions=10)
    desk.learner.work()
    (saved,) = desk.link.of(Checkpoint)
    with pytest.raises(ModelError, match="damaged"):
        new_desk().welcome(checkpoint=saved.path, checkpoint_hash="0" * 64)


def test_a_stop_saves_a_model_and_a_checkpoint(desk):
    """Only once; no update follows."""
    desk.block(1, decisions=10)
    desk.learner.work()
    desk.learner.handle(COORDINATOR, Stop())
    assert [m.decisions for m in desk.link.of(ModelFrozen)] == [10]
    assert [m.decisions for m in desk.link.of(Checkpoint)] == [10]
    desk.learner.handle(COORDINATOR, Stop())
    assert len(desk.link.of(ModelFrozen)) == 1
    desk.block(2, decisions=10)
    assert not desk.learner.work()


def test_a_stop_without_updates_freezes_no_model(desk):
    """Only a checkpoint is written."""
    desk.learner.handle(COORDINATOR, Stop())
    assert not desk.link.of(ModelFrozen)


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
def test_progress_is_the_larger_share_of_the_budget(new_desk, budget, elapsed_s, progress):
    """Time counts over all resumes."""
    desk = new_desk(budget=budget)
    desk.welcome(elapsed_s=elapsed_s)
    desk.now = 5.0
    for number in (1, 2):
        desk.block(number, decisions=10)
        desk.learner.work()
    assert desk.trainer.progress[-1] == progress


def test_decisions_of_other_players_count_for_progress(new_desk):
    """As of the welcome, then of the last heartbeat, plus own decisions."""
    desk = new_desk(budget=TrainingBudget(decisions=100))
    desk.welcome(other_decisions=30)
    for number, others in ((1, 30), (2, 30), (3, 60)):
        desk.learner.handle(COORDINATOR, TrainingProgress(other_decisions=others))
        desk.block(number, decisions=10)
        desk.learner.work()
    assert desk.trainer.progress == [0.3, 0.4, 0.8]


def test_the_idle_share_is_reported(desk):
    """From the first call without enough data to the update, across reports too."""
    desk.learner.work()  # nothing there: it waits from 0 s
    for now, block in ((1.5, 0), (2.5, 3), (4.0, 0), (6.0, 0)):
        desk.now = now
        if block:
            desk.block(block, decisions=10)
        desk.learner.work()
    shares = [report.values["idle_share"] for report in desk.link.of(MetricsReport)]
    assert shares == [1.0, 1.0, 0.0, 1.0]


def test_a_report_contains_rates_and_the_last_metrics(desk):
    """Once a second: updates, samples, reuse, queue, and the algorithm's metrics."""
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
