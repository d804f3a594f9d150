"""Training samples per second of DQN, beside a minimal hand-written torch loop with a replay memory of its own.

One thread, an MLP 84-256-256, 7 actions with a mask, double Q-learning, minibatches of 256 out of 50,000 transitions.
Run ``python benchmarks/dqn.py``. Times are those of the processor.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from ludus import Role
from ludus.algorithm import AlgorithmContext
from ludus.segment import SegmentBatch
from ludus_dqn.algorithm import DQN
from ludus_dqn.config import DQNConfig
from ludus_dqn.trainer import DQNTrainer
from ludus_networks.config import MLPConfig
from ludus_networks.network import make_mlp
from torch import nn
from torch.nn import functional

INPUTS, ACTIONS, DECISIONS, SEGMENTS = 84, 7, 16, 16
CAPACITY, MINIBATCH, STEPS, ROUNDS = 50_000, 256, 16, 9


class Loop:
    """The least code that does the same work: a ring of transitions and double Q-learning."""

    def __init__(self) -> None:
        self.model = nn.Sequential(
            nn.Linear(INPUTS, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, ACTIONS)
        )
        self.target = copy.deepcopy(self.model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=5e-4, fused=True)
        self.data = {
            "obs": np.zeros((CAPACITY, INPUTS), np.float32),
            "after": np.zeros((CAPACITY, INPUTS), np.float32),
            "mask": np.zeros((CAPACITY, ACTIONS), bool),
            "action": np.zeros((CAPACITY, 1), np.int64),
            "reward": np.zeros(CAPACITY, np.float32),
            "terminated": np.zeros(CAPACITY, np.float32),
        }
        self.size = self.at = self.steps = 0
        self.rng = np.random.default_rng(0)

    def update(self, new: dict[str, np.ndarray]) -> None:
        """Remember transitions and make the gradient steps."""
        count = len(new["reward"])
        rows = (self.at + np.arange(count)) % CAPACITY
        for name, array in new.items():
            self.data[name][rows] = array
        self.at, self.size = (self.at + count) % CAPACITY, min(self.size + count, CAPACITY)
        for _ in range(STEPS):
            index = self.rng.integers(self.size, size=MINIBATCH)
            self.step({name: torch.from_numpy(array[index]) for name, array in self.data.items()})

    def step(self, part: dict[str, torch.Tensor]) -> None:
        """Make one gradient step."""
        with torch.no_grad():
            best = self.model(part["after"]).masked_fill(~part["mask"], -torch.inf).argmax(1, keepdim=True)
            later = self.target(part["after"]).gather(1, best).squeeze(1)
            wanted = part["reward"] + 0.99 * (1 - part["terminated"]) * later
        q = self.model(part["obs"]).gather(1, part["action"]).squeeze(1)
        loss = functional.smooth_l1_loss(q, wanted)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
        self.optimizer.step()
        self.steps += 1
        if self.steps % 250 == 0:
            self.target.load_state_dict(self.model.state_dict())


def make_dqn(**options: Any) -> DQN:
    """Make DQN on the network of the loop."""
    role = Role(
        name="player",
        observation_space=spaces.Box(-1, 1, (INPUTS,), np.float32),
        action_space=spaces.Discrete(ACTIONS),
        teams=(0, 1),
    )
    context = AlgorithmContext(role=role, build_network=lambda request: make_mlp(MLPConfig(), request=request))
    given = {"replay_capacity": CAPACITY, "minibatch_size": MINIBATCH, "updates_per_batch": STEPS, **options}
    return DQN(DQNConfig(**given), context=context)


def make_batch(rng: np.random.Generator) -> SegmentBatch:
    """Return 16 full segments of 16 random decisions."""
    shape = (DECISIONS + 1, SEGMENTS)
    action = rng.integers(0, ACTIONS, (*shape, 1))
    mask = rng.random((*shape, ACTIONS)) < 0.9
    np.put_along_axis(mask, action, values=True, axis=2)
    return SegmentBatch(
        observation={"obs": rng.standard_normal((*shape, INPUTS), dtype=np.float32)},
        action=action,
        action_mask=mask,
        reward=rng.standard_normal(shape, dtype=np.float32),
        terminated=rng.random(shape) < 0.05,
        truncated=np.zeros(shape, bool),
        decided=np.ones(shape, bool),
        elapsed_ticks=np.ones(shape, np.int32),
        length=np.full(SEGMENTS, DECISIONS, np.int32),
        version=np.zeros(SEGMENTS, np.int64),
    )


def plain(batch: SegmentBatch) -> dict[str, np.ndarray]:
    """Return the transitions of a batch as the loop wants them."""
    assert batch.action_mask is not None
    obs = batch.observation["obs"]
    return {
        "obs": obs[:-1].reshape(-1, INPUTS),
        "after": obs[1:].reshape(-1, INPUTS),
        "mask": batch.action_mask[1:].reshape(-1, ACTIONS),
        "action": batch.action[:-1].reshape(-1, 1),
        "reward": batch.reward[:-1].reshape(-1),
        "terminated": batch.terminated[:-1].reshape(-1).astype(np.float32),
    }


def rates(*works: Callable[[], object]) -> list[float]:
    """Return the median samples per second of each work; the works take turns."""
    samples: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS):
        for work, found in zip(works, samples, strict=True):
            start = time.process_time()
            for _ in range(5):
                work()
            found.append(5 * STEPS * MINIBATCH / (time.process_time() - start))
    return [statistics.median(found) for found in samples]


def fill(trainers: Iterable[DQNTrainer], batches: Sequence[SegmentBatch]) -> None:
    """Fill the memories without learning."""
    for trainer in trainers:
        for batch in batches:
            trainer._replay.add(trainer._collect(batch))


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    batch, transitions = make_batch(rng), plain(make_batch(rng))
    loop, learners = Loop(), {"uniform": {}, "prioritised": {"prioritized": True}, "three steps": {"n_step": 3}}
    trainers = {name: make_dqn(**options).make_trainer(seed=0) for name, options in learners.items()}
    fill(trainers.values(), [make_batch(rng) for _ in range(CAPACITY // (DECISIONS * SEGMENTS))])
    loop.size = CAPACITY
    works: list[Callable[[], object]] = [lambda: loop.update(transitions)]
    works += [lambda t=t: t.update(batch, progress=0.0) for t in trainers.values()]  # type: ignore[misc]
    found = rates(*works)
    print(f"hand-written loop    {found[0]:>10,.0f} samples/s")
    for name, rate in zip(trainers, found[1:], strict=True):
        print(f"dqn, {name:<15} {rate:>10,.0f} samples/s, {rate / found[0]:.2f} of the loop")


if __name__ == "__main__":
    main()
