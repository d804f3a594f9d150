"""A hand-written PPO in one file and one process: batched acting over all environments, GAE, one pass over the data."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from workloads import BATCH, HIDDEN, MINIBATCH, WORKLOADS, Stopwatch, Workload, parse, report


class Policy(nn.Module):
    """Two hidden layers, and one output layer for the logits and the value."""

    def __init__(self, work: Workload) -> None:
        super().__init__()
        self.inputs = work.inputs
        self.layers = nn.Sequential(
            nn.Linear(work.inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
            nn.Linear(HIDDEN, work.actions + 1),
        )  # fmt: skip
        nn.init.orthogonal_(self.layers[-1].weight, 0.01)

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Return masked log probabilities `[n, A]` and values `[n]`."""
        out = self.layers(observation[:, : self.inputs])
        logits, value = out[:, :-1], out[:, -1]
        if observation.shape[1] > self.inputs:
            logits = logits + (observation[:, self.inputs :] - 1) * 1e9
        return logits.log_softmax(-1), value

    @torch.inference_mode()
    def act(self, observation: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return sampled actions, their log probabilities and the values, `[n]` each."""
        log_probs, value = self(torch.from_numpy(observation))
        action = (log_probs - torch.empty_like(log_probs).exponential_().log_()).argmax(-1)
        return action, log_probs.gather(1, action[:, None])[:, 0], value


class Games:
    """Single environments that are stepped one after another."""

    def __init__(self, work: Workload, num: int) -> None:
        self._envs = [work.make() for _ in range(num)]
        self.observation = np.stack([env.reset(seed=i)[0] for i, env in enumerate(self._envs)]).astype(np.float32)

    def step(self, actions: np.ndarray, rewards: np.ndarray, ended: np.ndarray) -> None:
        """Step all environments; write rewards and ends `[n] float32`."""
        for i, (env, action) in enumerate(zip(self._envs, actions.tolist(), strict=True)):
            observation, rewards[i], terminated, truncated, _ = env.step(action)
            ended[i] = terminated or truncated
            self.observation[i] = env.reset()[0] if ended[i] else observation


class VectorizedCartPole:
    """Gymnasium's vector environment of CartPole; matches that end restart in the same call."""

    def __init__(self, num: int) -> None:
        self._env = gymnasium.make_vec("CartPole-v1", num, vectorization_mode="vector_entry_point").unwrapped
        self._rng = np.random.default_rng(0)
        self.observation = self._env.reset(seed=0)[0]

    def step(self, actions: np.ndarray, rewards: np.ndarray, ended: np.ndarray) -> None:
        """Step all environments; write rewards and ends `[n] float32`."""
        env = self._env
        self.observation, rewards[:], terminated, truncated, _ = env.step(actions)
        over = terminated | truncated
        ended[:] = over
        if over.any():
            env.state[:, over] = start = self._rng.uniform(env.low, env.high, (4, over.sum()))
            env.steps[over], env.prev_done[over] = 0, False
            self.observation[over] = start.T


@dataclass
class Rollout:
    """Recorded steps: arrays `[T, n, …] float32`, actions `int64`."""

    observation: np.ndarray
    action: np.ndarray
    log_prob: np.ndarray
    value: np.ndarray
    reward: np.ndarray
    ended: np.ndarray

    @classmethod
    def empty(cls, ticks: int, num: int, size: int) -> Rollout:
        """Allocate the arrays; there is one more value, of the state after the last step."""
        zeros = [np.zeros((ticks, num), np.float32) for _ in range(3)]
        observation = np.zeros((ticks, num, size), np.float32)
        return cls(
            observation, np.zeros((ticks, num), np.int64), zeros[0], np.zeros((ticks + 1, num), np.float32), *zeros[1:]
        )

    def fill(self, policy: Policy, games: Games | VectorizedCartPole) -> None:
        """Record T steps of all environments."""
        for t in range(len(self.action)):
            self.observation[t] = games.observation
            action, log_prob, value = policy.act(games.observation)
            self.action[t], self.log_prob[t], self.value[t] = action.numpy(), log_prob.numpy(), value.numpy()
            games.step(self.action[t], self.reward[t], self.ended[t])
        self.value[-1] = policy.act(games.observation)[2].numpy()

    def advantages(self, gamma: float, gae_lambda: float) -> np.ndarray:
        """Return generalized advantages, `[T, n]`."""
        running = 1 - self.ended
        delta = self.reward + gamma * self.value[1:] * running - self.value[:-1]
        for t in range(len(delta) - 2, -1, -1):
            delta[t] += gamma * gae_lambda * running[t] * delta[t + 1]
        return delta


def ppo_loss(
    policy: Policy, work: Workload, seen: Tensor, action: Tensor, old: Tensor, adv: Tensor, ret: Tensor
) -> Tensor:
    """Return the PPO loss of a minibatch."""
    log_probs, value = policy(seen)
    ratio = (log_probs.gather(1, action[:, None])[:, 0] - old).exp()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    clipped = ratio.clamp(1 - work.clip_epsilon, 1 + work.clip_epsilon)
    entropy = -(log_probs.exp() * log_probs.clamp(min=-1e8)).sum(-1).mean()
    objective = torch.min(adv * ratio, adv * clipped).mean()
    return work.vf_coef * (value - ret).square().mean() - objective - work.ent_coef * entropy


def main() -> None:
    """Train and measure the rate."""
    args = parse("envs", "threads", "compile", "vectorized")
    torch.manual_seed(0)
    work = WORKLOADS[args.workload]
    policy = Policy(work)
    optimizer = torch.optim.Adam(policy.parameters(), lr=work.learning_rate, eps=1e-5, fused=True)
    games = VectorizedCartPole(args.envs) if args.vectorized else Games(work, args.envs)
    size = games.observation.shape[1]
    rollout = Rollout.empty(BATCH // args.envs, args.envs, size)
    loss_function = torch.compile(ppo_loss) if args.compile else ppo_loss
    watch, steps = Stopwatch(args.warmup, args.seconds), 0
    while not watch.lap(steps):
        torch.set_num_threads(1)  # more threads are slower with such small batches
        rollout.fill(policy, games)
        advantage = rollout.advantages(work.gamma, work.gae_lambda)
        data = [rollout.observation.reshape(BATCH, size)]
        data += [
            a.reshape(BATCH) for a in (rollout.action, rollout.log_prob, advantage, advantage + rollout.value[:-1])
        ]
        tensors = [torch.from_numpy(array) for array in data]
        torch.set_num_threads(args.threads)
        for rows in torch.randperm(BATCH).split(MINIBATCH):
            optimizer.zero_grad()
            loss_function(policy, work, *(tensor[rows] for tensor in tensors)).backward()
            nn.utils.clip_grad_norm_(policy.parameters(), work.max_grad_norm)
            optimizer.step()
        steps += BATCH
    report(args, watch, lambda observation: policy.act(observation.astype(np.float32))[0].numpy())


if __name__ == "__main__":
    main()
