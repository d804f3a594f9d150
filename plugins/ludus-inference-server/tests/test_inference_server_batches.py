"""The server collects requests into batches, by a clock that the tests set."""

from __future__ import annotations

import os
from contextlib import ExitStack

import numpy as np
import pytest
from ludus.inference import Eager, Outputs
from ludus_inference_server.models import ModelCache, content_key
from ludus_inference_server.protocol import (
    AssignModel,
    ClearSlot,
    ClientRegistered,
    EvaluateRequest,
    EvaluateResult,
    ModelStatus,
    RegisterClient,
    RequestRejected,
    UnknownClient,
    UploadModel,
    decode,
    encode,
    pack_specs,
    unpack_specs,
)
from ludus_inference_server.server import Server, architecture_key
from ludus_local.memory import ArraySpec, Layout, SharedFolder, remove
from ludus_local.transport import private_ipc_dir

ALIVE = (os.getpid(), os.getppid(), 1)  # three processes that do not end meanwhile
DEAD = 2**22 + 1
ROWS = 64


class GraphedCallable(Eager):
    """Remembers what it was asked."""

    def __init__(self, network, calls):
        super().__init__(*network)
        self.calls = calls

    def run(self, observation, *, privileged, state, spans=()):
        self.calls.append((len(observation["board"]), list(spans), sorted(privileged)))
        outputs = super().run(observation, privileged=privileged, state=state, spans=spans)
        return Outputs({name: head + 0.0 for name, head in outputs.heads.items()}, outputs.state)


class Peer:
    """The frames of a runtime, one after the other."""

    def __init__(self, room, name, pid, *, player="main"):
        self.room, self.name, self.number = room, f"{name}.{pid}", 0
        self.folder = SharedFolder(room.folder.path, name)
        observation, privileged = room.rows(ROWS)
        leaves = {f"observation/{k}": v for k, v in observation.items()}
        leaves |= {f"privileged/{k}": v for k, v in privileged.items()}
        self.layout = Layout({k: ArraySpec(dtype=v.dtype.str, shape=v.shape) for k, v in leaves.items()})
        self.area = self.folder.create(self.layout)
        self.area.words[1] = pid
        for key, leaf in leaves.items():
            self.area.copies[0][key][:] = leaf
        opened = self.request(
            RegisterClient, player, room.architecture, self.area.name, pack_specs(self.layout.specs), ROWS
        )
        self.answer = room.folder.attach("service", opened.file, unpack_specs(opened.specs)).copies[0]

    def request(self, kind, *fields):
        """Send a message and return the answer, None if there is none yet."""
        self.number += 1
        return self.repeat(kind(self.number, *fields))

    def repeat(self, message):
        self.room.server.handle(self.name, encode(message), self.room.now_s)
        return self.room.received(self.name)

    def give(self, slot, weights):
        """Put a model into a slot."""
        key = content_key(weights)
        if self.request(AssignModel, slot, key).available:
            return
        layout = Layout.of({name: (array.shape, array.dtype) for name, array in weights.items()})
        file = self.folder.create(layout)
        for name, array in file.copies[0].items():
            array[...] = weights[name]
        assert self.request(UploadModel, slot, key, file.name, pack_specs(layout.specs)).available

    def ask(self, *spans, privileged=True):
        """Ask for rows."""
        table = np.array(spans, np.int64)
        return self.request(EvaluateRequest, int(table[-1, 2]), table.tobytes(), privileged, False)


class Room:
    """A server with recorded runtimes, and peers."""

    def __init__(self, mlp, rows, folder, *, max_rows=100, deadline_s=0.002, budget_bytes=2**20):
        self.rows, self.calls, self.now_s, self.folder = rows, [], 10.0, SharedFolder(folder, "service")
        self.architecture = architecture_key(mlp())
        self.server = Server(
            networks={"main": lambda: [mlp()], "other": lambda: [mlp()]},
            make_runtime=lambda network: GraphedCallable(network, self.calls),
            folder=self.folder,
            model_cache=ModelCache(budget_bytes),
            max_rows=max_rows,
            deadline_s=deadline_s,
        )

    def received(self, name):
        """Return the last answer to a peer."""
        answers = [decode(frame) for peer, frame in self.server.outbox if peer == name]
        self.server.outbox = [(peer, frame) for peer, frame in self.server.outbox if peer != name]
        return answers[-1] if answers else None

    def advance(self, seconds=0.0):
        """Let time pass, and return the number of rows of each batch that was run."""
        self.now_s += seconds
        before = len(self.calls)
        self.server.advance(self.now_s)
        return [rows for rows, _, _ in self.calls[before:]]


@pytest.fixture
def room(mlp, rows):
    """Return a maker of servers."""
    with ExitStack() as stack:

        def make(**options):
            sockets = private_ipc_dir()
            folder = SharedFolder.beside(sockets, "service")  # held: runs of other processes would take it for stale
            for path in (sockets, folder.path):
                stack.callback(remove, path)
            return Room(mlp, rows, folder.path, **options)

        yield make


@pytest.fixture
def peers(room, weights):
    """Return a maker of a room and two peers in two processes that have a model and asked a moment ago."""

    def make(**options):
        made = room(**options)
        both = [Peer(made, f"sampler-{i}", pid) for i, pid in enumerate(ALIVE[:2])]
        for peer in both:
            peer.give(0, weights(0))
        return made, *both

    return make


def test_a_single_process_does_not_wait(room, weights):
    """No other request can arrive."""
    made = room()
    peer = Peer(made, "sampler-0", ALIVE[0])
    peer.give(0, weights(0))
    assert peer.ask((0, 0, 5)) is None
    assert made.advance() == [5]
    assert isinstance(made.received(peer.name), EvaluateResult)


def test_clients_of_one_process_do_not_wait_for_each_other(room, weights):
    """A sampler sends one request at a time."""
    made = room()
    live, frozen = (Peer(made, name, ALIVE[0]) for name in ("sampler-0-net0", "sampler-0-net1"))
    for peer in (live, frozen):
        peer.give(0, weights(0))
    live.ask((0, 0, 5))
    assert made.advance() == [5]


def test_requests_wait_for_other_processes(peers):
    """They become one batch, with one span per model."""
    room, first, second = peers()
    first.ask((0, 0, 5))
    assert room.advance() == []
    second.ask((0, 0, 7))
    assert room.advance() == [12]
    assert room.calls[-1][1] == [(0, 0, 12)]


def test_no_request_waits_longer_than_the_deadline(peers):
    """From the first request on."""
    room, first, second = peers(deadline_s=0.002)
    first.ask((0, 0, 5))
    assert room.server.wait_s(room.now_s) == pytest.approx(0.002)
    assert room.advance(0.001) == []
    assert room.advance(0.0011) == [5]
    second.ask((0, 0, 7))
    assert room.advance() == []
    assert room.server.wait_s(room.now_s) == pytest.approx(0.002)


def test_a_full_batch_does_not_wait(room, weights):
    """Even if a third process may send a request."""
    made = room(max_rows=12)
    first, second, _ = (Peer(made, f"sampler-{i}", pid) for i, pid in enumerate(ALIVE))
    for peer in (first, second):
        peer.give(0, weights(0))
    first.ask((0, 0, 5))
    assert made.advance() == []
    second.ask((0, 0, 7))
    assert made.advance() == [12]


def test_a_large_request_is_not_split(peers):
    """It may have more rows than a batch."""
    room, first, _ = peers(max_rows=12)
    first.ask((0, 0, 60))
    assert room.advance() == [60]


def test_inactive_processes_are_not_waited_for(peers):
    """They have sent no recent request."""
    room, first, _ = peers(deadline_s=1.0)
    room.now_s += 0.2
    first.ask((0, 0, 5))
    assert room.advance() == [5]


def test_rows_are_grouped_by_model(peers, weights, mlp):
    """Every row is evaluated by its own model."""
    room, first, second = peers()
    first.give(1, weights(1))
    second.give(7, weights(1))
    second.give(3, weights(2))
    first.ask((1, 0, 4), (0, 4, 10))
    second.ask((0, 0, 2), (3, 2, 5), (7, 5, 9))
    assert room.advance() == [19]
    assert [(span.slot, span.stop - span.start) for span in room.calls[-1][1]] == [(0, 8), (1, 8), (2, 3)]
    observation, privileged = room.rows(ROWS)
    for peer, spans in ((first, [(1, 0, 4), (0, 4, 10)]), (second, [(0, 0, 2), (2, 2, 5), (1, 5, 9)])):
        assert room.received(peer.name).leaves == ("heads/policy", "heads/value")
        for seed, start, stop in spans:
            alone = Eager(*mlp(seed)).run(observation, privileged=privileged, state={})
            for name, head in alone.heads.items():
                np.testing.assert_allclose(peer.answer[f"heads/{name}"][start:stop], head[start:stop], atol=1e-5)


def test_different_requests_are_separate_batches(peers, weights):
    """With and without privileged leaves, and of other players' networks."""
    room, first, second = peers()
    third = Peer(room, "sampler-2", ALIVE[2], player="other")
    third.give(0, weights(0))
    first.ask((0, 0, 2))
    second.ask((0, 0, 3), privileged=False)
    third.ask((0, 0, 4))
    assert sorted(room.advance()) == [2, 3, 4]
    assert room.received(second.name).leaves == ("heads/policy",)


def test_a_repeated_request_is_evaluated_once(peers):
    """A lost answer is sent again."""
    room, first, _ = peers()
    first.ask((0, 0, 5))
    message = EvaluateRequest(first.number, 5, np.array([[0, 0, 5]]).tobytes(), True, False)
    assert first.repeat(message) is None
    assert room.advance(1.0) == [5]
    assert isinstance(room.received(first.name), EvaluateResult)
    assert isinstance(first.repeat(message), EvaluateResult)
    assert room.advance(1.0) == []


def test_an_earlier_request_is_ignored(peers):
    """The client has sent another one since."""
    _, first, _ = peers()
    assert first.repeat(AssignModel(1, 0, "key")) is None


def test_an_unknown_client_has_to_register(room):
    """An earlier server process may have known it."""
    made = room()
    made.server.handle("sampler-9.1", encode(AssignModel(4, 0, "key")), 0.0)
    assert made.received("sampler-9.1") == UnknownClient(4)


def test_a_failing_network_rejects_all_requests_of_the_batch(peers):
    """The next batch is evaluated."""
    room, first, second = peers()
    first.ask((0, 0, 5))
    second.ask((0, 0, 5))
    room.server._batches[next(iter(room.server._batches))].architecture.runtime.calls = None
    assert room.advance() == []
    assert all("AttributeError" in room.received(peer.name).reason for peer in (first, second))


def test_clients_of_ended_processes_are_removed(room, weights):
    """With their answer files, and models that only they used."""
    made = room(budget_bytes=0)
    gone, stays = Peer(made, "sampler-0", DEAD), Peer(made, "sampler-1", ALIVE[0])
    gone.give(0, weights(0))
    gone.give(1, weights(1))
    stays.give(0, weights(1))
    files = len(list(made.folder.path.glob("service.*")))
    made.advance(2.0)
    assert (made.server.clients, made.server.models) == (1, 1)
    assert len(list(made.folder.path.glob("service.*"))) == files - 1
    assert stays.request(AssignModel, 1, content_key(weights(1))) == ModelStatus(stays.number, True)


def test_unused_models_are_removed_beyond_the_limit(room, weights):
    """The slot is reused."""
    made = room(budget_bytes=0)
    peer = Peer(made, "sampler-0", ALIVE[0])
    peer.give(0, weights(0))
    peer.give(1, weights(1))
    peer.request(ClearSlot, 1)
    assert made.server.models == 1
    assert isinstance(peer.ask((1, 0, 2)), RequestRejected)
    peer.give(2, weights(2))
    peer.ask((2, 0, 2))
    made.advance()
    assert made.calls[-1][1] == [(1, 0, 2)]


def test_assigning_a_slot_releases_its_last_model(room, weights):
    """As with every version of a live player."""
    made = room(budget_bytes=0)
    peer = Peer(made, "sampler-0", ALIVE[0])
    for seed in range(3):
        peer.give(0, weights(seed))
    assert made.server.models == 1


def test_weights_must_match_their_key(peers, weights):
    """Other clients would get them under that key."""
    _, first, second = peers()
    layout = Layout.of({name: (array.shape, array.dtype) for name, array in weights(1).items()})
    file = first.folder.create(layout)
    key = content_key(weights(1))
    assert "their key" in first.request(UploadModel, 1, key, file.name, pack_specs(layout.specs)).reason
    assert not second.request(AssignModel, 1, key).available


SPECS = (("observation/board", "<f4", (ROWS, 7)),)
BAD = {
    "too many rows": lambda peer: (EvaluateRequest, ROWS + 1, np.array([[0, 0, ROWS + 1]]).tobytes(), True, False),
    "no spans": lambda peer: (EvaluateRequest, 4, b"", True, False),
    "half a span": lambda peer: (EvaluateRequest, 4, b"1234567", True, False),
    "rows left over": lambda peer: (EvaluateRequest, 4, np.array([[0, 0, 3]]).tobytes(), True, False),
    "a gap": lambda peer: (EvaluateRequest, 4, np.array([[0, 0, 1], [0, 2, 4]]).tobytes(), True, False),
    "backwards": lambda peer: (EvaluateRequest, 1, np.array([[0, 0, 3], [0, 3, 1]]).tobytes(), True, False),
    "a slot without a model": lambda peer: (EvaluateRequest, 4, np.array([[5, 0, 4]]).tobytes(), True, False),
    "a file of others": lambda peer: (UploadModel, 1, "key", "service.1.0", SPECS),
    "a file elsewhere": lambda peer: (UploadModel, 1, "key", f"{peer.name.split('.')[0]}.1./../x", SPECS),
    "a file of another size": lambda peer: (UploadModel, 1, "key", peer.area.name, SPECS),
    "another network": lambda peer: (
        RegisterClient,
        "main",
        "key",
        peer.area.name,
        pack_specs(peer.layout.specs),
        ROWS,
    ),
    "another number of rows": lambda peer: (
        *(RegisterClient, "main", peer.room.architecture, peer.area.name, pack_specs(peer.layout.specs), ROWS // 2),
    ),
    "another player": lambda peer: (
        *(RegisterClient, "other", peer.room.architecture, peer.area.name, pack_specs(peer.layout.specs), ROWS),
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_an_invalid_request_is_rejected_and_counted(peers, bad):
    """It has no effect, and the client can go on."""
    room, first, _ = peers()
    kind, *fields = BAD[bad](first)
    assert isinstance(first.request(kind, *fields), RequestRejected)
    assert room.server.counts["dropped"] == 1
    assert first.ask((0, 0, 4)) is None
    assert room.advance(1.0) == [4]


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"LUDI\x01",
        b"LUDI\x01\xc1",
        b"garbage" * 99,
        encode(ClientRegistered(1, "f", ())),
        encode(UnknownClient(1)) + b"x",
    ],
)
def test_invalid_messages_are_counted(peers, frame):
    """Also messages of a server."""
    room, first, _ = peers()
    room.server.handle(first.name, frame, room.now_s)
    assert room.server.counts["dropped"] == 1
    assert room.received(first.name) is None
