"""Generalized advantages over segments."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from ludus_ppo.estimators import gae
from torch import tensor


class Segments:
    """Random segments with terminations, truncations and different lengths; undefined entries hold NaN."""

    def __init__(self, seed: int, *, steps: int = 9, segments: int = 5) -> None:
        rng = np.random.default_rng(seed)
        shape = (steps + 1, segments)
        entry = np.arange(steps + 1)[:, None]
        self.length = rng.integers(0, steps + 1, segments)
        ended = rng.random(shape)
        truncated = (ended < 0.2) & (entry < self.length)
        truncated[1:] &= ~truncated[:-1]
        decided = np.ones(shape, bool)
        decided[1:] &= ~truncated[:-1]
        self.trainable = decided & (entry < self.length)
        self.terminated = (ended > 0.8) & self.trainable
        self.value = rng.standard_normal(shape).astype(np.float32)
        self.reward = rng.standard_normal(shape).astype(np.float32)
        self.discount = rng.uniform(0.5, 1.0, shape).astype(np.float32)
        self.value[entry > self.length] = np.nan
        self.reward[~self.trainable] = np.nan

    def gae(self, gae_lambda: float) -> np.ndarray:
        return gae(
            torch.from_numpy(self.reward),
            torch.from_numpy(self.value),
            terminated=torch.from_numpy(self.terminated),
            trainable=torch.from_numpy(self.trainable),
            discount=torch.from_numpy(self.discount),
            gae_lambda=gae_lambda,
        ).numpy()

    def advantage(self, t: int, n: int, gae_lambda: float) -> float:
        """Return one advantage straight from its definition, a sum over the future."""
        if not self.trainable[t, n]:
            return 0.0
        if self.terminated[t, n]:
            return self.reward[t, n] - self.value[t, n]
        delta = self.reward[t, n] + self.discount[t, n] * self.value[t + 1, n] - self.value[t, n]
        return delta + self.discount[t, n] * gae_lambda * self.advantage(t + 1, n, gae_lambda)


def constant(rows: int, number: float) -> torch.Tensor:
    """Return a column of one number."""
    return torch.full((rows, 1), number)


def test_gae_by_hand():
    """Two decisions and a bootstrap entry."""
    advantage = gae(
        tensor([[1.0], [2.0], [0.0]]),
        tensor([[0.5], [0.4], [0.3]]),
        terminated=torch.zeros(3, 1, dtype=torch.bool),
        trainable=tensor([[True], [True], [False]]),
        discount=constant(3, 0.5),
        gae_lambda=0.5,
    )
    assert advantage.squeeze(1).tolist() == pytest.approx([0.7 + 0.25 * 1.75, 1.75, 0.0])


def test_termination_cuts_the_future():
    """A terminated decision neither bootstraps nor depends on the next match."""
    advantage = gae(
        tensor([[1.0], [2.0], [0.0]]),
        tensor([[0.5], [0.4], [float("nan")]]),
        terminated=tensor([[True], [True], [False]]),
        trainable=tensor([[True], [True], [False]]),
        discount=constant(3, 1.0),
        gae_lambda=1.0,
    )
    assert advantage.squeeze(1).tolist() == pytest.approx([0.5, 1.6, 0.0])


def test_truncation_bootstraps_from_the_final_observation():
    """The undecided entry after a truncated decision provides its value and ends the sum."""
    advantage = gae(
        tensor([[1.0], [float("nan")], [3.0], [0.0]]),
        tensor([[0.5], [0.25], [0.125], [0.0625]]),
        terminated=torch.zeros(4, 1, dtype=torch.bool),
        trainable=tensor([[True], [False], [True], [False]]),
        discount=constant(4, 1.0),
        gae_lambda=1.0,
    )
    assert advantage.squeeze(1).tolist() == pytest.approx([1.0 + 0.25 - 0.5, 0.0, 3.0 + 0.0625 - 0.125, 0.0])


@given(seed=st.integers(0, 10_000), gae_lambda=st.sampled_from([0.0, 0.5, 0.95, 1.0]))
@settings(deadline=None, max_examples=30)
def test_gae_follows_its_definition(seed, gae_lambda):
    """On random segments."""
    segments = Segments(seed)
    expected = [
        [segments.advantage(t, n, gae_lambda) for n in range(segments.value.shape[1])]
        for t in range(segments.value.shape[0])
    ]
    np.testing.assert_allclose(segments.gae(gae_lambda), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("default")  # the other library warns about itself
def test_gae_agrees_with_torchrl():
    """On the concatenated decisions of a segment."""
    functional = pytest.importorskip("torchrl.objectives.value.functional")
    segments = Segments(3, steps=20)
    segments.discount[:] = 0.9
    ours = segments.gae(0.8)
    for n in range(segments.value.shape[1]):
        taken = np.flatnonzero(segments.trainable[:, n])
        if not taken.size:
            continue

        def column(array: np.ndarray, taken: np.ndarray, n: int = n) -> torch.Tensor:
            return torch.from_numpy(array[taken, n])[:, None]

        truncated = np.append(np.diff(taken) > 1, True)[:, None]
        terminated = column(segments.terminated, taken)
        following = torch.where(terminated, 0.0, column(segments.value, taken + 1))
        expected, _ = functional.generalized_advantage_estimate(
            0.9,
            0.8,
            column(segments.value, taken),
            following,
            column(segments.reward, taken),
            terminated | torch.from_numpy(truncated),
            terminated,
        )
        np.testing.assert_allclose(ours[taken, n], expected.squeeze(1), rtol=1e-5, atol=1e-5)
