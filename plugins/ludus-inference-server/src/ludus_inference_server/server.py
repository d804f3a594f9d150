"""The server without its sockets: takes frames, collects micro-batches, leaves answers in an outbox."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from attrs import define, field
from ludus.errors import LinkError, ModelError, WireError
from ludus.inference import Inference, Span
from ludus.service import Network
from ludus_local.memory import ArraySpec, Layout, SharedFolder, is_running

from ludus_inference_server.batches import Batch, Client, Request, run
from ludus_inference_server.models import Architecture, ModelCache, content_key
from ludus_inference_server.protocol import (
    ClientLeave,
    Done,
    Drop,
    Know,
    Known,
    Lost,
    Message,
    Open,
    Opened,
    Refused,
    Run,
    Take,
    decode,
    encode,
    pack_specs,
    spans_of,
    unpack_specs,
)

__all__ = ["Server", "architecture_key"]

_ACTIVE_S = 0.1  # a process that has asked so recently is likely to ask again
_LOOK_S = 1.0  # between two looks for processes that have ended
_log = logging.getLogger("ludus.inference")


def architecture_key(network: Network) -> str:
    """Return a hash of layers, shapes of weights, heads and inputs: what tells the networks of one player apart."""
    shapes = [(name, tuple(tensor.shape)) for name, tensor in network.module.state_dict().items()]
    words = f"{network.module} {network.request} {shapes}"
    return hashlib.blake2b(words.encode(), digest_size=16).hexdigest()


@define(eq=False, kw_only=True)
class Server:
    """Serves many runtimes and many models.

    Args:
        networks: By player; makes the networks that its policies run.
        make_runtime: Makes what evaluates a network.
        folder: Where answers lie, and the files of others.
        shelf: For models.
        max_rows: A batch of so many rows does not wait.
        deadline_s: No request waits longer for others.
    """

    networks: Mapping[str, Callable[[], Sequence[Network]]]
    make_runtime: Callable[[Network], Inference]
    folder: SharedFolder
    shelf: ModelCache
    max_rows: int
    deadline_s: float
    outbox: list[tuple[str, bytes]] = field(init=False, factory=list)
    counts: Counter[str] = field(init=False, factory=Counter)  # of everything, from the beginning
    waited_s: float = field(init=False, default=0.0)  # of all requests together, for others
    _architectures: dict[tuple[str, str], Architecture] = field(init=False, factory=dict)
    _clients: dict[str, Client] = field(init=False, factory=dict)
    _batches: dict[tuple[int, tuple[str, ...]], Batch] = field(init=False, factory=dict)
    _looked_s: float = field(init=False, default=0.0)

    # -- messages ------------------------------------------------------------------------------------------------

    def handle(self, peer: str, frame: bytes, now_s: float) -> None:
        """Take one frame; what is not a message of a client is counted and dropped."""
        try:
            message = decode(frame)
            if not isinstance(message, Open | Know | Take | Drop | ClientLeave | Run):
                raise WireError(f"{type(message).__name__} is for runtimes")
        except WireError as error:
            self._drop(peer, error)
            return
        client = self._clients.get(peer)
        if isinstance(message, ClientLeave):
            if client is not None:
                self._forget(client)
            return
        if client is not None and message.number <= client.number:  # it is impatient, or late
            if client.reply and message.number == client.number:
                self.outbox.append((peer, client.reply))
            return
        if client is None and not isinstance(message, Open):
            self.outbox.append((peer, encode(Lost(message.number))))
            return
        try:
            answer = (
                self._open(peer, message) if isinstance(message, Open) else self._take(self._clients[peer], message)
            )
        except (WireError, ModelError, LinkError) as error:
            self._drop(peer, error)
            answer = Refused(message.number, str(error)[:1000])
        self._settle(peer, message, answer, now_s)

    def _settle(self, peer: str, message: Message, answer: Message | None, now_s: float) -> None:
        client = self._clients.get(peer)
        reply = b"" if answer is None else encode(answer)
        if client is not None:
            client.number, client.reply, client.asked_s = message.number, reply, now_s
            if isinstance(message, Run) and answer is None:
                self._queue(client, message, now_s)
        if reply:
            self.outbox.append((peer, reply))

    def _drop(self, peer: str, error: Exception) -> None:
        self.counts["dropped"] += 1
        if self.counts["dropped"] & (self.counts["dropped"] - 1) == 0:  # 1, 2, 4 …: no flood in the log
            _log.warning("dropped message %d, from %r: %s", self.counts["dropped"], peer[:64], error)

    # -- clients -------------------------------------------------------------------------------------------------

    def _open(self, peer: str, message: Open) -> Message:
        architecture = self._architecture(message.player, message.architecture)
        owner = peer.rpartition(".")[0]
        layout = unpack_specs(message.specs)
        if not all(spec.shape and spec.shape[0] == message.rows for spec in layout.specs.values()):
            raise WireError(f"an area for {message.rows} rows has leaves with others")
        before = self._clients.get(peer)
        if before is not None and before.architecture is not architecture:
            raise WireError("a runtime runs one network")
        area = self.folder.attach(owner, message.file, layout)
        heads = {**architecture.request.heads, **architecture.request.critic_heads}
        specs = {f"heads/{name}": ArraySpec(dtype="<f4", shape=(message.rows, size)) for name, size in heads.items()}
        specs |= {name: spec for name, spec in layout.specs.items() if name.startswith("state/")}
        answer = self.folder.create(Layout(specs))
        if before is not None:
            self._forget(before)
        self._clients[peer] = Client(
            name=peer,
            pid=int(area.words[1]),
            architecture=architecture,
            area=area,
            answer=answer,
            rows=message.rows,
        )
        return Opened(message.number, answer.name, pack_specs(specs))

    def _architecture(self, player: str, key: str) -> Architecture:
        if player not in self.networks:
            raise WireError(f"there is no player {player[:64]!r}")
        if (player, key) not in self._architectures:
            found = [network for network in self.networks[player]() if architecture_key(network) == key]
            if not found:
                raise WireError(f"{player} has no such network")
            self._architectures[player, key] = Architecture(self.make_runtime(found[0]), found[0].request)
        return self._architectures[player, key]

    def _take(self, client: Client, message: Know | Take | Drop | Run) -> Message | None:
        match message:
            case Run():
                self._check(client, message)
                return None
            case Drop():
                self._release(client, message.slot)
                return Known(message.number, True)
        if isinstance(message, Take) and not self.shelf.has(client.architecture, message.key):
            owner = client.name.rpartition(".")[0]
            weights = self.folder.attach(owner, message.file, unpack_specs(message.specs)).copies[0]
            if content_key(weights) != message.key:
                raise WireError("weights are not what their key says")
            self.shelf.add(client.architecture, message.key, weights)
            self.counts["models_taken"] += 1
        known = self.shelf.has(client.architecture, message.key)
        if known:
            slot = self.shelf.hold(client.architecture, message.key)
            self._release(client, message.slot)
            client.models[message.slot], client.slots[message.slot] = message.key, slot
        return Known(message.number, known)

    def _release(self, client: Client, slot: int) -> None:
        if slot in client.models:
            client.slots.pop(slot)
            self.shelf.release(client.architecture, client.models.pop(slot))
            self.shelf.shrink()

    def _look(self, now_s: float) -> None:
        """Forget runtimes whose processes have ended."""
        if now_s - self._looked_s < _LOOK_S:
            return
        self._looked_s = now_s
        for client in [client for client in self._clients.values() if client.reply and not is_running(client.pid)]:
            self._forget(client)

    def _forget(self, client: Client) -> None:
        for slot in list(client.models):
            self._release(client, slot)
        client.answer.path.unlink(missing_ok=True)
        del self._clients[client.name]

    # -- batches -------------------------------------------------------------------------------------------------

    def _check(self, client: Client, message: Run) -> None:
        spans = spans_of(message)
        if message.rows > client.rows:
            raise WireError(f"{message.rows} rows in an area for {client.rows}")
        if unknown := set(spans[:, 0].tolist()) - client.slots.keys():
            raise WireError(f"slots {sorted(unknown)[:4]} hold no model")

    def _queue(self, client: Client, message: Run, now_s: float) -> None:
        groups = (("privileged",) if message.privileged else ()) + (("state",) if message.state else ())
        spans = [Span(client.slots[slot], start, stop) for slot, start, stop in spans_of(message).tolist()]
        batch = self._batches.setdefault((id(client.architecture), groups), Batch(client.architecture))
        area = {n: leaf for n, leaf in client.area.copies[0].items() if n.partition("/")[0] in ("observation", *groups)}
        batch.requests.append(
            Request(client, message.number, message.rows, spans, area, client.answer.copies[0], now_s)
        )

    def wait_s(self, now_s: float) -> float | None:
        """Return how long the next batch may wait; None where there is none."""
        if not self._batches:
            return None
        return max(0.0, min(batch.since_s for batch in self._batches.values()) + self.deadline_s - now_s)

    def advance(self, now_s: float) -> None:
        """Run every batch that is full, has waited for long enough, or that nobody is left to join."""
        nobody = self._all_wait(now_s)
        for key, batch in list(self._batches.items()):
            if nobody or batch.rows >= self.max_rows or now_s >= batch.since_s + self.deadline_s:
                del self._batches[key]
                self._run(batch, now_s)
        self._look(now_s)

    def _all_wait(self, now_s: float) -> bool:
        """Return whether every process that has asked lately waits for an answer: then no request can come."""
        lately = {client.pid for client in self._clients.values() if now_s - client.asked_s < _ACTIVE_S}
        waiting = {r.client.pid for batch in self._batches.values() for r in batch.requests}
        return lately <= waiting

    def _run(self, batch: Batch, now_s: float) -> None:
        try:
            leaves = run(batch)
        except Exception as error:  # noqa: BLE001 - the code of a network may raise anything; who asked is told
            why, leaves = f"{type(error).__name__}: {error}"[:1000], ()
        else:
            why = ""
        for request in batch.requests:
            answer = Refused(request.number, why) if why else Done(request.number, leaves)
            request.client.reply = encode(answer)
            self.outbox.append((request.client.name, request.client.reply))
            self.waited_s += now_s - request.since_s
        self.counts["rows"] += batch.rows
        self.counts["batches"] += 1
        self.counts["requests"] += len(batch.requests)

    @property
    def clients(self) -> int:
        """Return how many runtimes there are."""
        return len(self._clients)

    @property
    def models(self) -> int:
        """Return how many models there are."""
        return len(self.shelf)
