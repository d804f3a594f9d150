"""Sample Factory: its asynchronous PPO with an actor-critic that masks its logits."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from sample_factory.algo.runners.runner import AlgoObserver
from sample_factory.algo.utils.action_distributions import get_action_distribution
from sample_factory.algo.utils.context import global_model_factory
from sample_factory.algo.utils.tensor_dict import TensorDict
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.model.actor_critic import ActorCriticSharedWeights
from sample_factory.train import make_runner
from torch import Tensor
from workloads import BATCH, HIDDEN, MINIBATCH, WORKLOADS, Stopwatch, Workload, parse, report


class MaskingActorCritic(ActorCriticSharedWeights):
    """Reads the action mask from the observation and masks the logits."""

    def __init__(self, factory: Any, obs_space: Any, action_space: Any, cfg: Any) -> None:  # noqa: ARG002
        self._inputs = WORKLOADS[cfg.env].inputs
        super().__init__(factory, Dict(obs=Box(0, 1, (self._inputs,))), action_space, cfg)

    def forward_head(self, normalized_obs_dict: dict[str, Tensor]) -> Tensor:
        """Store the mask; learner and sampler call head, core and tail with the same rows."""
        observation = normalized_obs_dict["obs"]
        self._illegal = observation[:, self._inputs :] < 0.5
        return self.encoder({"obs": observation[:, : self._inputs].float()})

    def forward_tail(self, core_output: Tensor, values_only: bool, sample_actions: bool) -> TensorDict:
        """Return values and, unless `values_only`, masked logits and sampled actions."""
        result = TensorDict(values=self.critic_linear(core_output).squeeze())
        if not values_only:
            logits = self.action_parameterization.distribution_linear(core_output).masked_fill(self._illegal, -1e9)
            self.last_action_distribution = get_action_distribution(self.action_space, logits)
            result["action_logits"] = logits
            self._maybe_sample_actions(sample_actions, result)
        return result


def make_actor_critic(cfg: Any, obs_space: Any, action_space: Any) -> ActorCriticSharedWeights:
    """Make the model of a workload."""
    kind = MaskingActorCritic if WORKLOADS[cfg.env].masked else ActorCriticSharedWeights
    return kind(global_model_factory(), obs_space, action_space, cfg)


def make_env(name: str, cfg: Any = None, _config: Any = None, render_mode: str | None = None) -> Any:  # noqa: ARG001
    """Make one environment of a workload."""
    return WORKLOADS[name].make()


class Timer(AlgoObserver):
    """Stops the training at the end of the window.

    Args:
        watch: Stopwatch of the window.
    """

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def on_training_step(self, runner: Any, training_iteration_since_resume: int) -> None:
        """Check the time after each update."""
        if self._watch.lap(training_iteration_since_resume * BATCH):
            runner.cfg.train_for_env_steps = 0


def command_line(args: Any, work: Workload, folder: str) -> list[str]:
    """Return the options of Sample Factory."""
    options = {
        "env": args.workload, "train_dir": folder, "device": "cpu", "seed": 0, "algo": "APPO",
        "serial_mode": bool(args.serial), "async_rl": not args.serial, "batched_sampling": bool(args.batched),
        "num_workers": args.workers, "num_envs_per_worker": args.envs // args.workers,
        "worker_num_splits": args.splits,
        "rollout": 32, "batch_size": MINIBATCH, "num_batches_per_epoch": BATCH // MINIBATCH, "num_epochs": 1,
        "use_rnn": False, "nonlinearity": "relu", "normalize_input": False, "normalize_returns": False,
        "gamma": work.gamma, "gae_lambda": work.gae_lambda, "ppo_clip_ratio": work.clip_epsilon,
        "value_loss_coeff": work.vf_coef, "exploration_loss_coeff": work.ent_coef, "ppo_clip_value": 10.0,
        "max_grad_norm": work.max_grad_norm, "learning_rate": work.learning_rate, "adam_eps": 1e-5,
        "save_every_sec": 10**6, "save_best_every_sec": 10**6, "decorrelate_experience_max_seconds": 0,
        "use_env_info_cache": False, "with_wandb": False,
    }  # fmt: skip
    return [f"--{name}={value}" for name, value in options.items()] + ["--encoder_mlp_layers", str(HIDDEN), str(HIDDEN)]


def main() -> None:
    """Train and measure the rate."""
    args = parse("envs", "workers", "splits", "serial", "batched")
    work, watch = WORKLOADS[args.workload], Stopwatch(args.warmup, args.seconds)
    register_env(args.workload, make_env)
    global_model_factory().register_actor_critic_factory(make_actor_critic)
    with tempfile.TemporaryDirectory() as folder:
        argv = command_line(args, work, folder)
        cfg, runner = make_runner(parse_full_cfg(parse_sf_args(argv)[0], argv))
        runner.register_observer(Timer(watch))
        runner.init()
        runner.run()
        checkpoint = max(Path(folder).rglob("checkpoint_*.pth"))
        # the checkpoint has counters as NumPy scalars; no other types are allowed
        scalars = [np.core.multiarray.scalar, np.dtype, np.dtypes.Float64DType, np.dtypes.Float32DType]
        with torch.serialization.safe_globals(scalars):
            weights = torch.load(checkpoint, weights_only=True)["model"]
    env = work.make()
    model = make_actor_critic(cfg, Dict(obs=env.observation_space), env.action_space)
    model.load_state_dict(weights)

    def act(observation: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            result = model({"obs": torch.from_numpy(observation)}, torch.zeros(len(observation), 1))
        return result["actions"].numpy().reshape(-1)

    report(args, watch, act)


if __name__ == "__main__":
    main()
