"""Shared memory changes nothing but the speed, and nobody depends on it."""

from __future__ import annotations

import os

import numpy as np
import pytest
from attrs import evolve
from ludus._messaging.messages import Results
from ludus._run.worker_factory import make_worker
from ludus.errors import RunError, WireError
from ludus.testing import LeagueRunner, league_runner
from ludus.wire import Credit, Hello, Segments
from ludus_local import codec, link as link_module
from ludus_local.board import BoardReader
from ludus_local.carriage import SLOT, BlockReference
from ludus_local.link import Declined, HostLink, Offer, Where
from ludus_local.memory import ArraySpec, SharedFolder

LAYOUT = {"reward": ArraySpec(dtype="<f4", shape=(3, 2))}


class Line:
    """An endpoint that keeps what is sent and hands out what is put into it."""

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


def hear(link, peer, *messages):
    """Return what a worker hears of messages."""
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
    """Return the link of a learner that shows its first weights."""
    made = HostLink(Line(), folder(tmp_path, "learner-main"), address="ipc:///x")
    made.publish({"w": np.zeros(3, np.float32)}, 0)
    return made


@pytest.fixture
def sampler(tmp_path):
    """Return the link of a sampler that has said hello."""
    made = HostLink(Line(), folder(tmp_path, "sampler-0"))
    made.send("learner-main", Hello(pid=os.getpid()))
    return made


# -- weights ---------------------------------------------------------------------------------------------------------


def test_weights_are_on_the_board(learner, tmp_path):
    """Where it is and what is on it is said once; credits bring none."""
    hear(learner, "sampler-0", Hello(pid=1))
    for version in (0, 1):
        learner.publish({"w": np.full(3, version, np.float32)}, version)
        learner.send("sampler-0", credit(version=version, weights={"w": np.full(3, version, np.float32)}))
    (offer,) = learner.endpoint.of(Offer)
    assert isinstance(learner.endpoint.sent[0][1], Offer)
    assert offer.ways == (SLOT,)
    assert [granted.weights for granted in learner.endpoint.of(Credit)] == [{}, {}]
    taken = []
    reader = BoardReader(folder(tmp_path, "sampler-0"), "learner-main", offer.board, offer.layout)
    reader.load(lambda weights, version: taken.append((weights["w"].tolist(), version)))
    assert taken == [([1.0] * 3, 1)]


def test_who_says_hello_again_is_told_again(learner):
    """It may have missed the offer."""
    for pid in (1, 1, 2):
        hear(learner, "sampler-0", Hello(pid=pid))
        learner.send("sampler-0", credit())
        learner.send("sampler-0", credit())
    assert len(learner.endpoint.of(Offer)) == 3


def test_who_cannot_see_the_board_gets_weights_as_messages(learner):
    """Until a new process of that name says hello."""
    weights = {"w": np.ones(3, np.float32)}
    for message in (Hello(pid=1), Declined(), Hello(pid=1)):
        hear(learner, "sampler-0", message)
        learner.send("sampler-0", credit(weights=weights))
    hear(learner, "sampler-0", Hello(pid=2))
    learner.send("sampler-0", credit(weights=weights))
    assert [len(granted.weights) for granted in learner.endpoint.of(Credit)] == [0, 1, 1, 0]


@pytest.mark.parametrize("shared", [True, False])
def test_weights_of_deep_networks_travel(tmp_path, shared):
    """Thousands of parameters are named by one message, whichever way they take."""
    weights = {f"body.block_{number}.linear.weight": np.full(2, number, np.float32) for number in range(4000)}
    made = HostLink(Line(), folder(tmp_path, "learner-main"), address="ipc:///x")
    made.publish(weights, 1)
    hear(made, "sampler-0", Hello(pid=1), *([] if shared else [Declined()]))
    made.send("sampler-0", credit(weights=weights))
    taken = made.endpoint.of(Credit)[0].weights
    if shared:
        (offer,) = made.endpoint.of(Offer)
        reader = BoardReader(folder(tmp_path, "sampler-0"), "learner-main", offer.board, offer.layout)
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
def test_weights_that_cannot_travel_end_the_run(tmp_path, weights, problem):
    """Once and with the way out, instead of a learner that fails whenever it is asked for them."""
    made = HostLink(Line(), folder(tmp_path, "learner-main"), address="ipc:///x")
    with pytest.raises(RunError, match=rf"{problem}.* — take a network of fewer or larger layers, or run.workers = 0"):
        made.publish(weights, 1)


def test_without_space_for_a_board_weights_are_messages(tmp_path, monkeypatch, caplog):
    """After one line in the log."""
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
    made = HostLink(Line(), folder(tmp_path, "learner-main"), address="ipc:///x")
    hear(made, "sampler-0", Hello(pid=1))
    for version in (0, 1):
        made.publish({"w": np.zeros(3, np.float32)}, version)
        made.send("sampler-0", credit(version=version, weights={"w": np.zeros(3, np.float32)}))
    assert [len(granted.weights) for granted in made.endpoint.of(Credit)] == [1, 1]
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        f"no shared memory in {tmp_path / 'shared'}: no space; weights travel through sockets"
    ]


def test_a_sampler_that_cannot_see_the_board_says_so(sampler, learner, caplog):
    """And says hello once more, so that weights come at once."""
    gone = Offer(ways=(SLOT,), board="learner-main.1.9", layout=LAYOUT)
    assert hear(sampler, "learner-main", gone) == []
    assert "they come through sockets" in caplog.text
    assert [type(message) for _, message in sampler.endpoint.sent] == [Hello, Declined, Hello]
    taken = []
    sampler.refresh("learner-main", -1, lambda weights, version: taken.append(version))
    assert not taken


def test_a_sampler_follows_the_board(sampler, learner):
    """It copies what it does not have yet, and keeps the board when it is told of it again."""
    hear(learner, "sampler-0", Hello(pid=os.getpid()))
    learner.send("sampler-0", credit())
    (offer,) = learner.endpoint.of(Offer)
    taken = []
    for version in (1, 2):
        hear(sampler, "learner-main", offer)
        learner.publish({"w": np.full(3, version, np.float32)}, version)
        for _ in range(2):
            known = taken[-1] if taken else -1
            sampler.refresh("learner-main", known, lambda weights, version: taken.append(version))
    assert taken == [1, 2]


def test_weights_that_come_in_messages_are_the_newest(sampler, learner):
    """A learner that was restarted may send them before it shows them; its predecessor's are old."""
    hear(learner, "sampler-0", Hello(pid=os.getpid()))
    learner.send("sampler-0", credit())
    hear(sampler, "learner-main", *learner.endpoint.of(Offer), credit(weights={"w": np.ones(3, np.float32)}))
    taken = []
    sampler.refresh("learner-main", 7, lambda weights, version: taken.append(version))
    assert not taken


def test_whoever_asks_is_told_where_weights_are(learner, tmp_path):
    """Without becoming a sampler; the worker hears nothing of it."""
    assert hear(learner, "service-gateway", Where()) == []
    ((peer, offer),) = learner.endpoint.sent
    assert peer == "service-gateway"
    reader = BoardReader(folder(tmp_path, "service-gateway"), "learner-main", offer.board, offer.layout)
    assert reader.version == 0
    learner.send("service-gateway", credit())
    assert learner.endpoint.of(Offer) == [offer]


def test_before_there_are_weights_they_are_nowhere(tmp_path):
    """Who asks is told so."""
    made = HostLink(Line(), folder(tmp_path, "learner-main"), address="ipc:///x")
    hear(made, "service-gateway", Where())
    assert made.endpoint.of(Offer) == [Offer(ways=(SLOT,))]


def test_weights_of_a_learner_that_went_back_are_on_another_board(learner, tmp_path):
    """Of an earlier version, which samplers would take for old; they are told once more where to look."""
    hear(learner, "sampler-0", Hello(pid=1))
    for version in (7, 5, 6):
        learner.publish({"w": np.full(3, version, np.float32)}, version)
        for _ in range(2):
            learner.send("sampler-0", credit(version=version))
    before, after = learner.endpoint.of(Offer)
    assert before.board != after.board
    assert [file.name for file in (tmp_path / "shared").iterdir()] == [after.board]
    taken = []
    reader = BoardReader(folder(tmp_path, "sampler-0"), "learner-main", after.board, after.layout)
    reader.load(lambda weights, version: taken.append((weights["w"].tolist(), version)))
    assert taken == [([6.0] * 3, 6)]


def test_a_sampler_follows_a_learner_that_went_back(sampler, learner):
    """By the new offer."""
    hear(learner, "sampler-0", Hello(pid=os.getpid()))
    taken = []
    for version in (7, 5):
        learner.publish({"w": np.full(3, version, np.float32)}, version)
        learner.send("sampler-0", credit(version=version))
        hear(sampler, "learner-main", learner.endpoint.of(Offer)[-1])
        sampler.refresh("learner-main", taken[-1] if taken else -1, lambda weights, version: taken.append(version))
    assert taken == [7, 5]


# -- blocks ----------------------------------------------------------------------------------------------------------


def test_a_slot_that_is_not_there_is_a_block_of_nothing(learner):
    """Its worker counts it, acknowledges it and goes on."""
    hear(learner, "sampler-0", Hello(pid=1))
    missing = BlockReference(player="main", block=7, pid=1, slot="sampler-0.1.0", layout=LAYOUT)
    (heard,) = hear(learner, "sampler-0", missing)
    assert heard == Segments(player="main", block=7, pid=1)


def test_blocks_that_cannot_be_read_do_not_fill_the_log(learner, caplog):
    """In a night they may be hundreds of thousands."""
    missing = BlockReference(player="main", block=1, pid=1, slot="sampler-0.1.0", layout=LAYOUT)
    hear(learner, "sampler-0", *(evolve(missing, block=block) for block in range(1, 101)))
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        f"unreadable block {number}" for number in (1, 2, 4, 8, 16, 32, 64)
    ]


def test_strangers_are_no_danger(learner, sampler):
    """What a link does not expect, it leaves alone."""
    parcel = BlockReference(player="main", block=1, pid=3, packing="zip", layout={})
    assert hear(learner, "sampler-9", Declined(), Offer(), parcel)[0].arrays == {}
    assert hear(sampler, "sampler-9", Declined(), Offer(board="x")) == []
    assert hear(sampler, "learner-other", credit(released=9)) == [credit(released=9)]


def test_every_word_between_links_can_travel():
    """Each field has a type that is checked, written and read."""
    words = [
        Declined(),
        Offer(ways=(SLOT,), board="a", layout=LAYOUT),
        BlockReference(player="p", block=1, pid=2, slot="a", layout=LAYOUT),
        Where(),
    ]
    assert [codec.decode(codec.encode(word)) for word in words] == words


def test_lent_memory_is_back_when_its_block_is_released(sampler):
    """Not when a predecessor's is."""
    shapes = {"length": ((4,), np.dtype(np.int32))}
    for block in (1, 2):
        arrays = sampler.allocate("main", shapes)
        message = Segments(player="main", block=block, pid=os.getpid(), arrays=arrays)
        assert sampler.send("learner-main", message)
    held = sampler._learners["learner-main"].held
    assert list(held) == [1, 2]
    hear(sampler, "learner-main", credit(pid=1, released=2))
    assert list(held) == [1, 2]
    hear(sampler, "learner-main", credit(pid=os.getpid(), released=1))
    assert list(held) == [2]


def test_a_learner_that_may_open_no_more_files_gets_plain_arrays(sampler, learner, files_run_out):
    """From the next credit on; a block or two are lost."""
    shapes = {"length": ((4,), np.dtype(np.int32))}
    hear(learner, "sampler-0", Hello(pid=os.getpid()))
    kinds = []
    for block in (1, 2):
        learner.send("sampler-0", credit())
        hear(sampler, "learner-main", *learner.endpoint.of(Offer))
        arrays = sampler.allocate("main", shapes)
        sampler.send("learner-main", Segments(player="main", block=block, pid=os.getpid(), arrays=arrays))
        sent = sampler.endpoint.sent[-1][1]
        kinds.append(type(sent))
        with files_run_out():
            hear(learner, "sampler-0", sent)
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
    """Let all workers made from now on have links with shared memory."""
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


def doze(runner):
    """Run a round; the learner hears nothing for some time now and then."""
    runner.asleep = {"learner-main"} if runner.now_s % 0.8 < 0.5 else set()
    runner.round()


def outcome(runner):
    """Return the results of a run and what was learned in it."""
    results = [
        np.concatenate([m.arrays[name].ravel() for m in runner.messages(Results)]) for name in ("ticks", "outcome")
    ]
    return runner.learner("main").state.decisions, results, runner.learner("main").state.trainer.weights()


def test_shared_memory_changes_nothing(league):
    """The same seed gives the same matches and the same weights, bit for bit."""
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


def test_a_slot_is_used_again_only_when_its_block_is_released(league, tmp_path):
    """Whatever the learner does; so there are no more of them than blocks under way and being recorded."""
    runner = league(sampling={"credits": 2}, batch_decisions=200)
    used = {}  # slot → the last block in it
    sent = 0
    while len(runner.messages(BlockReference)) < 60:
        doze(runner)
        released = max((granted.released for granted in runner.messages(Credit)), default=0)
        for block in runner.messages(BlockReference)[sent:]:
            assert used.get(block.slot, 0) <= released
            used[block.slot] = block.block
        sent = len(runner.messages(BlockReference))
    files = [file for file in (tmp_path / "shared").iterdir() if file.name.startswith("sampler-0.")]
    assert len(used) < 20
    assert len(files) - len(used) in (0, 1)


@pytest.mark.parametrize("victim", ["learner-main", "sampler-0"])
def test_a_league_in_shared_memory_survives_its_workers(league, tmp_path, monkeypatch, victim):
    """The one that takes the place of a killed one finds the other's memory, and nothing waits for the dead."""
    runner = league(run={"checkpoint_s": 1})
    share_memory(monkeypatch, tmp_path)  # those that are started later too
    for goal in (1000, 2000, 3000):
        runner.train(goal)
        runner.start(victim)
    runner.train(4000)
    assert runner.learner("main").metrics.drops["dropped_malformed"] == 0
    assert len(runner._workers["sampler-0"][1]._learners["learner-main"].held) <= 12


def test_a_league_goes_on_where_the_board_cannot_be_seen(league, monkeypatch, caplog):
    """The learner hears of it and the sampler plays on with weights from messages."""

    def blind(*_):
        raise WireError("not here")

    monkeypatch.setattr(link_module, "BoardReader", blind)
    runner = league()
    runner.train(1000)
    assert "not here; they come through sockets" in caplog.text
    assert len(runner.messages(Declined)) == 1
    assert runner.sampler().channels["main"].actor.version > 5


def test_a_learner_without_shared_memory_gets_plain_arrays(league, monkeypatch):
    """Though the sampler records in it."""
    monkeypatch.setattr(link_module, "ways", lambda *_, **__: ())
    runner = league()
    runner.train(1000)
    assert runner.messages(Segments)
    assert not runner.messages(BlockReference)
    assert runner.learner("main").metrics.drops["dropped_malformed"] == 0
