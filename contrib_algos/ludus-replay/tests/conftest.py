"""Roles and segments for the tests of the replay buffer."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus import Role
from ludus.segment import SegmentBatch


def random_marks(rng, *, steps, segments):
    """Return lengths and the marks decided, truncated and terminated of random segments, as the recorder sets them."""
    shape = (steps + 1, segments)
    length = rng.integers(0, steps + 1, segments).astype(np.int32)
    entry = np.arange(steps + 1)[:, None]
    ended = rng.random(shape)
    truncated = (ended < 0.2) & (entry < length)
    for t in range(1, steps + 1):
        truncated[t] &= ~truncated[t - 1]
    decided = entry <= length
    decided[1:] &= ~truncated[:-1]
    marks = {
        "decided": decided,
        "truncated": truncated & decided,
        "terminated": (ended > 0.8) & decided & (entry < length),
    }
    return length, marks


@pytest.fixture(scope="session")
def role():
    """Return a role with a small observation, four actions and a privileged leaf."""
    return Role(
        name="player",
        observation_space=spaces.Dict(
            {"board": spaces.Box(0, 255, (2,), np.uint8), "speed": spaces.Box(-9e9, 9e9, (1,), np.float32)}
        ),
        action_space=spaces.Discrete(4),
        teams=(0, 1),
        privileged_space=spaces.Dict({"hidden": spaces.Box(-1, 1, (3,), np.float32)}),
    )


@pytest.fixture(scope="session")
def make_batch():
    """Return a function that makes random segments; ``speed`` numbers all entries, undefined numbers are NaN."""

    def make(seed=0, *, steps=6, segments=5) -> SegmentBatch:
        rng = np.random.default_rng(seed)
        shape = (steps + 1, segments)
        length, marks = random_marks(rng, steps=steps, segments=segments)
        mask = rng.random((*shape, 4)) < 0.5
        action = rng.integers(0, 4, (*shape, 1))
        np.put_along_axis(mask, action, values=True, axis=2)
        reward = rng.integers(-5, 6, shape).astype(np.float32)
        reward[~marks["decided"] | (np.arange(steps + 1)[:, None] >= length)] = np.nan
        speed = 1.0 + np.arange(shape[0] * shape[1], dtype=np.float32).reshape(*shape, 1) + 1000 * seed
        speed[np.arange(steps + 1)[:, None] > length] = np.nan
        return SegmentBatch(
            observation={"board": rng.integers(0, 256, (*shape, 2), np.uint8), "speed": speed},
            privileged={"hidden": rng.uniform(-1, 1, (*shape, 3)).astype(np.float32)},
            action=action,
            action_mask=mask,
            reward=reward,
            **marks,
            elapsed_ticks=rng.integers(1, 4, shape).astype(np.int32),
            length=length,
            version=np.zeros(segments, np.int64),
        )

    return make
