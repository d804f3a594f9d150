"""Compare decisions and training samples per second of PPO with a minimal hand-written torch loop.

One thread, an MLP 84-256-256, 7 actions with a mask, minibatches of 2048. Run ``python benchmarks/ppo.py``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from ludus import Role
from ludus.algorithm import AlgorithmContext, PolicyInput
from ludus.segment import SegmentBatch
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp
from ludus_ppo.algorithm import PPO
from ludus_ppo.config import PPOConfig
from torch import nn

INPUTS, ACTIONS, DECISIONS, SEGMENTS = 84, 7, 32, 256
ROUNDS = 7
VARIANTS: dict[str, dict[str, Any]] = {
    "update": {},
    "update, fp32": {"precision": "fp32"},
    "update, plain": {"precision": "fp32", "cpu_kernels": "plain"},
    "update, bf16": {"precision": "bf16"},
}


class Loop:
    """Minimal code for the same computation: tensors only, without segments and options."""

    def __init__(self) -> None:
        self.body = nn.Sequential(nn.Linear(INPUTS, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
        self.heads = nn.Linear(256, ACTIONS + 1)
        self.parameters = [*self.body.parameters(), *self.heads.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=3e-4)

    def forward(self, obs: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities ``[n, A]`` and values ``[n]``."""
        out = self.heads(self.body(obs))
        return out[:, :ACTIONS].masked_fill(~mask, -1e9).log_softmax(1), out[:, ACTIONS]

    @torch.inference_mode()
    def act(self, obs: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return actions, log-probabilities and values."""
        log_p, value = self.forward(torch.from_numpy(obs), torch.from_numpy(mask))
        action = torch.multinomial(log_p.exp(), 1)
        return action.numpy(), log_p.gather(1, action).numpy(), value.numpy()

    def update(self, data: dict[str, torch.Tensor], minibatches: int = 4) -> None:
        """Make one pass over the data in minibatches."""
        for index in torch.randperm(data["action"].shape[0]).tensor_split(minibatches):
            part = {name: tensor[index] for name, tensor in data.items()}
            log_p, value = self.forward(part["obs"], part["mask"])
            ratio = (log_p.gather(1, part["action"]).squeeze(1) - part["log_prob"]).exp()
            advantage = part["advantage"]
            objective = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            entropy = -(log_p.exp() * log_p).sum(1)
            loss = -objective.mean() + 0.5 * (value - part["returns"]).square().mean() - 0.01 * entropy.mean()
            self.optimizer.zero_grad()
            torch.autograd.backward(loss)
            nn.utils.clip_grad_norm_(self.parameters, 0.5)
            self.optimizer.step()


def make_ppo(**options: Any) -> PPO:
    """Make PPO with the network of the loop."""
    role = Role(
        name="player",
        observation_space=spaces.Box(-1, 1, (INPUTS,), np.float32),
        action_space=spaces.Discrete(ACTIONS),
        teams=(0, 1),
    )
    context = AlgorithmContext(role=role, build_network=lambda request: make_mlp(MLPConfig(), request=request))
    return PPO(PPOConfig(**options), context=context)


def make_batch(ppo: PPO, rng: np.random.Generator) -> SegmentBatch:
    """Return 256 full segments of 32 random decisions."""
    shape = (DECISIONS + 1, SEGMENTS)
    observation = rng.standard_normal((*shape, INPUTS), dtype=np.float32)
    mask = rng.random((*shape, ACTIONS)) < 0.9
    mask[..., 0] = True
    decision = ppo.make_policy().act(
        PolicyInput({"obs": observation.reshape(-1, INPUTS)}, action_mask=mask.reshape(-1, ACTIONS)), rng=rng
    )
    return SegmentBatch(
        observation={"obs": observation},
        action=decision.action.reshape(*shape, 1),
        action_mask=mask,
        reward=rng.standard_normal(shape, dtype=np.float32),
        terminated=rng.random(shape) < 0.05,
        truncated=np.zeros(shape, bool),
        decided=np.ones(shape, bool),
        elapsed_ticks=np.ones(shape, np.int32),
        extras={name: array.reshape(*shape, *array.shape[1:]) for name, array in decision.extras.items()},
        length=np.full(SEGMENTS, DECISIONS, np.int32),
        version=np.zeros(SEGMENTS, np.int64),
    )


def rates(*tasks: Callable[[], object], amount: int, repeats: int) -> list[float]:
    """Return the median rate of each task in units per second; the tasks take turns."""
    samples: list[list[float]] = [[] for _ in tasks]
    for task in tasks:
        task()
    for _ in range(ROUNDS):
        for task, times in zip(tasks, samples, strict=True):
            start = time.perf_counter()
            for _ in range(repeats):
                task()
            times.append(amount * repeats / (time.perf_counter() - start))
    return [statistics.median(times) for times in samples]


def report(name: str, ludus: float, loop: float) -> None:
    """Print one line."""
    print(f"{name:<18} ludus {ludus:>9,.0f}/s   loop {loop:>9,.0f}/s   ratio {ludus / loop:.2f}")


def compare_acting(ppo: PPO, loop: Loop, rng: np.random.Generator) -> None:
    """Print decisions per second at several batch sizes."""
    policy = ppo.make_policy()
    for rows in (1, 64, 256, 1024):
        obs, mask = rng.standard_normal((rows, INPUTS), dtype=np.float32), np.ones((rows, ACTIONS), bool)
        act_ludus = partial(policy.act, PolicyInput({"obs": obs}, action_mask=mask), rng=rng)
        act_loop = partial(loop.act, obs, mask)
        report(f"act, {rows} rows", *rates(act_ludus, act_loop, amount=rows, repeats=max(20, 20_000 // rows)))


def compare_updates(loop: Loop, batch: SegmentBatch) -> None:
    """Print training samples per second."""
    assert batch.action_mask is not None
    rows = DECISIONS * SEGMENTS
    data = {
        "obs": torch.from_numpy(batch.observation["obs"][:-1].reshape(rows, INPUTS)),
        "mask": torch.from_numpy(batch.action_mask[:-1].reshape(rows, ACTIONS)),
        "action": torch.from_numpy(batch.action[:-1].reshape(rows, 1)),
        "log_prob": torch.from_numpy(batch.extras["log_prob"][:-1].reshape(rows)),
        "advantage": torch.randn(rows),
        "returns": torch.randn(rows),
    }
    trainers = [make_ppo(**options).make_trainer(seed=0) for options in VARIANTS.values()]
    tasks = [partial(trainer.update, batch, progress=0.0) for trainer in trainers]
    *measured, loop_rate = rates(*tasks, partial(loop.update, data), amount=rows, repeats=3)
    for name, rate in zip(VARIANTS, measured, strict=True):
        report(name, rate, loop_rate)


def main() -> None:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    ppo, loop = make_ppo(), Loop()
    compare_acting(ppo, loop, rng)
    compare_updates(loop, make_batch(ppo, rng))


if __name__ == "__main__":
    main()
