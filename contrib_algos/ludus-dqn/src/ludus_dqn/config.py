"""Options of DQN."""

from __future__ import annotations

from attrs import frozen
from ludus.option import above, at_least, between, one_of, option

__all__ = ["DQNConfig"]

_TAU = between(0.0, 1.0, open="low")


@frozen(kw_only=True)
class DQNConfig:
    """Deep Q-learning and the Minimax Exploiter [Minimax §4-5]."""

    learning_rate: float = option(5e-4, above(0), help="Adam step size; > 0")
    learning_rate_schedule: str = option(
        "constant",
        one_of("constant", "linear"),
        help="constant, or linear to 0 over the training budget",
        scheduled=True,
    )
    adam_eps: float = option(1e-5, above(0), help="Adam's term against division by zero; > 0")
    max_grad_norm: float = option(10.0, above(0), help="gradients are scaled down to this L2 norm; > 0")
    loss: str = option("huber", one_of("huber", "mse"), help="of the TD error: huber (linear beyond 1), or its square")

    gamma: float = option(
        0.99, between(0.0, 1.0), help="discount per decision or tick; [0, 1]; Minimax: 0.995, gamma-0 agent: 0"
    )
    discount_per: str = option(
        "decision",
        one_of("decision", "tick"),
        help="what gamma counts: decisions, or elapsed ticks (asynchronous games)",
    )
    n_step: int = option(1, at_least(1), help="decisions whose rewards are summed before the target bootstraps; ≥ 1")
    double: bool = option(True, help="the online network chooses the next action that the target network values")
    dueling: bool = option(False, help="two heads, V(s) and advantages, make up Q(s, a)")
    target_update_steps: int = option(250, at_least(1), help="gradient steps between updates of the target network")
    tau: float = option(
        1.0, _TAU, help="share of the online weights in such an update; (0, 1]; 1: a copy; Polyak: 0.005 at every step"
    )

    epsilon: float = option(
        0.01, between(0.0, 1.0), help="share of random actions after the decay; [0, 1]; Minimax: 0.01 throughout"
    )
    epsilon_start: float = option(1.0, between(0.0, 1.0), help="share of random actions at first; [0, 1]")
    epsilon_decisions: int = option(
        20_000, at_least(0), help="decisions learned from until epsilon is reached, linear in between; 0: at once"
    )

    segment_decisions: int = option(16, at_least(1), help="longest segment T in decisions; ≥ 1")
    batch_decisions: int = option(256, at_least(1), help="fresh decisions per update; ≥ 1")
    updates_per_batch: int = option(8, at_least(1), help="gradient steps per update; ≥ 1")
    minibatch_size: int = option(256, between(1, 1_000_000), help="transitions per gradient step; [1, 1e6]")
    learning_starts: int = option(256, at_least(1), help="transitions to remember before the first gradient step; ≥ 1")

    replay_capacity: int = option(100_000, at_least(1), help="rows of the replay memory, about one per decision; ≥ 1")
    replay_memory_mb: float = option(512.0, above(0), help="memory of the replay at most, in MiB; > 0")
    checkpoint_replay: bool = option(
        True, help="checkpoints hold the replay memory too, so that resuming is exact; false: they stay small"
    )
    prioritized: bool = option(False, help="draw transitions in proportion to |TD error|^priority_exponent")
    priority_exponent: float = option(0.6, between(0.0, 1.0), help="alpha of prioritised draws; [0, 1]; 0: uniform")
    importance_exponent: float = option(
        0.4,
        between(0.0, 1.0),
        help="beta of the importance weights at first, 1 at the end of the budget, if the run has one; [0, 1]",
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

    minimax_alpha: float = option(
        0.0,
        at_least(0.0),
        help="weight of the opponent's own evaluation in the reward (eq. 3); ≥ 0; 0: off; "
        "Minimax: 0.1 Tic-Tac-Toe, 0.01 Connect Four, 1 gamma-0 agent",
    )
    minimax_gamma: float = option(
        0.995, between(0.0, 1.0), help="gamma of eq. 3, not of learning; [0, 1]; paper: 0.995"
    )
    minimax_shift: str = option(
        "tracked",
        one_of("tracked", "fixed", "none"),
        help="what keeps that term at most 0 (eq. 4): the least evaluation seen so far, minimax_r_min, or nothing",
    )
    minimax_r_min: float = option(
        -1.0, between(-1e9, 1e9), help="the least that the opponent may expect, for minimax_shift = fixed"
    )
