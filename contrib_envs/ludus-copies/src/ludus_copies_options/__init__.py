"""Options that the adapters to other libraries share.

This package imports no NumPy, which `ludus_copies` does, so that configurations are read without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ludus.option import Check, between, one_of, option, whole

__all__ = [
    "DEFAULT_ENTITIES",
    "channels_option",
    "entities_option",
    "frame_skip_option",
    "max_frames_option",
    "noop_max_option",
    "sticky_actions_option",
]

#: Number of entities of a Sequence, unless the option ``max_entities`` sets another one.
DEFAULT_ENTITIES = 32
_COUNT = whole(1, 4096)
_ENTITIES = Check(
    f"{_COUNT.expected}, or a table of such numbers by leaf",
    lambda value: all(map(_COUNT.accepts, value.values())) if isinstance(value, Mapping) else _COUNT.accepts(value),
)


def channels_option() -> Any:
    """Return the option ``channels`` of an adapter: which axis of an image holds its channels."""
    return option(
        "auto",
        one_of("auto", "first", "last"),
        help="axis of the channels of three-dimensional Boxes; auto: the first axis if it is shorter than both others, "
        "and these are equal or it is at most 4, otherwise the last one; ludus check prints the layout",
        lasting=True,
    )


def frame_skip_option() -> Any:
    """Return the option ``frame_skip`` of an adapter."""
    return option(1, whole(1, 1000), help="steps of the game for which an action is held; their rewards are summed")


def max_frames_option() -> Any:
    """Return the option ``max_frames`` of an adapter."""
    return option(
        1,
        whole(1, 100),
        help="images hold the largest values of so many last steps of the game; 2 shows what Atari games draw on every "
        "other one",
    )


def sticky_actions_option() -> Any:
    """Return the option ``sticky_actions`` of an adapter."""
    return option(
        0.0,
        between(0.0, 0.99),
        help="probability, per step of the game and agent, that the previous action stays; [0, 0.99]",
    )


def noop_max_option() -> Any:
    """Return the option ``noop_max`` of an adapter."""
    return option(
        0,
        whole(0, 10_000),
        help="a match starts after 1 to so many steps of the game with the first choice of every label, or zeros, "
        "drawn by its seed; 0: without",
    )


def entities_option() -> Any:
    """Return the option ``max_entities`` of an adapter: how many entities of a Sequence space are observed."""
    return option(
        DEFAULT_ENTITIES,
        _ENTITIES,
        help="entities that are observed of each Sequence space, the first ones, or a table by leaf: "
        "{ units = 64 }; more are cut with a warning",
        lasting=True,
    )
