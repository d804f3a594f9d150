"""Spaces are converted to named leaves and action labels."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus import ContractError
from ludus.spaces import (
    action_dtype,
    action_width,
    is_continuous,
    is_hybrid,
    label_sizes,
    leaf_spaces,
    legal_actions,
    random_actions,
    real_box,
    real_sizes,
)

BOX = spaces.Box(-1, 1, (3,), np.float32)
HYBRID = spaces.Dict(
    {
        "move": spaces.Discrete(3),
        "aim": spaces.Tuple((BOX, spaces.MultiBinary(2))),
        "item": spaces.Dict({"kind": spaces.Discrete(4), "amount": spaces.Box(0, 5, (1,), np.float32)}),
    }
)


def test_none_has_no_leaves():
    """A role without privileged observations has no privileged leaves."""
    assert leaf_spaces(None) == {}


@pytest.mark.parametrize("space", [BOX, spaces.Discrete(4), spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(5)])
def test_a_plain_space_is_the_leaf_obs(space):
    """For any space with a fixed array form."""
    assert leaf_spaces(space) == {"obs": space}


def test_a_dict_has_a_leaf_for_each_part():
    """Leaves keep the names and the order of the Dict space."""
    space = spaces.Dict({"image": BOX, "count": spaces.Discrete(4)})
    assert list(leaf_spaces(space).items()) == list(space.spaces.items())


def test_nested_dicts_have_dotted_names():
    """The names of all levels are joined."""
    space = spaces.Dict({"own": spaces.Dict({"arm": spaces.Dict({"left": BOX})}), "rest": BOX})
    assert leaf_spaces(space) == {"own.arm.left": BOX, "rest": BOX}


@pytest.mark.parametrize("flat", ["a.b", "a.b.c"])
def test_two_leaves_of_one_name_are_rejected(flat):
    """A dotted key and a nested Dict may have the same leaf name."""
    space = spaces.Dict({"a": spaces.Dict({"b": BOX, "b.c": BOX}), flat: spaces.Discrete(4)})
    with pytest.raises(ContractError, match=f"two observation leaves are named '{flat}'"):
        leaf_spaces(space)


@pytest.mark.parametrize(
    "space",
    [spaces.Text(5), spaces.Sequence(BOX), spaces.Graph(BOX, None), spaces.Tuple((BOX, BOX))],
    ids=lambda space: type(space).__name__,
)
def test_a_leaf_without_a_fixed_array_form_is_rejected(space):
    """The message names the leaf, its kind and supported spaces."""
    with pytest.raises(ContractError, match=f"leaf 'part' is a {type(space).__name__} space.*use Box"):
        leaf_spaces(spaces.Dict({"part": space}))


@pytest.mark.parametrize(
    ("space", "sizes"),
    [
        (spaces.Discrete(7), (7,)),
        (spaces.MultiDiscrete([3, 2]), (3, 2)),
        (spaces.MultiDiscrete([[3, 2], [4, 5]]), (3, 2, 4, 5)),
        (spaces.MultiBinary(3), (2, 2, 2)),
        (spaces.MultiBinary([2, 2]), (2, 2, 2, 2)),
        (BOX, ()),
    ],
    ids=str,
)
def test_label_sizes_of_action_spaces(space, sizes):
    """One label per independent choice; continuous actions have none."""
    assert label_sizes(space) == sizes


@pytest.mark.parametrize(
    ("space", "problem"),
    [
        (spaces.Text(5), "action space Text is not supported; use Discrete"),
        (spaces.Sequence(BOX), "action space Sequence is not supported; use Discrete"),
        (
            spaces.Dict({"a": BOX, "b": spaces.Tuple((BOX, spaces.Text(5)))}),
            r"part 'b\.1' of the action space, a Text, is not supported; use Discrete",
        ),
        (spaces.Tuple(()), r"action space Tuple\(\) has no parts; expected at least one"),
    ],
    ids=str,
)
def test_other_action_spaces_are_rejected(space, problem):
    """The message names the space, or its part, and the supported ones."""
    with pytest.raises(ContractError, match=problem):
        label_sizes(space)


def test_the_columns_of_a_hybrid_action_are_labels_then_real_numbers():
    """The parts of nested Tuples and Dicts follow each other, in Gymnasium's order of keys."""
    assert label_sizes(HYBRID) == (2, 2, 4, 3)
    assert real_sizes(HYBRID) == (3, 1)
    assert action_width(HYBRID) == 8
    assert action_dtype(HYBRID) == np.float32
    box = real_box(HYBRID)
    assert box is not None
    assert (box.low.tolist(), box.high.tolist()) == ([-1, -1, -1, 0], [1, 1, 1, 5])
    assert is_hybrid(HYBRID)
    assert not is_continuous(HYBRID)


def test_parts_of_one_kind_are_not_hybrid():
    """Labels of several parts are int64, Boxes of several parts are one vector."""
    labels, reals = spaces.Tuple((spaces.Discrete(3), spaces.MultiBinary(2))), spaces.Dict({"a": BOX, "b": BOX})
    assert not is_hybrid(labels)
    assert not is_hybrid(reals)
    assert (label_sizes(labels), action_dtype(labels)) == ((3, 2, 2), np.int64)
    assert (action_width(reals), is_continuous(reals), real_box(labels)) == (6, True, None)


@pytest.mark.parametrize(
    ("wrong", "column"), [(-1, 0), (2, 1), (0.5, 1), (np.nan, 2), (3, 3), (1.5, 4), (-0.1, 7), (np.nan, 7), (1, 3)]
)
def test_every_part_of_a_hybrid_action_must_be_legal(wrong, column):
    """Labels in range, whole and allowed by the mask; numbers within bounds."""
    action, mask = np.zeros((2, 8), np.float32), np.ones((2, 11), bool)
    mask[:, 9] = False  # choice 1 of the last label
    assert legal_actions(HYBRID, action, mask).tolist() == [True, True]
    action[1, column] = wrong
    assert legal_actions(HYBRID, action, mask).tolist() == [True, False]


def test_random_hybrid_actions_are_legal():
    """Of every part, under a mask."""
    rng = np.random.default_rng(0)
    mask = rng.random((500, 11)) < 0.4
    mask[:, [0, 2, 4, 8]] = True
    drawn = random_actions(HYBRID, 500, rng, mask=mask)
    assert drawn.dtype == np.float32
    assert legal_actions(HYBRID, drawn, mask).all()
    assert len(np.unique(drawn[:, 4:])) > 1900


def test_only_boxes_are_continuous():
    """Labels are discrete."""
    assert is_continuous(BOX)
    assert not is_continuous(spaces.MultiBinary(2))


def test_the_width_of_a_box_is_its_dimension():
    """A matrix of three by four numbers has twelve."""
    assert action_width(spaces.Box(-1, 1, (3, 4), np.float32)) == 12


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_the_width_of_labels_is_their_number(sizes):
    """An action of MultiDiscrete has one entry per label of any size."""
    space = spaces.MultiDiscrete(sizes)
    assert action_width(space) == len(label_sizes(space)) == len(space.sample())


@pytest.mark.parametrize(
    ("space", "dtype"), [(BOX, np.float32), (spaces.Discrete(3), np.int64), (spaces.MultiBinary(2), np.int64)]
)
def test_actions_are_int64_or_float32(space, dtype):
    """For any dtype of the space."""
    assert action_dtype(space) == dtype


@pytest.mark.parametrize(
    ("action", "legal"), [([0, 0], True), ([0, 2], True), ([1, 2], False), ([0, 1], False), ([0, 3], False)]
)
def test_an_action_is_legal_if_all_labels_are(action, legal):
    """Each label has its own columns of the mask."""
    mask = np.array([[True, False, True, False, True]])
    assert legal_actions(spaces.MultiDiscrete([2, 3]), np.array([action]), mask).tolist() == [legal]


def test_without_a_mask_all_choices_are_legal():
    """Numbers outside of the space are not."""
    actions = np.array([[[0], [3]], [[4], [-1]]])
    assert legal_actions(spaces.Discrete(4), actions).tolist() == [[True, True], [False, False]]


def test_real_actions_are_legal_within_their_bounds():
    """Bounds are inclusive; a Box of any shape is flattened."""
    box = spaces.Box(np.array([[-1, 0]], np.float32), np.array([[1, 2]], np.float32))
    assert legal_actions(box, np.array([[1, 2], [0, 2.5]], np.float32)).tolist() == [True, False]


def test_random_labels_are_uniform_among_the_legal():
    """Of five choices three are legal; each is chosen in a third of 9,000 actions."""
    mask = np.tile([True, False, True, False, True], (9000, 1))
    chosen = random_actions(spaces.Discrete(5), 9000, np.random.default_rng(0), mask=mask)
    counts = np.bincount(chosen[:, 0], minlength=5)
    assert counts[[1, 3]].tolist() == [0, 0]
    assert (abs(counts[[0, 2, 4]] - 3000) < 250).all()


def test_random_labels_are_masked_each_on_its_own():
    """Labels of two and three choices, one choice of each left."""
    mask = np.tile([False, True, False, True, False], (50, 1))
    space = spaces.MultiDiscrete([2, 3])
    assert (random_actions(space, 50, np.random.default_rng(0), mask=mask) == [1, 1]).all()


def test_random_labels_without_a_mask_use_every_choice():
    """No mask means that all choices are legal."""
    actions = random_actions(spaces.MultiDiscrete([2, 3]), 500, np.random.default_rng(0))
    assert [sorted(set(column)) for column in actions.T.tolist()] == [[0, 1], [0, 1, 2]]


@pytest.mark.parametrize(
    ("low", "high"), [([-2, 1], [3, 2]), ([-2, 1, -np.inf, -np.inf], [3, np.inf, 5, np.inf]), ([20, 5], [np.inf, 6])]
)
def test_random_reals_stay_inside_and_fill_their_bounds(low, high):
    """Bounded, half-bounded and free entries of a Box."""
    box = spaces.Box(np.array(low, np.float32), np.array(high, np.float32))
    actions = random_actions(box, 4000, np.random.default_rng(0))
    assert actions.dtype == np.float32
    assert all(box.contains(action) for action in actions)
    for column, lower, upper in zip(actions.T, low, high, strict=True):
        if np.isfinite(lower):
            assert column.min() < lower + 0.1
        if np.isfinite(upper):
            assert column.max() > upper - 0.1
        if not np.isfinite([lower, upper]).any():
            assert abs(column.mean()) < 0.1
