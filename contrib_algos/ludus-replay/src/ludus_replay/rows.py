"""From segments to rows of a replay memory.

A *row* is an entry of a segment: a decision, or an observation that only serves to bootstrap. A *transition* is a
decision together with the row `offset` further on, at most n decisions later; so an observation is held once, although
it is the end of one transition and the start of another.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import frozen
from ludus.errors import ContractError
from ludus.segment import SegmentBatch

from ludus_replay.layout import ReplayLayout

__all__ = ["Rows", "collect"]

_LARGEST_REWARD = 1e12  # with which squared errors and the squared norms of their gradients are still float32 numbers


@frozen
class Rows:
    """Rows to remember, those of one segment behind one another.

    Attributes:
        arrays: Every array of the layout, ``[m, …]``. ``reward``, ``discount`` and ``sums/…`` belong to the transition
            that starts there; ``offset`` is 0 where none does.
    """

    arrays: dict[str, np.ndarray]

    @property
    def transitions(self) -> int:
        """Return how many transitions start in these rows."""
        return int(np.count_nonzero(self.arrays["offset"]))


@frozen
class _Sums:
    columns: dict[str, np.ndarray]  # [T+1, N] float32 each: discounted sums over the decisions of a transition
    discount: np.ndarray  # [T+1, N] float32: what the value of its end counts
    offset: np.ndarray  # [T+1, N] int32: decisions it spans


def collect(
    batch: SegmentBatch,
    layout: ReplayLayout,
    *,
    gamma: float,
    n_step: int = 1,
    discount_per: str = "decision",
    sums: Mapping[str, np.ndarray] | None = None,
) -> Rows:
    """Return the rows of all transitions in a batch, as copies.

    A transition ends after `n_step` decisions, or earlier: with its match (terminated: its discount is 0; truncated: it
    bootstraps from the final observation), or with its segment, whose bootstrap entry it then leads to.

    Args:
        batch: The segments; only trainable decisions start a transition.
        layout: What to remember.
        gamma: Discount of a decision or tick.
        n_step: n ≥ 1.
        discount_per: ``"decision"``, or ``"tick"``: gamma to the power of the ticks that elapsed.
        sums: What else to sum like the reward, ``[T+1, N]`` each; under the names of the layout.

    Raises:
        ContractError: The batch lacks an array, or holds a number that is not finite where it would be remembered, or a
            sum of rewards, or one of `sums`, of more than 10¹² or less than -10¹².
    """
    trainable = batch.trainable()
    elapsed = batch.elapsed_ticks if discount_per == "tick" else np.ones_like(batch.elapsed_ticks)
    found = _sums(
        {"reward": batch.reward} | {f"sums/{name}": column for name, column in (sums or {}).items()},
        trainable,
        batch.terminated,
        step_discount=np.float32(gamma) ** elapsed,
        n_step=n_step,
    )
    # column by column, so that the rows of a segment come in the order of time
    segment, entry = np.nonzero(_needed(trainable, batch.terminated).T)
    computed = {**found.columns, "discount": found.discount, "offset": found.offset}
    columns = batch.arrays() | computed
    if "action_mask" in layout.arrays and batch.action_mask is None:
        columns["action_mask"] = np.ones((*trainable.shape, *layout.arrays["action_mask"][0]), bool)
    missing = sorted(layout.arrays.keys() - columns.keys())
    if missing:
        raise ContractError(f"replay: the segments carry no {', '.join(missing)}")
    arrays = {name: columns[name][entry, segment] for name in layout.arrays}
    _check_finite(arrays)
    for name in found.columns:
        _check_size(name, arrays[name])
    return Rows(arrays)


def _sums(
    columns: Mapping[str, np.ndarray],
    trainable: np.ndarray,
    terminated: np.ndarray,
    *,
    step_discount: np.ndarray,
    n_step: int,
) -> _Sums:
    """Return the sums of all transitions; 0 where none starts."""
    follows = np.zeros_like(trainable)  # the decision's successor is a decision of the same match and segment
    follows[:-1] = trainable[:-1] & trainable[1:] & ~terminated[:-1]
    zero = np.float32(0)
    total = {name: np.where(trainable, column, zero).astype(np.float32) for name, column in columns.items()}
    discount = np.where(trainable, step_discount, zero).astype(np.float32)
    offset = trainable.astype(np.int32)
    terminal = trainable & terminated
    entry, segment = np.nonzero(follows)  # transitions that go on
    for step in range(1, n_step):
        if not entry.size:
            break
        at, here = (entry + step, segment), (entry, segment)
        for name, column in columns.items():
            total[name][here] += discount[here] * column[at]
        discount[here] *= step_discount[at]
        offset[here] += 1
        terminal[here] = terminated[at]
        entry, segment = entry[follows[at]], segment[follows[at]]
    discount[terminal] = 0
    return _Sums(total, discount, offset)


def _needed(trainable: np.ndarray, terminated: np.ndarray) -> np.ndarray:
    """Return ``[T+1, N] bool``: decisions, and what they lead to unless their match terminated."""
    needed = trainable.copy()
    needed[1:] |= trainable[:-1] & ~terminated[:-1]
    return needed


def _check_finite(arrays: Mapping[str, np.ndarray]) -> None:
    starts = arrays["offset"] > 0
    for name, array in arrays.items():
        if array.dtype.kind == "f":
            # only observations matter in rows that serve to bootstrap
            held = array if name.startswith(("observation/", "privileged/")) else array[starts]
            if not np.isfinite(held).all():
                raise ContractError(
                    f"replay: {name} of a batch is not finite; the batch was not remembered — check observations and "
                    f"rewards for NaN"
                )


def _check_size(name: str, rewards: np.ndarray) -> None:
    """Refuse what would make every update fail with which it is drawn, for as long as it is remembered."""
    largest = np.abs(rewards).max(initial=0)
    if largest > _LARGEST_REWARD:
        raise ContractError(
            f"replay: {name!r} of a batch, summed over n steps, is {largest:.2g} in size, expected at most "
            f"{_LARGEST_REWARD:g}; the batch was not remembered — scale rewards down"
        )
