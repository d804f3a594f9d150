"""PufferLib: its trainer and vectorization with a policy that masks its logits."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pufferlib.emulation
import pufferlib.pufferl
import pufferlib.vector
import torch
from torch import Tensor, nn
from workloads import BATCH, HIDDEN, MINIBATCH, WORKLOADS, Stopwatch, Workload, parse, report

pufferlib.pufferl.ADVANTAGE_CUDA = False  # it is set if a CUDA compiler is installed
BACKENDS = (pufferlib.vector.Serial, pufferlib.vector.Multiprocessing)


class Policy(nn.Module):
    """Two shared layers, logits and value."""

    def __init__(self, work: Workload) -> None:
        super().__init__()
        self.inputs = work.inputs
        layer = pufferlib.pytorch.layer_init
        self.layers = nn.Sequential(
            layer(nn.Linear(work.inputs, HIDDEN)), nn.ReLU(), layer(nn.Linear(HIDDEN, HIDDEN)), nn.ReLU()
        )
        self.actor = layer(nn.Linear(HIDDEN, work.actions), std=0.01)
        self.critic = layer(nn.Linear(HIDDEN, 1), std=1.0)

    def forward(self, observation: Tensor, state: Any = None) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Return masked logits `[n, A]` and values `[n, 1]`."""
        observation = observation.float()
        hidden = self.layers(observation[:, : self.inputs])
        logits = self.actor(hidden)
        if observation.shape[1] > self.inputs:
            logits = logits + (observation[:, self.inputs :] - 1) * 1e9
        return logits, self.critic(hidden)

    forward_eval = forward


class Trainer(pufferlib.pufferl.PuffeRL):
    """The trainer without its dashboard, which takes time."""

    def print_dashboard(self, *args: Any, **kwargs: Any) -> None:
        """Print nothing."""


def train_config(work: Workload, envs: int, folder: str) -> dict[str, Any]:
    """Return the options of PufferLib."""
    return {
        "name": "peer", "project": "peer", "env": "peer", "data_dir": folder, "checkpoint_interval": 10**9,
        "seed": 0, "torch_deterministic": False, "device": "cpu", "cpu_offload": False, "precision": "float32",
        "compile": False, "compile_mode": "default", "compile_fullgraph": True, "use_rnn": False,
        "optimizer": "adam", "learning_rate": work.learning_rate, "anneal_lr": False,
        "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_eps": 1e-5,
        "total_timesteps": 10**12, "batch_size": BATCH, "minibatch_size": MINIBATCH, "max_minibatch_size": MINIBATCH,
        "bptt_horizon": BATCH // envs, "update_epochs": 1,
        "gamma": work.gamma, "gae_lambda": work.gae_lambda, "clip_coef": work.clip_epsilon,
        "vf_coef": work.vf_coef, "vf_clip_coef": 10.0, "ent_coef": work.ent_coef, "max_grad_norm": work.max_grad_norm,
        "vtrace_rho_clip": 1.0, "vtrace_c_clip": 1.0, "prio_alpha": 0.0, "prio_beta0": 1.0,
    }  # fmt: skip


def main() -> None:
    """Train and measure the rate."""
    args = parse("envs", "threads", "workers", "batches")
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    work = WORKLOADS[args.workload]
    options = {"num_workers": args.workers, "batch_size": args.envs // args.batches} if args.workers else {}
    vecenv = pufferlib.vector.make(
        pufferlib.emulation.GymnasiumPufferEnv,
        env_kwargs={"env_creator": work.make},
        num_envs=args.envs,
        backend=BACKENDS[bool(args.workers)],
        **options,
    )
    policy, watch = Policy(work), Stopwatch(args.warmup, args.seconds)
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as null, contextlib.redirect_stdout(null):
        trainer = Trainer(train_config(work, args.envs, folder), vecenv, policy)
        while not watch.lap(trainer.global_step):
            trainer.evaluate()
            trainer.train()
        trainer.utilization.stop()
        vecenv.close()

    def act(observation: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            logits, _ = policy(torch.from_numpy(observation))
            return torch.distributions.Categorical(logits=logits).sample().numpy()

    report(args, watch, act)


if __name__ == "__main__":
    main()
