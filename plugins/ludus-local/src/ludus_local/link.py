"""The link between the workers of one host: messages through an endpoint, blocks and weights in shared memory.

A `HostLink` is a worker's `ludus.launcher.Link` and its `ludus.launcher.SharedMemory`. It takes blocks and weights out
of the messages that pass it if the peer can read them in shared memory, and puts them back in on the other side.
Workers see the same messages in both cases. Links exchange messages of their own::

    learner → sampler    LinkCapabilities         where weights are published, how blocks may be sent; before a credit
    sampler → learner    BlockReference           a block, see `ludus_local.block_transfer`
    sampler → learner    WeightStoreUnavailable   the weight store cannot be mapped; weights have to come in messages
    gateway → learner    CapabilitiesRequest      requests the capabilities without registering as a sampler
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen
from ludus.algorithm import Weights
from ludus.errors import ContractError, LinkError, RunError, WireError
from ludus.launcher import Shapes
from ludus.wire import Credit, Hello, RefusedMessage, Segments, permit

from ludus_local.block_transfer import BlockReference, decode_block, encode_block, transfer_methods
from ludus_local.buffers import BlockBuffer, BufferPool, BufferReader
from ludus_local.codec import MAX_HEADER_BYTES, MAX_TOTAL_BYTES, encode, register
from ludus_local.memory import ArraySpec, SharedFolder
from ludus_local.transport import ZmqEndpoint
from ludus_local.weight_store import WeightStore, WeightStoreReader, weights_layout

_log = logging.getLogger(__name__)


@frozen(kw_only=True)
class LinkCapabilities:
    """What a learner's link supports.

    Attributes:
        methods: Methods by which blocks may be sent besides plain arrays.
        weight_store: Name of the weight store with the newest weights; empty: weights come in messages.
        layout: Layout of the weights.
    """

    methods: tuple[str, ...] = ()
    weight_store: str = ""
    layout: Mapping[str, ArraySpec] = field(factory=dict)


@frozen(kw_only=True)
class WeightStoreUnavailable:
    """A sampler's link cannot map the weight store."""


@frozen(kw_only=True)
class CapabilitiesRequest:
    """Requests the capabilities of a learner's link, without registering as a sampler."""


register(LinkCapabilities, WeightStoreUnavailable, CapabilitiesRequest)
permit(LinkCapabilities, senders=["learner"], receivers=["sampler"], max_bytes=MAX_HEADER_BYTES)
permit(BlockReference, senders=["sampler"], receivers=["learner"], max_bytes=MAX_TOTAL_BYTES, remote=True)
permit(WeightStoreUnavailable, senders=["sampler"], receivers=["learner"], max_bytes=1024, remote=True)
permit(CapabilitiesRequest, senders=["service"], receivers=["learner"], max_bytes=1024)


@define
class _SamplerState:
    """What a learner's link stores of a sampler.

    Attributes:
        pid: Process id.
        reader: Reads its buffers; None without shared memory.
        informed: Whether it was sent the capabilities.
        needs_weights: Whether it needs weights in messages.
        plain_blocks: Whether it must send plain arrays, since no more of its buffers can be mapped.
    """

    pid: int
    reader: BufferReader | None
    informed: bool = False
    needs_weights: bool = False
    plain_blocks: bool = False


@define
class _LearnerState:
    """What a sampler's link stores of a learner.

    Attributes:
        hello: Last registration.
        methods: Methods by which blocks may be sent.
        weights: Weight store of the learner; None if weights come in messages.
        buffers: Unreleased buffers by block number.
    """

    hello: Hello
    methods: tuple[str, ...] = ()
    weights: WeightStoreReader | None = None
    buffers: dict[int, BlockBuffer] = field(factory=dict)


@define(eq=False)
class HostLink:
    """A worker's link and shared memory.

    Args:
        endpoint: Endpoint of the worker; only this link receives from it.
        folder: Shared memory of the worker; None without.
        address: Address at which a learner listens; empty for other workers.
    """

    endpoint: ZmqEndpoint
    folder: SharedFolder | None
    address: str = ""
    _check_block: Callable[[Shapes], None] | None = field(init=False, default=None)
    _samplers: dict[str, _SamplerState] = field(init=False, factory=dict)
    _learners: dict[str, _LearnerState] = field(init=False, factory=dict)
    _pools: dict[str, BufferPool] = field(init=False, factory=dict)  # by player
    _weight_store: WeightStore | None = field(init=False, default=None)
    _out_of_space: bool = field(init=False, default=False)  # for a weight store
    _unreadable: int = field(init=False, default=0)  # blocks in shared memory

    def send(self, peer: str, message: Any) -> bool:
        """Send without blocking; see `ludus.launcher.Link.send`."""
        match message:
            case Segments() if peer in self._learners:
                return self._send_block(self._learners[peer], peer, message)
            case Credit() if peer in self._samplers:
                return self._send_credit(self._samplers[peer], peer, message)
            case Hello() if not self.address:
                self._learners.setdefault(peer, _LearnerState(message)).hello = message
        return self.endpoint.send(peer, message)

    def receive(self, timeout_s: float) -> list[tuple[str, Any]]:
        """Return received messages for the worker as (peer, message), waiting up to `timeout_s` for the first."""
        received = self.endpoint.receive(timeout_s)
        return [(peer, passed) for peer, message in received for passed in self._handle(peer, message)]

    def _handle(self, peer: str, message: Any) -> Iterator[Any]:
        """Handle a message, and yield what is passed on to the worker."""
        match message:
            case LinkCapabilities():
                self._handle_capabilities(peer, message)
                return
            case WeightStoreUnavailable():
                if peer in self._samplers:
                    self._samplers[peer].needs_weights = True
                return
            case CapabilitiesRequest():
                self.endpoint.send(peer, self._capabilities(self._weight_store))
                return
            case BlockReference():
                yield from self._resolve_block(peer, message)
                return
            case Hello():
                self._register_sampler(peer, message.pid)
            case Credit() if peer in self._learners:
                self._handle_credit(self._learners[peer], message)
        yield message

    def close(self) -> None:
        """Close the endpoint."""
        self.endpoint.close()

    # -- learners ----------------------------------------------------------------------------------------------

    def expect_blocks(self, check: Callable[[Shapes], None]) -> None:
        """Check blocks before they are read; see `ludus.launcher.SharedMemory.expect_blocks`."""
        self._check_block = check

    def publish(self, weights: Weights, version: int) -> None:
        """Publish weights in the weight store; see `ludus.launcher.SharedMemory.publish`.

        If the version is not later than the last, as after a resume from a checkpoint, a new store is created; also if
        the weights have another layout, which only the run of a joined host can send.

        Raises:
            RunError: The weights can neither be published nor sent.
        """
        store = self._weight_store
        if store is not None and (version <= store.version or not store.fits(weights)):
            store.file.path.unlink(missing_ok=True)
            self._weight_store = None
            for sampler in self._samplers.values():
                sampler.informed = False
        if self._weight_store is None and self.folder is not None and not self._out_of_space:
            _check_describable(weights)
            try:
                self._weight_store = WeightStore.create(self.folder, weights)
            except LinkError as error:
                self._out_of_space = True
                _log.warning("%s: %s; weights are sent through sockets", self.folder.worker, error)
        if self._weight_store is not None:
            self._weight_store.publish(weights, version)

    def _register_sampler(self, peer: str, pid: int) -> None:
        """Register a sampler: a new process of that name, or one that may have missed the capabilities."""
        known = self._samplers.get(peer)
        if known is None or known.pid != pid:
            self._samplers[peer] = self._new_sampler(peer, pid)
        else:
            known.informed = False

    def _new_sampler(self, peer: str, pid: int) -> _SamplerState:
        return _SamplerState(pid, None if self.folder is None else BufferReader(self.folder, peer))

    def _send_credit(self, sampler: _SamplerState, peer: str, credit: Credit) -> bool:
        """Send a credit, without the weights if the sampler reads the weight store."""
        store = None if sampler.needs_weights else self._weight_store
        if not sampler.informed:
            if not self.endpoint.send(peer, self._capabilities(store, plain_blocks=sampler.plain_blocks)):
                return False
            sampler.informed = True
        return self.endpoint.send(peer, credit if store is None else evolve(credit, weights={}))

    def _capabilities(self, store: WeightStore | None, *, plain_blocks: bool = False) -> LinkCapabilities:
        methods = transfer_methods(self.address, shared=self.folder is not None and not plain_blocks)
        if store is None:
            return LinkCapabilities(methods=methods)
        return LinkCapabilities(methods=methods, weight_store=store.file.name, layout=store.layout.specs)

    def _resolve_block(self, peer: str, reference: BlockReference) -> Iterator[Segments | RefusedMessage]:
        """Yield the block of a reference; one without arrays if it cannot be read, so that the worker counts it."""
        if peer not in self._samplers:
            self._register_sampler(peer, reference.pid)
        sampler = self._samplers[peer]
        if sampler.pid != reference.pid:  # a late block of a process that was replaced
            sampler = self._new_sampler(peer, reference.pid)
        try:
            yield decode_block(reference, sampler.reader, self._check_block)
        except (ContractError, LinkError, WireError) as error:
            if isinstance(error, LinkError):
                sampler.plain_blocks, sampler.informed = True, False  # informed with the next credit
            elif isinstance(error, ContractError) or not reference.buffer:  # buffers of a killed process may be gone
                yield RefusedMessage(str(error))
            self._unreadable += 1
            if self._unreadable.bit_count() == 1:  # 1, 2, 4, 8 …
                _log.warning("unreadable block %d, from %s: %s", self._unreadable, peer, error)
            yield Segments(player=reference.player, block=reference.block, pid=reference.pid)

    # -- samplers ----------------------------------------------------------------------------------------------

    def allocate(self, player: str, shapes: Shapes) -> Mapping[str, np.ndarray] | None:
        """Return the arrays of a free buffer; see `ludus.launcher.SharedMemory.allocate`."""
        if self.folder is None:
            return None
        buffer = self._pools.setdefault(player, BufferPool(self.folder)).allocate(shapes)
        return None if buffer is None else buffer.arrays

    def _send_block(self, learner: _LearnerState, peer: str, block: Segments) -> bool:
        pool = self._pools.get(block.player)
        buffer = None if pool is None else pool.find(block.arrays)
        sent = self.endpoint.send(peer, encode_block(block, buffer, learner.methods))
        if sent and buffer is not None:
            learner.buffers[block.block] = buffer
        return sent

    def _handle_credit(self, learner: _LearnerState, credit: Credit) -> None:
        """Release buffers; blocks of a predecessor of this process were in none of them."""
        if credit.weights:  # from a restarted learner to which this sampler is not registered yet
            learner.weights = None
        if credit.pid == os.getpid():
            for block in [block for block in learner.buffers if block <= credit.released]:
                learner.buffers.pop(block).release()

    def _handle_capabilities(self, peer: str, capabilities: LinkCapabilities) -> None:
        """Map the learner's weight store; request weights in messages if that fails."""
        learner = self._learners.get(peer)
        if learner is None:
            return
        learner.methods = capabilities.methods
        if learner.weights is not None and learner.weights.name == capabilities.weight_store:
            return
        learner.weights = None
        try:
            if capabilities.weight_store:
                learner.weights = self._map_weights(peer, capabilities)
        except (LinkError, WireError) as error:
            _log.warning("%s; weights are received through sockets", error)
            self.endpoint.send(peer, WeightStoreUnavailable())
            self.endpoint.send(peer, learner.hello)

    def _map_weights(self, peer: str, capabilities: LinkCapabilities) -> WeightStoreReader:
        if self.folder is None:
            raise WireError(f"no shared memory to read the weights of {peer} from")
        return WeightStoreReader(self.folder, peer, capabilities.weight_store, capabilities.layout)

    def refresh(self, learner: str, version: int, load: Callable[[Weights, int], None]) -> None:
        """Load newer weights of a learner; see `ludus.launcher.SharedMemory.refresh`."""
        known = self._learners.get(learner)
        if known is not None and known.weights is not None and known.weights.version != version:
            known.weights.load(load)


def _check_describable(weights: Weights) -> None:
    """Check that the layout of weights fits into a message, which every sampler needs.

    Raises:
        RunError: It does not.
    """
    try:
        encode(LinkCapabilities(layout=weights_layout(weights).specs))
    except WireError as error:
        raise RunError(
            f"the {len(weights)} parameters and buffers of the network cannot be sent between processes: {error} — "
            f"use a network of fewer or larger layers, or run.workers = 0"
        ) from None
