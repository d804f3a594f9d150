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


#: Options that count something over a run, or time. They size no allocation, so that they have no upper bound.
COUNTS = {
    *("capacity", "enough_matches", "recent_models", "long_models", "pool_matches", "pool_budget", "prior_matches"),
    *("decisions", "least_decisions", "most_decisions", "epsilon_decisions", "freeze_every_decisions", "every_matches"),
    *("max_ticks", "tick_limit", "target_update_steps", "exploiters_after", "restarts", "seed", "max_staleness"),
    *("opponent_cache_mb", "cache_mb", "deadline_ms", "candidates", "top"),
    *("ScenariosConfig.models", "ResetConfig.models", "CombineConfig.widths", "TeamAgentConfig.widths"),
    "Modifier.parameters",  # the scenario checks them
}


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_options_that_size_an_allocation_are_bounded(option):
    """A mistake such as 10^11 is reported before memory is allocated."""
    cls, name = OPTIONS[option]
    kind = attrs.fields_dict(attrs.resolve_types(cls))[name].type
    if int in parts(kind) and not {name, f"{cls.__name__}.{name}"} & COUNTS:
        for form in (10**11, [10**11], [8, 10**11], {"a": 10**11}):
            assert refused(cls, name, form)


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_lists_of_sizes_are_bounded(option):
    """A network of 100,000 layers is a mistake."""
    cls, name = OPTIONS[option]
    kind = attrs.fields_dict(attrs.resolve_types(cls))[name].type
    if get_args(kind)[:1] == (int,) and f"{cls.__name__}.{name}" not in COUNTS:
        assert refused(cls, name, [8] * 1000)
