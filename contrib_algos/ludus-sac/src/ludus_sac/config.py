"""Options of soft actor-critic."""

from __future__ import annotations

from attrs import frozen
from ludus.option import Check, above, at_least, between, one_of, option, optional

__all__ = ["SACConfig"]

_TAU = between(0.0, 1.0, open="low")
_ENTROPY = optional(Check("a number, or unset", between(-1e9, 1e9).accepts))


@frozen(kw_only=True)
class SACConfig:
    """Soft actor-critic for Box and Discrete actions [DIS appendix A]."""

    learning_rate: float = option(3e-4, above(0), help="Adam step size of the policy; > 0; Haarnoja et al.: 3e-4")
    critic_learning_rate: float = option(3e-4, above(0), help="Adam step size of the critics; > 0")
    alpha_learning_rate: float = option(3e-4, above(0), help="Adam step size of the log temperature; > 0")
    learning_rate_schedule: str = option(
        "constant",
        one_of("constant", "linear"),
        help="constant, or all three linear to 0 over the training budget",
        scheduled=True,
    )
    adam_eps: float = option(1e-8, above(0), help="Adam's term against division by zero; > 0")
    max_grad_norm: float = option(
        10.0,
        above(0),
        help="gradients of the policy, and of both critics together, are scaled down to this L2 norm; > 0",
    )

    gamma: float = option(0.99, between(0.0, 1.0), help="discount per decision or tick; [0, 1]")
    discount_per: str = option(
        "decision",
        one_of("decision", "tick"),
        help="what gamma counts: decisions, or elapsed ticks (asynchronous games)",
    )
    n_step: int = option(1, at_least(1), help="decisions whose rewards are summed before the target bootstraps; ≥ 1")
    tau: float = option(
        0.005, _TAU, help="share of the critics that their targets take over at every gradient step; (0, 1]; 1: a copy"
    )

    alpha: float = option(
        0.2, above(0), help="temperature: what a nat of entropy is worth, in rewards; > 0; where learned, at the start"
    )
    learn_alpha: bool = option(True, help="the temperature is steered so that the policy keeps the target entropy")
    target_entropy: float | None = option(
        None,
        _ENTROPY,
        help="entropy to keep, in nats; continuous: of actions in [-1, 1]; unset: minus the number of dimensions, or "
        "target_entropy_fraction",
    )
    target_entropy_fraction: float = option(
        0.3,
        between(0.0, 1.0),
        help="discrete: entropy to keep as a share of log(number of legal actions), row by row; [0, 1]; "
        "Christodoulou: 0.98",
    )

    segment_decisions: int = option(16, at_least(1), help="longest segment T in decisions; ≥ 1")
    batch_decisions: int = option(256, at_least(1), help="fresh decisions per update; ≥ 1")
    updates_per_batch: int = option(
        64, at_least(1), help="gradient steps per update; ≥ 1; one for each fresh decision in the original"
    )
    minibatch_size: int = option(
        256, between(1, 1_000_000), help="transitions per gradient step; [1, 1e6]; Haarnoja et al.: 256"
    )
    learning_starts: int = option(256, at_least(1), help="transitions to remember before the first gradient step; ≥ 1")

    replay_capacity: int = option(
        1_000_000, at_least(1), help="rows of the replay memory, about one per decision; ≥ 1; Haarnoja et al.: 1e6"
    )
    replay_memory_mb: float = option(512.0, above(0), help="memory of the replay at most, in MiB; > 0")
    checkpoint_replay: bool = option(
        True, help="checkpoints hold the replay memory too, so that resuming is exact; false: they stay small"
    )
    cpu_kernels: str = option(
        "auto",
        one_of("auto", "onednn", "torch", "plain"),
        help="what multiplies in linear layers on the CPU while they learn, fused with their activations: oneDNN or "
        "torch; plain: layers are not fused; auto: oneDNN, but torch on x86 without AVX-512",
    )
    cuda_graphs: bool = option(
        True,
        help="on a GPU, gradient steps are recorded, and repeated by one launch each; they are launched piece by piece "
        "where that fails",
    )
    decision_values: bool = option(
        False,
        help="decisions say what the policy expects, for opponents that learn from it; costs two critics per decision",
    )
