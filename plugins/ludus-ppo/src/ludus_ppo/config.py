"""Options of PPO."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen
from ludus.option import Check, Presets, at_least, between, inherited_option, one_of, option, optional, whole
from ludus_torch.config import TrainerOptions

_DUAL_CLIP = Check("0 or a number > 1", lambda value: at_least(0).accepts(value) and (value == 0 or value > 1))


_AET = {  # [AET table 4]
    "learning_rate": 5e-5,
    "adam_beta1": 0.99,
    "adam_beta2": 0.999,
    "gamma": 0.9995,
    "gae_lambda": 0.95,
    "clip_epsilon": 0.2,
    "dual_clip": 3.0,
    "vf_coef": 0.5,
    "ent_coef": 0.01,
    "segment_decisions": 128,
    "batch_decisions": 7000,
    "num_minibatches": 1,
    "epochs": 1.0,
}
_DIS = {**_AET, "max_grad_norm": 10.0, "batch_decisions": 80_000}  # [DIS appendix E]


@frozen(kw_only=True)
class PPOConfig(TrainerOptions):
    """Proximal policy optimization [AET §3.2.1; DIS eq. 1-2; HoK §4]."""

    PRESETS: ClassVar[Presets] = {
        "aet": _AET,
        "dis": _DIS,
        "dis-main": {**_DIS, "ent_coef_final": 0.001},
        "hok": {"dual_clip": 3.0, "label_objective": "per-label"},  # [HoK eq. 3, 5]
        "slow-game": {"learning_rate": 5e-4, "batch_decisions": 1024, "epochs": 6.0},  # of tens of decisions per second
    }

    learning_rate: float = inherited_option(
        TrainerOptions, "learning_rate", 1e-3, help="Adam step size; > 0; AET and DIS: 5e-5"
    )
    adam_beta1: float = option(0.9, between(0.0, 0.9999), help="Adam decay of the first moment; [0, 1); AET: 0.99")
    adam_beta2: float = option(
        0.999, between(0.0, 0.999999), help="Adam decay of the second moment; [0, 1); AET: 0.999"
    )
    max_grad_norm: float = inherited_option(
        TrainerOptions, "max_grad_norm", 0.5, help="gradients are scaled down to this L2 norm; > 0; DIS: 10"
    )
    gamma: float = inherited_option(
        TrainerOptions, "gamma", 0.99, help="discount per decision or tick; [0, 1]; AET: 0.9995"
    )

    gae_lambda: float = option(0.95, between(0.0, 1.0), help="decay of generalized advantages; [0, 1]; AET: 0.95")
    normalize_advantage: bool = option(True, help="normalize the advantages of a batch to mean 0 and deviation 1")

    advantage: str = option(
        "gae",
        one_of("gae", "vtrace"),
        help="GAE with the recorded values, or V-trace with current values, corrected for stale decisions",
    )
    normalize_value: bool = option(
        True, help="the value head learns returns normalized to mean 0 and deviation 1; the scale is part of the model"
    )

    clip_epsilon: float = option(0.2, between(0.0, 1.0, open=True), help="clip range of the ratio; (0, 1); AET: 0.2")
    clip_epsilon_final: float | None = option(
        None,
        optional(between(0.0, 1.0, open=True)),
        help="clip range at the end of the training budget, linear in between; unset: constant",
        scheduled=True,
    )
    dual_clip: float = option(
        3.0, _DUAL_CLIP, help="lower bound of the objective at negative advantage, in advantages; > 1; 0: off; AET: 3"
    )
    label_objective: str = option(
        "per-label",
        one_of("per-label", "joint"),
        help="one clipped ratio per action label (HoK eq. 3), or one that is the product over labels",
    )
    vf_coef: float = option(0.5, at_least(0.0), help="weight of the value loss; ≥ 0; AET: 0.5")
    value_clip: float = option(0.0, at_least(0.0), help="how far a value may move per update, in returns; 0: no limit")
    ent_coef: float = option(0.01, at_least(0.0), help="weight of the entropy bonus; ≥ 0; AET and DIS: 0.01")
    ent_coef_final: float | None = option(
        None,
        optional(at_least(0.0)),
        help="weight of the entropy bonus at the end of the training budget, linear in between; unset: constant; "
        "DIS: 0.001",
        scheduled=True,
    )
    initial_log_std: float = option(
        -0.5, between(-5.0, 2.0), help="log standard deviation of continuous actions at the start, in half ranges"
    )

    segment_decisions: int = inherited_option(
        TrainerOptions, "segment_decisions", 64, help="longest segment T in decisions; ≥ 1; AET: 128"
    )
    burn_in: int = option(
        0,
        whole(0, 65_536),
        help="recurrent networks: first decisions of a segment that only update the state; < T",
    )
    batch_decisions: int = inherited_option(
        TrainerOptions, "batch_decisions", 4096, help="fresh decisions per update; ≥ 1; AET: 7000 per GPU, DIS: 80000"
    )
    num_minibatches: int = option(8, whole(1, 1_000_000), help="gradient steps per pass over a batch; ≥ 1")
    epochs: float = option(
        4.0,
        between(1.0, 100.0),
        help="passes over a batch, 1 to 100; 1.2: a fifth of it is used twice; the papers' reuse is 1.0 to 1.2",
    )
    activation_mb: int = option(
        0,
        whole(0, 2**30),
        help="MiB for the activations of a gradient step, which is computed in parts where it needs more; 0: a "
        "sixteenth of the device's memory, from 256 to 4096 MiB",
    )
    target_kl: float = option(0.0, at_least(0.0), help="no further pass once approx_kl exceeds this, in nats; 0: off")

    precision: str = option(
        "auto",
        one_of("auto", "fp32", "bf16-backward", "bf16"),
        help="dtype of products while learning; weights, losses and Adam stay in 32 bits; bf16-backward: only "
        "gradients of linear layers on a CPU; bf16: all; auto: bf16-backward if the CPU supports it, else fp32",
    )
    compile: bool = option(
        False,
        help="let torch compile losses and gradients of networks without recurrence; needs a C++ compiler and some "
        "seconds at the start; if it fails, they are not compiled",
    )
    cuda_graphs: bool = inherited_option(
        TrainerOptions,
        "cuda_graphs",
        True,
        help="on a GPU, run gradient steps as CUDA graphs; not those of recurrent networks, with several "
        "learner_processes, or with compile",
    )
