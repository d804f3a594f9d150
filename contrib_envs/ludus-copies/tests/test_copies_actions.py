"""Actions and masks of other libraries: flat in ludus, in the structure of the game for the game."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.spaces import action_width, legal_actions, random_actions
from ludus_copies import action_reader, mask_writer, plain_action_space, random_action


@pytest.mark.parametrize(
    "mask",
    [
        np.array([1, 0, 1, 1, 0], np.int8),
        [True, False, True, True, False],
        (np.array([1, 0], np.int8), np.array([1, 1, 0], np.int8)),
        ((np.array([1, 0], np.int8),), (np.array([1, 1, 0], np.int8),)),
    ],
)
def test_masks_are_arrays_or_tuples_with_one_per_label(mask) -> None:
    """As Gymnasium's `sample` takes them, also for two-dimensional labels; without a mask all actions are legal."""
    view = np.zeros(5, np.bool_)
    write = mask_writer(view)
    write(mask)
    assert view.tolist() == [True, False, True, True, False]
    write(None)
    assert view.all()


@pytest.mark.parametrize(
    "mask",
    [
        np.array([1, 0, 7], np.uint8),
        np.array([[0.5], [0.0], [np.inf]]),
        np.array([3, 0, 1], np.int64),
        np.array([[True, False, True]]),
        [2.0, 0.0, 1.0],
    ],
)
def test_masks_of_any_dtype_and_shape(mask) -> None:
    """Positive numbers are legal choices, 0 are illegal ones."""
    view = np.zeros(3, np.bool_)
    mask_writer(view)(mask)
    assert view.tolist() == [True, False, True]


@pytest.mark.parametrize("mask", [[0.0, -np.inf], [1.0, np.nan], [-1, 1], [np.nan, -0.5]])
def test_negative_masks_raise(mask) -> None:
    """Terms to add to logits are 0 for legal actions, and would be inverted."""
    message = r"action mask: expected 0 for illegal choices and positive numbers for legal ones, got (-inf|nan|-1)$"
    with pytest.raises(ContractError, match=message):
        mask_writer(np.zeros(2, np.bool_))(np.array(mask))


@pytest.mark.parametrize(
    ("mask", "got"),
    [
        (np.ones(1), r"\(1,\)"),
        (np.ones((2, 2)), r"\(4,\)"),
        ({"left": 1}, "dict"),
        ("10", "str"),
        (([1], ["a"]), "tuple"),
    ],
)
def test_masks_of_another_size_raise(mask, got) -> None:
    """A mask has one number for each choice."""
    with pytest.raises(ContractError, match=rf"action mask: expected shape \(2,\), one entry per choice, got {got}$"):
        mask_writer(np.zeros(2, np.bool_))(mask)


def test_a_mask_after_a_reset_without_one_raises() -> None:
    """The arrays of the mask are allocated after the first reset."""
    write = mask_writer(None)
    write(None)
    with pytest.raises(ContractError, match="resets have to give one too"):
        write(np.ones(2))


@pytest.mark.parametrize(
    ("space", "plain"),
    [
        (spaces.Discrete(3, start=5), spaces.Discrete(3)),
        (spaces.MultiDiscrete([[2, 3], [4, 5]]), spaces.MultiDiscrete([2, 3, 4, 5])),
        (spaces.MultiBinary(2), spaces.MultiDiscrete([2, 2])),
        (spaces.Box(-1.0, 0.1, (2, 1), np.float64), spaces.Box(-1.0, 0.1, (2,), np.float32)),
    ],
)
def test_plain_action_space(space, plain) -> None:
    """Roles declare labels from 0, and vectors."""
    assert plain_action_space(space) == plain


@pytest.mark.parametrize(
    ("space", "given", "expected"),
    [
        (spaces.Discrete(3), [2], 2),
        (spaces.Discrete(3, start=5), [2], 7),
        (spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [0, 0]]), [1, 2, 3, 4], [[2, 2], [3, 4]]),
        (spaces.MultiBinary(2), [0, 1], [0, 1]),
        (spaces.Box(-1.0, 1.0, (2, 1), np.float64), [0.5, -0.5], [[0.5], [-0.5]]),
    ],
)
def test_action_reader(space, given, expected) -> None:
    """The reader returns an action of the library's space."""
    action = action_reader(space, np.array(given))()
    assert np.array_equal(action, expected)
    assert space.contains(action)


def test_action_reader_keeps_within_bounds() -> None:
    """A float32 just above a float64 bound is clipped."""
    space = spaces.Box(-1.0, 0.1, (1,), np.float64)
    assert action_reader(space, plain_action_space(space).high)().item() == 0.1


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint64])
def test_actions_at_integer_bounds_are_the_bounds(dtype) -> None:
    """The float32 nearest to a bound may be out of range of the dtype."""
    ends = np.iinfo(dtype)
    space = spaces.Box(ends.min, ends.max, (1,), dtype)
    plain = plain_action_space(space)
    assert action_reader(space, plain.high)() == ends.max
    assert action_reader(space, plain.low)() == ends.min


def test_actions_between_integers_are_the_nearest() -> None:
    """They are rounded, not truncated."""
    space = spaces.Box(-9, 9, (1, 2), np.int8)
    action = action_reader(space, np.array([2.9, -2.9], np.float32))()
    assert action.tolist() == [[3, -3]]
    assert space.contains(action)


def box(*shape, low=-1.0, high=1.0, dtype=np.float32):
    """Return a Box."""
    return spaces.Box(low, high, shape, dtype)


MOVE = spaces.Discrete(3, start=5)
#: Declared spaces and those of the role.
COMPOSED = [
    (spaces.Tuple((MOVE,)), spaces.Discrete(3)),
    (spaces.Tuple((MOVE, spaces.Discrete(2))), spaces.MultiDiscrete([3, 2])),
    (spaces.Dict({"a": spaces.MultiBinary(2), "b": spaces.Tuple((MOVE,))}), spaces.MultiDiscrete([2, 2, 3])),
    (spaces.Tuple((box(2), box(1, 2, high=4.0, dtype=np.float64))), spaces.Box(-1, np.array([1, 1, 4, 4]), (4,))),
    (spaces.Tuple((MOVE, box(2))), spaces.Tuple((spaces.Discrete(3), box(2)))),
    (
        spaces.Dict({"aim": box(2), "force": box(1), "move": MOVE, "use": spaces.MultiDiscrete([2, 4], start=[1, 0])}),
        spaces.Tuple((spaces.MultiDiscrete([3, 2, 4]), box(2), box(1))),
    ),
    (
        spaces.Dict(
            {"a": spaces.Tuple((spaces.Dict({"x": box(1), "y": MOVE}), spaces.MultiBinary((1, 2)))), "b": box()}
        ),
        spaces.Tuple((spaces.MultiDiscrete([3, 2, 2]), box(1), box(1))),
    ),
    (
        spaces.Tuple((box(1, low=0, high=9, dtype=np.int32), spaces.Discrete(2))),
        spaces.Tuple((spaces.Discrete(2), box(1, low=0.0, high=9.0))),
    ),
]


@pytest.mark.parametrize(("space", "plain"), COMPOSED, ids=str)
def test_parts_become_labels_and_boxes(space, plain) -> None:
    """All labels together; Boxes are one vector, beside labels each its own."""
    assert plain_action_space(space) == plain


@pytest.mark.parametrize(("space", "plain"), COMPOSED, ids=str)
def test_actions_return_in_the_structure_of_the_game(space, plain) -> None:
    """Tuples, Dicts, starts, shapes and dtypes are those of the declared space."""
    drawn = random_actions(plain, 200, np.random.default_rng(0))
    assert legal_actions(plain, drawn).all()
    view = np.zeros_like(drawn[0])
    read, seen = action_reader(space, view), set()
    for row in drawn:
        view[:] = row
        action = read()
        assert space.contains(action), action
        seen.add(str(action))
    assert len(seen) >= 3


def test_every_column_has_its_place() -> None:
    """The labels of all parts come first, then the numbers of all parts."""
    space = spaces.Dict({"aim": box(2), "all": spaces.Tuple((spaces.MultiBinary(2), box(1))), "move": MOVE})
    assert action_width(plain_action_space(space)) == 6
    action = action_reader(space, np.array([1, 0, 2, 0.25, -0.5, 0.75], np.float32))()
    assert action["aim"].tolist() == [0.25, -0.5]
    assert action["all"][0].tolist() == [1, 0]
    assert action["all"][1].tolist() == [0.75]
    assert action["move"] == 7
    assert type(action["move"]) is int


STRUCTURED = spaces.Dict(
    {"aim": box(2), "all": spaces.Tuple((spaces.Discrete(2), box(1), spaces.Discrete(3))), "move": spaces.Discrete(2)}
)
EXPECTED = [True, False, True, True, False, False, True]


@pytest.mark.parametrize(
    "mask",
    [
        np.array(EXPECTED),
        [1, 0, 1, 1, 0, 0, 1],
        {"all": ([1, 0], None, [1, 1, 0]), "move": np.array([0, 1])},
        {"aim": None, "all": [1, 0, 1, 1, 0], "move": [0, 1]},
        {"aim": np.ones(2), "all": (np.array([1, 0]), np.ones(1), np.array([1, 1, 0])), "move": [False, True]},
    ],
    ids=["array", "list", "structure", "mixed", "with Boxes"],
)
def test_masks_have_the_structure_of_the_actions_or_none(mask) -> None:
    """One mask for all labels, or one for each part; those of Boxes are ignored."""
    view = np.zeros(7, np.bool_)
    mask_writer(view, STRUCTURED)(mask)
    assert view.tolist() == EXPECTED


def test_missing_parts_of_a_mask_allow_everything() -> None:
    """As None does for all parts."""
    view = np.zeros(7, np.bool_)
    mask_writer(view, STRUCTURED)({"move": [0, 1]})
    assert view.tolist() == [True] * 5 + [False, True]


@pytest.mark.parametrize("mask", [{"move": [0, 1, 1]}, {"all": ([1, 0], None), "move": [0, 1]}, {"move": "01"}])
def test_parts_of_a_mask_of_another_size_raise(mask) -> None:
    """One entry for each choice of the part."""
    with pytest.raises(ContractError, match=r"action mask: expected shape \(7,\), one entry per choice, got dict"):
        mask_writer(np.zeros(7, np.bool_), STRUCTURED)(mask)


@pytest.mark.parametrize(
    ("space", "mask", "possible"),
    [
        (spaces.Discrete(4, start=-1), None, [-1, 0, 1, 2]),
        (spaces.Discrete(4, start=-1), np.array([0, 1, 0, 1], np.int8), [0, 2]),
        (spaces.MultiDiscrete([2, 3]), np.array([0, 1, 1, 0, 1]), [(1, 0), (1, 2)]),
        (spaces.MultiDiscrete([2, 3]), (np.array([1, 0]), np.array([0, 1, 0])), [(0, 1)]),
        (spaces.MultiBinary(1), None, [(0,), (1,)]),
    ],
)
def test_random_actions_are_all_legal_ones(space, mask, possible) -> None:
    """Every legal action is drawn, and no other."""
    rng = np.random.default_rng(0)
    drawn = [random_action(space, mask, rng) for _ in range(60)]
    assert all(map(space.contains, drawn))
    assert {action if isinstance(action, int) else tuple(action.tolist()) for action in drawn} == set(possible)


def test_random_actions_of_a_structure_obey_its_mask() -> None:
    """They are legal in every part, and of the declared space."""
    rng, mask = np.random.default_rng(0), {"all": ([1, 0], None, [0, 1, 1]), "move": [0, 1]}
    drawn = [random_action(STRUCTURED, mask, rng) for _ in range(60)]
    assert all(map(STRUCTURED.contains, drawn))
    assert {(action["all"][0], action["all"][2], action["move"]) for action in drawn} == {(0, 1, 1), (0, 2, 1)}
