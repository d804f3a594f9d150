"""Stable-Baselines3: its PPO, or MaskablePPO of sb3-contrib if actions are masked."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from torch import Tensor, nn
from workloads import BATCH, HIDDEN, MINIBATCH, WORKLOADS, Stopwatch, parse, report


class Layers(BaseFeaturesExtractor):
    """The two layers that actor and critic share."""

    def __init__(self, observation_space: Any, inputs: int) -> None:
        super().__init__(observation_space, HIDDEN)
        self._inputs = inputs
        self._layers = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())

    def forward(self, observation: Tensor) -> Tensor:
        """Return features `[n, 256]`, without the action mask at the end of the observation."""
        return self._layers(observation[:, : self._inputs])


class Timer(BaseCallback):
    """Stops the training at the end of the window.

    Args:
        watch: Stopwatch of the window.
    """

    def __init__(self, watch: Stopwatch) -> None:
        super().__init__()
        self._watch, self._continue = watch, True

    def _on_rollout_start(self) -> None:
        self._continue = not self._watch.lap(self.num_timesteps)

    def _on_step(self) -> bool:
        return self._continue


def main() -> None:
    """Train and measure the rate."""
    args = parse("envs", "threads", "processes")
    torch.set_num_threads(args.threads)
    work = WORKLOADS[args.workload]
    model = (MaskablePPO if work.masked else PPO)(
        "MlpPolicy",
        (SubprocVecEnv if args.processes else DummyVecEnv)([work.make] * args.envs),
        n_steps=BATCH // args.envs,
        batch_size=MINIBATCH,
        n_epochs=1,
        gamma=work.gamma,
        gae_lambda=work.gae_lambda,
        learning_rate=work.learning_rate,
        ent_coef=work.ent_coef,
        clip_range=work.clip_epsilon,
        vf_coef=work.vf_coef,
        max_grad_norm=work.max_grad_norm,
        policy_kwargs={
            "net_arch": [],
            "features_extractor_class": Layers,
            "features_extractor_kwargs": {"inputs": work.inputs},
        },
        device="cpu",
        seed=0,
    )
    watch = Stopwatch(args.warmup, args.seconds)
    model.learn(10**12, callback=Timer(watch), log_interval=None)

    def act(observation: np.ndarray) -> np.ndarray:
        masks: dict[str, Any] = {"action_masks": observation[:, work.inputs :] > 0} if work.masked else {}
        return model.predict(observation, **masks)[0]

    report(args, watch, act)
    model.env.close()


if __name__ == "__main__":
    main()
