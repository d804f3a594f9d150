"""Hostile peers at the real sockets of a coordinator and a learner: refused before any work is done, then cut off."""

from __future__ import annotations

import resource
import shutil
import time

import attrs
import msgpack
import numpy as np
import pytest
import zmq
from attrs import evolve
from hypothesis import HealthCheck, given, settings, strategies
from ludus._messaging.refusals import MAX_REFUSALS
from ludus._run.worker_factories import make_worker
from ludus.launcher import COORDINATOR, WorkerContext
from ludus.testing import league_runner
from ludus.wire import MESSAGES, FixtureRequest, Hello, Results, Segments
from ludus_local import codec
from ludus_local.block_transfer import LZ4, BlockReference
from ludus_local.link import HostLink
from ludus_local.memory import ArraySpec
from ludus_local.transport import ZmqEndpoint, ipc_address, private_ipc_dir

PATIENCE_S = 60.0


@pytest.fixture
def sockets():
    """Return a private folder for sockets."""
    made = private_ipc_dir()
    yield made
    shutil.rmtree(made)


@pytest.fixture
def runner(tmp_path):
    """Return a league whose workers run in this process."""
    player = {"algorithm": "dummy-gradient", "matchmaker": "dummy-uniform"}
    tables = {
        "run": {"seed": 1},
        "environment": {"name": "dummy-count"},
        "sampling": {"matches": 4},
        "players": {"main": player, "other": player},
    }
    with league_runner(tables, tmp_path / "run") as made:
        yield made


class Peer:
    """A peer that claims a name and sends whatever it likes."""

    def __init__(self, address, name):
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IDENTITY, name.encode())
        self._socket.setsockopt(zmq.LINGER, 2000)
        self._socket.connect(address)

    def send(self, message):
        self.send_frames(codec.encode(message))

    def send_frames(self, frames):
        self._socket.send_multipart(frames)

    def close(self):
        self._context.destroy(linger=2000)


@pytest.fixture
def learner(runner, sockets):
    """Return a learner that has been welcomed, its link, and a hostile sampler."""
    endpoint = ZmqEndpoint("learner-main")
    link = HostLink(endpoint, None, address=endpoint.bind(ipc_address(sockets, "learner-main")))
    reported = ZmqEndpoint(COORDINATOR)
    reported.bind(ipc_address(sockets, COORDINATOR))
    endpoint.connect(COORDINATOR, ipc_address(sockets, COORDINATOR))
    worker = make_worker(runner._context(), "learner-main", WorkerContext(link=link, clock=time.monotonic, memory=link))
    peer = Peer(ipc_address(sockets, "learner-main"), "sampler-box-0")
    yield worker, link, peer, reported
    peer.close()
    worker.close()
    link.close()
    reported.close()


def take(link, count):
    """Receive messages until there are so many."""
    received, deadline_s = [], time.monotonic() + PATIENCE_S
    while len(received) < count:
        assert time.monotonic() < deadline_s
        received += link.receive(0.05)
    return received


def bombs(layout, segments):
    """Return the layout of a block with so many segments, and its arrays compressed: all zeros."""
    lz4 = pytest.importorskip("lz4.block")
    specs, arrays = {}, {}
    for name, (shape, dtype) in layout.block_shapes(segments).items():
        size = int(np.prod(shape)) * dtype.itemsize
        specs[name] = ArraySpec(dtype=dtype.str, shape=shape)
        arrays[name] = np.frombuffer(lz4.compress(bytes(size), store_size=False), np.uint8)
    return specs, arrays


def test_compressed_blocks_that_are_too_large_are_never_decompressed(learner):
    """Eight small messages declare a gigabyte each; memory grows by less than the messages take ten times over."""
    worker, link, peer, _ = learner
    specs, arrays = bombs(worker.layout, 3_000)
    factor = 300  # declares many more segments than are there: the sizes alone are checked
    specs = {
        name: evolve(spec, shape=tuple(size * factor if size == 3_000 else size for size in spec.shape))
        for name, spec in specs.items()
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(8):
        peer.send(BlockReference(player="main", block=number, pid=1, layout=specs, arrays=arrays, compression=LZ4))
    started_s = time.process_time()
    for who, message in take(link, 16):
        worker.handle(who, message)
    assert time.process_time() - started_s < 2.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB
    assert worker.refusals.total == worker.state.metrics.drops["dropped_malformed"] == 8


@pytest.mark.parametrize("wrong", ["name", "dtype", "axis", "segments"])
def test_blocks_of_another_layout_are_refused_and_their_sender_reported(learner, wrong):
    """The learner reports it to the coordinator, which cuts it off."""
    worker, link, peer, reported = learner
    specs, arrays = bombs(worker.layout, 4)
    if wrong == "name":
        specs["extras/more"], arrays["extras/more"] = specs["reward"], arrays["reward"]
    elif wrong == "dtype":
        specs["reward"] = evolve(specs["reward"], dtype="<f8")
    elif wrong == "axis":
        specs["reward"] = evolve(specs["reward"], shape=(*specs["reward"].shape, 1))
    else:
        specs, arrays = bombs(worker.layout, worker.state.options.max_segments + 1)
    for number in range(MAX_REFUSALS):
        peer.send(BlockReference(player="main", block=number, pid=1, layout=specs, arrays=arrays, compression=LZ4))
    for who, message in take(link, 2 * MAX_REFUSALS):
        worker.handle(who, message)
    assert worker.refusals.total == MAX_REFUSALS
    (sender, report) = take(reported, 1)[-1]
    assert (sender, report.peer) == ("learner-main", "sampler-box-0")


def test_a_sound_block_is_still_accepted(learner):
    """The limits are those of honest samplers."""
    worker, link, peer, _ = learner
    specs, arrays = bombs(worker.layout, 4)
    peer.send(BlockReference(player="main", block=1, pid=1, layout=specs, arrays=arrays, compression=LZ4))
    ((who, block),) = take(link, 1)
    worker.handle(who, block)
    assert worker.refusals.total == 0


def test_sparse_blocks_take_little_room_in_the_queue(learner):
    """One decision per block would keep large arrays in memory otherwise."""
    worker, *_ = learner
    arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in worker.layout.block_shapes(4).items()}
    arrays["length"][0], arrays["decided"][0, 0], arrays["action_mask"][:] = 1, True, True
    worker.state.start_clock(now_s=0.0, elapsed_s=0.0)
    worker.intake.receive("sampler-box-0", Segments(player="main", block=1, arrays=arrays))
    (part,) = worker.intake.queue._parts
    assert part.batch.num_segments == part.batch.num_decisions == 1
    assert not np.may_share_memory(part.batch.reward, arrays["reward"])


@pytest.fixture
def coordinator(sockets):
    """Return the endpoint of a coordinator and a maker of peers."""
    endpoint = ZmqEndpoint(COORDINATOR)
    address, peers = endpoint.bind(ipc_address(sockets, COORDINATOR)), []

    def peer(name):
        peers.append(Peer(address, name))
        return peers[-1]

    yield endpoint, peer
    for one in peers:
        one.close()
    endpoint.close()


@pytest.mark.parametrize(
    "name", ["sampler-0", "sampler-box-0", "evaluator-0", "helper-1-main", "service-x", "stranger-1"]
)
@pytest.mark.parametrize("kind", ["ModelFrozen", "Checkpoint", "FreezeRequest", "Stop", "PeerRefused", "Fixtures"])
def test_only_owners_may_send_what_changes_the_league(coordinator, name, kind):
    """A peer of another kind is refused before its message is decoded."""
    endpoint, peer = coordinator
    header = codec._PREFIX.pack(codec._MAGIC, codec.PROTOCOL) + msgpack.packb([kind, {"not": "decoded"}])
    peer(name).send_frames([header])
    ((who, refused),) = take(endpoint, 1)
    assert who == name
    assert refused.problem == f"{name} must not send {kind!r} to coordinator"


def test_a_peer_that_was_cut_off_is_dropped_unread(coordinator):
    """Until it is admitted again."""
    endpoint, peer = coordinator
    endpoint.cut_off("sampler-9")
    hostile, honest = peer("sampler-9"), peer("sampler-1")
    hostile.send(Hello())
    honest.send(Hello())
    assert take(endpoint, 1) == [("sampler-1", Hello())]
    endpoint.readmit("sampler-9")
    hostile.send(Hello())
    assert take(endpoint, 1)[-1] == ("sampler-9", Hello())


VALUES = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers(-(2**63), 2**64 - 1)
    | strategies.floats()
    | strategies.text(max_size=20)
    | strategies.binary(max_size=20),
    lambda inner: (
        strategies.lists(inner, max_size=4) | strategies.dictionaries(strategies.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@given(data=strategies.data())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_mutated_messages_raise_nothing_in_the_coordinator(runner, kind, data):
    """Whatever their fields hold: they are decoded and handled, or refused."""
    fields = {name: data.draw(VALUES) for name in attrs.fields_dict(kind)}
    name = data.draw(strategies.sampled_from(["sampler-0", "sampler-box-0", "evaluator-0"]))
    frames = [codec._PREFIX.pack(codec._MAGIC, codec.PROTOCOL) + msgpack.packb([kind.__name__, fields])]
    for message in decoded(name, frames):
        runner.coordinator.handle(name, message)
    runner.coordinator.flush()


@given(data=strategies.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_mutated_reports_of_samplers_raise_nothing(runner, data):
    """Arrays of any shape, dtype and content, of fixtures that are the sampler's or not."""
    runner.coordinator.handle("sampler-0", FixtureRequest(kind="train", count=2))
    runner.coordinator.flush()
    arrays = {
        name: data.draw(arrays_of(dtype, name), label=name)
        for name, dtype in {"fixture": "<i8", "number": "<i8", "ticks": "<i4", "outcome": "<f4"}.items()
        if data.draw(strategies.integers(0, 9)) > 0
    }
    before = runner.store.matches.count()
    for message in decoded("sampler-0", codec.encode(Results(report=1, arrays=arrays))):
        runner.coordinator.handle("sampler-0", message)
    runner.coordinator.flush()
    assert runner.store.matches.count() - before <= 4


@strategies.composite
def arrays_of(draw, dtype, name):
    """Draw an array of about the right form."""
    dtype = draw(strategies.sampled_from([dtype, dtype, dtype, "<f8", "|b1", "<i4"]))
    rows = draw(strategies.sampled_from([2, 2, 2, 0, 1, 3]))
    shape = draw(strategies.sampled_from([(rows,), (rows, 2), (rows, 3), ()]))
    if name == "outcome" and draw(strategies.booleans()):
        shape = (rows, 2)
    values = strategies.sampled_from([0, 1, 2, 3, -1, 2**31, np.inf, np.nan, 0.5])
    flat = [draw(values) for _ in range(int(np.prod(shape)))]
    with np.errstate(all="ignore"):
        return np.array(flat, np.float64).astype(dtype).reshape(shape)


def decoded(name, frames):
    """Return what an endpoint of the coordinator hands on of a message."""
    received = []
    endpoint = ZmqEndpoint(COORDINATOR)
    try:
        endpoint._decode(name, frames, received)
    finally:
        endpoint.close()
    return [message for _, message in received]


def test_a_large_message_of_a_small_kind_is_not_decoded(coordinator):
    """It is refused by its size."""
    endpoint, peer = coordinator
    hostile = peer("sampler-0")
    fields = {"pid": 1, "block": [list(range(4000))] * 40}
    header = codec._PREFIX.pack(codec._MAGIC, codec.PROTOCOL) + msgpack.packb(["Hello", fields])
    for _ in range(50):
        hostile.send_frames([header])
    started_s = time.process_time()
    received = take(endpoint, 50)
    assert time.process_time() - started_s < 1.0
    assert {message.problem for _, message in received} == {
        f"Hello of {len(header)} bytes, at most 2048 are allowed",
    }
