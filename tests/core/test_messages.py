"""All messages can be sent, and the overview in the module lists each of them."""

from __future__ import annotations

import re
import typing

import attrs
import numpy as np
import pytest
from ludus import wire
from ludus._messaging import messages as _messages
from ludus.environment import Scenario

MESSAGES = [
    value
    for value in vars(_messages).values()
    if isinstance(value, type) and attrs.has(value) and value.__module__ == "ludus._messaging.messages"
]


def nested(message_class):
    """Return the attrs classes in the fields of a message class."""
    hints = typing.get_type_hints(message_class, localns={"np": np})
    parts = [part for hint in hints.values() for part in (hint, *typing.get_args(hint))]
    return {part for part in parts if isinstance(part, type) and attrs.has(part)}


def example(hint):
    """Return the simplest value of a type, with one item in every collection."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return (example(arguments[0]),)
    if origin is not None:
        return {"a": example(arguments[1])}
    if hint is np.ndarray:
        return np.zeros(2)
    if hint is Scenario:
        return Scenario()
    hints = typing.get_type_hints(hint, localns={"np": np}) if attrs.has(hint) else {}
    return hint(**{name: example(inner) for name, inner in hints.items()})


@pytest.mark.parametrize("message_class", MESSAGES, ids=lambda message_class: message_class.__name__)
def test_every_message_can_be_sent(message_class):
    """Every field has a type that is checked."""
    sent = example(message_class)
    message = wire.message_of(message_class, attrs.asdict(sent))
    assert type(message) is message_class
    assert repr(message) == repr(example(message_class))


@pytest.mark.parametrize("message_class", MESSAGES, ids=lambda message_class: message_class.__name__)
def test_every_message_is_immutable_and_built_by_keyword(message_class):
    """Workers of one process share messages without a copy."""
    fields = attrs.fields(message_class)
    assert all(field.kw_only for field in fields)
    assert message_class.__setattr__ is not object.__setattr__


def test_the_wire_module_lists_every_message():
    """And no imported class."""
    assert list(wire.MESSAGES) == MESSAGES


def test_no_message_contains_its_sender():
    """The link identifies the sender, which cannot be forged."""
    assert [kind.__name__ for kind in wire.MESSAGES if {"worker", "sender", "name"} & {*attrs.fields_dict(kind)}] == []


def test_the_overview_lists_every_message():
    """The table has neither gaps nor leftovers."""
    table = _messages.__doc__.split("::", 1)[1]
    named = set(re.findall(r"\b[A-Z][A-Za-z]+\b", re.sub(r"\(.*?\)", "", table)))
    inner = set().union(*map(nested, MESSAGES))
    assert named == {message_class.__name__ for message_class in MESSAGES if message_class not in inner}
