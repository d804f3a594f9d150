"""Options that trainers share."""

from __future__ import annotations

from attrs import frozen
from ludus.option import above, between, one_of, option, whole


@frozen(kw_only=True)
class TrainerOptions:
    """Options of trainers with gradient steps; a base class of an algorithm's configuration.

    A subclass changes a default or a help text with `ludus.option.inherited_option`.
    """

    learning_rate: float = option(3e-4, above(0), help="Adam step size; > 0")
    learning_rate_schedule: str = option(
        "constant",
        one_of("constant", "linear"),
        help="constant, or linear to 0 over the training budget",
        scheduled=True,
    )
    adam_eps: float = option(1e-5, above(0), help="Adam's term against division by zero; > 0")
    max_grad_norm: float = option(10.0, above(0), help="gradients are scaled down to this L2 norm; > 0")
    gamma: float = option(0.99, between(0.0, 1.0), help="discount per decision or tick; [0, 1]")
    discount_per: str = option(
        "decision",
        one_of("decision", "tick"),
        help="what gamma counts: decisions, or elapsed ticks (asynchronous games)",
    )
    segment_decisions: int = option(16, whole(1, 65_536), help="longest segment T in decisions; ≥ 1")
    batch_decisions: int = option(256, whole(1, 10**8), help="fresh decisions per update; ≥ 1")
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
