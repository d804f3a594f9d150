"""A learner and its helpers: who is invited to a group when, and how failed updates are handled."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch
from ludus import ContractError
from ludus._learning import data_parallel
from ludus._learning.data_parallel import GroupFormation, HelperPool, HelperWorker
from ludus._messaging.in_process import InprocEndpoint
from ludus._messaging.messages import BatchShard, FormGroup, HelperHeartbeat, Stop
from ludus.algorithm import UpdateResult
from ludus.errors import LinkError, WireError
from ludus.group import Alone
from ludus.segment import SegmentBatch
from ludus_local.group import LocalRendezvous
from ludus_local.memory import SharedFolder

PLAYER = "main"


class Summing:
    """A trainer whose weight is the sum over updates of the mean reward of the batch."""

    batch_decisions = 8

    def __init__(self):
        self.weight, self.group, self.parts = torch.zeros((), dtype=torch.float64), Alone(), []

    def join(self, group):
        self.group = group

    def update(self, batch, *, progress):
        if np.isnan(batch.reward).any():
            raise ContractError("the reward is not a number")
        mean = torch.tensor(batch.reward[batch.trainable()].mean(), dtype=torch.float64)
        self.group.mean([mean], weight=batch.num_decisions)
        self.weight = self.weight + mean
        self.parts.append((batch.num_decisions, progress))
        self.writes = batch.reward.flags.writeable
        return UpdateResult(metrics={}, samples=batch.num_decisions, gradient_steps=1)

    def weights(self):
        return {"w": self.weight.numpy().copy()}

    def load_weights(self, weights):
        self.weight = torch.tensor(weights["w"])

    def state(self):
        return {}

    def load_state(self, state):
        assert not state


def batch(rewards):
    """Return a batch with one segment of one decision per reward."""
    shape = (2, len(rewards))
    return SegmentBatch(
        observation={"obs": np.zeros((*shape, 1), np.float32)},
        action=np.zeros((*shape, 1), np.int64),
        reward=np.array([rewards, rewards], np.float32),
        terminated=np.zeros(shape, bool),
        truncated=np.zeros(shape, bool),
        decided=np.ones(shape, bool),
        elapsed_ticks=np.ones(shape, np.int32),
        length=np.ones(len(rewards), np.int32),
        version=np.zeros(len(rewards), np.int64),
    )


def wait_for(condition):
    """Wait until a condition holds that a helper's thread brings about."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Team:
    """The helper pool of a learner in this thread, and helpers in threads of their own."""

    def __init__(self, folder):
        self.folder, self.now = folder, 0.0
        self.link = InprocEndpoint(f"learner-{PLAYER}")
        self.trainer = Summing()
        self.retries = []  # shards of the trainer at the time of every retry
        self.helpers = HelperPool(
            self.formation("learner"), self.link, lambda: self.now, lambda: self.retries.append([*self.trainer.parts])
        )
        self.running = {}

    def formation(self, name):
        return GroupFormation(PLAYER, LocalRendezvous(self.folder, SharedFolder(self.folder, name)), timeout_s=20.0)

    def helper(self, rank=1):
        """Start a helper."""
        name = f"helper-{rank}-{PLAYER}"
        link, end = self.link.endpoint(name), threading.Event()
        helper = HelperWorker(name, self.formation(name), Summing(), link, time.monotonic)

        def serve():
            helper.start()
            while not helper.stopped and not end.is_set():
                for peer, message in link.receive(0.0):
                    helper.handle(peer, message)
                helper.work()
                time.sleep(0.001)
            helper.close()

        thread = threading.Thread(target=serve)
        thread.start()
        self.running[rank] = (helper, thread, end)
        return helper

    def kill(self, rank=1):
        """End a helper without a message, as if it were killed."""
        _, thread, end = self.running.pop(rank)
        end.set()
        thread.join()
        self.receive()  # otherwise it would be invited once more

    def record_messages(self):
        """Return a list to which all messages are added that the learner sends from now on."""
        messages, send = [], self.link.send

        def record(peer, message):
            messages.append(message)
            return send(peer, message)

        self.link.send = record
        return messages

    def receive(self):
        """Handle the heartbeats of the helpers."""
        for peer, message in self.link.receive(0.0):
            self.helpers.receive_heartbeat(peer, message)

    def form_group(self, count):
        """Maintain the group until it has `count` helpers."""
        deadline = time.monotonic() + 30
        while len(self.helpers) != count:
            assert time.monotonic() < deadline
            if self.helpers._pending is None:  # a helper may take any time to join
                self.now += 0.01
            self.receive()
            self.helpers.maintain(self.trainer)
            time.sleep(0.001)

    def update(self, *rewards):
        self.helpers.update(self.trainer, batch(rewards), progress=0.5)


@pytest.fixture
def team(tmp_path):
    """Return a learner without helpers."""
    made = Team(tmp_path)
    yield made
    made.helpers.leave(made.trainer)
    for rank in [*made.running]:
        made.kill(rank)


def test_without_helpers_a_learner_updates_alone(team):
    """It computes whole batches."""
    team.update(1, 2, 3)
    assert (team.trainer.weight, team.trainer.parts) == (2.0, [(3, 0.5)])


@pytest.mark.parametrize("count", [1, 3])
def test_helpers_get_shards_and_compute_the_same_weights(team, count):
    """They start from the learner's weights; the mean is that of the whole batch."""
    team.update(5)
    helpers = [team.helper(rank) for rank in range(1, count + 1)]
    team.form_group(count)
    team.update(*range(8))
    assert team.trainer.weight == 5 + 3.5
    for rank in [*team.running]:
        helper, thread, _ = team.running[rank]
        helper.link.endpoint("coordinator").send(helper.name, Stop())
        thread.join()
    assert [helper.trainer.weight for helper in helpers] == [8.5] * count
    assert sum(helper.trainer.parts[-1][0] for helper in helpers) + team.trainer.parts[-1][0] == 8
    assert {helper.trainer.parts[-1][1] for helper in helpers} == {0.5}


def test_large_shards_are_sent_in_several_messages(team, monkeypatch):
    """Together they are the shard, read-only like any batch."""
    monkeypatch.setattr(data_parallel, "_MESSAGE_BYTES", 1)
    helper = team.helper()
    team.form_group(1)
    sent = team.record_messages()
    team.update(*range(8))
    assert [message.more for message in sent] == [True, True, True, False]
    assert team.trainer.weight == 3.5
    wait_for(lambda: helper.trainer.parts == [(4, 0.5)])
    assert helper.trainer.weight == 3.5
    assert not helper.trainer.writes


def test_incomplete_shards_are_dropped_with_their_group(team, monkeypatch):
    """The next shard does not contain them."""
    monkeypatch.setattr(data_parallel, "_MESSAGE_BYTES", 1)
    helper = team.helper()
    team.form_group(1)
    group_id = team.helpers._group_id
    team.link.send(helper.name, BatchShard(group_id=group_id, progress=0.0, more=True, arrays=batch([9]).arrays()))
    team.helpers.regroup(team.trainer)
    team.form_group(1)
    team.update(1, 3)
    assert team.trainer.weight == 2.0
    wait_for(lambda: helper.trainer.parts == [(1, 0.5)])


def test_an_update_is_computed_again_without_a_lost_helper(team):
    """Helpers that start later join."""
    team.helper()
    team.form_group(1)
    team.kill()
    team.update(1, 3)
    assert (team.trainer.weight, len(team.helpers)) == (2.0, 0)
    assert team.retries == [[]]
    helper = team.helper()
    team.form_group(1)
    wait_for(lambda: helper.trainer.weight == 2.0)
    team.update(4, 6)
    assert team.trainer.weight == 7.0
    assert len(team.retries) == 1


def test_groups_grow_and_shrink(team):
    """A new helper joins all others; a lost one is left out by all."""
    for rank in (1, 2):
        team.helper(rank)
        team.form_group(rank)
        team.update(1, 1, 1, 1, 1, 1)
    assert team.trainer.parts[-1] == (2, 0.5)
    team.kill(1)
    team.update(1, 1, 1, 1, 1, 1)
    assert team.trainer.parts[-1] == (6, 0.5)
    team.form_group(1)
    team.update(1, 1, 1, 1, 1, 1)
    assert (team.trainer.weight, team.trainer.parts[-1]) == (4.0, (3, 0.5))


def test_a_learner_updates_while_helpers_join(team):
    """It does not block, and gives up a group after a timeout."""
    name = f"helper-1-{PLAYER}"
    silent_helper = team.link.endpoint(name)
    team.helpers.receive_heartbeat(name, HelperHeartbeat(pid=1))
    for _ in range(3):
        team.helpers.maintain(team.trainer)
        team.update(1)
    assert [type(message) for _, message in silent_helper.receive(0.0)] == [FormGroup]
    team.now = 11.0
    team.helpers.maintain(team.trainer)
    team.helpers.receive_heartbeat(name, HelperHeartbeat(pid=2))
    team.now = 12.0
    team.helpers.maintain(team.trainer)
    assert [message.size for _, message in silent_helper.receive(0.0)] == [2]
    assert team.trainer.weight == 3.0


def test_heartbeats_from_before_an_invitation_are_ignored(team):
    """Messages are queued while a learner computes."""
    helper = team.helper()
    team.form_group(1)
    group = team.helpers._group
    team.helpers.receive_heartbeat(helper.name, HelperHeartbeat(pid=team.helpers._members[helper.name], group_id=0))
    team.helpers.maintain(team.trainer)
    assert team.helpers._group is group


def test_refused_batches_are_refused_by_the_learner_alone(team):
    """The whole batch is tried again; afterwards the group is formed again."""
    team.helper()
    team.form_group(1)
    for rewards in ((1, np.nan), (np.nan, 1)):
        with pytest.raises(ContractError, match="not a number"):
            team.update(*rewards)
        assert len(team.helpers) == 0
        team.form_group(1)
    team.update(1, 3)
    assert (team.trainer.weight, team.trainer.parts) == (2.0, [(1, 0.5)])


def test_a_batch_that_cannot_be_divided_is_computed_alone(team):
    """It has one segment."""
    team.helper()
    team.form_group(1)
    team.update(7)
    assert team.trainer.parts == [(1, 0.5)]
    team.form_group(1)


def test_a_new_trainer_is_copied_to_all_helpers(team):
    """As after a player reset."""
    helper = team.helper()
    team.form_group(1)
    team.helpers.regroup(team.trainer)
    team.trainer = Summing()
    team.trainer.weight = torch.tensor(40.0, dtype=torch.float64)
    team.update(1, 1)
    team.form_group(1)
    wait_for(lambda: helper.trainer.weight == 41.0)
    team.update(1, 3)
    assert team.trainer.weight == 43.0


def test_the_retry_delay_doubles_with_every_failure(team):
    """A successful update resets it."""
    team.helper()
    pauses = []
    for _ in range(3):
        team.form_group(1)
        with pytest.raises(ContractError, match="not a number"):
            team.update(np.nan, 1)
        began = team.now
        team.form_group(1)
        pauses.append(team.now - began)
    assert [round(pause) for pause in pauses] == [1, 2, 4]
    team.update(1, 1)
    with pytest.raises(ContractError, match="not a number"):
        team.update(np.nan, 1)
    began = team.now
    team.form_group(1)
    assert round(team.now - began) == 1


@pytest.mark.parametrize("answer", [False, WireError("too large")], ids=str)
def test_shards_that_cannot_be_sent_are_computed_by_the_learner(team, monkeypatch, answer):
    """Too large for a message, or the queue is full."""
    team.helper()
    team.form_group(1)

    def send(peer, message):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(team.link, "send", send)
    team.update(1, 3)
    assert (team.trainer.weight, team.trainer.parts, len(team.helpers)) == (2.0, [(2, 0.5)], 0)


def test_shards_of_an_earlier_group_are_ignored(team):
    """They belong to outdated weights."""
    helper = team.helper()
    team.form_group(1)
    helper.handle("", BatchShard(group_id=1, progress=0.0, more=False, arrays=batch([1]).arrays()))
    assert helper.trainer.parts == []


def test_a_stopped_helper_joins_no_group(tmp_path):
    """It only waits to exit."""
    link = InprocEndpoint("helper-1-main")
    rendezvous = LocalRendezvous(tmp_path, SharedFolder(tmp_path, "helper"))
    helper = HelperWorker("helper-1-main", GroupFormation("main", rendezvous, 1.0), Summing(), link, lambda: 0.0)
    helper.handle("", Stop())
    helper.handle("", FormGroup(group_id=1, rank=1, size=2))
    assert helper.stopped
    assert helper.drained
    assert not helper.work()


def test_a_helper_reports_that_it_could_not_join(tmp_path):
    """So that the learner opens the next group."""
    link = InprocEndpoint("helper-1-main")
    rendezvous = LocalRendezvous(tmp_path, SharedFolder(tmp_path, "helper"))
    helper = HelperWorker("helper-1-main", GroupFormation("main", rendezvous, 1.0), Summing(), link, lambda: 0.0)
    helper.handle("", FormGroup(group_id=7, rank=1, size=2))
    ((_, heartbeat),) = link.endpoint("learner-main").receive(0.0)
    assert (heartbeat.group_id, heartbeat.connected) == (7, False)
    with pytest.raises(LinkError):
        rendezvous.join("group-7", rank=1, size=2, timeout_s=1.0)
