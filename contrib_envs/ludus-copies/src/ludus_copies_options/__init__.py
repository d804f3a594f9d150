"""Options that the adapters to other libraries share.

This package imports no NumPy, which `ludus_copies` does, so that configurations are read without it.
"""

from __future__ import annotations

from typing import Any

from ludus.option import one_of, option

__all__ = ["channels_option"]


def channels_option() -> Any:
    """Return the option ``channels`` of an adapter: which axis of an image holds its channels."""
    return option(
        "auto",
        one_of("auto", "first", "last"),
        help="axis of the channels of three-dimensional Boxes; auto: the first axis if it is shorter than both others, "
        "and these are equal or it is at most 4, otherwise the last one; ludus check prints the layout",
        lasting=True,
    )
