"""Interfaces in exported files: NumPy code on traced arrays computes what it computes on arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ludus.environment import Role
from ludus.installed import open_interfaces
from ludus.interface import Identity, bind_role, stack
from ludus_onnx.folding import count_foldable, observe_rows
from ludus_onnx.golden import sample_rows
from ludus_onnx.traced_array import TracedArray

ROLE = Role(
    name="player",
    teams=(0,),
    observation_space=spaces.Dict(
        {
            "image": spaces.Box(0, 255, (6, 4, 3), np.uint8),
            "numbers": spaces.Box(-2, 5, (3,), np.float32),
            "label": spaces.Discrete(4),
        }
    ),
    action_space=spaces.MultiDiscrete([3, 2]),
)

FOLDABLE = [
    {"name": "scale-observation"},
    {"name": "grey"},
    {"name": "resize", "height": 3, "width": 3},
    {"name": "resize", "height": 3, "width": 3, "method": "nearest"},
    {"name": "label-channels"},
    {"name": "select-leaves", "keep": ["numbers", "image"]},
    {"name": "flatten"},
    {"name": "scale-reward", "factor": 2.0},
]
OTHERS = [{"name": "frame-stack"}, {"name": "merge-labels"}, {"name": "hide-mask"}]


def bound(*items):
    """Return interfaces bound to the role."""
    interfaces = [open_interfaces([item]) for item in items]
    bind_role(ROLE, stack(*interfaces))
    return interfaces


@pytest.mark.parametrize("item", FOLDABLE, ids=lambda item: item["name"])
def test_pure_interfaces_can_be_folded(item):
    """They compute the same by torch."""
    assert count_foldable(ROLE, bound(item)) == 1


@pytest.mark.parametrize("item", OTHERS, ids=lambda item: item["name"])
def test_interfaces_with_state_or_actions_stay_outside(item):
    """What changes actions or keeps frames cannot be in a file."""
    assert count_foldable(ROLE, bound(item)) == 0


def test_only_the_last_interfaces_are_folded():
    """An interface before one that stays outside stays outside too."""
    assert count_foldable(ROLE, bound({"name": "scale-observation"}, {"name": "frame-stack"}, {"name": "flatten"})) == 1


def test_interface_that_computes_otherwise_stays_outside():
    """A result that differs from that of NumPy is noticed."""

    class Odd(Identity):
        def observe(self, view, seat_ids):
            if isinstance(view.reward, TracedArray):
                view.observation["numbers"] = view.observation["numbers"] + 1
            return view

    assert count_foldable(ROLE, [Odd()]) == 0


def test_rows_behind_interfaces_keep_mask_and_state():
    """Only the observation changes."""
    rows = sample_rows(ROLE, {"h": np.zeros((1, 2), np.float32)}, size=5, seed=1)
    behind = observe_rows(bound({"name": "flatten"}), rows)
    assert behind.keys() == {"observation/obs", "action_mask", "state/h"}
    assert behind["state/h"] is rows["state/h"]


OPERATIONS = [
    lambda a, b: a + b,
    lambda a, b: a * 2 - b / 3,
    lambda a, b: (a > b) & (a != 0),
    lambda a, b: np.where(a > 1, a, b),
    lambda a, b: np.concatenate([a, b], axis=1),
    lambda a, b: np.stack([a, b]),
    lambda a, b: a.astype(np.float32) @ np.ones((3, 2), np.float32) + 0 * b[:, :1],
    lambda a, b: np.clip(a, 0, 2).swapaxes(0, 1) + 0 * b.reshape(3, -1),
    lambda a, b: np.rint(a / 2).astype(np.uint8)[:, None, ::2] + 0 * b[:, None, :2].astype(np.uint8),
]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtypes", [("int8", "int8"), ("uint8", "int16"), ("int64", "float32"), ("float32", "float64")])
def test_traced_arrays_follow_numpy(operation, dtypes):
    """Values and dtypes are those of NumPy."""
    first, second = (np.arange(6).reshape(2, 3).astype(dtype) for dtype in dtypes)
    expected = operation(first, second)
    found = operation(*(TracedArray(torch.from_numpy(array)) for array in (first, second)))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found.tensor.numpy(), expected, rtol=1e-6)


def test_conversion_to_an_array_is_refused():
    """It would end the trace without notice."""
    with pytest.raises(TypeError):
        np.asarray(TracedArray(torch.zeros(2)))
