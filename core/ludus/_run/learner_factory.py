"""Make learners, their helpers and their trainers."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from ludus._config.sections import RunConfig
from ludus._learning.data_parallel import GroupFormation, HelperWorker
from ludus._learning.learner import Learner, LearnerOptions
from ludus._run.context import RunContext
from ludus._run.sampler_factory import make_segment_layout
from ludus._seeding import seed_for
from ludus._store.model_files import load_arrays
from ludus._version import __version__
from ludus.algorithm import GroupTrainer, Trainer
from ludus.launcher import Rendezvous, WorkerContext


def make_learner(run: RunContext, player: str, worker: WorkerContext) -> Learner:
    """Make the learner of a player."""
    config = run.config
    return Learner(
        player=player,
        layout=make_segment_layout(run, player),
        make_trainer=partial(make_trainer, run, player),
        run_dir=run.run_dir,
        options=LearnerOptions(
            credits=config.sampling.credits,
            max_staleness=config.sampling.max_staleness,
            freeze_every_decisions=run.player(player).freeze_every_decisions,
            checkpoint_s=config.run.checkpoint_s,
            budget=run.budget,
            manifest=_manifest(run, player),
        ),
        link=worker.link,
        clock=worker.clock,
        memory=worker.memory,
        group_formation=_group_formation(run, player, worker.rendezvous),
    )


def make_helper(run: RunContext, name: str, worker: WorkerContext) -> HelperWorker:
    """Make a helper of a learner; its name holds its rank, from 1, and the player."""
    _, rank, player = name.split("-", maxsplit=2)
    trainer = make_trainer(run, player, 0, "", rank=int(rank))
    assert isinstance(trainer, GroupTrainer)
    formation = _group_formation(run, player, worker.rendezvous)
    return HelperWorker(name=name, formation=formation, trainer=trainer, link=worker.link, clock=worker.clock)


def make_trainer(
    run: RunContext, player: str, generation: int, init: str, *, rank: int = 0, device: str = ""
) -> Trainer:
    """Make the trainer of a player.

    Args:
        run: The run.
        player: Player to train.
        generation: Number of resets of the player.
        init: Hash of the run's model to start from; empty for the ``init`` option of the player.
        rank: Rank of this process in the learner's process group.
        device: Torch device; empty for the configured one.

    Raises:
        ModelError: The model to start from cannot be loaded.
    """
    seed = seed_for(run.config.run.seed, "learner", player, *([generation] if generation else []))
    algorithm = run.player_components(player, run.spec).algorithm
    trainer = algorithm.make_trainer(seed=seed, device=device or learner_device(run.config, player, rank))
    configured = run.player(player).init
    if init or configured:
        path = run.run_dir / "models" / init if init else Path(configured)
        trainer.load_weights(load_arrays(path.parent, path.stem))
    return trainer


def learner_device(config: RunConfig, player: str, rank: int) -> str:
    """Return the torch device of a learner process; ``cuda`` assigns the GPUs of the host in turn."""
    device = config.run.device
    if device != "cuda":
        return device
    import torch  # noqa: PLC0415 - not needed to plan the workers of a run

    earlier = takewhile(lambda other: other.name != player, config.players.values())
    index = sum(other.learner_processes for other in earlier) + rank
    return f"cuda:{index % torch.cuda.device_count()}"


def _group_formation(run: RunContext, player: str, rendezvous: Rendezvous | None) -> GroupFormation | None:
    if rendezvous is None or run.player(player).learner_processes == 1:
        return None
    # A learner that waits for a helper sends nothing, and may have to repeat the update.
    return GroupFormation(player, rendezvous, timeout_s=run.config.run.stall_s / 4)


def _manifest(run: RunContext, player: str) -> dict[str, Any]:
    config = run.player(player)
    versions = {report.distribution: report.version for report in run.plugins.reports if report.status == "ok"}
    return {
        "environment": run.config.environment.name,
        "algorithm": config.algorithm.name,
        "network": config.network.name if config.network else None,
        "config": run.config.data.get("players", {}).get(player, {}),
        "versions": {"ludus": __version__, **versions},
    }
