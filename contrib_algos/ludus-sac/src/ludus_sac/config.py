"""Options of soft actor-critic."""

from __future__ import annotations

from attrs import frozen
from ludus.option import Check, above, between, inherited_option, option, optional
from ludus_replay.config import ReplayOptions

_ENTROPY = optional(Check("a number, or unset", between(-1e9, 1e9).accepts))


@frozen(kw_only=True)
class SACConfig(ReplayOptions):
    """Soft actor-critic for Box and Discrete actions [DIS appendix A]."""

    learning_rate: float = inherited_option(
        ReplayOptions, "learning_rate", 3e-4, help="Adam step size of the policy; > 0; Haarnoja et al.: 3e-4"
    )
    critic_learning_rate: float = option(3e-4, above(0), help="Adam step size of the critics; > 0")
    alpha_learning_rate: float = option(3e-4, above(0), help="Adam step size of the log temperature; > 0")
    learning_rate_schedule: str = inherited_option(
        ReplayOptions,
        "learning_rate_schedule",
        "constant",
        help="constant, or all three linear to 0 over the training budget",
    )
    adam_eps: float = inherited_option(ReplayOptions, "adam_eps", 1e-8)
    max_grad_norm: float = inherited_option(
        ReplayOptions,
        "max_grad_norm",
        10.0,
        help="gradients of the policy, and of both critics together, are scaled down to this L2 norm; > 0",
    )
    tau: float = inherited_option(
        ReplayOptions,
        "tau",
        0.005,
        help="share of the critics' weights in the update of the target critics at every gradient step; (0, 1]; "
        "1: a copy",
    )

    alpha: float = option(
        0.2, above(0), help="temperature: reward per nat of entropy; > 0; with learn_alpha the initial value"
    )
    learn_alpha: bool = option(True, help="adapt the temperature so that the policy keeps the target entropy")
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

    updates_per_batch: int = inherited_option(
        ReplayOptions,
        "updates_per_batch",
        64,
        help="gradient steps per update; ≥ 1; one for each fresh decision in the original",
    )
    minibatch_size: int = inherited_option(
        ReplayOptions,
        "minibatch_size",
        256,
        help="transitions per gradient step; [1, 1e6]; Haarnoja et al.: 256",
    )
    replay_capacity: int = inherited_option(
        ReplayOptions,
        "replay_capacity",
        1_000_000,
        help="rows of the replay buffer, about one per decision; ≥ 1; Haarnoja et al.: 1e6",
    )
    decision_values: bool = option(
        False,
        help="decisions carry the policy's value, for opponents that learn from it; evaluates two critics per decision",
    )
