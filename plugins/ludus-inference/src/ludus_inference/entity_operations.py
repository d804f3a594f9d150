"""Lowering of operations on entities; see `ludus_inference.operations`.

Entities that are absent have no rows in buffers, so that layers are not evaluated for them. An operation that reads
absent entities needs to know the number that the network has put there (`Columns.absent`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from attrs import evolve, frozen

from ludus_inference.entities import AttentionPool, DivideByCount, FlattenEntities, MaxPool, SumPool, entities_of
from ludus_inference.program import KeyProducts, LeafValue, Presence, ProgramBuilder
from ludus_inference.steps import Columns, EntityRows


@frozen
class _AnyPresent:
    """Whether any entity is present, ``[n, 1]``."""

    entities: EntityRows


@frozen
class _PresentCount:
    """Number of entities present, ``[n, 1]``."""

    entities: EntityRows
    minimum: int = 0


@frozen
class _Largest:
    """Largest features of the entities present, ``[n, width]``; those of rows without any are unknown."""

    source: Columns


@frozen
class _Softmax:
    """Softmax of scores over the entities of each row, ``[n, E, 1]``."""

    scores: Columns


@frozen
class _Weighted:
    """Features multiplied by the softmax of scores."""

    scores: Columns
    features: Columns


@frozen
class _ColumnVector:
    """Vectors ``[n, width, 1]``."""

    columns: Columns


def _is_unfolded(value: Any) -> bool:
    return isinstance(value, Columns) and value.unfolded


def _is_known(source: Columns, absent: float) -> bool:
    """Return whether absent entities have a given number, or all entities are present."""
    entities = source.buffer.entities
    return entities is not None and (not entities.leaf or source.absent == absent)


# -- which entities are present --------------------------------------------------------------------------------------


def _not_equal(builder: ProgramBuilder, value: Any, number: Any) -> Any:
    """Compare a leaf with 0."""
    plain = isinstance(value, LeafValue) and value.column is None and value.shift == 0 and value.axes is None
    if not plain or number != 0 or value.factor is not None or len(value.tail) != 1:
        return NotImplemented
    return Presence(builder.present_entities(value.name, value.tail[0]))


def _invert(_: ProgramBuilder, value: Any) -> Any:
    """Exchange present and absent entities."""
    return evolve(value, inverted=not value.inverted) if isinstance(value, Presence) else NotImplemented


def _unsqueeze(_: ProgramBuilder, value: Any, axis: int) -> Any:
    """Add an axis at the end."""
    if axis not in (2, -1):
        return NotImplemented
    if isinstance(value, Presence) and not value.trailing:
        return evolve(value, trailing=True)
    folded = isinstance(value, Columns) and value.buffer.entities is None
    return _ColumnVector(value) if folded else NotImplemented


def _any(_: ProgramBuilder, value: Any, axis: int) -> Any:
    """Return whether any entity is present."""
    plain = isinstance(value, Presence) and value.trailing and not value.inverted
    return _AnyPresent(value.entities) if plain and axis == 1 else NotImplemented


def _where(builder: ProgramBuilder, mask: Any, value: Any, other: Any) -> Any:
    """Put a number in the place of absent entities, or finish the pool of the largest features."""
    if not isinstance(other, int | float):
        return NotImplemented
    if isinstance(mask, _AnyPresent):
        pooled = isinstance(value, _Largest) and value.source.buffer.entities is mask.entities and other == 0
        return _add_max_pool(builder, value.source) if pooled else NotImplemented
    if not isinstance(mask, Presence) or mask.inverted or not mask.trailing:
        return NotImplemented
    if isinstance(value, LeafValue):
        return _where_leaf(builder, mask.entities, value, float(other))
    return _with_absent(value, mask.entities, other)


def _where_leaf(builder: ProgramBuilder, entities: EntityRows, leaf: LeafValue, other: float) -> Any:
    """Convert the entities present of a leaf."""
    if not leaf.is_plain or len(leaf.tail) != 2 or leaf.tail[0] != entities.per_row:
        return NotImplemented
    return evolve(builder.cast_entities(leaf, entities), absent=other)


def _masked_fill(builder: ProgramBuilder, value: Any, mask: Any, number: Any) -> Any:
    """Put a number in the place of absent entities."""
    if not isinstance(mask, Presence) or not mask.inverted or not isinstance(number, int | float):
        return NotImplemented
    if isinstance(value, KeyProducts):
        fits = value.keys.buffer.entities is mask.entities and not mask.trailing
        return builder.add_logits(value, absent=float(number)) if fits else NotImplemented
    return _with_absent(value, mask.entities, number) if mask.trailing else NotImplemented


def _with_absent(value: Any, entities: EntityRows, number: float) -> Any:
    same = _is_unfolded(value) and value.buffer.entities is entities
    return evolve(value, absent=float(number)) if same else NotImplemented


# -- shapes ----------------------------------------------------------------------------------------------------------


def _flatten(builder: ProgramBuilder, value: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Join rows and entities, or all features of a row."""
    entities = isinstance(value, LeafValue) and len(value.tail) == 2 and (start_dim, end_dim) == (0, 1)
    source = builder.as_columns(value) if entities else value
    if not _is_unfolded(source):
        return NotImplemented
    if (start_dim, end_dim) == (0, 1):
        return evolve(source, unfolded=False)
    if start_dim != 1 or end_dim not in (-1, 2) or not _is_known(source, 0.0):
        return NotImplemented
    out = builder.program.new_buffer(source.width * entities_of(source).per_row)
    return builder.add(FlattenEntities(source, out), out)


def _unflatten(_: ProgramBuilder, value: Any, axis: int, sizes: Any) -> Any:
    """Separate rows and entities."""
    folded = isinstance(value, Columns) and not value.unfolded and value.buffer.entities is not None
    fits = folded and axis == 0 and tuple(sizes) == (-1, value.buffer.entities.per_row)
    return evolve(value, unfolded=True) if fits else NotImplemented


# -- pools -----------------------------------------------------------------------------------------------------------


def _largest(builder: ProgramBuilder, value: Any, axis: int) -> Any:
    """Return the largest features."""
    if not _is_unfolded(value) or axis != 1 or not _is_known(value, -np.inf):
        return NotImplemented
    return _Largest(value) if value.buffer.entities.leaf else _add_max_pool(builder, value)


def _add_max_pool(builder: ProgramBuilder, source: Columns) -> Columns:
    out = builder.program.new_buffer(source.width)
    return builder.add(MaxPool(source, builder.new_table(source), out), out)


def _sum(builder: ProgramBuilder, value: Any, axis: int) -> Any:
    """Add the features of all entities, or count those present."""
    if axis != 1:
        return NotImplemented
    if isinstance(value, Presence) and value.trailing and not value.inverted:
        return _PresentCount(value.entities)
    if isinstance(value, _Weighted):
        scores, features = value.scores, value.features
        out = builder.program.new_buffer(features.width)
        absent = 0.0 if scores.absent is None else scores.absent
        tables = builder.new_table(scores), builder.new_table(features)
        return builder.add(AttentionPool(scores, features, absent, *tables, out), out)
    if not _is_unfolded(value) or not _is_known(value, 0.0):
        return NotImplemented
    out = builder.program.new_buffer(value.width)
    return builder.add(SumPool(value, builder.new_table(value), out), out)


def _mean(builder: ProgramBuilder, value: Any, axis: int) -> Any:
    """Average the features, if all entities are present."""
    if not _is_unfolded(value) or value.buffer.entities.leaf:
        return NotImplemented
    total = _sum(builder, value, axis)
    if total is NotImplemented:
        return NotImplemented
    return builder.add(DivideByCount(entities_of(value), total.buffer), total.buffer)


def _clamp(_: ProgramBuilder, value: Any, *, min: Any) -> Any:
    """Count at least one entity."""
    return evolve(value, minimum=1) if isinstance(value, _PresentCount) and min == 1 else NotImplemented


def _divide(builder: ProgramBuilder, value: Any, count: Any) -> Any:
    """Divide a sum by the number of entities."""
    if not isinstance(count, _PresentCount) or count.minimum != 1 or not isinstance(value, Columns):
        return NotImplemented
    if (
        value.buffer.entities is not None
        or value.width != value.buffer.width
        or not builder.is_overwritable(value.buffer)
    ):
        return NotImplemented
    return builder.add(DivideByCount(count.entities, value.buffer), value.buffer)


def _softmax(_: ProgramBuilder, value: Any, axis: int) -> Any:
    """Return the softmax of scores over the entities of each row."""
    fits = _is_unfolded(value) and value.width == 1 and axis == 1
    return _Softmax(value) if fits and (value.absent is not None or not value.buffer.entities.leaf) else NotImplemented


def _multiply(_: ProgramBuilder, value: Any, features: Any) -> Any:
    """Weight features by a softmax."""
    if not isinstance(value, _Softmax) or not _is_unfolded(features) or not _is_known(features, 0.0):
        return NotImplemented
    same = value.scores.buffer.entities is features.buffer.entities
    return _Weighted(value.scores, features) if same else NotImplemented


# -- keys ------------------------------------------------------------------------------------------------------------


def _matmul(_: ProgramBuilder, keys: Any, query: Any) -> Any:
    """Multiply keys and queries."""
    fits = _is_unfolded(keys) and isinstance(query, _ColumnVector) and keys.width == query.columns.width
    return _ColumnProducts(KeyProducts(keys, query.columns)) if fits else NotImplemented


@frozen
class _ColumnProducts:
    """Products with an axis of length 1 at the end."""

    products: KeyProducts


def _squeeze(_: ProgramBuilder, value: Any, axis: int) -> Any:
    """Remove the last axis."""
    return value.products if isinstance(value, _ColumnProducts) and axis in (2, -1) else NotImplemented


#: Function or method name → function of this module.
OPERATIONS: Mapping[Any, Callable[..., Any]] = {
    operator.invert: _invert,
    operator.matmul: _matmul,
    operator.mul: _multiply,
    operator.ne: _not_equal,
    operator.truediv: _divide,
    torch.flatten: _flatten,
    torch.where: _where,
    "amax": _largest,
    "any": _any,
    "clamp": _clamp,
    "flatten": _flatten,
    "masked_fill": _masked_fill,
    "mean": _mean,
    "softmax": _softmax,
    "squeeze": _squeeze,
    "sum": _sum,
    "unflatten": _unflatten,
    "unsqueeze": _unsqueeze,
}
