"""Options that all algorithms with a replay buffer share."""

from __future__ import annotations

from attrs import frozen
from ludus.option import above, between, option, whole
from ludus_torch.config import TrainerOptions


@frozen(kw_only=True)
class ReplayOptions(TrainerOptions):
    """Options that `ludus_replay.trainer.ReplayTrainer` reads; the base class of an algorithm's configuration.

    A subclass changes a default or a help text with `ludus.option.inherited_option`.
    """

    n_step: int = option(
        1, whole(1, 65_536), help="decisions whose rewards are summed before the target bootstraps; ≥ 1"
    )
    tau: float = option(
        0.005,
        between(0.0, 1.0, open="low"),
        help="share of the online weights in an update of the target network; (0, 1]; 1: a copy",
    )
    updates_per_batch: int = option(8, whole(1, 10_000), help="gradient steps per update; ≥ 1")
    minibatch_size: int = option(256, between(1, 1_000_000), help="transitions per gradient step; [1, 1e6]")
    learning_starts: int = option(
        256, whole(1, 10**9), help="transitions in the replay buffer before the first gradient step; ≥ 1"
    )
    replay_capacity: int = option(
        100_000, whole(1, 10**9), help="rows of the replay buffer, about one per decision; ≥ 1"
    )
    replay_memory_mb: float = option(512.0, above(0), help="largest size of the replay buffer in MiB; > 0")
    checkpoint_replay: bool = option(
        True, help="checkpoints include the replay buffer, so that resuming is exact; false: checkpoints stay small"
    )
