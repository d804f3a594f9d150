"""The formulas against numbers worked out by hand, and the running statistics against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus_rnd_ppo.losses import discounted_sums, intrinsic_reward, normalized, prediction_error
from ludus_rnd_ppo.moments import RunningMoments


def column(*numbers):
    """Return entries of a single segment, ``[T+1, 1]``."""
    return torch.tensor(numbers).unsqueeze(1)


def test_the_error_is_the_mean_over_features():
    """(1² + 3²) / 2 and 0."""
    error = prediction_error(torch.tensor([[1.0, 2.0], [4.0, 4.0]]), torch.tensor([[0.0, 5.0], [4.0, 4.0]]))
    assert error.tolist() == [5.0, 0.0]


def test_observations_are_normalized_and_bounded():
    """By the mean and deviation of each element; also bytes."""
    leaf = torch.tensor([[10, 200], [14, 0]], dtype=torch.uint8)
    read = normalized(leaf, mean=torch.tensor([12.0, 0.0]), deviation=torch.tensor([4.0, 10.0]), clip=5.0)
    assert read.tolist() == [[-0.5, 5.0], [0.5, 0.0]]


def test_a_decision_earns_the_error_of_the_next_observation():
    """Or at its own observation, where its match terminates or is truncated."""
    error = column(1.0, 2.0, 3.0, 4.0, 99.0, 5.0)
    terminated = column(False, True, False, False, False, False)
    decided = column(True, True, True, True, False, True)  # entry 4 is the final observation of what 3 cut off
    reward = intrinsic_reward(error, decided=decided, terminated=terminated)
    assert reward[:4, 0].tolist() == [2.0, 2.0, 4.0, 4.0]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [((False, False, False, False), [1.75, 1.5, 1.0, 0.0]), ((True, False, False, False), [1, 1.5, 1, 0])],
)
def test_sums_of_rewards(ends, expected):
    """Three rewards of 1 with discount ½, until the end of a match or segment."""
    sums = discounted_sums(
        column(1.0, 1.0, 1.0, 7.0),
        terminated=column(*ends),
        trainable=column(True, True, True, False),
        discount=torch.full((4, 1), 0.5),
    )
    assert sums[:, 0].tolist() == expected


def test_running_moments_are_those_of_all_rows():
    """For any sizes of batches, and far from 0."""
    rows = np.random.default_rng(0).normal(50, [1, 3], (100, 2)).astype(np.float32)
    moments = RunningMoments((2,))
    for part in np.split(rows, [1, 30, 31]):
        moments.add(torch.from_numpy(part))
    assert moments.count == 100
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(moments.deviation, rows.std(axis=0, dtype=np.float64), rtol=1e-4)


def test_what_never_varies_has_a_deviation_above_zero():
    """As observations are divided by it."""
    moments = RunningMoments()
    moments.add(torch.full((5,), 3.0))
    assert 0 < moments.deviation < 0.01


def test_running_moments_keep_their_tensors():
    """So that references to them stay valid."""
    moments = RunningMoments((2,))
    before = {name: tensor.data_ptr() for name, tensor in moments.state_dict().items()}
    moments.add(torch.ones(3, 2))
    assert before == {name: tensor.data_ptr() for name, tensor in moments.state_dict().items()}
