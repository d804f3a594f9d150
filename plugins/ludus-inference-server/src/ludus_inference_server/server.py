"""The server without its socket: handles frames, collects micro-batches, and puts answers into an outbox."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from attrs import define, field
from ludus.errors import LinkError, ModelError, WireError
from ludus.inference import Inference, Span
from ludus.service import Network
from ludus_local.memory import ArraySpec, Layout, SharedFolder, is_running

from ludus_inference_server import protocol
from ludus_inference_server.batches import Batch, Client, Request, run
from ludus_inference_server.models import Architecture, ModelCache, content_key

_CLIENT_MESSAGES = (
    protocol.RegisterClient,
    protocol.AssignModel,
    protocol.UploadModel,
    protocol.ClearSlot,
    protocol.ClientLeft,
    protocol.EvaluateRequest,
)
_ACTIVE_S = 0.1  # a process that has sent a request so recently is likely to send another
_CHECK_INTERVAL_S = 1.0  # between two checks for processes that have ended
_log = logging.getLogger("ludus.inference")


def architecture_key(network: Network) -> str:
    """Return a hash of layers, shapes of weights, heads and inputs, which distinguishes the networks of a player."""
    shapes = [(name, tuple(tensor.shape)) for name, tensor in network.module.state_dict().items()]
    words = f"{network.module} {network.request} {shapes}"
    return hashlib.blake2b(words.encode(), digest_size=16).hexdigest()


@define(eq=False, kw_only=True)
class Server:
    """Evaluates the networks of many clients and models.

    Args:
        networks: By player: a function that makes the networks of its policies.
        make_runtime: Makes the runtime of a network.
        folder: Shared memory of answers and requests.
        model_cache: The models.
        max_rows: Rows from which on a batch does not wait.
        deadline_s: Longest time that a request waits for others.

    Attributes:
        outbox: Frames to send, as (client, frame).
        counts: Counters of rows, batches, requests, models and dropped messages.
        waited_s: Time that all requests together have waited for others.
    """

    networks: Mapping[str, Callable[[], Sequence[Network]]]
    make_runtime: Callable[[Network], Inference]
    folder: SharedFolder
    model_cache: ModelCache
    max_rows: int
    deadline_s: float
    outbox: list[tuple[str, bytes]] = field(init=False, factory=list)
    counts: Counter[str] = field(init=False, factory=Counter)
    waited_s: float = field(init=False, default=0.0)
    _architectures: dict[tuple[str, str], Architecture] = field(init=False, factory=dict)
    _clients: dict[str, Client] = field(init=False, factory=dict)
    _batches: dict[tuple[int, tuple[str, ...]], Batch] = field(init=False, factory=dict)
    _checked_s: float = field(init=False, default=0.0)

    # -- messages ------------------------------------------------------------------------------------------------

    def handle(self, peer: str, frame: bytes, now_s: float) -> None:
        """Handle one frame; invalid messages are counted and dropped."""
        try:
            message = protocol.decode(frame)
            if not isinstance(message, _CLIENT_MESSAGES):
                raise WireError(f"{type(message).__name__} is a message of the server")
        except WireError as error:
            self._count_dropped(peer, error)
            return
        client = self._clients.get(peer)
        if isinstance(message, protocol.ClientLeft):
            if client is not None:
                self._remove_client(client)
        elif client is not None and message.number <= client.number:
            self._repeat_reply(client, message.number)
        elif isinstance(message, protocol.RegisterClient):
            answer = self._answer(peer, partial(self._register, peer, message), message)
            self._reply(peer, message, answer, now_s)
        elif client is None:
            self.outbox.append((peer, protocol.encode(protocol.UnknownClient(message.number))))
        else:
            self._reply(
                peer, message, self._answer(peer, partial(self._handle_client, client, message), message), now_s
            )

    def _repeat_reply(self, client: Client, number: int) -> None:
        """Send the reply to the last request again; older requests are ignored."""
        if client.reply and number == client.number:
            self.outbox.append((client.name, client.reply))

    def _answer(
        self, peer: str, handler: Callable[[], protocol.Message | None], message: protocol.Message
    ) -> protocol.Message | None:
        """Return the answer of a handler; a rejection if it raises."""
        try:
            return handler()
        except (WireError, ModelError, LinkError) as error:
            self._count_dropped(peer, error)
            return protocol.RequestRejected(message.number, str(error)[:1000])

    def _reply(self, peer: str, message: protocol.Message, answer: protocol.Message | None, now_s: float) -> None:
        client = self._clients.get(peer)
        reply = b"" if answer is None else protocol.encode(answer)
        if client is not None:
            client.number, client.reply, client.asked_s = message.number, reply, now_s
            if isinstance(message, protocol.EvaluateRequest) and answer is None:
                self._enqueue(client, message, now_s)
        if reply:
            self.outbox.append((peer, reply))

    def _count_dropped(self, peer: str, error: Exception) -> None:
        self.counts["dropped"] += 1
        if self.counts["dropped"].bit_count() == 1:  # 1, 2, 4, 8 …
            _log.warning("dropped message %d, from %r: %s", self.counts["dropped"], peer[:64], error)

    # -- clients -------------------------------------------------------------------------------------------------

    def _register(self, peer: str, message: protocol.RegisterClient) -> protocol.Message:
        architecture = self._architecture(message.player, message.architecture)
        owner = peer.rpartition(".")[0]
        layout = protocol.unpack_specs(message.specs)
        if not all(spec.shape and spec.shape[0] == message.rows for spec in layout.specs.values()):
            raise WireError(f"request buffer for {message.rows} rows: a leaf has another number of rows")
        before = self._clients.get(peer)
        if before is not None and before.architecture is not architecture:
            raise WireError("a client evaluates one network")
        area = self.folder.attach(owner, message.file, layout)
        heads = {**architecture.request.heads, **architecture.request.critic_heads}
        specs = {f"heads/{name}": ArraySpec(dtype="<f4", shape=(message.rows, size)) for name, size in heads.items()}
        specs |= {name: spec for name, spec in layout.specs.items() if name.startswith("state/")}
        answer = self.folder.create(Layout(specs))
        if before is not None:
            self._remove_client(before)
        self._clients[peer] = Client(
            name=peer,
            pid=int(area.words[1]),
            architecture=architecture,
            area=area,
            answer=answer,
            rows=message.rows,
        )
        return protocol.ClientRegistered(message.number, answer.name, protocol.pack_specs(specs))

    def _architecture(self, player: str, key: str) -> Architecture:
        if player not in self.networks:
            raise WireError(f"there is no player {player[:64]!r}")
        if (player, key) not in self._architectures:
            found = [network for network in self.networks[player]() if architecture_key(network) == key]
            if not found:
                raise WireError(f"{player} has no such network")
            self._architectures[player, key] = Architecture(self.make_runtime(found[0]), found[0].request)
        return self._architectures[player, key]

    def _handle_client(
        self,
        client: Client,
        message: protocol.AssignModel | protocol.UploadModel | protocol.ClearSlot | protocol.EvaluateRequest,
    ) -> protocol.Message | None:
        """Handle a request of a client, and return the answer; None for an evaluation, which is answered later."""
        match message:
            case protocol.EvaluateRequest():
                self._check(client, message)
                return None
            case protocol.ClearSlot():
                self._release(client, message.slot)
                return protocol.ModelStatus(message.number, True)
        if isinstance(message, protocol.UploadModel) and not self.model_cache.has(client.architecture, message.key):
            owner = client.name.rpartition(".")[0]
            weights = self.folder.attach(owner, message.file, protocol.unpack_specs(message.specs)).copies[0]
            if content_key(weights) != message.key:
                raise WireError("weights do not match their key")
            self.model_cache.add(client.architecture, message.key, weights)
            self.counts["models_taken"] += 1
        available = self.model_cache.has(client.architecture, message.key)
        if available:
            slot = self.model_cache.hold(client.architecture, message.key)
            self._release(client, message.slot)
            client.models[message.slot], client.slots[message.slot] = message.key, slot
        return protocol.ModelStatus(message.number, available)

    def _release(self, client: Client, slot: int) -> None:
        if slot in client.models:
            client.slots.pop(slot)
            self.model_cache.release(client.architecture, client.models.pop(slot))
            self.model_cache.shrink()

    def _remove_ended(self, now_s: float) -> None:
        """Remove clients whose processes have ended."""
        if now_s - self._checked_s < _CHECK_INTERVAL_S:
            return
        self._checked_s = now_s
        for client in [client for client in self._clients.values() if client.reply and not is_running(client.pid)]:
            self._remove_client(client)

    def _remove_client(self, client: Client) -> None:
        for slot in list(client.models):
            self._release(client, slot)
        client.answer.path.unlink(missing_ok=True)
        del self._clients[client.name]

    # -- batches -------------------------------------------------------------------------------------------------

    def _check(self, client: Client, message: protocol.EvaluateRequest) -> None:
        spans = protocol.decode_spans(message)
        if message.rows > client.rows:
            raise WireError(f"{message.rows} rows, the request buffer has {client.rows}")
        if unknown := set(spans[:, 0].tolist()) - client.slots.keys():
            raise WireError(f"slots {sorted(unknown)[:4]} hold no model")

    def _enqueue(self, client: Client, message: protocol.EvaluateRequest, now_s: float) -> None:
        groups = (("privileged",) if message.privileged else ()) + (("state",) if message.state else ())
        spans = [Span(client.slots[slot], start, stop) for slot, start, stop in protocol.decode_spans(message).tolist()]
        batch = self._batches.setdefault((id(client.architecture), groups), Batch(client.architecture))
        area = {n: leaf for n, leaf in client.area.copies[0].items() if n.partition("/")[0] in ("observation", *groups)}
        batch.requests.append(
            Request(client, message.number, message.rows, spans, area, client.answer.copies[0], now_s)
        )

    def wait_s(self, now_s: float) -> float | None:
        """Return how long the next batch may wait; None without a batch."""
        if not self._batches:
            return None
        return max(0.0, min(batch.since_s for batch in self._batches.values()) + self.deadline_s - now_s)

    def advance(self, now_s: float) -> None:
        """Run every batch that is full, has reached its deadline, or that no further request can join."""
        all_wait = self._all_wait(now_s)
        for key, batch in list(self._batches.items()):
            if all_wait or batch.rows >= self.max_rows or now_s >= batch.since_s + self.deadline_s:
                del self._batches[key]
                self._run(batch, now_s)
        self._remove_ended(now_s)

    def _all_wait(self, now_s: float) -> bool:
        """Return whether every process with a recent request waits for an answer; then no request can arrive."""
        active = {client.pid for client in self._clients.values() if now_s - client.asked_s < _ACTIVE_S}
        waiting = {r.client.pid for batch in self._batches.values() for r in batch.requests}
        return active <= waiting

    def _run(self, batch: Batch, now_s: float) -> None:
        try:
            leaves = run(batch)
        except Exception as error:  # noqa: BLE001 - the code of a network may raise anything; the clients get the error
            error_text, leaves = f"{type(error).__name__}: {error}"[:1000], ()
        else:
            error_text = ""
        for request in batch.requests:
            answer = (
                protocol.RequestRejected(request.number, error_text)
                if error_text
                else protocol.EvaluateResult(request.number, leaves)
            )
            request.client.reply = protocol.encode(answer)
            self.outbox.append((request.client.name, request.client.reply))
            self.waited_s += now_s - request.since_s
        self.counts["rows"] += batch.rows
        self.counts["batches"] += 1
        self.counts["requests"] += len(batch.requests)

    @property
    def clients(self) -> int:
        """Return the number of clients."""
        return len(self._clients)

    @property
    def models(self) -> int:
        """Return the number of models."""
        return len(self.model_cache)
