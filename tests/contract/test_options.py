"""Every option of every installed component rejects infinities, nan and integers beyond 64 bits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, get_args

import attrs
import pytest
from ludus._config.structuring import StructuringError, structure_fields
from ludus._plugins.manager import load_plugins
from ludus.hookspecs import KINDS


def parts(kind: Any) -> Iterator[Any]:
    """Yield a type and all of its type arguments, recursively."""
    yield kind
    for part in get_args(kind):
        yield from parts(part)


def with_parts(cls: type[Any]) -> Iterator[type[Any]]:
    """Yield a configuration class and the classes of its nested tables."""
    yield attrs.resolve_types(cls)
    for field in attrs.fields(cls):
        for part in parts(field.type):
            if isinstance(part, type) and attrs.has(part):
                yield from with_parts(part)


PLUGINS = load_plugins()
CONFIGS = [component.load_config() for kind in KINDS for component in PLUGINS.components(kind).values()]
OPTIONS = {
    f"{cls.__module__}.{cls.__name__}.{field.name}": (cls, field.name)
    for config in CONFIGS
    if config is not None
    for cls in with_parts(config)
    for field in attrs.fields(cls)
    if Any not in parts(field.type)  # values for other libraries are not checked
}


def refused(cls: type[Any], name: str, value: object) -> bool:
    """Return whether an option rejects a value."""
    try:
        structure_fields({name: value}, cls)
    except StructuringError as error:
        return any(problem.path[0] == name for problem in error.problems)
    return False


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_options_reject_values_that_are_not_finite(option):
    """Check single values, lists and tables."""
    for value in (math.nan, math.inf, -math.inf):
        forms = (value, [value], [value, value], {"a": value})
        assert [form for form in forms if not refused(*OPTIONS[option], form)] == []


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_options_reject_more_than_64_bits(option):
    """SQLite and NumPy integers have 64 bits."""
    for form in (2**63, [2**63], [2**63, 2**63], {"a": 2**63}):
        assert refused(*OPTIONS[option], form)
