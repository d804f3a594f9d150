"""The way between the workers of one host: messages over an endpoint, what is large in shared memory.

A `HostLink` is a worker's `ludus.launcher.Link` and its `ludus.launcher.SharedMemory`. It takes blocks and weights out
of the messages that pass it, wherever the other side can find them in shared memory, and puts them back in, so
that workers notice nothing of it but the speed::

    learner → sampler    Offer      where weights are shown, and how blocks may come; before the first credit
    sampler → learner    Parcel     a block, see `ludus_local.carriage`
    sampler → learner    Declined   weights cannot be found there, so they have to come in messages
    anybody → learner    Where      asks for the offer, without being a sampler: who takes weights to other hosts does
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from attrs import define, evolve, field, frozen
from ludus.algorithm import Weights
from ludus.errors import ContractError, LinkError, RunError, WireError
from ludus.launcher import Link, Shapes
from ludus.wire import Credit, Hello, Segments

from ludus_local.board import BoardReader, WeightStore, layout_of
from ludus_local.carriage import BlockReference, pack, unpack, ways
from ludus_local.codec import encode, register
from ludus_local.memory import ArraySpec, SharedFolder
from ludus_local.slots import Slot, SlotReader, Slots

__all__ = ["Declined", "Endpoint", "HostLink", "Offer", "Where"]

_log = logging.getLogger(__name__)


@frozen(kw_only=True)
class Offer:
    """A learner's link says what it can do.

    Attributes:
        ways: How blocks may come besides plain arrays.
        board: Name of the shared memory that shows the newest weights; empty: they come in messages.
        layout: What is on the board.
    """

    ways: tuple[str, ...] = ()
    board: str = ""
    layout: Mapping[str, ArraySpec] = field(factory=dict)


@frozen(kw_only=True)
class Declined:
    """A sampler's link cannot see the board."""


@frozen(kw_only=True)
class Where:
    """Somebody who is no sampler asks a learner's link for its offer."""


register(Offer, Declined, Where)


class Endpoint(Link, Protocol):
    """What sends and receives."""

    def receive(self, timeout_s: float) -> list[tuple[str, Any]]:
        """Return what has arrived as (peer, message), waiting at most so long for the first."""

    def close(self) -> None:
        """Free everything."""


@define
class _Sampler:
    """A sampler as its learner's link knows it.

    Attributes:
        pid: Its process.
        reader: Its slots; None without shared memory.
        told: Whether it was made the offer.
        declined: Whether it wants weights in messages.
        plain: Whether its blocks are to come as plain arrays, as no more of its slots can be mapped.
    """

    pid: int
    reader: SlotReader | None
    told: bool = False
    declined: bool = False
    plain: bool = False


@define
class _Learner:
    """A learner as the link of one of its samplers knows it.

    Attributes:
        hello: What was said to it last.
        ways: How blocks may be sent to it.
        board: Where it shows its weights; None where they come in messages.
        held: Slots by the number of the block that lies in them, until it is released.
    """

    hello: Hello
    ways: tuple[str, ...] = ()
    board: BoardReader | None = None
    held: dict[int, Slot] = field(factory=dict)


@define(eq=False)
class HostLink:
    """A worker's link and memory.

    Args:
        endpoint: Its own; nobody else receives from it.
        folder: Its shared memory; None without.
        address: Where a learner listens.
    """

    endpoint: Endpoint
    folder: SharedFolder | None
    address: str = ""
    _samplers: dict[str, _Sampler] = field(init=False, factory=dict)
    _learners: dict[str, _Learner] = field(init=False, factory=dict)
    _slots: dict[str, Slots] = field(init=False, factory=dict)  # by player
    _board: WeightStore | None = field(init=False, default=None)
    _full: bool = field(init=False, default=False)  # there is no space for a board
    _unread: int = field(init=False, default=0)  # blocks in memory that could not be read

    def send(self, peer: str, message: Any) -> bool:
        """Send without waiting; see `ludus.launcher.Link.send`."""
        match message:
            case Segments() if peer in self._learners:
                return self._send_block(self._learners[peer], peer, message)
            case Credit() if peer in self._samplers:
                return self._send_credit(self._samplers[peer], peer, message)
            case Hello() if not self.address:
                self._learners.setdefault(peer, _Learner(message)).hello = message
        return self.endpoint.send(peer, message)

    def receive(self, timeout_s: float) -> list[tuple[str, Any]]:
        """Return what has arrived for the worker as (peer, message), waiting at most so long for the first."""
        arrived = self.endpoint.receive(timeout_s)
        return [(peer, heard) for peer, message in arrived for heard in self._take(peer, message)]

    def _take(self, peer: str, message: Any) -> Iterator[Any]:
        """Yield what the worker is to hear of a message."""
        match message:
            case Offer():
                self._accept(peer, message)
                return
            case Declined():
                if peer in self._samplers:
                    self._samplers[peer].declined = True
                return
            case Where():
                self.endpoint.send(peer, self._offer(self._board))
                return
            case BlockReference():
                message = self._open(peer, message)
            case Hello():
                self._meet(peer, message.pid)
            case Credit() if peer in self._learners:
                self._hear_credit(self._learners[peer], message)
        yield message

    def close(self) -> None:
        """Close the endpoint."""
        self.endpoint.close()

    # -- what a learner does -----------------------------------------------------------------------------------

    def publish(self, weights: Weights, version: int) -> None:
        """Show newer weights on the board; see `ludus.launcher.SharedMemory.publish`.

        Weights that are not of a later version than the last, of a learner that has gone back to a checkpoint, are
        shown on another board.

        Raises:
            RunError: They can neither be shown nor sent.
        """
        if self._board is not None and version <= self._board.version:
            self._board.file.path.unlink(missing_ok=True)
            self._board = None
            for sampler in self._samplers.values():
                sampler.told = False
        if self._board is None and self.folder is not None and not self._full:
            _check_describable(weights)
            try:
                self._board = WeightStore.of(self.folder, weights)
            except LinkError as error:
                self._full = True
                _log.warning("%s: %s; weights travel through sockets", self.folder.worker, error)
        if self._board is not None:
            self._board.publish(weights, version)

    def _meet(self, peer: str, pid: int) -> None:
        """Hear a sampler's hello: it may be a new process of that name, or one that has missed the offer."""
        known = self._samplers.get(peer)
        if known is None or known.pid != pid:
            self._samplers[peer] = self._sampler(peer, pid)
        else:
            known.told = False

    def _sampler(self, peer: str, pid: int) -> _Sampler:
        return _Sampler(pid, None if self.folder is None else SlotReader(self.folder, peer))

    def _send_credit(self, sampler: _Sampler, peer: str, credit: Credit) -> bool:
        """Send a credit, without weights that the sampler finds on the board."""
        shown = None if sampler.declined else self._board
        if not sampler.told:
            if not self.endpoint.send(peer, self._offer(shown, plain=sampler.plain)):
                return False
            sampler.told = True
        return self.endpoint.send(peer, credit if shown is None else evolve(credit, weights={}))

    def _offer(self, shown: WeightStore | None, *, plain: bool = False) -> Offer:
        offer = Offer(ways=ways(self.address, shared=self.folder is not None and not plain))
        return offer if shown is None else evolve(offer, board=shown.file.name, layout=shown.layout.specs)

    def _open(self, peer: str, parcel: BlockReference) -> Segments:
        """Return the block of a parcel; one of nothing, for the worker to count, if the parcel is not what it says."""
        if peer not in self._samplers:
            self._meet(peer, parcel.pid)
        sampler = self._samplers[peer]
        if sampler.pid != parcel.pid:  # the last words of a process that was replaced
            sampler = self._sampler(peer, parcel.pid)
        try:
            return unpack(parcel, sampler.reader)
        except (ContractError, LinkError, WireError) as error:
            if isinstance(error, LinkError):
                sampler.plain, sampler.told = True, False  # it is told with the next credit
            self._unread += 1
            if self._unread.bit_count() == 1:  # 1, 2, 4, 8 …: where memory is not what it should be, all may be so
                _log.warning("unreadable block %d, of %s: %s", self._unread, peer, error)
            return Segments(player=parcel.player, block=parcel.block, pid=parcel.pid)

    # -- what a sampler does -----------------------------------------------------------------------------------

    def allocate(self, player: str, shapes: Shapes) -> Mapping[str, np.ndarray] | None:
        """Return a slot's arrays; see `ludus.launcher.SharedMemory.allocate`."""
        if self.folder is None:
            return None
        slot = self._slots.setdefault(player, Slots(self.folder)).take(shapes)
        return None if slot is None else slot.arrays

    def _send_block(self, learner: _Learner, peer: str, block: Segments) -> bool:
        slots = self._slots.get(block.player)
        slot = None if slots is None else slots.holding(block.arrays)
        sent = self.endpoint.send(peer, pack(block, slot, learner.ways))
        if sent and slot is not None:
            learner.held[block.block] = slot
        return sent

    def _hear_credit(self, learner: _Learner, credit: Credit) -> None:
        """Take back slots that are not read any more; blocks of a predecessor of this process lay in none of ours."""
        if credit.weights:  # of a successor of who made the board, which has not heard of us yet
            learner.board = None
        if credit.pid == os.getpid():
            for block in [block for block in learner.held if block <= credit.released]:
                learner.held.pop(block).release()

    def _accept(self, peer: str, offer: Offer) -> None:
        """Find the learner's board; where that fails, ask for messages."""
        learner = self._learners.get(peer)
        if learner is None:
            return
        learner.ways = offer.ways
        if learner.board is not None and learner.board.name == offer.board:
            return
        learner.board = None
        try:
            if offer.board:
                learner.board = self._reader(peer, offer)
        except (LinkError, WireError) as error:
            _log.warning("%s; they come through sockets", error)
            self.endpoint.send(peer, Declined())
            self.endpoint.send(peer, learner.hello)

    def _reader(self, peer: str, offer: Offer) -> BoardReader:
        if self.folder is None:
            raise WireError(f"no shared memory to find the weights of {peer} in")
        return BoardReader(self.folder, peer, offer.board, offer.layout)

    def refresh(self, learner: str, version: int, load: Callable[[Weights, int], None]) -> None:
        """Load what a learner's board shows; see `ludus.launcher.SharedMemory.refresh`."""
        known = self._learners.get(learner)
        if known is not None and known.board is not None and known.board.version != version:
            known.board.load(load)


def _check_describable(weights: Weights) -> None:
    """Check that a message can name all weights, which every way to samplers begins with."""
    try:
        encode(Offer(layout=layout_of(weights).specs))
    except WireError as error:
        raise RunError(
            f"the {len(weights)} parameters and buffers of the network cannot travel between processes: {error} — "
            f"take a network of fewer or larger layers, or run.workers = 0"
        ) from None
