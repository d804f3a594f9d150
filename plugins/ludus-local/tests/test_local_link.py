"""Shared memory changes only the speed, and every worker runs without it."""

from __future__ import annotations

import os

import numpy as np
import pytest
from attrs import evolve
from ludus._messaging.messages import Results
from ludus._run.worker_factories import make_worker
from ludus.errors import RunError, WireError
from ludus.testing import LeagueRunner, league_runner
from ludus.wire import Credit, Hello, Segments
from ludus_local import codec, link as link_module
from ludus_local.block_transfer import SHARED_MEMORY, BlockReference
from ludus_local.link import CapabilitiesRequest, HostLink, LinkCapabilities, WeightStoreUnavailable
from ludus_local.memory import ArraySpec, SharedFolder
from ludus_local.weight_store import WeightStoreReader

LAYOUT = {"reward": ArraySpec(dtype="<f4", shape=(3, 2))}


class Line:
    """An endpoint that stores sent messages and returns prepared ones."""

    def __init__(self):
        self.sent, self.inbox = [], []

    def send(self, peer, message):
        self.sent.append((peer, codec.decode(codec.encode(message))))
        return True

    def receive(self, timeout_s):
        arrived, self.inbox = self.inbox, []
        return arrived

    def of(self, kind):
        return [message for _, message in self.sent if isinstance(message, kind)]


def receive(link, peer, *messages):
    """Return the messages that a worker receives through its link."""
    link.endpoint.inbox += [(peer, message) for message in messages]
    return [message for _, message in link.receive(0.0)]


def folder(tmp_path, worker):
    """Return the shared memory of a worker."""
    path = tmp_path / "shared"
    path.mkdir(mode=0o700, exist_ok=True)
    return SharedFolder(path, worker)


def credit(**what):
    """Return a credit."""
    return Credit(**{"player": "main", "acked": 0, "credits": 2, "version": 0} | what)


@pytest.fixture
def learner(tmp_path):
    """Return the link of a learner that has published its first weights."""
    made = HostLink(Line(), folder(tmp_path, "learner-main"), address="ipc:///x")
    made.publish({"w": np.zeros(3, np.float32)}, 0)
    return made


@pytest.fixture
def sampler(tmp_path):
    """Return the link of a sampler that has registered."""
    made = HostLink(Line(), folder(tmp_path, "sampler-0"))
    made.send("learner-main", Hello(pid=os.getpid()))
    return made


# -- weights ---------------------------------------------------------------------------------------------------------


def test_weights_are_published_in_the_weight_store(learner, tmp_path):
    """Its name and layout are sent once; credits contain no weights."""
    receive(learner, "sampler-0", Hello(pid=1))
    for version in (0, 1):
        learner.publish({"w": np.full(3, version, np.float32)}, version)
        learner.send("sampler-0", credit(version=version, weights={"w": np.full(3, version, np.float32)}))
    (capabilities,) = learner.endpoint.of(LinkCapabilities)
    assert isinstance(learner.endpoint.sent[0][1], LinkCapabilities)
    assert capabilities.methods == (SHARED_MEMORY,)
    assert [granted.weights for granted in learner.endpoint.of(Credit)] == [{}, {}]
    taken = []
    reader = WeightStoreReader(
        folder(tmp_path, "sampler-0"), "learner-main", capabilities.weight_store, capabilities.layout
    )
    reader.load(lambda weights, version: taken.append((weights["w"].tolist(), version)))
    assert taken == [([1.0] * 3, 1)]


def test_capabilities_are_sent_after_every_hello(learner):
    """The sampler may have missed them."""
    for pid in (1, 1, 2):
        receive(learner, "sampler-0", Hello(pid=pid))
        learner.send("sampler-0", credit())
        learner.send("sampler-0", credit())
    assert len(learner.endpoint.of(LinkCapabilities)) == 3


def test_samplers_without_the_weight_store_get_weights_in_messages(learner):
    """Until a new process of that name registers."""
    weights = {"w": np.ones(3, np.float32)}
    for message in (Hello(pid=1), WeightStoreUnavailable(), Hello(pid=1)):
        receive(learner, "sampler-0", message)
        learner.send("sampler-0", credit(weights=weights))
    receive(learner, "sampler-0", Hello(pid=2))
    learner.send("sampler-0", credit(weights=weights))
    assert [len(granted.weights) for granted in learner.endpoint.of(Credit)] == [0, 1, 1, 0]


@pytest.mark.parametrize("shared", [True, False])
def test_weights_of_deep_networks_are_transferred(tmp_path, shared):
    """The names of thousands of parameters fit into one message."""
    weights = {f"body.block_{number}.linear.weight": np.full(2, number, np.float32) for number in range(4000)}
    made = HostLink(Line(), folder(tmp_path, "learner-main"), address="ipc:///x")
    made.publish(weights, 1)
    receive(made, "sampler-0", Hello(pid=1), *([] if shared else [WeightStoreUnavailable()]))
    made.send("sampler-0", credit(weights=weights))
    taken = made.endpoint.of(Credit)[0].weights
    if shared:
        (capabilities,) = made.endpoint.of(LinkCapabilities)
        reader = WeightStoreReader(
            folder(tmp_path, "sampler-0"), "learner-main", capabilities.weight_store, capabilities.layout
        )
        reader.load(lambda weights, version: taken.update({name: array.copy() for name, array in weights.items()}))
    assert {name: array.tolist() for name, array in taken.items()} == {k: v.tolist() for k, v in weights.items()}


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ({str(number): np.zeros(1, np.float32) for number in range(4097)}, "the 4097 parameters .*4097 exceeds"),
        ({"n" * 200 + str(number): np.zeros(1) for number in range(3000)}, "the 3000 .*header of .* at most 524288"),
        ({"w": np.zeros(1, np.complex64)}, "the 1 parameters .*'w': impossible dtype"),
    ],
)
def test_weights_that_cannot_be_sent_raise_a_run_error(tmp_path, weights, problem):
    """Once, with the remedy, instead of failing in every message."""
    made = HostLink(Line(), folder(tmp_path, "learner-main"), address="ipc:///x")
    with pytest.raises(RunError, match=rf"{problem}.* — use a network of fewer or larger layers, or run.workers = 0"):
        made.publish(weights, 1)


def test_without_space_for_a_weight_store_weights_are_sent(tmp_path, monkeypatch, caplog):
    """After one line in the log."""
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
    made = HostLink(Line(), folder(tmp_path, "learner-main"), address="ipc:///x")
    receive(made, "sampler-0", Hello(pid=1))
    for version in (0, 1):
        made.publish({"w": np.zeros(3, np.float32)}, version)
        made.send("sampler-0", credit(version=version, weights={"w": np.zeros(3, np.float32)}))
    assert [len(granted.weights) for granted in made.endpoint.of(Credit)] == [1, 1]
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        f"no shared memory in {tmp_path / 'shared'}: no space; weights are sent through sockets"
    ]


def test_a_sampler_reports_that_it_cannot_map_the_weight_store(sampler, learner, caplog):
    """It registers again, so that weights are sent at once."""
    gone = LinkCapabilities(methods=(SHARED_MEMORY,), weight_store="learner-main.1.9", layout=LAYOUT)
    assert receive(sampler, "learner-main", gone) == []
    assert "weights are received through sockets" in caplog.text
    assert [type(message) for _, message in sampler.endpoint.sent] == [Hello, WeightStoreUnavailable, Hello]
    taken = []
    sampler.refresh("learner-main", -1, lambda weights, version: taken.append(version))
    assert not taken


def test_a_sampler_loads_new_versions_once(sampler, learner):
    """It keeps the mapped store when the capabilities are sent again."""
    receive(learner, "sampler-0", Hello(pid=os.getpid()))
    learner.send("sampler-0", credit())
    (capabilities,) = learner.endpoint.of(LinkCapabilities)
    taken = []
    for version in (1, 2):
        receive(sampler, "learner-main", capabilities)
        learner.publish({"w": np.full(3, version, np.float32)}, version)
        for _ in range(2):
            known = taken[-1] if taken else -1
            sampler.refresh("learner-main", known, lambda weights, version: taken.append(version))
    assert taken == [1, 2]


def test_weights_in_messages_replace_the_weight_store(sampler, learner):
    """A restarted learner may send them first; the store of its predecessor is outdated."""
    receive(learner, "sampler-0", Hello(pid=os.getpid()))
    learner.send("sampler-0", credit())
    receive(
        sampler, "learner-main", *learner.endpoint.of(LinkCapabilities), credit(weights={"w": np.ones(3, np.float32)})
    )
    taken = []
    sampler.refresh("learner-main", 7, lambda weights, version: taken.append(version))
    assert not taken


def test_capabilities_can_be_requested(learner, tmp_path):
    """Without registering as a sampler; the worker gets no message."""
    assert receive(learner, "service-gateway", CapabilitiesRequest()) == []
    ((peer, capabilities),) = learner.endpoint.sent
    assert peer == "service-gateway"
    reader = WeightStoreReader(
        folder(tmp_path, "service-gateway"), "learner-main", capabilities.weight_store, capabilities.layout
    )
    assert reader.version == 0
    learner.send("service-gateway", credit())
    assert learner.endpoint.of(LinkCapabilities) == [capabilities]


def test_before_the_first_weights_there_is_no_weight_store(tmp_path):
    """The capabilities name no weight store."""
    made = HostLink(Line(), folder(tmp_path, "learner-main"), address="ipc:///x")
    receive(made, "service-gateway", CapabilitiesRequest())
    assert made.endpoint.of(LinkCapabilities) == [LinkCapabilities(methods=(SHARED_MEMORY,))]


def test_an_earlier_version_is_published_in_a_new_weight_store(learner, tmp_path):
    """Samplers would take it for outdated; they are sent the new name."""
    receive(learner, "sampler-0", Hello(pid=1))
    for version in (7, 5, 6):
        learner.publish({"w": np.full(3, version, np.float32)}, version)
        for _ in range(2):
            learner.send("sampler-0", credit(version=version))
    before, after = learner.endpoint.of(LinkCapabilities)
    assert before.weight_store != after.weight_store
    assert [file.name for file in (tmp_path / "shared").iterdir()] == [after.weight_store]
    taken = []
    reader = WeightStoreReader(folder(tmp_path, "sampler-0"), "learner-main", after.weight_store, after.layout)
    reader.load(lambda weights, version: taken.append((weights["w"].tolist(), version)))
    assert taken == [([6.0] * 3, 6)]


def test_weights_of_another_layout_are_published_in_a_new_weight_store(learner, tmp_path):
    """A run may send a joined host anything; its own learners never change the layout."""
    receive(learner, "sampler-0", Hello(pid=1))
    for version, weights in enumerate(({"v": np.ones(3, np.float32)}, {"v": np.ones((2, 2), np.float32)}), start=1):
        learner.publish(weights, version)
        learner.send("sampler-0", credit(version=version))
        capabilities = learner.endpoint.of(LinkCapabilities)[-1]
        reader = WeightStoreReader(
            folder(tmp_path, "sampler-0"), "learner-main", capabilities.weight_store, capabilities.layout
        )
        taken = []
        reader.load(lambda loaded, number, taken=taken: taken.append((loaded["v"].tolist(), number)))
        assert taken == [(weights["v"].tolist(), version)]


def test_a_sampler_loads_earlier_versions_from_a_new_store(sampler, learner):
    """By the new capabilities."""
    receive(learner, "sampler-0", Hello(pid=os.getpid()))
    taken = []
    for version in (7, 5):
        learner.publish({"w": np.full(3, version, np.float32)}, version)
        learner.send("sampler-0", credit(version=version))
        receive(sampler, "learner-main", learner.endpoint.of(LinkCapabilities)[-1])
        sampler.refresh("learner-main", taken[-1] if taken else -1, lambda weights, version: taken.append(version))
    assert taken == [7, 5]


# -- blocks ----------------------------------------------------------------------------------------------------------


def test_a_missing_buffer_gives_an_empty_block(learner):
    """The learner counts and acknowledges it."""
    receive(learner, "sampler-0", Hello(pid=1))
    missing = BlockReference(player="main", block=7, pid=1, buffer="sampler-0.1.0", layout=LAYOUT)
    (received,) = receive(learner, "sampler-0", missing)
    assert received == Segments(player="main", block=7, pid=1)


def test_unreadable_blocks_do_not_fill_the_log(learner, caplog):
    """Only every power of two is logged."""
    missing = BlockReference(player="main", block=1, pid=1, buffer="sampler-0.1.0", layout=LAYOUT)
    receive(learner, "sampler-0", *(evolve(missing, block=block) for block in range(1, 101)))
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        f"unreadable block {number}" for number in (1, 2, 4, 8, 16, 32, 64)
    ]


def test_unexpected_messages_are_ignored(learner, sampler):
    """From peers that have not registered."""
    reference = BlockReference(player="main", block=1, pid=3, compression="zip", layout={})
    assert receive(learner, "sampler-9", WeightStoreUnavailable(), LinkCapabilities(), reference)[-1].arrays == {}
    assert receive(sampler, "sampler-9", WeightStoreUnavailable(), LinkCapabilities(weight_store="x")) == []
    assert receive(sampler, "learner-other", credit(released=9)) == [credit(released=9)]


def test_all_messages_of_links_can_be_sent():
    """Every field has a type that is checked, encoded and decoded."""
    messages = [
        WeightStoreUnavailable(),
        LinkCapabilities(methods=(SHARED_MEMORY,), weight_store="a", layout=LAYOUT),
        BlockReference(player="p", block=1, pid=2, buffer="a", layout=LAYOUT),
        CapabilitiesRequest(),
    ]
    assert [codec.decode(codec.encode(message)) for message in messages] == messages


def test_buffers_are_released_with_their_block(sampler):
    """Not with a block of a predecessor."""
    shapes = {"length": ((4,), np.dtype(np.int32))}
    for block in (1, 2):
        arrays = sampler.allocate("main", shapes)
        message = Segments(player="main", block=block, pid=os.getpid(), arrays=arrays)
        assert sampler.send("learner-main", message)
    buffers = sampler._learners["learner-main"].buffers
    assert list(buffers) == [1, 2]
    receive(sampler, "learner-main", credit(pid=1, released=2))
    assert list(buffers) == [1, 2]
    receive(sampler, "learner-main", credit(pid=os.getpid(), released=1))
    assert list(buffers) == [2]


def test_a_learner_at_its_file_limit_gets_plain_arrays(sampler, learner, files_run_out):
    """From the next credit on; a block or two are lost."""
    shapes = {"length": ((4,), np.dtype(np.int32))}
    receive(learner, "sampler-0", Hello(pid=os.getpid()))
    kinds = []
    for block in (1, 2):
        learner.send("sampler-0", credit())
        receive(sampler, "learner-main", *learner.endpoint.of(LinkCapabilities))
        arrays = sampler.allocate("main", shapes)
        sampler.send("learner-main", Segments(player="main", block=block, pid=os.getpid(), arrays=arrays))
        sent = sampler.endpoint.sent[-1][1]
        kinds.append(type(sent))
        with files_run_out():
            receive(learner, "sampler-0", sent)
    assert kinds == [BlockReference, Segments]


# -- leagues ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def league(tmp_path, monkeypatch):
    """Return a maker of leagues of one learner; those that share have links with shared memory."""
    made = []

    def make(*, name="run", share=True, run=(), sampling=(), batch_decisions=64):
        player = {
            "algorithm": "dummy-gradient",
            "dummy-gradient": {"segment_decisions": 4, "batch_decisions": batch_decisions},
            "matchmaker": "dummy-uniform",
            "freeze_every_decisions": 500,
        }
        data = {
            "run": {"seed": 3, "workers": 0, "decisions": 2000, **dict(run)},
            "environment": {"name": "dummy-count"},
            "sampling": {"matches": 8, "fixture_matches": 8, "rows_per_fixture": 4, **dict(sampling)},
            "players": {"main": player},
            "anchors": {"random": {"agent": "dummy-random"}},
            "evaluation": {"matches": 8, "fixture_matches": 5, "final_matches": 20},
        }
        with monkeypatch.context() as patch:
            if share:
                share_memory(patch, tmp_path)
            context = league_runner(data, tmp_path / name)
            made.append(context)
            return context.__enter__()

    yield make
    for context in made:
        context.__exit__(None, None, None)


def share_memory(patch, tmp_path):
    """Give shared memory to the links of all workers that are made from now on."""
    endpoint_of, worker_of = LeagueRunner._endpoint, make_worker

    def endpoint(runner, name):
        plain = endpoint_of(runner, name)
        if name.startswith(("learner", "sampler")):
            address = "ipc:///x" if name.startswith("learner") else ""
            return HostLink(plain, folder(tmp_path, name), address=address)
        return plain

    def worker(run, name, context):
        memory = context.link if isinstance(context.link, HostLink) else None
        return worker_of(run, name, evolve(context, memory=memory))

    patch.setattr(LeagueRunner, "_endpoint", endpoint)
    patch.setattr("ludus.testing._runtime.make_worker", worker)


def run_with_pauses(runner):
    """Run a round; the learner pauses regularly."""
    runner.paused = {"learner-main"} if runner.now_s % 0.8 < 0.5 else set()
    runner.round()


def outcome(runner):
    """Return the results of a run and the learned weights."""
    results = [
        np.concatenate([m.arrays[name].ravel() for m in runner.messages(Results)]) for name in ("ticks", "outcome")
    ]
    return runner.learner("main").state.decisions, results, runner.learner("main").state.trainer.weights()


def test_shared_memory_gives_equal_results(league):
    """Equal seeds give equal matches and weights, bit for bit."""
    plain, shared = league(share=False), league(name="again")
    plain.train(3000)
    shared.train(3000)
    assert plain.messages(Segments)
    assert shared.messages(BlockReference)
    assert not shared.messages(Segments)
    assert not any(granted.weights for granted in shared.messages(Credit))
    (decisions, results, weights), (others, other_results, other_weights) = outcome(plain), outcome(shared)
    assert decisions == others
    for array, other in zip(results, other_results, strict=True):
        np.testing.assert_array_equal(array, other)
    for name, array in weights.items():
        np.testing.assert_array_equal(array, other_weights[name])


def test_buffers_are_reused_only_after_release(league, tmp_path):
    """So there are no more of them than blocks in flight and being recorded."""
    runner = league(sampling={"credits": 2}, batch_decisions=200)
    used = {}  # buffer → the last block in it
    sent = 0
    while len(runner.messages(BlockReference)) < 60:
        run_with_pauses(runner)
        released = max((granted.released for granted in runner.messages(Credit)), default=0)
        for block in runner.messages(BlockReference)[sent:]:
            assert used.get(block.buffer, 0) <= released
            used[block.buffer] = block.block
        sent = len(runner.messages(BlockReference))
    files = [file for file in (tmp_path / "shared").iterdir() if file.name.startswith("sampler-0.")]
    assert len(used) < 20
    assert len(files) - len(used) in (0, 1)


@pytest.mark.parametrize("victim", ["learner-main", "sampler-0"])
def test_a_league_survives_restarts_of_its_workers(league, tmp_path, monkeypatch, victim):
    """A restarted worker maps the other's memory, and none waits for the old one."""
    runner = league(run={"checkpoint_s": 1})
    share_memory(monkeypatch, tmp_path)  # those that are started later too
    for goal in (1000, 2000, 3000):
        runner.train(goal)
        runner.start(victim)
    runner.train(4000)
    assert runner.learner("main").state.metrics.drops["dropped_malformed"] == 0
    assert len(runner._workers["sampler-0"][1]._learners["learner-main"].buffers) <= 12


def test_a_league_runs_if_the_weight_store_cannot_be_mapped(league, monkeypatch, caplog):
    """The sampler gets weights in messages."""

    def fail(*_):
        raise WireError("not here")

    monkeypatch.setattr(link_module, "WeightStoreReader", fail)
    runner = league()
    runner.train(1000)
    assert "not here; weights are received through sockets" in caplog.text
    assert len(runner.messages(WeightStoreUnavailable)) == 1
    assert runner.sampler().channels["main"].actor.version > 5


def test_a_learner_without_shared_memory_gets_plain_arrays(league, monkeypatch):
    """Even though the sampler records in shared memory."""
    monkeypatch.setattr(link_module, "transfer_methods", lambda *_, **__: ())
    runner = league()
    runner.train(1000)
    assert runner.messages(Segments)
    assert not runner.messages(BlockReference)
    assert runner.learner("main").state.metrics.drops["dropped_malformed"] == 0
