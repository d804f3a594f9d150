"""Interfaces change images as computed by hand, and as other libraries do."""

from __future__ import annotations

import copy
import importlib
import importlib.util

import numpy as np
import pytest
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.interface import SeatView, Spaces, stack
from ludus.testing import check_interface
from ludus_interfaces.frames import FrameStack
from ludus_interfaces.images import Grey, LabelChannels, Resize

ACTION = spaces.Discrete(2)
PICTURE = spaces.Box(0, 255, (4, 6, 3), np.uint8)
DEPTH = spaces.Box(-1.0, 1.0, (4, 6, 1))
MIXED = spaces.Dict(
    {"depth": DEPTH, "picture": PICTURE, "side": spaces.Discrete(2, start=1), "speed": spaces.Box(0, 1, (2,))}
)
RNG = np.random.default_rng(0)


def observe(interface, space, **leaves):
    """Bind an interface, apply it to two rows, and return the new space and the leaves, which lie in it."""
    bound = interface.bind(Spaces(space, ACTION)).observation
    view = SeatView(observation=leaves, action_mask=None, reward=np.zeros(2, np.float32))
    seen = interface.observe(view, np.arange(2)).observation
    for row in range(2):
        single = {name: leaf[row] for name, leaf in seen.items()}
        assert bound.contains(single if isinstance(bound, spaces.Dict) else single["obs"])
    return bound, seen


def mixed():
    """Return two rows of the leaves of `MIXED`."""
    return {
        "depth": RNG.uniform(-1, 1, (2, 4, 6, 1)).astype(np.float32),
        "picture": RNG.integers(0, 256, (2, 4, 6, 3), np.uint8),
        "side": np.array([1, 2]),
        "speed": np.zeros((2, 2), np.float32),
    }


@pytest.mark.parametrize(
    "interface",
    [
        Grey(leaves=("picture",)),
        Resize(2, 9),
        Resize(3, 4, method="bilinear", leaves=("depth",)),
        Resize(8, 3, method="nearest"),
        LabelChannels(),
        stack(Grey(), Resize(2, 2), FrameStack(3, leaves=("picture",), padding="zeros"), LabelChannels()),
    ],
)
def test_contract(interface):
    """Rows depend on nothing else, and lie in the new spaces."""
    check_interface(lambda: _copy(interface), Spaces(MIXED, ACTION))


def _copy(interface):

    return copy.deepcopy(interface)


# -- grey ----------------------------------------------------------------------------------------------------------


def test_grey_is_the_rounded_weighted_sum_of_the_colours():
    """0.299 · 100 + 0.587 · 50 + 0.114 · 200 = 82.05; white stays white; other leaves do not change."""
    leaves = mixed()
    leaves["picture"][0, 0, :2] = [[100, 50, 200], [255, 255, 255]]
    bound, seen = observe(Grey(), MIXED, **leaves)
    assert seen["picture"][0, 0, :2, 0].tolist() == [82, 255]
    assert bound["picture"] == spaces.Box(0, 255, (4, 6, 1), np.uint8)
    assert seen["depth"] is leaves["depth"]


def test_grey_takes_one_channel_by_its_weight():
    """[0, 0, 1] is the blue channel, exactly."""
    _, seen = observe(Grey((0.0, 0.0, 1.0)), MIXED, **(leaves := mixed()))
    assert (seen["picture"] == leaves["picture"][..., 2:]).all()


def test_grey_limits_sums_to_the_dtype():
    """Weights above 1 do not wrap around."""
    _, seen = observe(Grey((2.0, 0.0, 0.0)), PICTURE, obs=np.full((2, 4, 6, 3), 200, np.uint8))
    assert (seen["obs"] == 255).all()


def test_grey_keeps_infinite_bounds_of_used_colours_only():
    """The bounds of a colour with weight 0 do not count."""
    low, high = np.zeros((2, 2, 3), np.float32), np.ones((2, 2, 3), np.float32)
    high[..., 0] = np.inf
    bound = Grey((0.0, 1.0, 1.0)).bind(Spaces(spaces.Box(low, high), ACTION)).observation
    assert bound == spaces.Box(0.0, 2.0, (2, 2, 1))


# -- resize --------------------------------------------------------------------------------------------------------

RAMP = np.arange(6, dtype=np.float32) * 10  # 0, 10, …, 50 along the width


@pytest.mark.parametrize(
    ("method", "width", "expected"),
    [
        ("area", 3, [5, 25, 45]),
        ("area", 4, [10 / 3, 50 / 3, 100 / 3, 140 / 3]),
        ("bilinear", 3, [5, 25, 45]),
        ("bilinear", 12, [0, 2.5, 7.5, 12.5, 17.5, 22.5, 27.5, 32.5, 37.5, 42.5, 47.5, 50]),
        ("nearest", 3, [10, 30, 50]),
        ("nearest", 9, [0, 10, 10, 20, 30, 30, 40, 50, 50]),
    ],
)
def test_resize_computes_known_values(method, width, expected):
    """A ramp along the width; the height is resized to a single row of the same."""
    space = spaces.Box(0, 50, (4, 6, 2))
    images = np.broadcast_to(RAMP[:, None], (2, 4, 6, 2)).copy()
    images[..., 1] /= 2
    _, seen = observe(Resize(1, width, method=method), space, obs=images)
    np.testing.assert_allclose(seen["obs"][0, 0, :, 0], expected, atol=1e-4)
    np.testing.assert_allclose(seen["obs"][1, 0, :, 1], np.array(expected) / 2, atol=1e-4)


@pytest.mark.parametrize("method", ["area", "bilinear", "nearest"])
def test_resize_works_on_both_axes(method):
    """A transposed image gives the transposed result."""
    image = RNG.integers(0, 256, (2, 21, 16, 3), np.uint8)
    space, turned = (spaces.Box(0, 255, shape, np.uint8) for shape in ((21, 16, 3), (16, 21, 3)))
    _, one = observe(Resize(8, 5, method=method), space, obs=image)
    _, two = observe(Resize(5, 8, method=method), turned, obs=image.swapaxes(1, 2).copy())
    assert np.abs(one["obs"].astype(int) - two["obs"].swapaxes(1, 2)).max() <= 1  # sums in another order


def test_resize_to_the_same_size_changes_nothing():
    """For every method."""
    image = RNG.integers(0, 256, (2, 4, 6, 3), np.uint8)
    for method in ("area", "bilinear", "nearest"):
        assert (observe(Resize(4, 6, method=method), PICTURE, obs=image)[1]["obs"] == image).all()


@pytest.mark.skipif(importlib.util.find_spec("cv2") is None, reason="needs OpenCV")
@pytest.mark.parametrize("shape", [(210, 160), (84, 84), (30, 45)])
def test_resize_equals_gymnasiums_wrapper(shape):
    """ResizeObservation averages areas too; OpenCV rounds differently."""
    cv2 = importlib.import_module("cv2")
    image = RNG.integers(0, 256, (2, *shape, 3), np.uint8)
    space = spaces.Box(0, 255, image.shape[1:], np.uint8)
    for method, theirs in (("area", cv2.INTER_AREA), ("bilinear", cv2.INTER_LINEAR)):
        _, seen = observe(Resize(20, 28, method=method), space, obs=image)
        expected = cv2.resize(image[0], (28, 20), interpolation=theirs)
        assert np.abs(seen["obs"][0].astype(int) - expected).max() <= 1


# -- label-channels ------------------------------------------------------------------------------------------------


def test_label_channels_are_full_for_the_label():
    """The second label of two: 255 in the last channel of bytes, 1 in that of real numbers; the leaf is removed."""
    bound, seen = observe(LabelChannels(), MIXED, **(leaves := mixed()))
    assert sorted(bound) == sorted(seen) == ["depth", "picture", "speed"]
    assert (seen["picture"][..., :3] == leaves["picture"]).all()
    assert [np.unique(seen["picture"][1, ..., k]).tolist() for k in (3, 4)] == [[0], [255]]
    assert [np.unique(seen["depth"][0, ..., k]).tolist() for k in (1, 2)] == [[1.0], [0.0]]


def test_label_channels_leave_a_plain_image_alone():
    """An image and a label become one image, which is no Dict any more."""
    space = spaces.Dict({"obs": PICTURE, "agent": spaces.Discrete(2)})
    bound, _ = observe(LabelChannels(), space, obs=mixed()["picture"], agent=np.array([0, 1]))
    assert bound.shape == (4, 6, 5)


# -- frame-stack ---------------------------------------------------------------------------------------------------


def test_frame_stack_stacks_named_leaves_and_pads_with_zeros():
    """The label keeps its shape, and the frames before the first are black."""
    interface = FrameStack(2, leaves=("picture",), padding="zeros")
    bound, seen = observe(interface, MIXED, **(leaves := mixed()))
    assert bound["picture"].shape == (4, 6, 6)
    assert bound["side"] == MIXED["side"]
    assert not seen["picture"][..., :3].any()
    assert (seen["picture"][..., 3:] == leaves["picture"]).all()


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interface", "space", "message"),
    [
        (Grey(), DEPTH, "grey: image 'obs' has 1 channels, expected 3"),
        (Grey(), spaces.Discrete(2), r"grey: no leaf is an image .*; the leaves are obs \[\]"),
        (Resize(2, 2, leaves=("speed",)), MIXED, "resize: 'speed' is no image"),
        (LabelChannels(), PICTURE, "label-channels: the observation holds no Discrete leaf; .*agent-indicator"),
        (LabelChannels(("speed",)), MIXED, "there is no Discrete leaf 'speed'"),
        (FrameStack(2, leaves=("sound",)), MIXED, "there is no observation leaf 'sound'; there are depth, picture"),
    ],
)
def test_unsuitable_leaves_are_one_line(interface, space, message):
    """The error names the interface or the leaf, and what there is."""
    with pytest.raises(ContractError, match=message) as error:
        interface.bind(Spaces(space, ACTION))
    assert "\n" not in str(error.value)
