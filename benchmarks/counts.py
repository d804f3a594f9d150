"""Counts on the command lines of scripts."""

from __future__ import annotations

import argparse


def at_least_one(text: str) -> int:
    """Return a whole number ≥ 1, as the type of an argument.

    Raises:
        ArgumentTypeError: It is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number ≥ 1, got {text}")
    return int(text)
