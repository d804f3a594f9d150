"""Convert segments to rows of a replay buffer.

A *row* is an entry of a segment: a decision, or an observation that is only bootstrapped from. A *transition* is a
decision together with the row `offset` further on, at most n decisions later. An observation is stored once, although
it ends one transition and starts another.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import frozen
from ludus.errors import ContractError
from ludus.segment import SegmentBatch

from ludus_replay.layout import ReplayLayout

_MAX_REWARD = 1e12  # keeps squared errors and the squared norms of their gradients finite in float32


@frozen
class Rows:
    """Rows to store, one segment after another.

    Attributes:
        arrays: Every array of the layout, ``[m, …]``. ``reward``, ``discount`` and ``sums/…`` belong to the transition
            that starts in that row; ``offset`` is 0 where no transition starts.
    """

    arrays: dict[str, np.ndarray]

    @property
    def num_transitions(self) -> int:
        """Return how many transitions start in these rows."""
        return int(np.count_nonzero(self.arrays["offset"]))


@frozen
class _TransitionSums:
    columns: dict[str, np.ndarray]  # [T+1, N] float32 each: discounted sums over the decisions of a transition
    discount: np.ndarray  # [T+1, N] float32: factor of the value at its end
    offset: np.ndarray  # [T+1, N] int32: number of its decisions


def make_rows(
    batch: SegmentBatch,
    layout: ReplayLayout,
    *,
    gamma: float,
    n_step: int = 1,
    discount_per: str = "decision",
    sums: Mapping[str, np.ndarray] | None = None,
) -> Rows:
    """Return copies of the rows of all transitions in a batch.

    A transition ends after `n_step` decisions, or earlier: with its seat (terminated: discount 0; truncated:
    bootstraps from the final observation), or with its segment, at the bootstrap entry.

    Args:
        batch: Segments; only trainable decisions start a transition.
        layout: Arrays of a row.
        gamma: Discount of a decision or tick.
        n_step: Largest number of decisions of a transition, ≥ 1.
        discount_per: ``"decision"``, or ``"tick"``: gamma to the power of the elapsed ticks.
        sums: Further columns to sum like the reward, ``[T+1, N]`` each; under the names of the layout.

    Raises:
        ContractError: The batch lacks an array, a stored number is not finite, or a sum of rewards or of a column in
            `sums` exceeds ±10¹².
    """
    trainable = batch.trainable()
    elapsed = batch.elapsed_ticks if discount_per == "tick" else np.ones_like(batch.elapsed_ticks)
    computed = _sum_transitions(
        {"reward": batch.reward} | {f"sums/{name}": column for name, column in (sums or {}).items()},
        trainable,
        batch.terminated,
        step_discount=np.float32(gamma) ** elapsed,
        n_step=n_step,
    )
    columns = batch.arrays() | computed.columns | {"discount": computed.discount, "offset": computed.offset}
    if "action_mask" in layout.arrays and batch.action_mask is None:
        columns["action_mask"] = np.ones((*trainable.shape, *layout.arrays["action_mask"][0]), bool)
    missing = sorted(layout.arrays.keys() - columns.keys())
    if missing:
        raise ContractError(f"replay: the segments carry no {', '.join(missing)}")
    # column by column, so that the rows of a segment are in the order of time
    segment, entry = np.nonzero(_is_stored(trainable, batch.terminated).T)
    arrays = {name: columns[name][entry, segment] for name in layout.arrays}
    _check_finite(arrays)
    for name in computed.columns:
        _check_magnitude(name, arrays[name])
    return Rows(arrays)


def _sum_transitions(
    columns: Mapping[str, np.ndarray],
    trainable: np.ndarray,
    terminated: np.ndarray,
    *,
    step_discount: np.ndarray,
    n_step: int,
) -> _TransitionSums:
    """Return the sums of all transitions; 0 where none starts."""
    continues = np.zeros_like(trainable)  # the next entry is a decision of the same match and segment
    continues[:-1] = trainable[:-1] & trainable[1:] & ~terminated[:-1]
    zero = np.float32(0)
    total = {name: np.where(trainable, column, zero).astype(np.float32) for name, column in columns.items()}
    discount = np.where(trainable, step_discount, zero).astype(np.float32)
    offset = trainable.astype(np.int32)
    terminal = trainable & terminated
    entry, segment = np.nonzero(continues)  # starts of the transitions that have another decision
    for step in range(1, n_step):
        if not entry.size:
            break
        start, decision = (entry, segment), (entry + step, segment)
        for name, column in columns.items():
            total[name][start] += discount[start] * column[decision]
        discount[start] *= step_discount[decision]
        offset[start] += 1
        terminal[start] = terminated[decision]
        entry, segment = entry[continues[decision]], segment[continues[decision]]
    discount[terminal] = 0
    return _TransitionSums(total, discount, offset)


def _is_stored(trainable: np.ndarray, terminated: np.ndarray) -> np.ndarray:
    """Return ``[T+1, N] bool``: decisions, and the entry after each unless its seat terminated."""
    stored = trainable.copy()
    stored[1:] |= trainable[:-1] & ~terminated[:-1]
    return stored


def _check_finite(arrays: Mapping[str, np.ndarray]) -> None:
    is_start = arrays["offset"] > 0
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            # rows that are only bootstrapped from need no other numbers than observations
            used = array if name.startswith(("observation/", "privileged/")) else array[is_start]
            if not np.isfinite(used).all():
                raise ContractError(
                    f"replay: {name} of a batch is not finite; the batch was not stored — check observations and "
                    f"rewards for NaN"
                )


def _check_magnitude(name: str, sums: np.ndarray) -> None:
    """Raise if a sum is so large that every update that samples it would fail."""
    largest = np.abs(sums).max(initial=0)
    if largest > _MAX_REWARD:
        raise ContractError(
            f"replay: {name!r} of a batch, summed over n steps, has magnitude {largest:.2g}, expected at most "
            f"{_MAX_REWARD:g}; the batch was not stored — scale rewards down"
        )
