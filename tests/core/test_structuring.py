"""Strict structuring: no coercion, no unknown keys, all problems at once."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from attrs import field, frozen
from hypothesis import given, settings, strategies as st
from ludus._config.structuring import Problem, StructuringError, structure, structure_fields
from ludus.option import at_least, one_of, option


class Color(enum.Enum):
    RED = "red"


@frozen(kw_only=True)
class Inner:
    width: int = option(4, at_least(1), help="Width.")


@frozen(kw_only=True)
class Outer:
    inner: Inner = option(Inner(), help="A nested table.")
    many: tuple[Inner, ...] = option((), help="Nested tables.")
    by_name: dict[str, Inner] = option({}, help="Nested tables by name.")
    mode: str = option("fast", one_of("fast", "slow"), help="Mode.")


@frozen(kw_only=True)
class Range:
    low: int = option(help="Low.")
    high: int = option(help="High.")

    def __attrs_post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low must not exceed high, got {self.low} > {self.high}")


def lines(error: pytest.ExceptionInfo[StructuringError]) -> list[str]:
    """Return path and text of each problem."""
    return [f"{'.'.join(map(str, problem.path))}: {problem.text}" for problem in error.value.problems]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (3, int, 3),
        (2**63 - 1, int, 2**63 - 1),
        (3, float, 3.0),
        (0.5, float, 0.5),
        (True, bool, True),
        ("a", str, "a"),
        ("a/b", Path, Path("a/b")),
        ("red", Color, Color.RED),
        ("x", Literal["x", "y"], "x"),
        ([1, "a"], tuple[int, str], (1, "a")),
        ([1, 1], set[int], {1}),
        ([1, 2], list[int], [1, 2]),
        ([1, 2], tuple[int, ...], (1, 2)),
        ([1, 2], Sequence[int], (1, 2)),
        ({"a": 1}, dict[str, float], {"a": 1.0}),
        ({"a": 1}, Mapping[str, int], {"a": 1}),
        (4, int | None, 4),
        (4, float | int, 4),
        ("auto", int | str, "auto"),
        ({"anything": [1, "x"]}, Any, {"anything": [1, "x"]}),
        ({"width": 2}, Inner, Inner(width=2)),
    ],
)
def test_accepts(value, kind, expected):
    """A value of the declared type is unchanged; an integer is accepted as a float."""
    structured = structure(value, kind)
    assert structured == expected
    assert type(structured) is type(expected)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("7", int, "expected an integer, got '7'"),
        (4.7, int, "expected an integer, got 4.7"),
        (4.0, int, "expected an integer, got 4.0"),
        (True, int, "expected an integer, got True"),
        (2**63, int, "expected an integer of at most 64 bits, got 9223372036854775808"),
        (-(10**20), float, "expected an integer of at most 64 bits, got -100000000000000000000"),
        ("7", float, "expected a number, got '7'"),
        (False, float, "expected a number, got False"),
        (1, bool, "expected true or false, got 1"),
        ("true", bool, "expected true or false, got 'true'"),
        (7, str, "expected a string, got 7"),
        ("abc", list[str], "expected a list, got 'abc'"),
        ({"a": 1}, tuple[str, ...], "expected a list, got {'a': 1}"),
        ([1], dict[str, int], "expected a table, got [1]"),
        (3, Inner, "expected a table, got 3"),
        ("x", int | None, "expected an integer, got 'x'"),
        ([], float | str, "expected a number or a string, got []"),
        ("x" * 200, int, "expected an integer, got '" + "x" * 76 + "…"),
    ],
)
def test_rejects(value, kind, text):
    """Any other value is one problem with the expected type."""
    with pytest.raises(StructuringError) as error:
        structure(value, kind)
    assert [problem.text for problem in error.value.problems] == [text]


INTEGERS = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None, max_examples=100)
@given(
    st.none() | st.booleans() | INTEGERS | st.floats() | st.text() | st.lists(st.integers()) | st.binary(),
    st.sampled_from([int, float, str, bool]),
)
def test_never_coerces(value, kind):
    """Accepted values are unchanged, except for integers that become equal floats."""
    try:
        structured = structure(value, kind)
    except StructuringError:
        assert type(value) is not kind
    else:
        assert type(structured) is kind
        assert type(value) is kind or (kind is float and type(value) is int)


def test_all_problems_with_their_paths():
    """Every wrong value of a nested table is reported with its path."""
    with pytest.raises(StructuringError) as error:
        structure(
            {
                "inner": {"width": 0, "wdith": 1},
                "many": [{"width": 1}, {"width": "x"}],
                "by_name": {"a": {"width": 1.5}},
                "mode": "slwo",
                "extra": 1,
            },
            Outer,
        )
    assert lines(error) == [
        "extra: unknown key",
        "inner.wdith: unknown key — did you mean 'width'?",
        "inner.width: expected a number ≥ 1, got 0",
        "many.1.width: expected an integer, got 'x'",
        "by_name.a.width: expected an integer, got 1.5",
        "mode: expected one of fast, slow, got 'slwo' — did you mean 'slow'?",
    ]


@pytest.mark.parametrize("right", [{}, {"width": 2}])
def test_unknown_key_suggests_a_similar_one(right):
    """The suggested key may be present too."""
    with pytest.raises(StructuringError) as error:
        structure({"wdith": 3, **right}, Inner)
    assert lines(error) == ["wdith: unknown key — did you mean 'width'?"]


def test_missing_key_names_the_expected_type():
    """Required keys only."""
    with pytest.raises(StructuringError) as error:
        structure({"low": 1}, Range)
    assert lines(error) == ["high: missing; expected an integer"]


def test_post_init_error_is_reported():
    """A check over several fields is a problem of the table."""
    with pytest.raises(StructuringError) as error:
        structure({"low": 3, "high": 1}, Range)
    assert lines(error) == [": low must not exceed high, got 3 > 1"]


@pytest.mark.parametrize("raised", [KeyError("x"), SystemExit("x")])
def test_other_exceptions_of_a_class_are_named(raised):
    """The problem holds the type of the exception; SystemExit is caught too."""

    @frozen
    class Broken:
        def __attrs_post_init__(self) -> None:
            raise raised

    with pytest.raises(StructuringError) as error:
        structure({}, Broken)
    assert lines(error) == [f": {type(raised).__name__}: {raised}"]


def test_values_are_not_keys():
    """A field that is already structured cannot be in the table."""
    assert structure_fields({"low": 1}, Range, values={"high": 5}) == {"low": 1, "high": 5}
    with pytest.raises(StructuringError, match="unknown key"):
        structure_fields({"low": 1, "high": 3}, Range, values={"high": 5})


def test_private_fields():
    """Computed fields are not keys, and private fields lose their underscore."""

    @frozen
    class Private:
        _depth: int = 1
        computed: int = field(init=False, default=0)

    assert structure({"depth": 2}, Private) == Private(depth=2)
    with pytest.raises(StructuringError, match="unknown key"):
        structure({"computed": 2}, Private)


def test_long_keys_are_cut_in_error_lines():
    """A key of a foreign file may have a megabyte."""
    assert str(Problem(("players", "m" * 10_000), "wrong")) == f"players.{'m' * 79}…: wrong"


def test_reading_stops_after_many_wrong_items():
    """A message of half a million wrong values would take seconds otherwise."""
    with pytest.raises(StructuringError) as error:
        structure([[None] * 1000] * 1000, list[list[int]])
    assert len(error.value.problems) < 100
    assert lines(error)[0] == "0.0: expected an integer, got None"
    assert lines(error)[20] == "0: 20 problems so far; the items after 19 were not read"
