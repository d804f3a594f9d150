"""Structure plain TOML values into typed records, strictly, and report all problems at once.

One cattrs converter dispatches on the declared types: bool, int, float, str, lists and tuples of one type, mappings,
unions of those, and attrs classes. Its hooks reject what cattrs would convert by default (4.7 to 4, ``"7"`` to 7,
``"abc"`` to ``["a", "b", "c"]``), unknown keys, and integers of more than 64 bits. An integer is accepted as a float.
All other types, such as enumerations and paths, are structured as cattrs does.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin

import attrs
from cattrs import Converter

from ludus._config.other_names import hint_for_key
from ludus.option import Check
from ludus.printing import did_you_mean

T = TypeVar("T")

_LONGEST_KEY = 80  # longer keys are cut in error lines
_MOST_UNKNOWN = 20  # unknown keys of one table that are reported by name
_MOST_WRONG = 20  # wrong items of one list or table after which the others are not read


@attrs.frozen
class Problem:
    """One wrong value: its path (keys and list positions from the top) and a description."""

    path: tuple[str | int, ...]
    text: str

    def below(self, *head: str | int) -> Problem:
        """Return the same problem with a longer path."""
        return Problem((*head, *self.path), self.text)

    def __str__(self) -> str:
        keys = (key if len(key) <= _LONGEST_KEY else f"{key[: _LONGEST_KEY - 1]}…" for key in map(str, self.path))
        return ": ".join(filter(None, (".".join(keys), self.text)))


class StructuringError(ValueError):
    """A value does not fit its declared type; `problems` lists all reasons."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def structure(value: object, kind: type[T]) -> T:
    """Return `value` as an instance of `kind`.

    Raises:
        StructuringError: The value does not fit.
    """
    return converter.structure(value, kind)


def structure_fields(table: object, cls: type[Any], *, values: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Read the fields of the attrs class `cls` from a table, without making the instance.

    Args:
        table: The plain table; every key must be a field that is not in `values`.
        cls: An attrs class.
        values: Fields that are already structured; they are neither read nor checked.

    Returns:
        Keyword arguments for `cls`: the fields of the table and `values`.

    Raises:
        StructuringError: With every unknown key, missing field, wrong type and failed check of the table.
    """
    if not isinstance(table, dict):
        raise _mismatch("a table", table)
    ready = dict(values or {})
    fields = _init_fields(cls, ready)
    problems = _unknown_keys(table, cls, fields)
    for key, attribute in fields.items():
        try:
            if key in table:
                ready[key] = _structure_field(table[key], attribute)
            elif attribute.default is attrs.NOTHING:
                raise StructuringError(Problem((), f"missing; expected {_expected(attribute)}"))
        except StructuringError as error:  # go on, to report the problems of every field
            problems += [problem.below(key) for problem in error.problems]
    if problems:
        raise StructuringError(*problems)
    return ready


def _init_fields(cls: type[Any], exclude: Container[str]) -> dict[str, attrs.Attribute[Any]]:
    """Return the fields that the constructor takes, by argument name."""
    return {f.alias: f for f in attrs.fields(attrs.resolve_types(cls)) if f.init and f.alias not in exclude}


def _unknown_keys(table: Mapping[str, Any], cls: type[Any], fields: Mapping[str, object]) -> list[Problem]:
    options = [f.alias for f in attrs.fields(cls) if f.alias in fields or f.metadata]
    unknown = [key for key in table if key not in fields]
    problems = [Problem((key,), f"unknown key{hint_for_key(key, options)}") for key in unknown[:_MOST_UNKNOWN]]
    if len(unknown) > _MOST_UNKNOWN:
        problems.append(Problem((), f"{len(unknown) - _MOST_UNKNOWN:,} more unknown keys"))
    return problems


def _structure_field(value: object, attribute: attrs.Attribute[Any]) -> Any:
    structured = structure(value, attribute.type) if attribute.type is not None else value
    check = attribute.validator
    if isinstance(check, Check) and not check.accepts(structured):
        hint = did_you_mean(value, check.choices)
        raise _mismatch(check.expected, value, hint)
    return structured


def _expected(attribute: attrs.Attribute[Any]) -> str:
    if isinstance(attribute.validator, Check):
        return attribute.validator.expected
    return _type_words(attribute.type)


def shorten(value: object) -> str:
    """Return the representation of a value, cut to 80 characters; the rest of a large one is not even read."""
    if isinstance(value, str | bytes | list | tuple) and len(value) > 80:
        value = value[:80]
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def _mismatch(expected: str, value: object, hint: str = "") -> StructuringError:
    return StructuringError(Problem((), f"expected {expected}, got {shorten(value)}{hint}"))


_WORDS = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    dict: "a table",
    Mapping: "a table",
    list: "a list",
    tuple: "a list",
    Sequence: "a list",
}


def _type_words(kind: Any) -> str:
    if _is_union(kind):
        return " or ".join(_type_words(member) for member in _members(kind))
    if attrs.has(kind):
        return "a table"
    return _WORDS.get(get_origin(kind) or kind, "a value")


def _strict(*accepted: type) -> Callable[[object, Any], Any]:
    def hook(value: object, kind: Any) -> Any:
        if not isinstance(value, accepted) or (type(value) is bool and kind is not bool):
            raise _mismatch(_type_words(kind), value)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:  # the range of TOML and SQLite
            raise _mismatch("an integer of at most 64 bits", value)
        return kind(value)

    return hook


def _attrs_class(value: object, kind: Any) -> Any:
    values = structure_fields(value, kind)
    try:
        return kind(**values)
    except (Exception, SystemExit) as error:  # a plugin's __attrs_post_init__ may raise anything, even exit
        text = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        raise StructuringError(Problem((), text)) from error


def _is_sequence(kind: Any) -> bool:
    return (get_origin(kind) or kind) in (list, tuple, Sequence) and get_args(kind)[1:] in ((), (...,))


def _sequence(value: object, kind: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise _mismatch("a list", value)
    item_kind, *_ = get_args(kind) or (Any,)
    made = list if (get_origin(kind) or kind) is list else tuple
    return made(_structure_items((i, item, item_kind) for i, item in enumerate(value)))


def _is_mapping(kind: Any) -> bool:
    return (get_origin(kind) or kind) in (dict, Mapping)


def _mapping(value: object, kind: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _mismatch("a table", value)
    key_kind, item_kind = get_args(kind) or (Any, Any)
    keys = _structure_items((str(key), key, key_kind) for key in value)
    return dict(zip(keys, _structure_items((key, item, item_kind) for key, item in value.items()), strict=True))


def _structure_items(items: Iterable[tuple[str | int, object, Any]]) -> list[Any]:
    made, problems = [], []
    for key, item, kind in items:
        try:
            made.append(structure(item, kind))
        except StructuringError as error:  # go on, to report the problems of further items
            problems += [problem.below(key) for problem in error.problems]
            if len(problems) >= _MOST_WRONG:  # half a million wrong items of a message would take seconds
                problems.append(Problem((), f"{len(problems)} problems so far; the items after {key!r} were not read"))
                break
    if problems:
        raise StructuringError(*problems)
    return made


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _members(kind: Any) -> list[Any]:
    return [member for member in get_args(kind) if member is not type(None)]


def _union(value: object, kind: Any) -> Any:
    members = sorted(_members(kind), key=lambda member: member is not type(value))  # keep an int in float | int
    failures = []
    for member in members:
        try:
            return structure(value, member)
        except StructuringError as error:  # try the next member
            failures.append(error)
    if len(members) == 1:
        raise failures[0]
    raise _mismatch(_type_words(kind), value)


converter = Converter(detailed_validation=False)
converter.register_structure_hook(bool, _strict(bool))
converter.register_structure_hook(int, _strict(int))
converter.register_structure_hook(float, _strict(float, int))
converter.register_structure_hook(str, _strict(str))
converter.register_structure_hook_func(_is_sequence, _sequence)
converter.register_structure_hook_func(_is_mapping, _mapping)
converter.register_structure_hook_func(_is_union, _union)
converter.register_structure_hook_func(attrs.has, _attrs_class)
