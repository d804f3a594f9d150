"""Options that all algorithms with a replay buffer share."""

from __future__ import annotations

from attrs import frozen
from ludus.option import above, at_least, between, one_of, option

__all__ = ["ReplayOptions"]


@frozen(kw_only=True)
class ReplayOptions:
    """Options that `ludus_replay.trainer.ReplayTrainer` reads; the base class of an algorithm's configuration.

    A subclass changes a default with `ludus.option.inherited_option`.
    """

    learning_rate: float = option(3e-4, above(0), help="Adam step size; > 0")
    learning_rate_schedule: str = option(
        "constant",
        one_of("constant", "linear"),
        help="constant, or linear to 0 over the training budget",
        scheduled=True,
    )
    adam_eps: float = option(1e-8, above(0), help="Adam's term against division by zero; > 0")
    max_grad_norm: float = option(10.0, above(0), help="gradients are scaled down to this L2 norm; > 0")
    gamma: float = option(0.99, between(0.0, 1.0), help="discount per decision or tick; [0, 1]")
    discount_per: str = option(
        "decision",
        one_of("decision", "tick"),
        help="what gamma counts: decisions, or elapsed ticks (asynchronous games)",
    )
    n_step: int = option(1, at_least(1), help="decisions whose rewards are summed before the target bootstraps; ≥ 1")
    tau: float = option(
        0.005,
        between(0.0, 1.0, open="low"),
        help="share of the online weights in an update of the target network; (0, 1]; 1: a copy",
    )
    segment_decisions: int = option(16, at_least(1), help="longest segment T in decisions; ≥ 1")
    batch_decisions: int = option(256, at_least(1), help="fresh decisions per update; ≥ 1")
    updates_per_batch: int = option(8, at_least(1), help="gradient steps per update; ≥ 1")
    minibatch_size: int = option(256, between(1, 1_000_000), help="transitions per gradient step; [1, 1e6]")
    learning_starts: int = option(
        256, at_least(1), help="transitions in the replay buffer before the first gradient step; ≥ 1"
    )
    replay_capacity: int = option(100_000, at_least(1), help="rows of the replay buffer, about one per decision; ≥ 1")
    replay_memory_mb: float = option(512.0, above(0), help="largest size of the replay buffer in MiB; > 0")
    checkpoint_replay: bool = option(
        True, help="checkpoints include the replay buffer, so that resuming is exact; false: checkpoints stay small"
    )
    cpu_kernels: str = option(
        "auto",
        one_of("auto", "onednn", "torch", "plain"),
        help="what multiplies in linear layers on the CPU while they learn, fused with their activations: oneDNN or "
        "torch; plain: layers are not fused; auto: oneDNN, but torch on x86 without AVX-512",
    )
    cuda_graphs: bool = option(
        True,
        help="on a GPU, record gradient steps as CUDA graphs and replay each with one launch; without effect where "
        "recording fails",
    )
