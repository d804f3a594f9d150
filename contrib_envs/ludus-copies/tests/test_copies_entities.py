"""Sequences of other libraries are masked sets of entities."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.spaces import leaf_spaces
from ludus_copies import entities, observation_notes, observation_writer, plain_observation_space

BOX = spaces.Box(1, 2, (2,), np.float32)
UNIT = spaces.Dict(
    {
        "at": BOX,
        "flags": spaces.MultiBinary(2),
        "kind": spaces.Discrete(3, start=1),
        "gear": spaces.Tuple((spaces.MultiDiscrete([2, 2]), spaces.Box(-1, 1, (1, 1), np.float64))),
    }
)
# at, flags, gear.0, gear.1, kind
UNITS = [
    {"at": [1, 1.5], "flags": [0, 1], "gear": ([1, 0], [[0.5]]), "kind": 3},
    {"at": [2, 1], "flags": [1, 1], "gear": ([0, 0], [[-1]]), "kind": 1},
]
ROWS = [[1, 1.5, 0, 1, 0, 1, 1, 0, 0.5, 0, 0, 1], [2, 1, 1, 1, 1, 0, 1, 0, -1, 1, 0, 0]]


def as_arrays(unit):
    """Return a unit with arrays, as a game does."""
    gear = (np.array(unit["gear"][0]), np.array(unit["gear"][1]))
    return {"at": np.float32(unit["at"]), "flags": np.int8(unit["flags"]), "gear": gear, "kind": np.int64(unit["kind"])}


def views_of(space, **options):
    """Return arrays full of ones for the leaves of a space."""
    leaves = leaf_spaces(plain_observation_space(space, **options))
    return {name: np.ones(leaf.shape, leaf.dtype) for name, leaf in leaves.items()}


@pytest.fixture(autouse=True)
def no_cuts(monkeypatch):
    """Count observations that are cut from 0."""
    monkeypatch.setattr(entities, "_cuts", entities.Counter())


def test_a_sequence_has_a_leaf_of_entities_and_one_of_presence() -> None:
    """Bounds contain 0, which absent entities have; nested leaves keep their dotted names."""
    space = spaces.Dict({"own": BOX, "sight": spaces.Dict({"near": spaces.Sequence(BOX)})})
    leaves = leaf_spaces(plain_observation_space(space, max_entities=5))
    assert leaves == {
        "own": BOX,
        "sight.near": spaces.Box(0, 2, (5, 2), np.float32),
        "sight.near_present": spaces.MultiBinary(5),
    }
    assert observation_notes(space, max_entities=5) == [
        "entities sight.near: the first 5 of a Sequence, 2 numbers each; sight.near_present marks them"
    ]


@pytest.mark.parametrize("space", [spaces.Sequence(BOX), spaces.Sequence(BOX, stack=True)])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_sequence_alone_is_the_leaf_obs(space, count) -> None:
    """As a tuple and stacked; rows behind the last entity are 0."""
    views = views_of(space, max_entities=3)
    rows = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
    write = observation_writer(space, views)
    write(rows if space.stack else tuple(rows))
    assert views["obs"].tolist() == [*rows.tolist(), *[[0, 0]] * (3 - count)]
    assert views["obs_present"].tolist() == [1] * count + [0] * (3 - count)


@pytest.mark.parametrize("stack", [False, True])
def test_the_numbers_of_an_entity_are_side_by_side(stack) -> None:
    """Choices are one-hot, with their start."""
    space = spaces.Dict({"units": spaces.Sequence(UNIT, stack=stack)})
    views = views_of(space, max_entities={"units": 3})
    found = tuple(map(as_arrays, UNITS))
    if stack:
        found = {
            "at": np.stack([unit["at"] for unit in found]),
            "flags": np.stack([unit["flags"] for unit in found]),
            "gear": tuple(np.stack([unit["gear"][i] for unit in found]) for i in range(2)),
            "kind": np.array([unit["kind"] for unit in found]),
        }
    observation_writer(space, views)({"units": found})
    assert views["units"].tolist() == [*ROWS, [0] * 12]
    assert views["units_present"].tolist() == [1, 1, 0]


@pytest.mark.parametrize("stack", [False, True])
@pytest.mark.parametrize("feature", [BOX, UNIT, spaces.Discrete(4), spaces.Tuple((spaces.Discrete(4), BOX))], ids=str)
def test_samples_are_read(feature, stack) -> None:
    """What Gymnasium samples stays within the declared bounds, also without entities."""
    space = spaces.Sequence(feature, stack=stack, seed=0)
    leaves, views = leaf_spaces(plain_observation_space(space)), views_of(space)
    write, counts = observation_writer(space, views), set()
    for _ in range(30):
        write(space.sample())
        assert all(leaf.contains(views[name]) for name, leaf in leaves.items())
        counts.add(int(views["obs_present"].sum()))
    assert len(counts) > 3


def test_longer_sequences_are_cut_and_counted(caplog) -> None:
    """The first entities are kept; the first cut and the thousandth are logged."""
    space = spaces.Sequence(spaces.Discrete(9))
    views = views_of(space, max_entities={"obs": 2})
    write = observation_writer(space, views)
    with caplog.at_level(logging.WARNING):
        for _ in range(1001):
            write((1, 2, 3))
    assert views["obs"].argmax(axis=1).tolist() == [1, 2]
    first, thousandth = caplog.messages
    assert first.startswith("observation leaf 'obs': an observation had more than 2 entities (the last one 3)")
    assert thousandth.startswith("observation leaf 'obs': 1,000 observations had more than 2 entities")
    assert "set max_entities" in first


def test_sequences_without_numbers_have_no_leaf() -> None:
    """As other leaves of size 0."""
    space = spaces.Dict({"own": BOX, "none": spaces.Sequence(spaces.Box(0, 1, (0,)))})
    assert list(leaf_spaces(plain_observation_space(space))) == ["own"]
    views = views_of(space)
    observation_writer(space, views)({"own": np.ones(2), "none": ()})


@pytest.mark.parametrize(
    ("feature", "problem"),
    [
        (spaces.Text(5), "observation leaf 'near' is a Sequence of Text spaces; expected Box"),
        (spaces.Sequence(BOX), "observation leaf 'near' is a Sequence of Sequence spaces; expected Box"),
        (
            spaces.Dict({"a": spaces.Dict({"b": spaces.Graph(BOX, None)})}),
            "of Graph spaces, in its part 'a.b'; expected",
        ),
        (spaces.Discrete(2000), "'near' is a Sequence with 2,000 choices; expected at most 1,024"),
    ],
    ids=str,
)
def test_elements_without_an_array_form_are_refused(feature, problem) -> None:
    """The message names the leaf and its part."""
    with pytest.raises(ContractError, match=problem):
        plain_observation_space(spaces.Dict({"near": spaces.Sequence(feature)}))


def test_a_leaf_named_like_the_presence_of_another_is_refused() -> None:
    """One of the two has to be renamed."""
    space = spaces.Dict({"near": spaces.Sequence(BOX), "near_present": spaces.MultiBinary(3)})
    with pytest.raises(ContractError, match="two keys of an observation space are 'near_present'"):
        plain_observation_space(space)


@pytest.mark.parametrize(
    ("feature", "stack", "found", "problem"),
    [
        (BOX, False, 3, r"expected n entities, float32 \[n, 2\], got int"),
        (BOX, False, ([1, 2, 3],), r"expected n entities, float32 \[n, 2\], got int64 \[1, 3\]"),
        (BOX, False, ([1, 2], [1]), r"expected n entities, float32 \[n, 2\], got tuple"),
        (BOX, True, np.ones(2), r"expected n entities, float32 \[n, 2\], got float64 \[2\]"),
        (spaces.Discrete(3), True, np.int64(1), r"expected n entities, int64 \[n\], got int64 \[\]"),
        (spaces.Discrete(3), False, (0.5,), r"expected n entities, int64 \[n\], got float64 \[1\]"),
        (
            spaces.Discrete(3, start=1),
            False,
            (1, 0),
            r"expected choices of entities from \[1\] on, .* got 0 to 1",
        ),
        (spaces.Dict({"a": BOX}), False, ({"b": 1},), r"expected n entities, float32 \[n, 2\] in part 'a', got tuple"),
        (
            spaces.Dict({"a": BOX, "b": BOX}),
            True,
            {"a": np.ones((2, 2)), "b": np.ones((1, 2))},
            r"its parts have \[1, 2\] entities",
        ),
    ],
    ids=str,
)
def test_entities_of_another_form_are_refused(feature, stack, found, problem) -> None:
    """The message names the leaf, what it declares and what the game returned."""
    space = spaces.Sequence(feature, stack=stack)
    with pytest.raises(ContractError, match=f"observation leaf 'obs': {problem}"):
        observation_writer(space, views_of(space))(found)
