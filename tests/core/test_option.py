"""Options: documented, checked fields of configuration classes."""

from __future__ import annotations

import math
import subprocess
import sys

import attrs
import pytest
from attrs import frozen
from ludus.option import (
    above,
    at_least,
    between,
    each,
    finite,
    import_paths,
    inherited_option,
    name,
    one_of,
    option,
    optional,
    table,
    text,
    whole,
)


@frozen(kw_only=True)
class Example:
    ratio: float = option(0.5, between(0.0, 1.0, open=True), help="A ratio in (0, 1).")
    layers: list[int] = option([4, 4], each(at_least(1)), help="Widths.")


def test_default_is_used():
    """A missing field has its default."""
    assert Example().ratio == 0.5


def test_mutable_defaults_are_not_shared():
    """Two instances do not share a list."""
    one, other = Example(), Example()
    one.layers.append(9)
    assert other.layers == [4, 4]


def test_help_is_kept():
    """The documentation reads it from the metadata."""
    assert attrs.fields(Example).ratio.metadata["help"] == "A ratio in (0, 1)."


@pytest.mark.parametrize("default", [None, {}])
def test_scheduled_options_store_their_default(default):
    """With the default they do not follow the budget; other options store nothing."""
    made = attrs.make_class("Made", {"plain": option(1, help=""), "end": option(default, help="", scheduled=True)})
    plain, end = attrs.fields(made)
    assert "unscheduled" not in plain.metadata
    assert end.metadata["unscheduled"] == made().end == default


def test_inherited_option_changes_default_and_help_only():
    """The check is that of the base class."""

    @frozen(kw_only=True)
    class Derived(Example):
        ratio: float = inherited_option(Example, "ratio", 0.25, help="A smaller ratio in (0, 1).")

    assert Derived().ratio == 0.25
    assert attrs.fields(Derived).ratio.metadata == {
        **attrs.fields(Example).ratio.metadata,
        "help": "A smaller ratio in (0, 1).",
    }
    with pytest.raises(ValueError, match=r"ratio: expected a number in \(0, 1\), got 1.0"):
        Derived(ratio=1.0)


def test_invalid_value_is_an_error():
    """Instances made in code are checked as those of a file."""
    with pytest.raises(ValueError, match=r"expected a number in \(0, 1\), got 2.0"):
        Example(ratio=2.0)


def test_option_without_default_is_required():
    """It must be passed."""

    @frozen(kw_only=True)
    class Required:
        depth: int = option(help="Plies.")

    with pytest.raises(TypeError, match="depth"):
        Required()


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (at_least(1), [1, 1.5, 100], [0.99, math.nan, math.inf, True, "2", None]),
        (finite(), [-1e300, 0, 5], [math.nan, math.inf, -math.inf, True, "0"]),
        (above(0), [1e-9, 3], [0, -1, math.nan, math.inf, False, "2"]),
        (between(0, 1), [0, 0.5, 1], [-0.1, 1.1, math.nan, True, "0"]),
        (between(0, 1, open=True), [0.1, 0.9], [0, 1, math.nan]),
        (between(0, 1, open="low"), [0.1, 1], [0, 1.1, math.nan, True]),
        (whole(1, 8), [1, 8], [0, 9, 10**400, 2.0, math.nan, True, "2", None]),
        (one_of("a", "b"), ["a", "b"], ["c", "", 1]),
        (each(at_least(1)), [[1], (2, 3)], [[], [0], [1, 0], 5]),
        (name(), ["a", "0x", "main_agent", "a.b-c_d", "a" * 64], ["", "A", "_a", "-a", "a b", "a@1", "a" * 65, 7, "ä"]),
        (table(name(), text()), [{}, {"a": "B"}], [{"A": "b"}, {"a": 1}, [("a", "b")], "a"]),
    ],
    ids=["at_least", "finite", "above", "between", "open", "open low", "whole", "one_of", "each", "name", "table"],
)
def test_checks(check, good, bad):
    """Each check accepts the described values only."""
    assert [value for value in good if not check.accepts(value)] == []
    assert [value for value in bad if check.accepts(value)] == []


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (at_least(1), "a number ≥ 1"),
        (finite(), "a finite number"),
        (above(0), "a number > 0"),
        (between(0, 1), "a number in [0, 1]"),
        (between(0, 1, open=True), "a number in (0, 1)"),
        (between(0, 1, open="low"), "a number in (0, 1]"),
        (whole(1, 8), "a whole number from 1 to 8"),
        (one_of("a", "b"), "one of a, b"),
        (each(at_least(1)), "a list of at least one item, each a number ≥ 1"),
    ],
)
def test_descriptions(check, words):
    """Each description completes "expected …"."""
    assert check.expected == words


def test_optional():
    """None is accepted too; description and choices are unchanged."""
    check = optional(one_of("relu", "tanh"))
    assert [check.accepts(value) for value in (None, "relu", "rule", 0)] == [True, True, False, False]
    assert (check.expected, check.choices) == ("one of relu, tanh", ("relu", "tanh"))


def test_choices_are_kept():
    """They are used for suggestions."""
    assert one_of("relu", "tanh").choices == ("relu", "tanh")


def test_import_is_light():
    """It loads no large package."""
    code = "import ludus.option, sys; print({'torch', 'numpy', 'gymnasium', 'zmq'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        ([], True),
        (["a.b:c", {"path": "a:b", "options": {"x": 1}}, {"path": "a:b"}], True),
        ("a:b", False),
        (["a.b"], False),
        ([{"options": {}}], False),
        ([{"path": "a:b", "x": 1}], False),
        ([{"path": "a:b", "options": [1]}], False),
        ([3], False),
    ],
)
def test_import_paths(value, accepted):
    """With or without options."""
    assert import_paths().accepts(value) is accepted
