"""Groups of processes: what they exchange, and what happens when one of them is lost."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from ludus.errors import LinkError
from ludus_local.group import LocalRendezvous
from ludus_local.memory import SharedFolder

SPAWN = multiprocessing.get_context("spawn")
TIMEOUT_S = 60.0


class Weights:
    """A trainer as far as those who meet know it."""

    def __init__(self, rank):
        self._weights = {"b": np.full((2, 3), rank, np.float32), "a": np.full((), rank, np.float64)}
        self._state = {"seed": np.array(rank + 5), "flags": np.array([rank == 0, True]), "none": np.zeros((0, 2))}

    def weights(self):
        """Return copies."""
        return {name: array.copy() for name, array in self._weights.items()}

    def state(self):
        """Return copies."""
        return {name: array.copy() for name, array in self._state.items()}

    def load_weights(self, weights):
        """Take them over."""
        self._weights = weights

    def load_state(self, state):
        """Take it over."""
        self._state = state

    def join(self, group):
        """Take a group over."""
        self.group = group


def rendezvous(folder, rank):
    """Return where a process meets others."""
    return LocalRendezvous(folder, SharedFolder(folder, f"learner-{rank}"))


def called(call):
    """Return the group of a call."""
    while (group := call.poll()) is None:
        time.sleep(0.01)
    return group


def meet(folder, name, *, rank, size=2):
    """Join a group, as the first of it or as another."""
    import torch

    torch.set_num_threads(1)
    where = rendezvous(folder, rank)
    while rank:
        with suppress(LinkError):  # it has not been opened yet
            return where.join(name, rank=rank, size=size, timeout_s=TIMEOUT_S)
        time.sleep(0.01)
    return called(where.call(name, size=size, timeout_s=TIMEOUT_S))


def exchange(rank, folder, size, said):
    """Say what the methods of a group come to."""
    import torch
    from ludus._learning.data_parallel import align

    group = meet(folder, "meeting", rank=rank, size=size)
    mean = [torch.tensor([1.0, 2.0]) * rank, torch.tensor([[4.0]]) * rank]
    group.mean(mean, weight=1 + 2 * rank)
    exact = torch.tensor([0.1 * (rank + 1)], dtype=torch.float64)
    group.mean([exact])
    large = [torch.arange(50_000.0) * (rank + 1), torch.ones(7, 5, requires_grad=True)]
    group.mean(large)  # does not fit into the memory that they had
    assert torch.allclose(large[0], torch.arange(50_000.0) * (size + 1) / 2, rtol=1e-6)
    assert torch.equal(large[1], torch.ones(7, 5))
    copied = [torch.tensor([rank, 7]), torch.tensor([rank == 1])]
    group.copy(copied, source=1)
    group.copy([], source=0)
    much = [torch.full((3_000_001,), rank, dtype=torch.uint8)]  # more than goes at once
    group.copy(much, source=1)
    assert much[0].all()
    least = [group.least(3 - rank), group.least(float("inf"))]
    group.close()

    trainer = Weights(rank)
    align(trainer, meet(folder, "again", rank=rank, size=size))
    everything = {**trainer.weights(), **trainer.state()}
    told = {name: (str(array.dtype), array.tolist()) for name, array in everything.items()}
    said.put((rank, [tensor.tolist() for tensor in (*mean, exact, *copied)], least, told))
    trainer.group.close()


def lose(rank, folder, size, said):
    """Lose the other one in the middle of an exchange, and meet another."""
    import torch

    name, place = {0: ("first", 0), 1: ("first", 1), 2: ("second", 1)}[rank]
    group = meet(folder, name, rank=place)
    if rank == 1:
        os._exit(0)
    if rank == 0:
        began = time.monotonic()
        try:
            while True:
                group.mean([torch.ones(10)])
        except LinkError as error:
            said.put((str(error), time.monotonic() - began))
        group.close()
        group = meet(folder, "second", rank=0)
    both = [torch.tensor([float(rank)])]
    group.mean(both)
    said.put((rank, both[0].item()))
    group.close()


def told(target, size, folder):
    """Return what processes say, as many things as they are."""
    said = SPAWN.SimpleQueue()
    processes = [SPAWN.Process(target=target, args=(rank, folder, size, said)) for rank in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * size
    return [said.get() for _ in range(size)]


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_processes_exchange_what_a_group_promises(tmp_path, size):
    """Weighted means, least numbers and copies, to the bit in all; trainers become the first one; no file is left."""
    (_, *one), *others = sorted(told(exchange, size, tmp_path))
    assert all(other == one for _, *other in others)
    tensors, least, trainer = one
    ranks = np.arange(size)
    mean = np.average(ranks, weights=1 + 2 * ranks)
    assert tensors[0] == pytest.approx([mean, 2 * mean])
    assert tensors[1:] == [[pytest.approx([4 * mean])], pytest.approx([0.05 * (size + 1)], abs=1e-15), [1, 7], [True]]
    assert least == [4 - size, float("inf")]
    assert trainer == {
        "b": ("float32", [[0.0] * 3] * 2),
        "a": ("float64", 0.0),
        "seed": ("int64", 5),
        "flags": ("bool", [True, True]),
        "none": ("float64", []),
    }
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_who_is_lost_is_noticed_at_once_and_another_takes_its_place(tmp_path):
    """Long before the timeout; a process may be in one group after the other."""
    (error, waited_s), *rest = told(lose, 3, tmp_path)
    assert "another process of the learner is gone" in error
    assert waited_s < TIMEOUT_S / 2
    assert sorted(rest) == [(0, 1.0), (2, 1.0)]


def test_a_call_waits_for_nobody(tmp_path):
    """Who is there comes when called; who leaves again is noticed."""
    call = rendezvous(tmp_path, 0).call("meeting", size=3, timeout_s=TIMEOUT_S)
    assert call.poll() is None
    one = rendezvous(tmp_path, 1).join("meeting", rank=1, size=3, timeout_s=TIMEOUT_S)
    assert call.poll() is None
    two = rendezvous(tmp_path, 2).join("meeting", rank=2, size=3, timeout_s=TIMEOUT_S)
    group = call.poll()
    assert (group.rank, group.size) == (0, 3)
    one.close()
    with pytest.raises(LinkError, match="another process of the learner is gone"):
        group.least(1)
    group.close()
    with pytest.raises(LinkError, match="another process of the learner is gone"):
        two.least(1)
    two.close()
    assert not list(tmp_path.iterdir())


def test_those_who_do_different_things_do_not_go_together(tmp_path):
    """Instead of adding up what does not belong together."""
    import torch

    call = rendezvous(tmp_path, 0).call("meeting", size=2, timeout_s=TIMEOUT_S)
    one = rendezvous(tmp_path, 1).join("meeting", rank=1, size=2, timeout_s=TIMEOUT_S)
    group = called(call)
    with ThreadPoolExecutor(2) as pool:
        least, mean = pool.submit(group.least, 1), pool.submit(one.mean, [torch.ones(3)])
    for failed in (least, mean):
        with pytest.raises(LinkError, match="the processes of the learner do not go together: "):
            failed.result()
    group.close()
    one.close()
    assert not list(tmp_path.iterdir())


def test_who_was_called_in_vain_hears_of_it(tmp_path):
    """From the call that was given up, and from one that there never was."""
    call = rendezvous(tmp_path, 0).call("meeting", size=3, timeout_s=TIMEOUT_S)
    one = rendezvous(tmp_path, 1).join("meeting", rank=1, size=3, timeout_s=TIMEOUT_S)
    assert call.poll() is None
    call.close()
    with pytest.raises(LinkError, match="another process of the learner is gone"):
        one.least(1)
    one.close()
    with pytest.raises(LinkError, match="the learner has given up the meeting"):
        rendezvous(tmp_path, 1).join("meeting", rank=1, size=3, timeout_s=TIMEOUT_S)
    assert not list(tmp_path.iterdir())
