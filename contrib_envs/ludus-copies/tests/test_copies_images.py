"""Tests of the layout of images."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.spaces import leaf_spaces
from ludus_copies import observation_notes, observation_writer, plain_observation_space


def box(*shape, low=0, high=255, dtype=np.uint8):
    """Return a Box, of bytes unless stated otherwise."""
    return spaces.Box(low, high, shape, dtype)


@pytest.mark.parametrize(
    ("shape", "channels", "observed"),
    [
        ((4, 42, 42), "auto", (42, 42, 4)),
        ((17, 19, 19), "auto", (19, 19, 17)),  # equal sides, many channels
        ((3, 210, 160), "auto", (210, 160, 3)),  # unequal sides, few channels
        ((1, 6, 7), "auto", (6, 7, 1)),
        ((5, 17, 16), "auto", (5, 17, 16)),  # unequal sides, too many channels
        ((210, 160, 3), "auto", (210, 160, 3)),
        ((8, 8, 111), "auto", (8, 8, 111)),
        ((3, 3, 2), "auto", (3, 3, 2)),
        ((3, 3, 3), "auto", (3, 3, 3)),
        ((3, 3, 2), "first", (3, 2, 3)),
        ((4, 42, 42), "last", (4, 42, 42)),
        ((4, 84, 84, 3), "auto", (84, 84, 12)),
        ((4, 3, 84, 84), "auto", (84, 84, 12)),
        ((16, 20), "auto", (16, 20, 1)),
        ((15, 20), "auto", (15, 20)),
    ],
)
def test_shapes(shape, channels, observed):
    """Three dimensions are an image, two with long sides are one of one channel, four are a stack."""
    assert plain_observation_space(box(*shape), channels=channels).shape == observed


@pytest.mark.parametrize("space", [box(20, 20, dtype=np.float32), box(20, 20, high=1), box(2, 5, 5, 3, high=9)])
def test_other_numbers_than_bytes_are_no_pixels(space):
    """Matrices and four-dimensional Boxes of other numbers do not change."""
    assert plain_observation_space(space) is space
    assert observation_notes(space) == []


def written(space, observation, **options):
    """Return the leaf that an observation becomes."""
    leaf = plain_observation_space(space, **options)
    view = np.zeros(leaf.shape, leaf.dtype)
    observation_writer(space, {"obs": view}, **options)(observation)
    return view


def test_writer_moves_channels():
    """Cell and channel of every number are kept."""
    image = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    np.testing.assert_array_equal(written(box(2, 3, 3), image), image.transpose(1, 2, 0))


def test_writer_of_a_grey_image():
    """An image without a channel axis gets one."""
    image = np.arange(16 * 17, dtype=np.uint16).astype(np.uint8).reshape(16, 17)
    np.testing.assert_array_equal(written(box(16, 17), image), image[:, :, None])


@pytest.mark.parametrize(("shape", "order"), [((2, 3, 4, 1), (0, 1, 2, 3)), ((2, 1, 3, 4), (0, 2, 3, 1))])
def test_writer_of_a_stack(shape, order):
    """The channels of the oldest frame come first."""
    frames = np.arange(24, dtype=np.uint8).reshape(shape)
    oldest, newest = frames.transpose(order)
    np.testing.assert_array_equal(written(box(*shape), frames), np.concatenate([oldest, newest], axis=2))


def test_writer_converts_other_dtypes():
    """A channel-first image of another dtype than declared is checked and written as one of the declared dtype."""
    image = np.arange(2 * 3 * 3).reshape(2, 3, 3)
    np.testing.assert_array_equal(written(box(2, 3, 3), image), image.transpose(1, 2, 0))


def test_bounds_move_with_the_channels():
    """Each channel keeps its own bounds."""
    high = np.array([1, 9], np.float32)[:, None, None] * np.ones((2, 3, 3), np.float32)
    leaf = plain_observation_space(spaces.Box(np.zeros_like(high), high))
    assert leaf.high[..., 0].max() == 1
    assert leaf.high[..., 1].min() == 9


def test_leaves_of_dicts_are_converted_and_noted():
    """Each image of a Dict or Tuple has a note; other leaves have none."""
    space = spaces.Dict({"eye": box(4, 42, 42), "hand": spaces.Tuple([box(2), box(16, 16)]), "map": box(9, 9, 5)})
    assert {name: leaf.shape for name, leaf in leaf_spaces(plain_observation_space(space)).items()} == {
        "eye": (42, 42, 4),
        "hand.0": (2,),
        "hand.1": (16, 16, 1),
        "map": (9, 9, 5),
    }
    assert observation_notes(space) == [
        "image eye [4, 42, 42]: channels, height, width; observed as [42, 42, 4]",
        "image hand.1 [16, 16]: height, width; observed as [16, 16, 1]",
        "image map [9, 9, 5]: height, width, channels",
    ]
