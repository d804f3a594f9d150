"""The in-process network: endpoints that hand each other messages, deterministically and without ever waiting.

It stands in for zmq wherever everything runs in one process (``--workers 0``, tests, debuggers) and behaves the same:
what is sent to a peer that is away waits for it, a restarted endpoint takes over its name, a full queue refuses.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import define, field

from ludus import _wire
from ludus._transport import HIGH_WATER, MAX_BATCH, Drops
from ludus._wire import Frame, Message
from ludus.errors import LinkError

__all__ = ["InprocEndpoint", "InprocNetwork"]

_Item: TypeAlias = "Message | Sequence[Frame]"


@define(kw_only=True)
class InprocNetwork:
    """The addresses of one process; any string is an address.

    Args:
        through_wire: Encode and decode every message, as between processes. By default the receiver gets the very
            object that was sent: senders hand over their arrays, as they do with zmq.
        high_water: Messages queued per sender and receiver.
    """

    through_wire: bool = False
    high_water: int = HIGH_WATER
    _bound: dict[str, InprocEndpoint] = field(factory=dict, init=False)
    _guests: dict[str, dict[str, InprocEndpoint]] = field(factory=dict, init=False)  # by address and name

    def endpoint(self, name: str) -> InprocEndpoint:
        """Make the endpoint of a worker; once it connects, an older one of the same name is no longer reached."""
        return InprocEndpoint(name, self)


class InprocEndpoint:
    """One worker's place in an `InprocNetwork`, see `ludus._transport.Endpoint`."""

    def __init__(self, name: str, network: InprocNetwork) -> None:
        self._name = name
        self._network = network
        self._addresses: dict[str, str] = {}  # of the peers this endpoint connects to
        self._away: dict[str, deque[_Item]] = {}  # what waits for those of them that are away
        self._inbox: deque[tuple[str, _Item]] = deque()
        self._queued: Counter[str] = Counter()  # in the inbox, by sender
        self._drops = Drops(name)

    @property
    def drops(self) -> Mapping[str, int]:
        """Return how many received messages were dropped, by reason."""
        return self._drops.counts

    def bind(self, address: str) -> str:
        """Accept peers, see `Endpoint.bind`.

        Raises:
            LinkError: The address is taken.
        """
        if address in self._network._bound:
            raise LinkError(f"{self._name} cannot listen at {address}: address already in use")
        self._network._bound[address] = self
        for guest in self._network._guests.get(address, {}).values():
            guest._deliver_waiting(address)
        return address

    def connect(self, peer: str, address: str) -> None:
        """Reach a peer, see `Endpoint.connect`."""
        self._addresses[peer] = address
        self._away[peer] = deque()
        self._network._guests.setdefault(address, {})[self._name] = self

    def send(self, peer: str, message: Message) -> bool:
        """Send without blocking, see `Endpoint.send`."""
        item: _Item = _wire.encode(message) if self._network.through_wire else message
        if peer not in self._addresses:
            guest, known_as = self._guest(peer)
            return guest is not None and guest._accept(known_as, item)
        address = self._addresses[peer]
        if self._network._guests[address].get(self._name) is not self:  # replaced by a newer endpoint of this name
            return False
        host = self._network._bound.get(address)
        if host is not None:
            return host._accept(self._name, item)
        if len(self._away[peer]) >= self._network.high_water:
            return False
        self._away[peer].append(item)
        return True

    def receive(self, timeout_s: float) -> list[tuple[str, Message]]:  # noqa: ARG002 - nobody could send meanwhile
        """Return what has arrived; never waits, as nobody could send meanwhile."""
        received: list[tuple[str, Message]] = []
        for _ in range(min(len(self._inbox), MAX_BATCH)):
            peer, item = self._inbox.popleft()
            self._queued[peer] -= 1
            message = self._drops.decode(peer, item) if isinstance(item, Sequence) else item
            if message is not None:
                received.append((peer, message))
        return received

    def close(self) -> None:
        """Leave the network; what others sent here is lost."""
        network = self._network
        for address in [address for address, host in network._bound.items() if host is self]:
            del network._bound[address]
        for guests in network._guests.values():
            if guests.get(self._name) is self:
                del guests[self._name]
        self._addresses.clear()
        self._inbox.clear()

    def _guest(self, name: str) -> tuple[InprocEndpoint | None, str]:
        """Return the endpoint of that name connected here, and the name by which it knows this one."""
        for address, host in self._network._bound.items():
            guest = self._network._guests.get(address, {}).get(name)
            if host is self and guest is not None:
                return guest, next(peer for peer, place in guest._addresses.items() if place == address)
        return None, ""

    def _accept(self, sender: str, item: _Item) -> bool:
        if self._queued[sender] >= self._network.high_water:
            return False
        self._queued[sender] += 1
        self._inbox.append((sender, item))
        return True

    def _deliver_waiting(self, address: str) -> None:
        """Deliver what waits for the peer that has just bound `address`; it fits, as the queues are of equal length."""
        for peer, place in self._addresses.items():
            if place == address:
                for item in self._away[peer]:
                    self._network._bound[address]._accept(self._name, item)
                self._away[peer].clear()
