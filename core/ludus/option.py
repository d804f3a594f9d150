"""Options: the documented, validated fields of a component's configuration class.

A configuration class is a frozen attrs class whose every field is made by `option`::

    @frozen(kw_only=True)
    class PPOConfig:
        clip_epsilon: float = option(0.2, between(0.0, 1.0, open=True), help="PPO clip range; paper: 0.2")

A class may name values of several options as presets: tables of options by name, in a class variable ``PRESETS``. A
table of a TOML file selects one by ``preset = "NAME"``; its other options replace those of the preset.

A check holds the text that an error message needs ("expected a number in (0, 1)"), so that all wrong values of a file
are reported at once, without a traceback. This module imports neither torch nor NumPy: configuration classes must be
cheap to import.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    from ludus.trust import Imports

__all__ = [
    "Check",
    "Presets",
    "above",
    "at_least",
    "between",
    "each",
    "finite",
    "import_paths",
    "inherited_option",
    "name",
    "one_of",
    "option",
    "optional",
    "presets_of",
    "table",
    "text",
    "whole",
]


#: Options by the name of the preset that sets them.
Presets: TypeAlias = Mapping[str, Mapping[str, Any]]


@attrs.frozen
class Check:
    """A predicate on one value, and a description of the values that it accepts.

    Args:
        expected: Completion of "expected …", for example ``"a number in (0, 1)"``.
        accepts: Returns whether a value is valid.
        choices: All valid values, if there are few; used for "did you mean".
    """

    expected: str
    accepts: Callable[[Any], bool]
    choices: tuple[str, ...] = ()

    def __call__(self, instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:  # noqa: ARG002 - attrs requires them
        """Validate as an attrs validator.

        Raises:
            ValueError: The value is not accepted.
        """
        if not self.accepts(value):
            raise ValueError(f"{attribute.name}: expected {self.expected}, got {value!r}")


def option(
    default: Any = attrs.NOTHING,
    check: Check | None = None,
    *,
    help: str,
    scheduled: bool = False,
    learning: bool = False,
    lasting: bool = False,
    device: bool = False,
    imports: Imports | None = None,
    path: Literal["", "read", "table", "write"] = "",
) -> Any:
    """Declare one configuration field.

    Args:
        default: Default value; a mutable one (list, dict, set) is copied for every instance.
        check: Check of the value.
        help: One line with meaning, unit and range.
        scheduled: Whether any value but the default follows the training budget. A run without a budget warns that the
            option has no effect.
        learning: For interfaces and networks: whether the option affects learning only, as rewards do. All other
            options change what a model observes or does, and must not change when a run is resumed.
        lasting: For environments: whether models depend on the option, such as the game that an adapter plays. It must
            not change when a run is resumed; other options, such as rules of the game, may.
        device: For inference runtimes: whether the option names a torch device, which the host must have.
        imports: How the values name Python modules. A configuration that names a module which is not trusted is
            refused, see `ludus.trust`.
        path: For options that name files or folders: whether these are read, or written. A component writes in the run
            folder only. ``"table"``: a table that a game gets, which may name files; a path that leads out of the
            current folder is refused, see `ludus.trust`.
    """
    metadata = {"help": help, "learning": learning, "lasting": lasting, "device": device, "path": path} | (
        {"unscheduled": default} if scheduled else {}
    )
    if imports is not None:
        metadata["imports"] = imports
    if isinstance(default, list | dict | set):
        factory = type(default)
        return attrs.field(factory=lambda: factory(default), validator=check, metadata=metadata)
    return attrs.field(default=default, validator=check, metadata=metadata)


def inherited_option(base: type[Any], name: str, default: Any, *, help: str | None = None) -> Any:
    """Declare an option of a base configuration class again with another default, and the same check.

    Args:
        base: Configuration class that declares the option.
        name: Name of the option.
        default: New default.
        help: New line of meaning, unit and range; None: that of the base class.
    """
    inherited = attrs.fields_dict(base)[name]
    metadata = {**inherited.metadata, "help": inherited.metadata["help"] if help is None else help}
    return attrs.field(default=default, validator=inherited.validator, metadata=metadata)


def presets_of(cls: type[Any] | None) -> Presets:
    """Return the presets of a configuration class, inherited ones included; empty without a class."""
    presets: Presets = getattr(cls, "PRESETS", {})
    return presets


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def finite() -> Check:
    """Accept finite numbers of any size and sign."""
    return Check("a finite number", _is_number)


def at_least(low: float) -> Check:
    """Accept finite numbers ≥ `low`."""
    return Check(f"a number ≥ {low:g}", lambda value: _is_number(value) and value >= low)


def above(low: float) -> Check:
    """Accept finite numbers > `low`."""
    return Check(f"a number > {low:g}", lambda value: _is_number(value) and value > low)


def between(low: float, high: float, *, open: bool | Literal["low"] = False) -> Check:
    """Accept finite numbers in [low, high], in (low, high) where `open`, in (low, high] where that is ``"low"``."""
    above_low = operator.lt if open else operator.le
    below_high = operator.lt if open is True else operator.le
    words = f"a number in {'(' if open else '['}{low:g}, {high:g}{')' if open is True else ']'}"
    return Check(words, lambda v: _is_number(v) and above_low(low, v) and below_high(v, high))


def whole(low: int, high: int) -> Check:
    """Accept whole numbers from `low` to `high`."""
    return Check(
        f"a whole number from {low} to {high}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high,
    )


def one_of(*choices: str) -> Check:
    """Accept the given words only."""
    return Check("one of " + ", ".join(choices), lambda value: value in choices, choices)


def each(check: Check, *, least: int = 1, most: int | None = None) -> Check:
    """Accept a sequence of `least` to `most` items that all pass `check`; of at least one item if `most` is None."""
    amount = "at least one item" if most is None else f"{least} to {most} items"
    return Check(
        f"a list of {amount}, each {check.expected}",
        lambda value: (
            isinstance(value, Sequence)
            and least <= len(value) <= (len(value) if most is None else most)
            and all(map(check.accepts, value))
        ),
    )


def optional(check: Check) -> Check:
    """Accept None besides the values of a check."""
    return attrs.evolve(check, accepts=lambda value: value is None or check.accepts(value))


def table(keys: Check, values: Check) -> Check:
    """Accept a table all of whose keys and values pass checks."""
    return Check(
        f"a table of which each key is {keys.expected}, and each value {values.expected}",
        lambda value: (
            isinstance(value, Mapping) and all(map(keys.accepts, value)) and all(map(values.accepts, value.values()))
        ),
    )


def text() -> Check:
    """Accept strings, but not those of NumPy."""
    return Check("a text", lambda value: type(value) is str)


_NAME = re.compile("[a-z0-9][a-z0-9._-]{0,63}")


def name() -> Check:
    """Accept names: ``^[a-z0-9][a-z0-9._-]{0,63}$``."""
    return Check(
        "a name of 1 to 64 characters from a-z 0-9 . _ - that starts with a letter or digit",
        lambda value: isinstance(value, str) and _NAME.fullmatch(value) is not None,
    )


def import_paths() -> Check:
    """Accept lists of import paths ``"module:name"``, or of tables of a path and the options to call it with."""
    expected = 'a list of import paths "module:name", or of tables { path = "module:name", options = { … } }'
    return Check(expected, lambda value: not isinstance(value, str) and all(map(_is_import_path, value)))


def _is_import_path(value: object) -> bool:
    if isinstance(value, Mapping):
        is_complete = value.keys() in ({"path"}, {"path", "options"})
        return is_complete and isinstance(value.get("options", {}), Mapping) and _is_import_path(str(value["path"]))
    return isinstance(value, str) and value.count(":") == 1
