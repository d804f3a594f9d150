"""Minimal hand-written torch loops that do what the trainers do: what `learners.py` measures the trainers against.

They know no segments of different lengths, options, checks, checkpoints or metrics. The mathematics, the minibatches
and the optimiser are the same, so that equal networks stay equal. Shapes: T entries of N segments, n rows.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from attrs import define
from ludus.network import RecurrentNetwork
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["DQNLoop", "Novelty", "PPOLoop", "SACLoop", "Stream"]

Leaves = dict[str, Tensor]
READ = ("seen", "more")


def outputs(networks: Sequence[Any], seen: Leaves, more: Leaves, starts: Tensor | None) -> Leaves:
    """Return the heads of all networks, of rows or, where there are `starts`, of whole segments ``[T·N, size]``.

    Only the last network reads `more`, what is privileged.
    """
    heads: Leaves = {}
    for network in networks:
        known = more if network is networks[-1] else {}
        if starts is None:
            heads |= network(seen, known, {})[0]
        else:
            unrolled, _ = network.unroll(seen, known, network.initial_state(starts.shape[1]), starts=starts)
            heads |= {name: head.flatten(0, 1) for name, head in unrolled.items()}
    return {name: head.float() for name, head in heads.items()}


def advantages(reward: Tensor, value: Tensor, ended: Tensor, *, gamma: float, gae_lambda: float) -> Tensor:
    """Return generalised advantages ``[T, N]`` of full segments; values are ``[T+1, N]``."""
    alive = gamma * (~ended).float()
    delta = reward + alive * value[1:] - value[:-1]
    found, last = torch.empty_like(delta), torch.zeros_like(delta[0])
    for t in range(len(delta) - 1, -1, -1):
        last = delta[t] + gae_lambda * alive[t] * last
        found[t] = last
    return found


@define
class Stream:
    """A kind of reward in PPO."""

    head: str
    gamma: float = 0.99
    weight: float = 1.0
    moments: Tensor | None = None  # [3], where values are brought to the scale of returns
    scale: Tensor | None = None  # [2]

    def rescale(self, returns: Tensor) -> None:
        """Follow mean and deviation of returns."""
        if self.moments is None or self.scale is None:
            return
        now = torch.stack([returns.mean(), returns.square().mean(), torch.ones((), device=returns.device)])
        self.moments = 0.99 * self.moments + 0.01 * now
        mean, square = self.moments[:2] / self.moments[2]
        self.scale = torch.stack([mean, (square - mean.square()).clamp(min=1e-4).sqrt()])


class Moments:
    """Running mean and variance of rows."""

    def __init__(self, shape: Sequence[int], device: torch.device) -> None:
        self.count = 0
        self.mean = torch.zeros(tuple(shape), dtype=torch.float64, device=device)
        self.variance = torch.zeros_like(self.mean)

    def add(self, rows: Tensor) -> None:
        """Add ``[n, …]``."""
        variance, mean = torch.var_mean(rows.float(), dim=0, correction=0)
        self.count += len(rows)
        share = len(rows) / self.count
        apart = mean.double() - self.mean
        self.variance = (1 - share) * self.variance + share * (variance.double() + (1 - share) * apart.square())
        self.mean = self.mean + share * apart

    @property
    def deviation(self) -> Tensor:
        """Return the standard deviation."""
        return (self.variance + 1e-8).sqrt()


class Novelty:
    """Random network distillation."""

    def __init__(
        self, target: nn.Module, predictor: nn.Module, shapes: Mapping[str, Sequence[int]], *, device: torch.device
    ) -> None:
        self.target, self.predictor = target.eval().requires_grad_(requires_grad=False), predictor.eval()
        self.seen = {name: Moments(shape, device) for name, shape in shapes.items()}
        self.returns = Moments((), device)

    def errors(self, seen: Leaves) -> Tensor:
        """Return how badly the target is predicted, ``[n]``."""
        rows = {
            name: ((leaf - self.seen[name].mean.float()) / self.seen[name].deviation.float()).clamp(-5, 5)
            if name in self.seen
            else leaf
            for name, leaf in seen.items()
        }
        count = len(next(iter(rows.values())))
        memory = self.predictor.initial_state(count) if isinstance(self.predictor, RecurrentNetwork) else {}
        with torch.no_grad():
            wanted = self.target(rows, {}, memory)[0]["rnd"]
        found: Tensor = self.predictor(rows, {}, memory)[0]["rnd"]
        return torch.mean((found.float() - wanted.float()).square(), dim=1)

    @torch.no_grad()
    def rewards(self, seen: Leaves, ended: Tensor) -> Tensor:
        """Return the rewards ``[T, N]`` of observations ``[T+1, N, …]``."""
        steps, segments = ended.shape
        rows = {name: leaf.flatten(0, 1) for name, leaf in seen.items()}
        for start in range(0, steps * segments, 4096):
            for name, moments in self.seen.items():
                moments.add(rows[name][start : min(start + 4096, steps * segments)])
        parts = [
            self.errors({name: leaf[start : start + 4096] for name, leaf in rows.items()})
            for start in range(0, (steps + 1) * segments, 4096)
        ]
        error = torch.cat(parts).view(steps + 1, segments)
        reward = torch.where(ended, error[:-1], error[1:])
        nothing = torch.zeros_like(error)
        sums = advantages(reward, nothing, torch.zeros_like(ended), gamma=0.99, gae_lambda=1.0)
        self.returns.add(sums.flatten())
        return reward / max(self.returns.deviation.item(), 0.1 * self.returns.mean.item())


class PPOLoop:
    """Dual-clip PPO over label-wise ratios, in four minibatches."""

    def __init__(
        self,
        networks: Sequence[nn.Module],
        *,
        sizes: Sequence[int],
        seat_ids: Sequence[Stream],
        novelty: Novelty | None = None,
        bf16: bool = False,
    ) -> None:
        self.networks, self.sizes, self.seat_ids, self.novelty = list(networks), list(sizes), list(seat_ids), novelty
        self.bf16, self.updates = bf16, 0
        trained = [*self.networks, *([] if novelty is None else [novelty.predictor])]
        self.parameters = [parameter for network in trained for parameter in network.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=3e-4, eps=1e-5, fused=True)

    def update(self, data: dict[str, Any]) -> None:
        """Make one pass over observations ``[T+1, N, …]`` and all else of a batch."""
        returns, advantage = {}, torch.zeros((), device=data["ended"].device)
        for stream in self.seat_ids:
            reward, ended = data["reward"], data["ended"]
            if stream.head == "intrinsic_value":
                assert self.novelty is not None
                reward = self.novelty.rewards(data["seen"], ended)
                last = ended.clone()
                last[:-1] = False  # returns go on through the end of a match, but for that of the segment
                reward = torch.where(last, reward + stream.gamma * data[stream.head][:-1], reward)
                ended = last
            found = advantages(reward, data[stream.head], ended, gamma=stream.gamma, gae_lambda=0.95)
            returns[stream.head] = (found + data[stream.head][:-1]).flatten()
            advantage = advantage + stream.weight * found
            stream.rescale(returns[stream.head])
        deviation, mean = torch.std_mean(advantage, correction=0)
        columns = {"advantage": ((advantage - mean) / (deviation + 1e-8)).flatten(), **returns}
        self.learn(data, columns)
        self.updates += 1

    def learn(self, data: dict[str, Any], columns: dict[str, Tensor]) -> None:
        """Make four gradient steps."""
        steps, segments = data["ended"].shape
        rng, device, starts = np.random.default_rng([0, self.updates]), data["ended"].device, data["starts"]
        for name in ("action", "mask", "log_prob"):
            columns[name] = data[name][:-1].flatten(0, 1)
        order = torch.from_numpy(rng.permutation(steps * segments if starts is None else segments)).to(device)
        for part in order.tensor_split(4):
            if starts is None:
                index, begins = part, None
                read = [{name: leaf.flatten(0, 1)[part] for name, leaf in data[group].items()} for group in READ]
            else:
                index = (torch.arange(steps, device=device)[:, None] * segments + part).flatten()
                begins = starts[:steps, part]
                read = [{name: leaf[:steps, part] for name, leaf in data[group].items()} for group in READ]
            rows = {name: column[index] for name, column in columns.items()}
            with torch.autocast(device.type, torch.bfloat16, enabled=self.bf16):
                heads = outputs(self.networks, read[0], read[1], begins)
                extra = None if self.novelty is None else self.predictor_loss(read[0], flat=starts is None)
            loss = self.loss(heads, rows)
            self.step(loss if extra is None else loss + extra)

    def predictor_loss(self, seen: Leaves, *, flat: bool) -> Tensor:
        """Return the loss of the predictor on every fourth row."""
        assert self.novelty is not None
        rows = seen if flat else {name: leaf.flatten(0, 1) for name, leaf in seen.items()}
        return self.novelty.errors({name: leaf[::4] for name, leaf in rows.items()}).mean()

    def loss(self, heads: Leaves, rows: dict[str, Tensor]) -> Tensor:
        """Return the loss of a minibatch."""
        logits = heads["policy"].masked_fill(~rows["mask"], torch.finfo(torch.float32).min)
        labels = [part.log_softmax(1) for part in torch.split(logits, self.sizes, dim=1)]
        actions = torch.split(rows["action"], 1, dim=1)
        log_prob = torch.cat([part.gather(1, action) for part, action in zip(labels, actions, strict=True)], dim=1)
        entropy = -torch.stack([(part.exp() * part).sum(1) for part in labels]).sum(0).mean()
        ratio, advantage = (log_prob - rows["log_prob"]).exp(), rows["advantage"][:, None]
        objective = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        objective = torch.maximum(objective, 3 * advantage.clamp(max=0))
        loss = -objective.sum(1).mean() - 0.01 * entropy
        for stream in self.seat_ids:
            value = heads[stream.head].squeeze(1)
            if stream.scale is None:
                loss = loss + 0.5 * functional.mse_loss(value, rows[stream.head])
            else:
                error = functional.mse_loss(value * stream.scale[1] + stream.scale[0], rows[stream.head])
                loss = loss + 0.5 * error / stream.scale[1].square()
        return loss

    def step(self, loss: Tensor) -> None:
        """Step down the gradient."""
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.parameters, 0.5)
        self.optimizer.step()


class Ring:
    """The last transitions."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.count, self.at = capacity, 0, 0
        self.arrays: dict[str, np.ndarray] = {}

    def add(self, new: dict[str, np.ndarray]) -> None:
        """Remember ``[n, …]`` in place of the oldest."""
        if not self.arrays:
            self.arrays = {name: np.zeros((self.capacity, *a.shape[1:]), a.dtype) for name, a in new.items()}
        rows = len(new["reward"])
        index = (self.at + np.arange(rows)) % self.capacity
        for name, array in new.items():
            self.arrays[name][index] = array
        self.at, self.count = (self.at + rows) % self.capacity, min(self.count + rows, self.capacity)

    def draw(self, rows: int, rng: np.random.Generator, device: torch.device) -> dict[str, Tensor]:
        """Return rows on the device."""
        first = self.at if self.count == self.capacity else 0
        index = (first + rng.integers(self.count, size=rows)) % self.capacity
        return {name: torch.from_numpy(array[index]).to(device) for name, array in self.arrays.items()}


def leaves(part: dict[str, Tensor], prefix: str) -> Leaves:
    """Return the leaves of one observation."""
    return {name[len(prefix) :]: tensor for name, tensor in part.items() if name.startswith(prefix)}


class DQNLoop:
    """Double Q-learning."""

    def __init__(self, network: nn.Module, *, capacity: int, steps: int, minibatch: int) -> None:
        self.network, self.target = network, copy.deepcopy(network)
        self.optimizer = torch.optim.Adam(network.parameters(), lr=5e-4, eps=1e-5, fused=True)
        self.device = next(network.parameters()).device
        self.ring, self.steps, self.minibatch, self.updates, self.made = Ring(capacity), steps, minibatch, 0, 0

    def update(self, new: dict[str, np.ndarray]) -> None:
        """Remember transitions and make the gradient steps."""
        self.ring.add(new)
        rng = np.random.default_rng([0, self.updates])
        for _ in range(self.steps):
            self.step(self.ring.draw(self.minibatch, rng, self.device))
        self.updates += 1

    def step(self, part: dict[str, Tensor]) -> None:
        """Make one gradient step."""
        after = leaves(part, "after/")
        with torch.no_grad():
            q = self.network(after, {}, {})[0]["q"].masked_fill(~part["mask_after"], -torch.inf)
            later = self.target(after, {}, {})[0]["q"].gather(1, q.argmax(1, keepdim=True)).squeeze(1)
            wanted = part["reward"] + part["discount"] * later
        q = self.network(leaves(part, "seen/"), {}, {})[0]["q"].gather(1, part["action"]).squeeze(1)
        loss = functional.smooth_l1_loss(q, wanted)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.network.parameters(), 10.0)
        self.optimizer.step()
        self.made += 1
        if self.made % 250 == 0:
            self.target.load_state_dict(self.network.state_dict())


class SACLoop:
    """Soft actor-critic with squashed normal actions and a learned temperature; actions lie in [-1, 1]."""

    def __init__(
        self, actor: nn.Module, critics: Sequence[nn.Module], *, capacity: int, steps: int, minibatch: int
    ) -> None:
        self.actor, self.critics = actor, nn.ModuleList(critics)
        self.targets = copy.deepcopy(self.critics)
        self.device = next(actor.parameters()).device
        self.log_alpha = nn.Parameter(torch.tensor(math.log(0.2), device=self.device))
        self.groups = [list(self.critics.parameters()), list(actor.parameters()), [self.log_alpha]]
        self.optimizers = [torch.optim.Adam(group, lr=3e-4, eps=1e-8, fused=True) for group in self.groups]
        self.ring, self.steps, self.minibatch, self.updates = Ring(capacity), steps, minibatch, 0

    def update(self, new: dict[str, np.ndarray]) -> None:
        """Remember transitions and make the gradient steps."""
        self.ring.add(new)
        rng = np.random.default_rng([0, self.updates])
        for _ in range(self.steps):
            self.step(self.ring.draw(self.minibatch, rng, self.device), rng)
        self.updates += 1

    def act(self, seen: Leaves, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """Return actions ``[n, D]`` and their log-density ``[n]``."""
        mean, log_std = self.actor(seen, {}, {})[0]["policy"].chunk(2, dim=1)
        log_std = log_std.clamp(-20, 2)
        noise = torch.from_numpy(rng.standard_normal(tuple(mean.shape), dtype=np.float32)).to(self.device)
        free = mean + log_std.exp() * noise
        normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        return free.tanh(), (normal - 2 * (math.log(2) - free - functional.softplus(-2 * free))).sum(1)

    def q(self, critics: nn.ModuleList, seen: Leaves, action: Tensor) -> Tensor:
        """Return the values of both critics ``[2, n]``."""
        return torch.stack([critic({**seen, "action": action}, {}, {})[0]["q"].squeeze(1) for critic in critics])

    def step(self, part: dict[str, Tensor], rng: np.random.Generator) -> None:
        """Make one gradient step each."""
        seen, after, alpha = leaves(part, "seen/"), leaves(part, "after/"), self.log_alpha.detach().exp()
        with torch.no_grad():
            action, log_prob = self.act(after, rng)
            value = self.q(self.targets, after, action).amin(0) - alpha * log_prob
            wanted = part["reward"] + part["discount"] * value
        self.descend(0, 0.5 * (self.q(self.critics, seen, part["action"]) - wanted).square().mean(1).sum())
        action, log_prob = self.act(seen, rng)
        self.descend(1, (alpha * log_prob - self.q(self.critics, seen, action).amin(0)).mean())
        self.descend(2, self.log_alpha * (action.shape[1] - log_prob.detach()).mean())
        with torch.no_grad():
            for old, new in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
                old.lerp_(new, 0.005)

    def descend(self, which: int, loss: Tensor) -> None:
        """Step down the gradient of one part."""
        self.optimizers[which].zero_grad()
        torch.autograd.backward(loss, inputs=self.groups[which])
        nn.utils.clip_grad_norm_(self.groups[which], 10.0)
        self.optimizers[which].step()
