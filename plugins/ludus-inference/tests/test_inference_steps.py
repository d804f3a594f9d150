"""Products of few rows: in parts that OpenBLAS has kernels for, with the same results."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_inference import steps
from ludus_inference.steps import has_small_kernels, multiply


@pytest.fixture
def widths(monkeypatch):
    """Return the outputs of each product that is made, on a BLAS with small kernels."""
    made, matmul = [], np.matmul

    def counted(rows, weights, *, out):
        made.append(weights.shape[1])
        return matmul(rows, weights, out=out)

    monkeypatch.setattr(steps, "has_small_kernels", lambda: True)
    monkeypatch.setattr(np, "matmul", counted)
    return made


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs", "expected"),
    [
        (16, 257, 256, [192, 64]),
        (32, 257, 256, [64] * 4),
        (4, 513, 512, [448, 64]),
        (8, 257, 256, [256]),
        (1, 1025, 1024, [1024]),
        (33, 257, 256, [256]),
        (32, 513, 512, [512]),
        (16, 257, 300, [192, 108]),
    ],
    ids=["two", "four", "wide", "small", "one row", "many rows", "too wide", "uneven"],
)
def test_products_of_few_rows_are_made_in_small_parts(widths, rows, inputs, outputs, expected):
    """Of a million multiplications at most, of whole kernels, and only where there are few rows and more than one."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((rows, inputs)), rng.standard_normal((inputs, outputs))
    whole = np.zeros((rows, outputs + 5))
    multiply(left, right, out=whole[:, :outputs])
    assert widths == expected
    np.testing.assert_allclose(whole[:, :outputs], left @ right, rtol=1e-10)
    assert not whole[:, outputs:].any()


def test_without_small_kernels_products_stay_whole(widths, monkeypatch):
    """Parts would only cost more calls."""
    monkeypatch.setattr(steps, "has_small_kernels", lambda: False)
    multiply(np.ones((16, 257)), np.ones((257, 256)), out=np.empty((16, 256)))
    assert widths == [256]


@pytest.mark.parametrize(
    ("libraries", "expected"),
    [
        ([{"internal_api": "openblas", "architecture": "SkylakeX"}], True),
        ([{"internal_api": "openblas", "architecture": "Haswell"}], False),
        ([{"internal_api": "mkl"}], False),
        ([], False),
    ],
)
def test_a_blas_says_by_its_architecture_what_it_has(monkeypatch, libraries, expected):
    """OpenBLAS names the processor that it computes for; others say nothing."""

    class Controller:
        def info(self):
            return libraries

    monkeypatch.setattr(steps, "ThreadpoolController", Controller)
    assert has_small_kernels.__wrapped__() is expected
