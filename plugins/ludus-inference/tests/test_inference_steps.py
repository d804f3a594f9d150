"""The memory of lean programs is aligned, and products use the weights of their spans."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.inference import Span
from ludus_inference.steps import Buffer, Dense, RunInputs, aligned_zeros


def test_products_use_the_weights_of_each_span():
    """Biases are the last row of the weights; columns after the outputs are not written."""
    rng = np.random.default_rng(0)
    source, out = Buffer(5), Buffer(3)
    source.allocate(8)
    out.allocate(8)
    source.base[:, :5] = rng.standard_normal((8, 5))
    weights = {slot: [rng.standard_normal((6, 3)).astype(np.float32)] for slot in (0, 2)}
    Dense(0, source, out).run(RunInputs(7, {}, weights, [Span(2, 0, 4), Span(0, 4, 7)]))
    for slot, start, stop in ((2, 0, 4), (0, 4, 7)):
        expected = source.base[start:stop, :5] @ weights[slot][0][:-1] + weights[slot][0][-1]
        np.testing.assert_allclose(out.base[start:stop, :3], expected, rtol=1e-5, atol=1e-6)
    assert (out.base[:, 3] == 1).all()
    assert not out.base[7:, :3].any()
    assert not out.base[:, 4:].any()


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 272), (300, 96)])
def test_memory_is_aligned_to_cache_lines(shape):
    """All arrays and all rows of a buffer start at a cache line."""
    arrays = [aligned_zeros(*shape) for _ in range(5)]
    assert all(array.ctypes.data % 64 == 0 and array.shape == shape and not array.any() for array in arrays)
    buffer = Buffer(shape[1])
    buffer.allocate(shape[0])
    assert buffer.base.ctypes.data % 64 == buffer.base.strides[0] % 64 == 0
