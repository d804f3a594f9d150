"""The memory of lean programs is aligned, and products use the weights of their spans."""

from __future__ import annotations

import numpy as np
import pytest
from ludus.inference import Span
from ludus_inference.entities import MaxPool, Table
from ludus_inference.steps import Buffer, Choose, Columns, Dense, EntityRows, RunInputs
from ludus_inference.weights import aligned_zeros


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


def test_columns_are_chosen_by_the_weights_of_each_span():
    """Columns that are not chosen are copied."""
    normal, plain = Buffer(3), Buffer(3)
    for number, buffer in enumerate((normal, plain)):
        buffer.allocate(4)
        buffer.base[:, :3] = number
    weights = {0: [np.array([True, False, True])], 1: [np.array([True, True, True])]}
    Choose(0, Columns(plain, 0, 3), normal).run(RunInputs(4, {}, weights, [Span(0, 0, 3), Span(1, 3, 4)]))
    assert normal.base[:, :3].tolist() == [[0, 1, 0]] * 3 + [[0, 0, 0]]
    assert (normal.base[:, 3] == 1).all()


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("spans", [[Span(0, 0, 3)], [Span(4, 0, 1), Span(0, 1, 2), Span(4, 2, 3)]])
def test_entities_present_are_pooled_by_row(nonnegative, spans):
    """The spans of entities follow those of the rows; rows without entities are 0."""
    entities = EntityRows("observation/present", 2)
    inputs = RunInputs(3, {"observation/present": np.array([[0, 1], [0, 0], [1, 1]], np.int8)}, {}, spans)
    entities.run(inputs)
    assert entities.indices.tolist() == [1, 4, 5]
    assert [tuple(span) for span in entities.spans] == (
        [(0, 0, 3)] if len(spans) == 1 else [(4, 0, 1), (0, 1, 1), (4, 1, 3)]
    )
    sign = 1.0 if nonnegative else -1.0
    source, table, out = Buffer(1, entities), Table(2, 1), Buffer(1)
    for memory in (source, table, out):
        memory.allocate(4)
    source.base[:3, 0] = [1.0 * sign, 2.0 * sign, 3.0 * sign]
    MaxPool(Columns(source, 0, 1, nonnegative=nonnegative), table, out).run(inputs)
    assert out.base[:3, 0].tolist() == [sign, 0.0, 3.0 if nonnegative else -2.0]


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (7, 272), (300, 96)])
def test_memory_is_aligned_to_cache_lines(shape):
    """All arrays and all rows of a buffer start at a cache line."""
    arrays = [aligned_zeros(*shape) for _ in range(5)]
    assert all(array.ctypes.data % 64 == 0 and array.shape == shape and not array.any() for array in arrays)
    buffer = Buffer(shape[1])
    buffer.allocate(shape[0])
    assert buffer.base.ctypes.data % 64 == buffer.base.strides[0] % 64 == 0
