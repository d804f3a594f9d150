"""Options of DQN."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen
from ludus.option import Presets, at_least, between, inherited_option, one_of, option
from ludus_minimax.options import MinimaxOptions
from ludus_replay.config import ReplayOptions

_MINIMAX = {"gamma": 0.995, "double": True, "epsilon": 0.01, "epsilon_decisions": 0}  # [Minimax §5, §5.1]


@frozen(kw_only=True)
class DQNConfig(MinimaxOptions, ReplayOptions):
    """Deep Q-learning and the Minimax Exploiter [Minimax §4-5]."""

    PRESETS: ClassVar[Presets] = {
        "minimax": _MINIMAX,
        "minimax-exploiter": {**_MINIMAX, "minimax_alpha": 0.01, "minimax_gamma": 0.995},  # [Minimax §5.1, §5.3]
    }

    learning_rate: float = inherited_option(ReplayOptions, "learning_rate", 5e-4)
    loss: str = option("huber", one_of("huber", "mse"), help="of the TD error: huber (linear beyond 1), or its square")
    gamma: float = inherited_option(
        ReplayOptions,
        "gamma",
        0.99,
        help="discount per decision or tick; [0, 1]; Minimax: 0.995, gamma-0 agent: 0",
    )
    double: bool = option(
        True, help="double Q-learning: the online network chooses the next action, the target network values it"
    )
    dueling: bool = option(False, help="compute Q(s, a) from two heads, V(s) and advantages")
    target_update_steps: int = option(250, at_least(1), help="gradient steps between updates of the target network")
    tau: float = inherited_option(
        ReplayOptions,
        "tau",
        1.0,
        help="share of the online weights in an update of the target network; (0, 1]; 1: a copy; Polyak: 0.005 at "
        "every step",
    )

    epsilon: float = option(
        0.01, between(0.0, 1.0), help="share of random actions after the decay; [0, 1]; Minimax: 0.01 throughout"
    )
    epsilon_start: float = option(1.0, between(0.0, 1.0), help="share of random actions at the start; [0, 1]")
    epsilon_decisions: int = option(
        20_000,
        at_least(0),
        help="trained decisions over which epsilon falls linearly; 0: epsilon applies from the start",
    )

    prioritized: bool = option(False, help="sample transitions in proportion to |TD error|^priority_exponent")
    priority_exponent: float = option(0.6, between(0.0, 1.0), help="alpha of prioritized samples; [0, 1]; 0: uniform")
    importance_exponent: float = option(
        0.4,
        between(0.0, 1.0),
        help="beta of the importance weights at the start; 1 at the end of the budget, if the run has one; [0, 1]",
    )
