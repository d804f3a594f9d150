"""Steps that read the entities present: pools to one vector per row, and products with keys."""

from __future__ import annotations

import numpy as np
from attrs import define, field, frozen

from ludus_inference.steps import Buffer, Columns, EntityRows, RunInputs


def entities_of(columns: Columns) -> EntityRows:
    """Return the entities that have rows in a buffer."""
    assert columns.buffer.entities is not None
    return columns.buffer.entities


@define(eq=False)
class Table:
    """Memory for an array ``[E, n, width]``: sums and maxima over its first axis run over long rows of memory.

    Args:
        per_row: E.
        width: Number of columns.
    """

    per_row: int
    width: int
    _memory: np.ndarray = field(init=False)

    def allocate(self, capacity: int) -> None:
        """Allocate memory for this number of rows of a run."""
        self._memory = np.zeros((self.per_row * capacity, self.width), np.float32)

    def spread(self, source: Columns, inputs: RunInputs, *, absent: float) -> np.ndarray:
        """Return ``[E, n, width]`` with the features of the entities present, and a number for all others."""
        entities = entities_of(source)
        places = self._memory[: self.per_row * inputs.rows]
        if not entities.is_full:
            places.fill(absent)
        places[entities.places] = source.view(inputs)
        return places.reshape(self.per_row, inputs.rows, self.width)


@frozen
class MaxPool:
    """Computes the largest features of the entities present; 0 for rows without any."""

    source: Columns
    table: Table
    out: Buffer

    def run(self, inputs: RunInputs) -> None:
        """Pool."""
        source, out = self.source, self.out.base[: inputs.rows, : self.out.width]
        entities = entities_of(source)
        if not entities.count:
            out.fill(0.0)
            return
        absent = 0.0 if source.nonnegative else -np.inf
        np.maximum.reduce(self.table.spread(source, inputs, absent=absent), axis=0, out=out)
        if not entities.is_full and not source.nonnegative:
            empty = np.ones(inputs.rows, np.bool_)
            empty[entities.rows] = False
            out[empty] = 0.0


@frozen
class SumPool:
    """Computes the sums of the features of the entities present."""

    source: Columns
    table: Table
    out: Buffer

    def run(self, inputs: RunInputs) -> None:
        """Pool."""
        spread = self.table.spread(self.source, inputs, absent=0.0)
        np.add.reduce(spread, axis=0, out=self.out.base[: inputs.rows, : self.out.width])


@frozen
class DivideByCount:
    """Divides rows by the number of their entities present, at least 1, in place."""

    entities: EntityRows
    out: Buffer

    def run(self, inputs: RunInputs) -> None:
        """Divide."""
        counts = np.bincount(self.entities.rows, minlength=inputs.rows).astype(np.float32)
        self.out.base[: inputs.rows, : self.out.width] /= np.maximum(counts, 1.0)[:, None]


@frozen
class AttentionPool:
    """Computes the sums of features, weighted by the softmax of scores ``[m, 1]`` over the entities of a row.

    Args:
        scores: Scores.
        features: Features, of the same entities.
        absent: Score of absent entities, whose features are 0.
        score_table: Table of the scores.
        table: Table of the features.
        out: Results.
    """

    scores: Columns
    features: Columns
    absent: float
    score_table: Table
    table: Table
    out: Buffer

    def run(self, inputs: RunInputs) -> None:
        """Pool."""
        scores = self.score_table.spread(self.scores, inputs, absent=self.absent)  # [E, n, 1]
        weights = np.exp(scores - scores.max(axis=0))
        weights /= weights.sum(axis=0)
        features = self.table.spread(self.features, inputs, absent=0.0)
        features *= weights
        np.add.reduce(features, axis=0, out=self.out.base[: inputs.rows, : self.out.width])


@frozen
class FlattenEntities:
    """Copies the features of all entities of a row next to each other; those of absent entities are 0."""

    source: Columns
    out: Buffer  # [n, E · width]

    def run(self, inputs: RunInputs) -> None:
        """Copy."""
        entities = entities_of(self.source)
        out = self.out.base[: inputs.rows, : self.out.width]
        if not entities.is_full:
            out.fill(0.0)
        by_entity = out.reshape(inputs.rows, entities.per_row, -1)
        assert np.shares_memory(by_entity, out)
        by_entity[entities.rows, entities.indices - entities.rows * entities.per_row] = self.source.view(inputs)


@frozen
class KeyLogits:
    """Multiplies the key of each entity present with the query of its row.

    Args:
        keys: Keys, ``[m, key]``.
        query: Queries, ``[n, key]``.
        absent: Result for absent entities.
        out: Results, ``[n, E]``.
    """

    keys: Columns
    query: Columns
    absent: float
    out: Buffer

    def run(self, inputs: RunInputs) -> None:
        """Multiply."""
        entities, out = entities_of(self.keys), self.out.base[: inputs.rows, : self.out.width]
        if not entities.is_full:
            out.fill(self.absent)
        if entities.count:
            keys, queries = self.keys.view(inputs), self.query.view(inputs)[entities.rows]
            entity = entities.indices - entities.rows * entities.per_row
            out[entities.rows, entity] = np.einsum("mk,mk->m", keys, queries)
