"""Products: by MKL, or in parts that OpenBLAS has kernels for, with the same results; and where their memory begins."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ludus_inference import steps
from ludus_inference.steps import Buffer, aligned_zeros, has_small_kernels, multiply, prefers_mkl


@pytest.fixture
def widths(monkeypatch):
    """Return the outputs of each product that is made, on a BLAS with small kernels."""
    made, matmul = [], np.matmul

    def counted(rows, weights, *, out):
        made.append(weights.shape[1])
        return matmul(rows, weights, out=out)

    monkeypatch.setattr(steps, "prefers_mkl", lambda: False)
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
    ("rows", "inputs", "outputs", "by_torch"),
    [(16, 257, 256, True), (300, 257, 256, True), (300, 257, 8, False), (8, 257, 256, False), (1, 1025, 1024, False)],
    ids=["few rows", "many rows", "narrow", "small", "one row"],
)
def test_larger_products_are_made_by_torch_where_its_mkl_is_faster(monkeypatch, rows, inputs, outputs, by_torch):
    """With more than a million multiplications, straight into columns of a wider buffer."""
    asked, product = [], torch.mm

    def counted(left, right, *, out):
        asked.append(tuple(out.shape))
        return product(left, right, out=out)

    monkeypatch.setattr(steps, "prefers_mkl", lambda: True)
    monkeypatch.setattr(torch, "mm", counted)
    rng = np.random.default_rng(0)
    left = rng.standard_normal((rows, inputs + 3)).astype(np.float32)[:, :inputs]
    right = rng.standard_normal((inputs, outputs)).astype(np.float32)
    whole = np.zeros((rows, outputs + 5), np.float32)
    multiply(left, right, out=whole[:, :outputs])
    assert asked == ([(rows, outputs)] if by_torch else [])
    np.testing.assert_allclose(whole[:, :outputs], left.astype(np.float64) @ right, rtol=0, atol=1e-4)
    assert not whole[:, outputs:].any()


@pytest.mark.parametrize(
    ("has_mkl", "found", "expected"),
    [
        (True, "Intel Xeon", True),
        (True, "AMD EPYC", False),
        (True, None, False),
        (False, "Intel Xeon", False),
    ],
)
def test_mkl_is_preferred_on_the_processors_of_its_maker(monkeypatch, has_mkl, found, expected):
    """Torch reports the name of the processor."""
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: has_mkl)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"cpu_name": found} if found else {}, raising=False)
    assert prefers_mkl.__wrapped__() is expected


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 272), (300, 96)])
def test_memory_begins_with_a_cache_line(shape):
    """Whatever was allocated before; a buffer's rows do, too."""
    kept = [aligned_zeros(*shape) for _ in range(5)]
    assert all(array.ctypes.data % 64 == 0 and array.shape == shape and not array.any() for array in kept)
    buffer = Buffer(shape[1])
    buffer.allocate(shape[0])
    assert buffer.base.ctypes.data % 64 == buffer.base.strides[0] % 64 == 0


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
