"""The algorithm ``dummy-gradient``: REINFORCE with a baseline [Williams 1992] on linear functions, in NumPy.

With features x (all observation leaves, flattened) the policy is ``softmax(x @ policy)`` over legal choices, label
by label, and the baseline ``x @ value``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from ludus import ContractError, ModelError
from ludus.algorithm import AlgorithmContext, Decision, PolicyInput, UpdateResult, Weights
from ludus.environment import Leaves
from ludus.segment import Field, SegmentBatch
from ludus.spaces import label_sizes, leaf_spaces, real_sizes

from ludus_dummy.config import GradientConfig


class Gradient:
    """Makes linear policies and their trainer for one role with discrete actions.

    Raises:
        ContractError: The role's actions have real numbers.
    """

    def __init__(self, config: GradientConfig, *, context: AlgorithmContext) -> None:
        self._config = config
        self._sizes = label_sizes(context.role.action_space)
        if real_sizes(context.role.action_space):
            raise ContractError(
                "dummy-gradient chooses among discrete actions; this role has a Box action space or part"
            )
        leaves = leaf_spaces(context.role.observation_space)
        self._features = 1 + sum(math.prod(space.shape or ()) for space in leaves.values())

    @property
    def fields(self) -> tuple[Field, ...]:
        """Return the log-probability of the action and the baseline."""
        return (Field("log_prob"), Field("value"))

    @property
    def segment_decisions(self) -> int:
        """Return T, the maximum length of a segment."""
        return self._config.segment_decisions

    def make_policy(self) -> LinearPolicy:
        """Make a policy that plays uniformly."""
        return LinearPolicy(self._features, self._sizes)

    def make_trainer(self, *, seed: int, device: str = "cpu") -> GradientTrainer:
        """Make a trainer whose initial policy is uniform up to small seeded noise; it always runs on the CPU."""
        del device
        noise = np.random.default_rng(seed).normal(0.0, 0.01, (self._features, sum(self._sizes)))
        return GradientTrainer(self._config, LinearPolicy(self._features, self._sizes, noise.astype(np.float32)))


class LinearPolicy:
    """A softmax over linear scores, label by label.

    Args:
        features: Number of features F, including the constant.
        sizes: Choices of each label; A is their sum.
        policy: Initial weights ``[F, A] float32``; None for zeros.

    Attributes:
        temperature: See `ludus.algorithm.TemperedPolicy`.
    """

    def __init__(self, features: int, sizes: Sequence[int], policy: np.ndarray | None = None) -> None:
        self.sizes = tuple(sizes)
        self.policy = np.zeros((features, sum(sizes)), np.float32) if policy is None else policy
        self.value = np.zeros((features,), np.float32)
        self.temperature = 1.0

    def act(self, inputs: PolicyInput, *, rng: np.random.Generator, deterministic: bool = False) -> Decision:
        """Decide for n rows; see `ludus.algorithm.Policy`."""
        x = features(inputs.observation)
        log_probs = self.log_probs(x, inputs.action_mask)  # [n, A]
        # Gumbel-max: the argmax of log-probabilities plus Gumbel noise is a sample.
        scores = log_probs if deterministic else log_probs + rng.gumbel(size=log_probs.shape)
        action = np.stack([part.argmax(1) for part in self.labels(scores)], axis=1)
        log_prob = np.where(self.one_hot(action), log_probs, 0.0).sum(1)
        extras = {"log_prob": log_prob.astype(np.float32), "value": x @ self.value}
        return Decision(action=action, extras=extras, state=inputs.state)

    def evaluate(self, inputs: PolicyInput) -> np.ndarray:
        """Return the baseline ``[n] float32``."""
        estimate: np.ndarray = features(inputs.observation) @ self.value
        return estimate

    def initial_state(self, rows: int) -> Leaves:
        """Return an empty state: the policy is stateless."""
        del rows
        return {}

    def weights(self) -> dict[str, np.ndarray]:
        """Return copies of ``policy [F, A]`` and ``value [F]``."""
        return {"policy": self.policy.copy(), "value": self.value.copy()}

    def load(self, weights: Weights) -> None:
        """Copy `weights`.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        expected = {name: array.shape for name, array in self.weights().items()}
        shapes = {name: array.shape for name, array in weights.items()}
        if shapes != expected:
            raise ModelError(f"dummy-gradient expected weights {expected}, got {shapes}")
        self.policy = np.array(weights["policy"], np.float32)
        self.value = np.array(weights["value"], np.float32)

    def log_probs(self, x: np.ndarray, action_mask: np.ndarray | None) -> np.ndarray:
        """Return ``[n, A]`` log-probabilities for features ``[n, F]``; -inf for masked choices."""
        logits = x @ self.policy / np.float32(self.temperature)
        if action_mask is not None:
            logits = np.where(action_mask, logits, -np.inf)
        return np.concatenate([_log_softmax(part) for part in self.labels(logits)], axis=1)

    def one_hot(self, action: np.ndarray) -> np.ndarray:
        """Return ``[n, A] bool`` for actions ``[n, L]``: the chosen entry of every label."""
        labels = [action[:, i : i + 1] == np.arange(size) for i, size in enumerate(self.sizes)]
        return np.concatenate(labels, axis=1)

    def labels(self, array: np.ndarray) -> list[np.ndarray]:
        """Split ``[n, A]`` into one ``[n, choices]`` per label."""
        return np.split(array, np.cumsum(self.sizes)[:-1], axis=1)


class GradientTrainer:
    """Makes one step along the policy gradient per update.

    Args:
        config: Step size, discount and entropy bonus.
        policy: Policy whose weights are trained.
    """

    def __init__(self, config: GradientConfig, policy: LinearPolicy) -> None:
        self._config = config
        self._policy = policy
        self._updates = 0

    @property
    def batch_decisions(self) -> int:
        """Return the number of new decisions per update."""
        return self._config.batch_decisions

    def update(self, batch: SegmentBatch, *, progress: float) -> UpdateResult:
        """Make one step on all trainable decisions; see `ludus.algorithm.Trainer`."""
        del progress
        used = batch.trainable()
        shape = used.shape
        x_all = features({name: leaf.reshape(-1, *leaf.shape[2:]) for name, leaf in batch.observation.items()})
        values = (x_all @ self._policy.value).reshape(shape)
        target = returns(batch, values, gamma=self._config.gamma)[used]
        x = x_all[used.ravel()]
        mask = None if batch.action_mask is None else batch.action_mask[used]
        advantage = target - values[used]
        metrics = self._step(x, mask, action=batch.action[used], advantage=advantage)
        self._updates += 1
        return UpdateResult(metrics=metrics, samples=int(used.sum()), gradient_steps=1)

    def _step(
        self, x: np.ndarray, mask: np.ndarray | None, *, action: np.ndarray, advantage: np.ndarray
    ) -> dict[str, float]:
        log_probs = self._policy.log_probs(x, mask)  # [n, A]
        probs = np.exp(log_probs)
        log_probs = np.where(probs > 0, log_probs, 0.0)
        taken = self._policy.one_hot(action)
        # d log π(a) / d logits = 1[a] - π;  d entropy / d logits = -π (log π + entropy), label by label
        entropy = -probs * log_probs
        per_label = np.concatenate(
            [np.broadcast_to(part.sum(1, keepdims=True), part.shape) for part in self._policy.labels(entropy)], axis=1
        )
        gradient = advantage[:, None] * (taken - probs)
        gradient -= self._config.ent_coef * probs * (log_probs + per_label)
        step = self._config.learning_rate / max(len(x), 1)
        with np.errstate(invalid="ignore", over="ignore"):  # checked below
            policy = self._policy.policy + step * (x.T @ gradient)
            # The sum of squares bounds the curvature, so the step is stable for observations of any scale.
            value = self._policy.value + x.T @ advantage / max(float((x * x).sum()), 1e-6)
        if not (np.isfinite(policy).all() and np.isfinite(value).all()):
            raise ContractError("dummy-gradient: a gradient is not finite; lower learning_rate or check the rewards")
        self._policy.policy, self._policy.value = policy.astype(np.float32), value.astype(np.float32)
        return {
            "policy_loss": float(-(advantage * np.where(taken, log_probs, 0.0).sum(1)).mean()),
            "value_loss": float(0.5 * (advantage**2).mean()),
            "entropy": float(entropy.sum(1).mean()),
        }

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of the weights."""
        return self._policy.weights()

    def load_weights(self, weights: Weights) -> None:
        """Copy the weights of a model.

        Raises:
            ModelError: Names or shapes do not fit.
        """
        self._policy.load(weights)

    def state(self) -> dict[str, np.ndarray]:
        """Return the number of updates."""
        return {"updates": np.array(self._updates, np.int64)}

    def load_state(self, state: Weights) -> None:
        """Restore the number of updates."""
        self._updates = int(state["updates"])


def features(observation: Leaves) -> np.ndarray:
    """Return ``[n, F] float32``: a constant 1 and all leaves flattened, in the order of their names."""
    leaves = [observation[name] for name in sorted(observation)]
    rows = len(leaves[0])
    flat = [leaf.reshape(rows, math.prod(leaf.shape[1:])).astype(np.float32) for leaf in leaves]
    return np.concatenate([np.ones((rows, 1), np.float32), *flat], axis=1)


def returns(batch: SegmentBatch, values: np.ndarray, *, gamma: float) -> np.ndarray:
    """Return discounted returns ``[T+1, N]`` of trainable decisions; other entries hold their value.

    ``returns[t] = reward[t] + gamma * returns[t+1]``, without the second term if the match terminated.

    Args:
        batch: The segments.
        values: ``[T+1, N]`` bootstrap values.
        gamma: Discount per decision.
    """
    used = batch.trainable()
    result = values.copy()
    for t in range(len(result) - 2, -1, -1):
        next_return = np.where(batch.terminated[t], 0.0, result[t + 1])
        result[t] = np.where(used[t], batch.reward[t] + gamma * next_return, result[t])
    return result


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    """Return the log-softmax of ``[n, k]`` along axis 1; -inf stays -inf."""
    shifted: np.ndarray = logits - logits.max(1, keepdims=True)
    normalized: np.ndarray = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return normalized
