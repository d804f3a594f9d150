"""Decisions as rows, picked out of segments where these lie; whole segments for networks that remember."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeAlias

import numpy as np
import torch
from attrs import frozen
from ludus.segment import SegmentBatch
from torch import Tensor

from ludus_ppo.kinds import kinds_of, one_of_each
from ludus_ppo.networks import Unrolled
from ludus_ppo.transfer import StagingBuffer, Transfer, borrow

__all__ = ["Chosen", "RowSource", "Rows", "SequenceSource", "Source", "known"]

_Tensors: TypeAlias = dict[str, Tensor]

_CPU = torch.device("cpu")

_READ = ("observation/", "privileged/")  # by the network

# Of the rows of a batch, how many tell whether it is worth while to compare all, and the least share to be saved.
_SAMPLE = 512
_FEWEST_EQUAL = 0.05

# Equal rows come into one minibatch if they are at most so much of it; more of them are spread over all.
_MOST_TOGETHER = 1 / 256


@frozen(kw_only=True)
class Rows:
    """Decisions to train on, one per row of every tensor; shapes as in `SegmentBatch` less the leading two axes."""

    observation: dict[str, Tensor]  # [≥ n, …]: what follows the n rows only fills up; [T, N, …] where unrolled
    privileged: dict[str, Tensor]  # likewise
    seen: Tensor | None = None  # [n] int64: the rows of both that decisions saw, where these are fewer; None: their own
    unrolled: Unrolled | None = None
    action: Tensor  # [n, L] int64 or [n, D] float32
    action_mask: Tensor | None  # [n, A] bool
    extras: dict[str, Tensor]
    advantage: Tensor  # [n]
    returns: dict[str, Tensor]  # [n] by value head
    weight: Tensor | None = None  # [n] float32: what each counts in means, 1 in all; None: all the same
    count: int  # rows that count: those behind them only fill up and have weight 0

    def named(self) -> dict[str, Tensor]:
        """Return all tensors by name; see `ludus_torch.cuda_graphs.TensorRecord`."""
        unrolled = self.unrolled
        groups = {
            "observation": self.observation,
            "privileged": self.privileged,
            "extras": self.extras,
            "returns": self.returns,
            "state": {} if unrolled is None else unrolled.state,
        }
        named = {f"{group}/{name}": leaf for group, leaves in groups.items() for name, leaf in leaves.items()}
        single = {"seen": self.seen, "action": self.action, "action_mask": self.action_mask}
        single |= {"advantage": self.advantage, "weight": self.weight}
        if unrolled is not None:
            single |= {"starts": unrolled.starts, "kept": unrolled.kept}
        return named | {name: tensor for name, tensor in single.items() if tensor is not None}

    def parts(self) -> Iterator[Rows]:
        """Yield them; see `Chosen`."""
        yield self


class Chosen(Protocol):
    """Rows to make gradient steps of, selected or yet to be."""

    @property
    def count(self) -> int:
        """Return how many rows count, of all steps."""

    def named(self) -> dict[str, Tensor]:
        """Return all tensors by name; see `ludus_torch.cuda_graphs.TensorRecord`."""

    def parts(self) -> Iterator[Rows]:
        """Yield the rows of one step after another."""


@frozen(kw_only=True)
class _Places:
    """Rows of a batch that lies on a GPU, by their numbers; see `Chosen`.

    So they are selected within what is recorded: a GPU computes that faster than it can be asked for.
    """

    batch: dict[str, Tensor]
    index: dict[str, Tensor]  # [steps, …] each
    select: Callable[[_Tensors, _Tensors], Rows]  # of the batch by the index of a step
    count: int

    def named(self) -> dict[str, Tensor]:
        """Return all tensors by name."""
        return self.batch | {f"index/{name}": numbers for name, numbers in self.index.items()}

    def parts(self) -> Iterator[Rows]:
        """Select the rows of one step after another."""
        for numbers in zip(*self.index.values(), strict=True):
            yield self.select(self.batch, dict(zip(self.index, numbers, strict=True)))


class Source(Protocol):
    """A batch that minibatches are taken from."""

    def minibatches(self, rng: np.random.Generator, *, count: int, share: float = 1.0) -> list[np.ndarray]:
        """Return the batch in random order and in `count` parts of about equal size, or fewer if it is small.

        Args:
            rng: Draws the order.
            count: ≥ 1.
            share: Of the decisions of the batch, in (0, 1]; of as many parts.
        """

    def entries(self, part: np.ndarray) -> np.ndarray:
        """Return where the rows of a part come from: t · N + segment each, ``[n] int64``."""

    def take(self, part: np.ndarray) -> Rows:
        """Return copies of the rows of a part on the device."""

    def choose(self, parts: Sequence[np.ndarray]) -> Iterator[Chosen]:
        """Yield the rows of all parts in their order, those of several at once where they are yet to be selected."""

    def pick(self, name: str, device: torch.device = _CPU) -> Tensor:
        """Return copies of one array's rows ``[n, …]`` at all trainable decisions.

        Args:
            name: As in `SegmentBatch.arrays`, or ``"advantage"``, or ``"returns/"`` and a value head.
            device: The CPU, where nobody waits for a GPU, or the device of the source.
        """


class RowSource:
    """Picks rows out of segments, where these lie or on a GPU; see `Source`.

    Parts are entries ``[n] int64``: t · N + segment each.

    Args:
        batch: The segments; they may be views, of read-only memory too, and must not change meanwhile.
        trainable: ``[T+1, N] bool``.
        more: ``[T+1, N] float32`` each: ``"advantage"`` and ``"returns/…"``.
        device: Where rows are wanted.
        few_shapes: Minibatches have sizes of which few occur, and what the network reads is filled up to one of them:
            oneDNN compiles kernels for every shape it meets, and keeps some megabytes of them for each.
        merged: What decisions saw is taken once where several saw the same, if there are enough of these in the batch.
        landing: Where the batch is sent, if it is not too large, for steps that are recorded: so all that is taken has
            one of few sizes, rows of weight 0 following those that are asked for. Nothing else may land there while
            it is learned from.
    """

    def __init__(
        self,
        batch: SegmentBatch,
        *,
        trainable: np.ndarray,
        more: Mapping[str, Tensor],
        device: torch.device,
        few_shapes: bool = False,
        merged: bool = False,
        landing: StagingBuffer | None = None,
    ) -> None:
        tensors = {name: borrow(array) for name, array in batch.arrays().items() if _is_column(name)} | dict(more)
        self._tensors, self._shape = tensors, trainable.shape
        self._transfer = Transfer(device, tensors.values(), landing)
        self._columns = {name: _Column(tensor) for name, tensor in self._transfer.place(tensors).items()}
        self._pitches = {column.pitch for column in self._columns.values()}
        self._rows: dict[int, np.ndarray] = {}
        self._places_chosen: dict[tuple[int, bool], Tensor] = {}  # by pitch, and whether among the given tensors
        self._chosen = np.flatnonzero(trainable)
        self._few_shapes, self._filled = few_shapes, landing is not None
        self._kinds = self._find_kinds(trainable.size) if merged else None

    def _find_kinds(self, entries: int) -> np.ndarray | None:
        """Return the kind of what was seen at every entry that is trained on; None where hardly any see the same."""
        names = [name for name in self._columns if name.startswith(_READ)]
        row_bytes = sum(self._columns[name].rows[0].nbytes for name in names)

        def read(chosen: np.ndarray) -> list[np.ndarray]:
            places = self._places(chosen)
            return [self._pick(name, places).numpy() for name in names]

        size = min(_SAMPLE, self._chosen.size)  # drawn, as decisions that see the same may lie side by side
        for chosen in (np.random.default_rng(0).choice(self._chosen, size, replace=False), self._chosen):
            found = kinds_of(read, chosen, row_bytes=row_bytes)
            if np.count_nonzero(found == np.arange(chosen.size)) > (1 - _FEWEST_EQUAL) * chosen.size:
                return None
        kinds = np.empty(entries, np.int64)
        kinds[self._chosen] = found
        return kinds

    def minibatches(self, rng: np.random.Generator, *, count: int, share: float = 1.0) -> list[np.ndarray]:
        """Return entries in random order; see `Source`."""
        order = self._chosen[rng.permutation(self._chosen.size)]
        order = order[: max(1, round(share * order.size))]
        count = min(count, order.size)
        if self._kinds is not None:
            order = order[_gathered(self._kinds[order], rng, most=int(_MOST_TOGETHER * (order.size // count)))]
        unit = self._unit(order.size // count)
        bounds = np.arange(1, count) * (order.size // unit) // count * unit
        return np.split(order, bounds)

    def _unit(self, rows: int) -> int:
        """Return what sizes of about so many rows should be a multiple of."""
        return 1 << max(0, (rows // 16).bit_length() - 1) if self._few_shapes else 1

    def entries(self, part: np.ndarray) -> np.ndarray:
        """Return the part itself; see `Source`."""
        return part

    def take(self, part: np.ndarray) -> Rows:
        """Return copies of these rows on the device."""
        count, weight, more = part.size, None, {}
        if self._filled:
            part = _filled(part, _few(count))
            weight = self._transfer.weight(count, part.size)
        read, unit = part, self._unit(part.size)
        if self._kinds is not None:
            kept, place = one_of_each(self._kinds[part])
            read, more["seen"] = part[kept], self._transfer.index(place)
            unit = self._unit(2 * part.size)  # their numbers differ more than those of minibatches
        read = _filled(read, read.size + -read.size % unit)
        own = self._places(part)
        of_read = own if read is part else self._places(read)
        picked = {name: self._pick(name, of_read if name.startswith(_READ) else own) for name in self._columns}
        return _as_rows(self._transfer.send(picked | more), weight=weight, count=count)

    def choose(self, parts: Sequence[np.ndarray]) -> Iterator[Chosen]:
        """Yield these rows, at once and by their numbers if the batch lies on a GPU and is to be filled up."""
        if not (self._filled and self._transfer.whole):
            yield from map(self.take, parts)
            return
        (pitch,) = self._pitches  # of all that lands
        rows, size = self._rows_of(pitch), _few(max(part.size for part in parts))
        numbers = np.stack([np.append(rows[_filled(part, size)], part.size) for part in parts])
        columns = {name: column.rows for name, column in self._columns.items()}
        index = {"rows": self._transfer.index(numbers)}
        yield _Places(batch=columns, index=index, select=_rows_at, count=sum(part.size for part in parts))

    def observe(self, part: np.ndarray) -> dict[str, Tensor]:
        """Return copies of the leaves of the observations in these rows, on the device."""
        prefix, places = "observation/", self._places(part)
        return self._transfer.send(
            {name.removeprefix(prefix): self._pick(name, places) for name in self._columns if name.startswith(prefix)}
        )

    def pick(self, name: str, device: torch.device = _CPU) -> Tensor:
        """Return one array at all trainable decisions; see `Source`."""
        given = self._transfer.whole and device.type == "cpu"
        column = _Column(self._tensors[name]) if given else self._columns[name]
        index = self._places_chosen.get((column.pitch, given))
        if index is None:
            rows = self._rows_of(column.pitch)[self._chosen]
            index = torch.from_numpy(rows) if given else self._transfer.index(rows)
            self._places_chosen[column.pitch, given] = index
        return column.rows.index_select(0, index).to(device)

    def _rows_of(self, pitch: int) -> np.ndarray:
        """Return which row of columns with this pitch every entry is."""
        if pitch not in self._rows:
            steps, segments = map(np.arange, self._shape)
            self._rows[pitch] = np.add.outer(steps * pitch, segments).ravel()
        return self._rows[pitch]

    def _places(self, entries: np.ndarray) -> dict[int, Tensor]:
        """Return which rows of columns entries are, by the pitch of these."""
        return {pitch: self._transfer.index(self._rows_of(pitch)[entries]) for pitch in self._pitches}

    def _pick(self, name: str, places: Mapping[int, Tensor]) -> Tensor:
        column = self._columns[name]
        return self._transfer.select(column.rows, 0, places[column.pitch])


class SequenceSource:
    """Takes whole segments, for networks whose state has to be carried through them; see `Source`.

    Parts are numbers of segments ``[n] int64``.

    Args:
        batch: The segments.
        trainable: ``[T+1, N] bool``.
        more: ``[T+1, N] float32`` each: ``"advantage"`` and ``"returns/…"``.
        device: Where rows are wanted.
        burn_in: Entries at the start of every segment that only bring the state up to date; none of them is trainable.
        landing: As for `RowSource`; segments that nothing is learned from follow those that are asked for, too.
    """

    def __init__(
        self,
        batch: SegmentBatch,
        *,
        trainable: np.ndarray,
        more: Mapping[str, Tensor],
        device: torch.device,
        burn_in: int = 0,
        landing: StagingBuffer | None = None,
    ) -> None:
        steps = int(np.flatnonzero(trainable.any(axis=1)).max()) + 1
        learned = trainable[:steps]
        self._counts = learned.sum(axis=0)
        self._segments = np.flatnonzero(self._counts)
        self._learned = learned
        tensors = {name: borrow(array)[:steps] for name, array in batch.arrays().items() if _is_column(name)}
        tensors |= {name: tensor[:steps] for name, tensor in more.items()}
        tensors |= {f"state/{name}": borrow(leaf) for name, leaf in batch.initial_state.items()}
        tensors["starts"], tensors["known"] = (torch.from_numpy(flags(batch)[:steps]) for flags in (_starts, known))
        self._given = tensors
        self._transfer = Transfer(device, tensors.values(), landing)
        self._tensors = dict(self._transfer.place(tensors))
        defined = self._tensors.pop("known")
        for name, tensor in self._tensors.items():
            if name.startswith(_READ) and tensor.dtype is not torch.uint8:  # whatever lies there must be a valid input
                whole = defined.view(*defined.shape, *[1] * (tensor.dim() - 2))
                valid = torch.where(whole, tensor, tensor[:1])
                self._tensors[name] = tensor.copy_(valid) if self._transfer.whole else valid
        self._burn_in, self._filled = burn_in, landing is not None

    def minibatches(self, rng: np.random.Generator, *, count: int, share: float = 1.0) -> list[np.ndarray]:
        """Return segments in random order; see `Source`."""
        order = self._segments[rng.permutation(self._segments.size)]
        decisions = self._counts[order].cumsum()
        order = order[: max(1, int(np.searchsorted(decisions, share * decisions[-1])) + 1)]
        return np.array_split(order, min(count, order.size))

    def entries(self, part: np.ndarray) -> np.ndarray:
        """Return the entries of these segments that are learned from, in the order of `take`; see `Source`."""
        step, column = np.nonzero(self._learned[:, part])
        return np.asarray(step * self._learned.shape[1] + part[column])

    def take(self, part: np.ndarray) -> Rows:
        """Return these segments unrolled, and the rows of their decisions, on the device."""
        segments, kept = self._learned_of(part, _few(part.size) if self._filled else part.size)
        count, weight = kept.size, None
        if self._filled:
            kept = _filled(kept, _few(count))
            weight = self._transfer.weight(count, kept.size)
        index = {"segments": self._transfer.index(segments), "kept": self._transfer.index(kept)}
        taken = self._transfer.send(_unrolled(self._tensors, index, self._transfer.select))
        return _as_rows(taken, weight=weight, count=count, burn_in=self._burn_in)

    def choose(self, parts: Sequence[np.ndarray]) -> Iterator[Chosen]:
        """Yield these segments, at once and by their numbers if the batch lies on a GPU and is to be filled up."""
        if not (self._filled and self._transfer.whole):
            yield from map(self.take, parts)
            return
        size = _few(max(part.size for part in parts))
        learned = [self._learned_of(part, size) for part in parts]
        most = _few(max(kept.size for _, kept in learned))
        numbers = {
            "segments": np.stack([segments for segments, _ in learned]),
            "kept": np.stack([np.append(_filled(kept, most), kept.size) for _, kept in learned]),
        }
        index = {name: self._transfer.index(array) for name, array in numbers.items()}
        select, count = partial(_segments_at, burn_in=self._burn_in), sum(kept.size for _, kept in learned)
        yield _Places(batch=self._tensors, index=index, select=select, count=count)

    def _learned_of(self, part: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return segments, filled up to so many, and which entries of those asked for are learned from."""
        segments = _filled(part, size)
        return segments, np.flatnonzero(self._learned[:, segments] & (np.arange(size) < part.size))

    def pick(self, name: str, device: torch.device = _CPU) -> Tensor:
        """Return one array at all decisions that are learned from; see `Source`."""
        given = self._transfer.whole and device.type == "cpu"
        (step, segment), tensor = np.nonzero(self._learned), (self._given if given else self._tensors)[name]
        numbers = step * tensor.shape[1] + segment
        index = torch.from_numpy(numbers) if given else self._transfer.index(numbers)
        return tensor.flatten(0, 1).index_select(0, index).to(device)


def known(batch: SegmentBatch) -> np.ndarray:
    """Return ``[T+1, N] bool``: entries that hold an observation; what others hold is undefined."""
    entries = np.arange(batch.decided.shape[0])[:, None]
    holds = entries < batch.length
    holds[1:] |= (entries[1:] == batch.length) & ~batch.terminated[:-1]  # bootstrap entries
    holds[:, batch.length == 0] = False
    return np.asarray(holds)


def _starts(batch: SegmentBatch) -> np.ndarray:
    """Return ``[T+1, N] bool``: entries at which a match starts within a segment."""
    starts = np.zeros_like(batch.decided)
    starts[1:] = batch.terminated[:-1] | ~batch.decided[:-1]  # what is not decided is a final observation
    starts &= known(batch)  # a memory that nobody has put back is unrolled through many entries at once
    return starts


class _Column:
    """An array ``[T+1, N, …]`` as rows ``[m, …]`` in the same memory: row t · pitch + segment."""

    def __init__(self, tensor: Tensor) -> None:
        inner = tensor[0, 0]
        step, row = tensor.stride(0), tensor.stride(1)
        if not (inner.is_contiguous() and row >= max(1, inner.numel()) and step % row == 0 and step >= row):
            tensor = tensor.contiguous()
            step, row = tensor.stride(0), tensor.stride(1)
        self.pitch = step // row
        count = (tensor.shape[0] - 1) * self.pitch + tensor.shape[1]
        self.rows = tensor.as_strided((count, *inner.shape), (row, *tensor.stride()[2:]))


def _gathered(kinds: np.ndarray, rng: np.random.Generator, *, most: int) -> np.ndarray:
    """Return a random order ``[n] int64`` in which rows of a kind follow one another, where they are not too many.

    Args:
        kinds: Of every row, ``[n] int64``.
        rng: Draws the order.
        most: A kind of more rows is spread over the whole order like rows of many kinds.
    """
    of_kind, of_row = rng.random(kinds.max() + 1), rng.random(kinds.size)
    return np.argsort(np.where(np.bincount(kinds)[kinds] <= most, of_kind[kinds], of_row))


def _as_rows(taken: Mapping[str, Tensor], *, weight: Tensor | None, count: int, burn_in: int = 0) -> Rows:
    """Return tensors by the names of their columns as rows."""

    def group(prefix: str) -> dict[str, Tensor]:
        return {name[len(prefix) :]: tensor for name, tensor in taken.items() if name.startswith(prefix)}

    unrolled = None
    if "starts" in taken:
        unrolled = Unrolled(state=group("state/"), starts=taken["starts"], burn_in=burn_in, kept=taken["kept"])
    return Rows(
        observation=group("observation/"),
        privileged=group("privileged/"),
        seen=taken.get("seen"),
        unrolled=unrolled,
        action=taken["action"],
        action_mask=taken.get("action_mask"),
        extras=group("extras/"),
        advantage=taken["advantage"],
        returns=group("returns/"),
        weight=weight,
        count=count,
    )


def _unrolled(batch: _Tensors, index: _Tensors, select: Callable[[Tensor, int, Tensor], Tensor]) -> _Tensors:
    """Return whole segments of what a network unrolls, and of the rest the entries that are kept, by their names."""
    taken = {"kept": index["kept"]}
    for name, tensor in batch.items():
        if name.startswith("state/"):
            taken[name] = select(tensor, 0, index["segments"])
        elif name == "starts" or name.startswith(_READ):
            taken[name] = select(tensor, 1, index["segments"])
        else:
            taken[name] = select(tensor.index_select(1, index["segments"]).flatten(0, 1), 0, index["kept"])
    return taken


def _rows_at(batch: _Tensors, index: _Tensors) -> Rows:
    rows, weight = _weighted(index["rows"])
    taken = {name: tensor.index_select(0, rows) for name, tensor in batch.items()}
    return _as_rows(taken, weight=weight, count=len(rows))


def _segments_at(batch: _Tensors, index: _Tensors, *, burn_in: int) -> Rows:
    kept, weight = _weighted(index["kept"])
    taken = _unrolled(batch, index | {"kept": kept}, torch.index_select)
    return _as_rows(taken, weight=weight, count=len(kept), burn_in=burn_in)


def _weighted(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Return all numbers but the last, which says how many of them count, and what each counts in means."""
    count = numbers[-1]
    counts = torch.arange(len(numbers) - 1, device=numbers.device) < count
    return numbers[:-1], counts / count


def _few(count: int) -> int:
    """Return a number that is one of few, at least this and at most an eighth larger."""
    unit = 1 << max(0, (count // 8).bit_length() - 1)
    return count + -count % unit


def _filled(part: np.ndarray, size: int) -> np.ndarray:
    """Return numbers filled up to so many by the last of them."""
    return np.concatenate([part, np.full(size - part.size, part[-1])]) if size > part.size else part


def _is_column(name: str) -> bool:
    return name in ("action", "action_mask") or name.startswith(("observation/", "privileged/", "extras/"))
