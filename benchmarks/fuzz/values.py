"""Values with which fuzzers replace the fields of messages: valid elsewhere, of a wrong type, huge, or not finite."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from ludus_local.codec import DTYPES

from fuzz.league import Trained

_MANY = 200_000

#: Integers near every limit of the code.
INTEGERS = (0, 1, 2, 3, 7, -1, 64, 255, 256, 4096, 4097, 65_536, _MANY, 2**31 - 1, 2**31, -(2**31), 10**12, 2**53)
HUGE_INTEGERS = (2**63 - 1, -(2**63), 2**64 - 1)
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.0, 1e-300, 1e300, -1e300, float("nan"), float("inf"), float("-inf"))

_TEXTS = (
    *("", "main", "other", "nobody", "a" * 200, "a" * 2000, "a" * 60_000, "é" * 40, "\x00", "\n", "\ud7ff", "\x1b[31m"),
    *("train", "eval", "sampler-0", "sampler-box-0", "learner-main", "evaluator-0", "coordinator", "box", "den"),
    *("..", "../../etc/passwd", "/etc/passwd", "models/x", "learners/main/1.safetensors", "%s%n", "' OR 1=1 --"),
    *("<f4", "<i8", "|b1", "<f8", "O", "|V8", "shared-memory", "lz4", "[run]\nseed = 1\n", "0" * 64, "f" * 64),
    *("random", "main@2+", "main@1", "other@2", "main@99", "main@99+", "nobody@1+", "main@1@2", "main@-1"),
)
_LONG_TEXT = "n" * 10**6


@frozen
class Values:
    """Values of messages of one league.

    Attributes:
        texts: Short and long texts, and names and hashes of the league.
        scalars: All values of every type that a header holds without lists and maps.
        containers: Lists and maps: empty, nested, of wrong types.
        large: Texts, lists and maps near the limits of a header, and beyond.
        arrays: Arrays of all dtypes, and those of up to 200,000 ids.
        by_type: The scalars of every type.
    """

    texts: tuple[str, ...]
    scalars: tuple[Any, ...]
    containers: tuple[Any, ...]
    large: tuple[Any, ...]
    arrays: tuple[np.ndarray, ...]
    by_type: Mapping[type, tuple[Any, ...]]

    @classmethod
    def of(cls, trained: Trained) -> Values:
        """Return the values for a league."""
        texts = (*_TEXTS, *trained.hashes, *trained.participants, str(os.getpid()))
        numbers = (*INTEGERS, *HUGE_INTEGERS, os.getpid(), *FLOATS)
        scalars = (*numbers, *texts, True, False, None, b"bytes")
        by_type = {kind: tuple(value for value in scalars if type(value) is kind) for kind in map(type, scalars)}
        return cls(
            texts=texts,
            scalars=scalars,
            containers=tuple(_containers()),
            large=tuple(_large(texts)),
            arrays=tuple(_arrays()),
            by_type=by_type,
        )


def _containers() -> list[Any]:
    nested: Any = []
    for _ in range(100):
        nested = [nested]
    return [
        [],
        {},
        [0, 1, 2],
        [[]],
        {"a": 1.0},
        {"box": 2, "den": -1},
        {"box": 10**9},
        {"box": 2**62},
        {1: 2},
        ["main@1", "random"],
        [4, 2**62, 2**62],
        [-1, 3],
        nested,
        {"w": {"dtype": "<f4", "shape": [2**40, 2**40]}},
        {"w": {"dtype": "<f4", "shape": [0, 2**62]}},
        {"length": {"dtype": "<i4", "shape": [10**9]}},
    ]


def _large(texts: Sequence[str]) -> list[Any]:
    return [
        _LONG_TEXT,
        _LONG_TEXT[:100_000],
        {_LONG_TEXT[:70_000]: 1.0},
        {_LONG_TEXT: 1.0},
        {f"host-{i}": 4096 for i in range(2000)},
        {f"name {i}": float(i) for i in range(4000)},
        {text: text for text in texts if len(text) < 100},
        list(texts[:40]),
        ["x"] * 4096,
        [0] * 4096,
        [[None] * 4096] * 100,
        {f"n{i}": {"dtype": "<f4", "shape": [None] * 4096} for i in range(100)},
    ]


def _arrays() -> list[np.ndarray]:
    shapes = ((), (0,), (1,), (4,), (4, 2), (2, 3, 4))
    arrays = [np.zeros(shape, dtype) for dtype in DTYPES.values() for shape in shapes]
    ids = np.arange(_MANY)
    arrays += [ids, ids[:4], ids[:8], np.zeros(_MANY, np.int64), ids.astype(np.int32), -ids[:4], np.full(4, 2**62)]
    floats = [np.nan, np.inf, -np.inf, -1.0, 0.5, 1.0, 2.0, 1e30]
    arrays += [np.full(shape, value, np.float32) for value in floats for shape in ((1,), (4,), (1, 2), (4, 2))]
    arrays += [np.full((_MANY, 2), 0.5, np.float32), np.zeros((0, 2**20), np.float32), np.zeros((1,) * 32, np.int8)]
    return arrays
