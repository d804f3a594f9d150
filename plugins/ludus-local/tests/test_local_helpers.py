"""A learner and those who help it: who is called when, and what becomes of updates that fail."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch
from ludus import ContractError
from ludus._learning import data_parallel as _helpers
from ludus._learning.data_parallel import Helper, Helpers, Meeting
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
    """A trainer whose one weight is the mean of all rewards so far, summed over updates."""

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
    """Return one segment of one decision for each reward."""
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
    """Wait until a helper has done in its thread what the learner does not wait for."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Team:
    """A learner's side in this thread, and helpers in threads of their own."""

    def __init__(self, folder):
        self.folder, self.now = folder, 0.0
        self.link = InprocEndpoint(f"learner-{PLAYER}")
        self.trainer = Summing()
        self.begun_anew = []  # of what the trainer had made until then
        self.helpers = Helpers(
            self.meeting("learner"), self.link, lambda: self.now, lambda: self.begun_anew.append([*self.trainer.parts])
        )
        self.running = {}

    def meeting(self, name):
        return Meeting(PLAYER, LocalRendezvous(self.folder, SharedFolder(self.folder, name)), timeout_s=20.0)

    def helper(self, rank=1):
        """Start a helper."""
        name = f"helper-{rank}-{PLAYER}"
        link, end = self.link.endpoint(name), threading.Event()
        helper = Helper(name, self.meeting(name), Summing(), link, time.monotonic)

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

    def end(self, rank=1):
        """End a helper without a word, as when it is killed."""
        _, thread, end = self.running.pop(rank)
        end.set()
        thread.join()
        self.hear()  # or it would be called once more, and waited for

    def sent(self):
        """Return the parts that will have been sent from now on."""
        kept, send = [], self.link.send

        def keep(peer, message):
            kept.append(message)
            return send(peer, message)

        self.link.send = keep
        return kept

    def hear(self):
        """Take what helpers said."""
        for peer, message in self.link.receive(0.0):
            self.helpers.hear(peer, message)

    def gather(self, count):
        """Go on until so many help."""
        deadline = time.monotonic() + 30
        while len(self.helpers) != count:
            assert time.monotonic() < deadline
            if self.helpers._call is None:  # a helper may take any time to come
                self.now += 0.01
            self.hear()
            self.helpers.gather(self.trainer)
            time.sleep(0.001)

    def update(self, *rewards):
        self.helpers.update(self.trainer, batch(rewards), progress=0.5)


@pytest.fixture
def team(tmp_path):
    """Return a learner that nobody helps yet."""
    made = Team(tmp_path)
    yield made
    made.helpers.leave(made.trainer)
    for rank in [*made.running]:
        made.end(rank)


def test_without_helpers_a_learner_updates_alone(team):
    """Whole batches."""
    team.update(1, 2, 3)
    assert (team.trainer.weight, team.trainer.parts) == (2.0, [(3, 0.5)])


@pytest.mark.parametrize("count", [1, 3])
def test_helpers_get_parts_and_come_to_the_same_weights(team, count):
    """From where the learner is when they come; the mean is that of the whole batch."""
    team.update(5)
    helpers = [team.helper(rank) for rank in range(1, count + 1)]
    team.gather(count)
    team.update(*range(8))
    assert team.trainer.weight == 5 + 3.5
    for rank in [*team.running]:
        helper, thread, _ = team.running[rank]
        helper.link.endpoint("coordinator").send(helper.name, Stop())
        thread.join()
    assert [helper.trainer.weight for helper in helpers] == [8.5] * count
    assert sum(helper.trainer.parts[-1][0] for helper in helpers) + team.trainer.parts[-1][0] == 8
    assert {helper.trainer.parts[-1][1] for helper in helpers} == {0.5}


def test_large_parts_come_in_pieces(team, monkeypatch):
    """As large as a message may be; together they are the part, as read-only as any batch."""
    monkeypatch.setattr(_helpers, "_PIECE_BYTES", 1)
    helper = team.helper()
    team.gather(1)
    sent = team.sent()
    team.update(*range(8))
    assert [message.more for message in sent] == [True, True, True, False]
    assert team.trainer.weight == 3.5
    wait_for(lambda: helper.trainer.parts == [(4, 0.5)])
    assert helper.trainer.weight == 3.5
    assert not helper.trainer.writes


def test_pieces_of_a_part_that_never_came_whole_are_forgotten(team, monkeypatch):
    """The next part is none of theirs."""
    monkeypatch.setattr(_helpers, "_PIECE_BYTES", 1)
    helper = team.helper()
    team.gather(1)
    number = team.helpers._number
    team.link.send(helper.name, BatchShard(meeting=number, progress=0.0, more=True, arrays=batch([9]).arrays()))
    team.helpers.call_again(team.trainer)
    team.gather(1)
    team.update(1, 3)
    assert team.trainer.weight == 2.0
    wait_for(lambda: helper.trainer.parts == [(1, 0.5)])


def test_a_lost_helper_costs_nothing_but_time(team):
    """The learner computes the update again, alone; whoever comes later is taken in."""
    team.helper()
    team.gather(1)
    team.end()
    team.update(1, 3)
    assert (team.trainer.weight, len(team.helpers)) == (2.0, 0)
    assert team.begun_anew == [[]]
    helper = team.helper()
    team.gather(1)
    wait_for(lambda: helper.trainer.weight == 2.0)
    team.update(4, 6)
    assert team.trainer.weight == 7.0
    assert len(team.begun_anew) == 1


def test_one_more_helper_is_taken_in_by_all(team):
    """And one that has gone is missed by none of the others."""
    for rank in (1, 2):
        team.helper(rank)
        team.gather(rank)
        team.update(1, 1, 1, 1, 1, 1)
    assert team.trainer.parts[-1] == (2, 0.5)
    team.end(1)
    team.update(1, 1, 1, 1, 1, 1)
    assert team.trainer.parts[-1] == (6, 0.5)
    team.gather(1)
    team.update(1, 1, 1, 1, 1, 1)
    assert (team.trainer.weight, team.trainer.parts[-1]) == (4.0, (3, 0.5))


def test_a_learner_goes_on_while_those_it_has_called_come(team):
    """It waits for nobody, and gives one up that does not come."""
    name = f"helper-1-{PLAYER}"
    ghost = team.link.endpoint(name)
    team.helpers.hear(name, HelperHeartbeat(pid=1))
    for _ in range(3):
        team.helpers.gather(team.trainer)
        team.update(1)
    assert [type(message) for _, message in ghost.receive(0.0)] == [FormGroup]
    team.now = 11.0
    team.helpers.gather(team.trainer)
    team.helpers.hear(name, HelperHeartbeat(pid=2))
    team.now = 12.0
    team.helpers.gather(team.trainer)
    assert [message.size for _, message in ghost.receive(0.0)] == [2]
    assert team.trainer.weight == 3.0


def test_what_a_helper_said_before_it_was_called_calls_nobody_again(team):
    """Words wait while a learner computes."""
    helper = team.helper()
    team.gather(1)
    group = team.helpers._group
    team.helpers.hear(helper.name, HelperHeartbeat(pid=team.helpers._called[helper.name], meeting=0, alone=True))
    team.helpers.gather(team.trainer)
    assert team.helpers._group is group


def test_what_is_refused_is_refused_by_the_learner_alone(team):
    """With the whole batch; afterwards they find each other again."""
    team.helper()
    team.gather(1)
    for rewards in ((1, np.nan), (np.nan, 1)):
        with pytest.raises(ContractError, match="not a number"):
            team.update(*rewards)
        assert len(team.helpers) == 0
        team.gather(1)
    team.update(1, 3)
    assert (team.trainer.weight, team.trainer.parts) == (2.0, [(1, 0.5)])


def test_a_batch_that_cannot_be_divided_is_the_learners(team):
    """It has one segment."""
    team.helper()
    team.gather(1)
    team.update(7)
    assert team.trainer.parts == [(1, 0.5)]
    team.gather(1)


def test_another_trainer_is_taken_over_by_all(team):
    """As when the player starts anew."""
    helper = team.helper()
    team.gather(1)
    team.helpers.call_again(team.trainer)
    team.trainer = Summing()
    team.trainer.weight = torch.tensor(40.0, dtype=torch.float64)
    team.update(1, 1)
    team.gather(1)
    wait_for(lambda: helper.trainer.weight == 41.0)
    team.update(1, 3)
    assert team.trainer.weight == 43.0


def test_what_fails_again_and_again_is_tried_less_and_less(team):
    """A learner goes on alone; what goes well ends that."""
    team.helper()
    pauses = []
    for _ in range(3):
        team.gather(1)
        with pytest.raises(ContractError, match="not a number"):
            team.update(np.nan, 1)
        began = team.now
        team.gather(1)
        pauses.append(team.now - began)
    assert [round(pause) for pause in pauses] == [1, 2, 4]
    team.update(1, 1)
    with pytest.raises(ContractError, match="not a number"):
        team.update(np.nan, 1)
    began = team.now
    team.gather(1)
    assert round(team.now - began) == 1


@pytest.mark.parametrize("answer", [False, WireError("too large")], ids=str)
def test_parts_that_cannot_be_sent_are_computed_by_the_learner(team, monkeypatch, answer):
    """Too large for a message, or nobody takes them."""
    team.helper()
    team.gather(1)

    def send(peer, message):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(team.link, "send", send)
    team.update(1, 3)
    assert (team.trainer.weight, team.trainer.parts, len(team.helpers)) == (2.0, [(2, 0.5)], 0)


def test_parts_of_an_earlier_group_are_left_alone(team):
    """They are of weights that nobody has any more."""
    helper = team.helper()
    team.gather(1)
    helper.handle("", BatchShard(meeting=1, progress=0.0, more=False, arrays=batch([1]).arrays()))
    assert helper.trainer.parts == []


def test_one_that_was_stopped_follows_no_call(tmp_path):
    """There will be nobody."""
    link = InprocEndpoint("helper-1-main")
    rendezvous = LocalRendezvous(tmp_path, SharedFolder(tmp_path, "helper"))
    helper = Helper("helper-1-main", Meeting("main", rendezvous, 1.0), Summing(), link, lambda: 0.0)
    helper.handle("", Stop())
    helper.handle("", FormGroup(meeting=1, rank=1, size=2))
    assert helper.stopped
    assert helper.drained
    assert not helper.work()


def test_a_call_that_was_given_up_is_answered(tmp_path):
    """So that the next one comes."""
    link = InprocEndpoint("helper-1-main")
    rendezvous = LocalRendezvous(tmp_path, SharedFolder(tmp_path, "helper"))
    helper = Helper("helper-1-main", Meeting("main", rendezvous, 1.0), Summing(), link, lambda: 0.0)
    helper.handle("", FormGroup(meeting=7, rank=1, size=2))
    ((_, said),) = link.endpoint("learner-main").receive(0.0)
    assert (said.meeting, said.alone) == (7, True)
    with pytest.raises(LinkError):
        rendezvous.join("group-7", rank=1, size=2, timeout_s=1.0)
