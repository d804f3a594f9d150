"""Rows picked out of segments, wherever these lie."""

from __future__ import annotations

import mmap
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from ludus_ppo import transfer
from ludus_ppo.rows import RowSource, SequenceSource
from ludus_ppo.transfer import StagingBuffer, borrow

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def batch(make_ppo, make_batch):
    """Return six segments of eight decisions with masks, privileged leaves and bytes."""
    made = make_batch(make_ppo(), privileged={"fog": 2})
    rng = np.random.default_rng(0)
    made.action_mask = rng.random((9, 6, 4)) < 0.5
    made.observation["image"] = rng.integers(0, 256, (9, 6, 4, 5, 2), dtype=np.uint8)
    return made


def source_of(batch, device=CPU, **options):
    """Return a source whose advantages are row numbers."""
    steps, segments = batch.decided.shape
    numbers = torch.arange(steps * segments, dtype=torch.float32).reshape(steps, segments)
    more = {"advantage": numbers, "returns/value": -numbers}
    return RowSource(batch, trainable=batch.trainable(), more=more, device=device, **options)


def check(rows, batch, entries):
    """Compare rows with what NumPy picks."""
    step, segment = np.divmod(entries, batch.num_segments)
    assert rows.advantage.tolist() == entries.tolist()
    assert (-rows.returns["value"]).tolist() == entries.tolist()
    np.testing.assert_array_equal(rows.action, batch.action[step, segment])
    np.testing.assert_array_equal(rows.action_mask, batch.action_mask[step, segment])
    for ours, theirs in (
        (rows.observation, batch.observation),
        (rows.privileged, batch.privileged),
        (rows.extras, batch.extras),
    ):
        assert ours.keys() == theirs.keys()
        for name, tensor in ours.items():
            np.testing.assert_array_equal(tensor, theirs[name][step, segment])


def apart(array):
    """Return the same values as part of a larger array, as segments of a shared block are."""
    larger = np.zeros((array.shape[0], array.shape[1] + 5, *array.shape[2:]), array.dtype)
    larger[:, 2:-3] = array
    return larger[:, 2:-3]


def transposed(array):
    """Return the same values with segments outermost in memory."""
    return np.ascontiguousarray(array.swapaxes(0, 1)).swapaxes(0, 1)


def backwards(array):
    """Return the same values with the last axis reversed in memory."""
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1]


@pytest.mark.parametrize("layout", [np.asarray, apart, transposed, backwards])
def test_rows_are_picked_from_any_layout(batch, layout):
    """Whole arrays, parts of larger ones, and ones that have to be copied first."""
    arrays = {name: layout(a) if a.ndim > 1 else a for name, a in batch.arrays().items()}
    entries = np.array([47, 0, 13, 13, 8])
    check(source_of(type(batch).from_arrays(arrays)).take(entries), batch, entries)


def test_bytes_stay_bytes(batch):
    """Observations keep their dtype until the network widens them."""
    assert source_of(batch).take(np.array([3])).observation["image"].dtype is torch.uint8


def test_one_array_can_be_picked(batch):
    """Without the others."""
    batch.decided[2, 3] = False
    picked = source_of(batch).pick("extras/value")
    np.testing.assert_array_equal(picked, batch.extras["value"][batch.trainable()])


def test_minibatches_are_the_trainable_decisions(batch):
    """In random order, each once; a share of them is drawn anew every time."""
    batch.decided[2, 3] = False
    source, rng = source_of(batch), np.random.default_rng(0)
    parts = source.minibatches(rng, count=4)
    assert sorted(np.concatenate(parts)) == np.flatnonzero(batch.trainable()).tolist()
    assert {part.size for part in parts} == {11, 12}
    some, others = (np.concatenate(source.minibatches(rng, count=2, share=0.25)) for _ in range(2))
    assert some.size == others.size == 12
    assert set(some) != set(others)


@pytest.mark.parametrize("decisions", [5, 40, 300, 3000, 3001, 4096])
def test_few_shapes_occur(make_ppo, make_batch, decisions):
    """Minibatches differ by a sixteenth at most, lose nothing, and the network sees a multiple of that."""
    batch = make_batch(make_ppo(), steps=1, segments=decisions)
    steps = torch.zeros(2, decisions)
    more = {"advantage": steps, "returns/value": steps}
    source = RowSource(batch, trainable=batch.trainable(), more=more, device=CPU, few_shapes=True)
    parts = source.minibatches(np.random.default_rng(0), count=4)
    assert sorted(np.concatenate(parts)) == list(range(decisions))
    sizes = [len(source.take(part).observation["obs"]) for part in parts]
    unit = max(1, 2 ** int(np.log2(max(1, decisions / 64))))
    assert all(size % unit == 0 for size in sizes)
    assert max(sizes) - min(sizes) <= max(2, 2 * unit)
    assert sum(sizes) <= decisions + 2 * unit


def repeat(batch, times):
    """Let so many segments in a row hold the same observations, privileged leaves included."""
    for leaves in (batch.observation, batch.privileged):
        for leaf in leaves.values():
            leaf[...] = np.repeat(leaf[:, ::times], times, axis=1)


@pytest.mark.parametrize("few_shapes", [False, True])
def test_what_several_have_seen_is_taken_once(batch, few_shapes):
    """Every decision finds what it saw, in all leaves; what else belongs to it stays its own."""
    repeat(batch, 3)
    entries = np.array([47, 0, 13, 13, 8, 1, 2, 3])
    rows = source_of(batch, merged=True, few_shapes=few_shapes).take(entries)
    assert len(rows.observation["obs"]) == len(rows.privileged["fog"]) == 5
    for leaves in (rows.observation, rows.privileged):
        for name, leaf in leaves.items():
            leaves[name] = leaf[rows.seen]
    check(rows, batch, entries)


def test_few_shapes_occur_where_rows_are_merged(make_ppo, make_batch):
    """The numbers of different observations are rounded to an eighth of a minibatch or less."""
    batch = make_batch(make_ppo(), steps=1, segments=3000)
    repeat(batch, 5)
    source = source_of(batch, merged=True, few_shapes=True)
    rows = [source.take(part) for part in source.minibatches(np.random.default_rng(0), count=4)]
    assert all(len(taken.observation["obs"]) % 64 == 0 for taken in rows)
    assert all(0 <= len(taken.observation["obs"]) - 1 - taken.seen.max() < 64 for taken in rows)
    assert all(len(taken.observation["obs"]) < len(taken.action) for taken in rows)


def test_minibatches_hold_what_is_equal_together(make_ppo, make_batch):
    """Each decision once, in new places every time; what very many saw is spread over all minibatches."""
    batch = make_batch(make_ppo(), steps=1, segments=4000)
    often, seldom = np.arange(4000) < 1000, (np.arange(4000) - 1000) // 3  # 1,000 saw the same, the others three each
    batch.observation["obs"][0] = np.where(often, -1, seldom)[:, None]
    source, rng = source_of(batch, merged=True), np.random.default_rng(0)
    first, second = (source.minibatches(rng, count=4) for _ in range(2))
    for parts in (first, second):
        assert sorted(np.concatenate(parts)) == list(range(4000))
        assert {part.size for part in parts} == {1000}
        assert all(150 < np.count_nonzero(often[part]) < 350 for part in parts)
        different = [len(source.take(part).observation["obs"]) - 1 for part in parts]
        assert 1000 <= sum(different) <= 1000 + 3  # at most three are cut in two
    assert set(first[0]) != set(second[0])


@pytest.mark.parametrize("seed", range(3))
def test_what_many_saw_comes_no_earlier(make_ppo, make_batch, seed):
    """Every place in the order is as likely for it as for what few saw."""
    batch = make_batch(make_ppo(), steps=1, segments=3000)
    often = np.arange(3000) < 1000
    batch.observation["obs"][0] = np.where(often, np.arange(3000) // 10, 1000 + np.arange(3000) // 2)[:, None]
    (order,) = source_of(batch, merged=True).minibatches(np.random.default_rng(seed), count=1)
    assert abs(np.flatnonzero(often[order]).mean() / 1500 - 1) < 0.25


def test_a_leaf_that_tells_decisions_apart_is_heard(batch):
    """Equal observations before different privileged leaves are two things to a critic."""
    repeat(batch, 3)
    batch.privileged["fog"][0, 1] += 1
    rows = source_of(batch, merged=True).take(np.array([0, 1, 2]))
    assert len(rows.privileged["fog"]) == 2
    assert rows.seen[0] == rows.seen[2] != rows.seen[1]


@pytest.mark.parametrize("pairs", [0, 1])
def test_where_hardly_any_are_equal_nothing_is_merged(batch, pairs):
    """Comparing the rows of every minibatch would cost more than it saves."""
    for leaf in (*batch.observation.values(), *batch.privileged.values()):
        leaf[0, :pairs] = leaf[1, :pairs]
    assert source_of(batch, merged=True).take(np.arange(12)).seen is None


def test_a_large_batch_is_judged_by_a_sample(make_ppo, make_batch, monkeypatch):
    """Where all that the sample shows is different, the rest is not even read."""
    batch, read = make_batch(make_ppo(), segments=500), []
    pick = RowSource._pick

    def noted(self, name, places):
        read.extend(map(len, places.values()))
        return pick(self, name, places)

    monkeypatch.setattr(RowSource, "_pick", noted)
    source_of(batch, merged=True)
    assert 0 < max(read) <= 512 < batch.num_decisions


def test_rows_are_copies(batch):
    """The memory of the segments may be reused afterwards."""
    rows = source_of(batch).take(np.array([0, 1]))
    before = rows.observation["obs"].clone()
    batch.observation["obs"][:] = 0
    assert torch.equal(rows.observation["obs"], before)


def test_read_only_memory_is_borrowed_without_a_copy():
    """A tensor on a mapping that cannot be written, which torch alone would warn about."""
    with mmap.mmap(-1, 4096) as memory:
        writer = np.frombuffer(memory, np.float32, 6).reshape(2, 3)
        reader = writer[:, 1:]
        reader.flags.writeable = False
        tensor = borrow(reader)
        writer[1, 2] = 5.0
        assert tensor.shape == (2, 2)
        assert tensor[1, 1] == 5.0
        del writer, reader, tensor


def test_borrowed_memory_stays_alive():
    """The tensor keeps what it was made of."""
    array = np.arange(1000.0)
    array.flags.writeable = False
    tensor = borrow(array)
    del array
    assert torch.equal(tensor, torch.arange(1000.0, dtype=torch.float64))


@pytest.fixture
def gpu_log(monkeypatch):
    """Return what a GPU is asked to do from now on, while the CPU does it."""
    log, empty, send, copy = [], torch.empty, torch.Tensor.to, torch.Tensor.copy_

    class Stream:
        def __enter__(self):
            log.append("transfer")

        def __exit__(self, *_):
            log.append("compute")

        def wait_stream(self, _):
            log.append("wait")

    event = SimpleNamespace(record=lambda _: log.append("marked"), synchronize=lambda: log.append("waited"))

    def stream(_):
        log.append("stream")
        return Stream()

    def pinned(*shape, dtype, pin_memory=False, device=None):
        log.extend(["pinned"] * pin_memory)
        return empty(*shape, dtype=dtype)

    def copied(tensor, source, *, non_blocking=False):
        log.extend(["sent"] * non_blocking)
        return copy(tensor, source)

    def pin(tensor):
        log.append("pinned")
        return tensor

    def to(tensor, _, *, non_blocking=False):
        log.append("sent" if non_blocking else "sent and waited")
        return send(tensor, CPU)

    monkeypatch.setattr(torch.cuda, "Stream", stream)
    monkeypatch.setattr(torch.cuda, "Event", lambda: event)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: Stream())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda _, stream: log.append("record"), raising=False)
    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "copy_", copied)
    monkeypatch.setattr(torch, "empty", pinned)
    transfer._transfer_stream.cache_clear()
    yield log
    transfer._transfer_stream.cache_clear()


def test_a_gpu_gets_a_batch_by_one_copy(batch, gpu_log):
    """And selects rows by itself: only their numbers follow."""
    batch.action = apart(batch.action)
    source = source_of(batch, GPU)
    assert gpu_log == ["pinned", "sent", "marked"]
    for entries in (np.array([7, 3]), np.array([0, 47, 13])):
        gpu_log.clear()
        check(source.take(entries), batch, entries)
        assert [what for what in gpu_log if what != "sent and waited"] == ["pinned", "sent"]


def test_batches_are_packed_in_the_same_pinned_memory(batch, gpu_log):
    """Once the GPU has read what was there."""
    landing = StagingBuffer(GPU)
    for expected in (["pinned", "sent", "marked"], ["waited", "sent", "marked"]):
        gpu_log.clear()
        source_of(batch, GPU, landing=landing)
        assert gpu_log == expected


def landed(batch, monkeypatch):
    """Return both kinds of sources of a batch, each where it is, as if it was too large, and where it has landed."""
    batch.initial_state = {"memory": np.arange(2.0 * batch.num_segments, dtype=np.float32).reshape(-1, 2)}
    numbers = torch.arange(batch.decided.size, dtype=torch.float32).view(batch.decided.shape)
    more = {"advantage": numbers, "returns/value": -numbers}
    given = {"trainable": batch.trainable(), "more": more, "device": CPU}
    made = []
    for most in (0, 1 << 20):
        monkeypatch.setattr(transfer, "_MOST_WHOLE", most)
        rows = RowSource(batch, landing=StagingBuffer(CPU), **given)
        made.append((rows, SequenceSource(batch, landing=StagingBuffer(CPU), burn_in=1, **given)))
    assert [source._transfer.whole for source in (*made[0], *made[1])] == [False, False, True, True]
    return list(zip(*made, strict=True))


@pytest.mark.parametrize("segments", [6, 41])
def test_what_has_landed_is_the_batch(make_ppo, make_batch, monkeypatch, segments):
    """Also where more segments fill it up: rows, whole segments, and single arrays."""
    batch = make_batch(make_ppo(), segments=segments, privileged={"fog": 2})
    batch.length[:4], batch.terminated[:] = [8, 3, 1, 8], False
    parts = np.flatnonzero(batch.trainable())[:19], np.arange(5)
    for (here, there), part in zip(landed(batch, monkeypatch), parts, strict=True):
        expected = here.take(part).named()
        (chosen,) = there.choose([part])
        for rows in (there.take(part), *chosen.parts()):
            assert rows.named().keys() == expected.keys()
            for name, tensor in rows.named().items():
                torch.testing.assert_close(tensor, expected[name], rtol=0, atol=1e-9, msg=name)
        assert chosen.count == here.take(part).count
        for picked in (there.pick("extras/value"), here.pick("extras/value")):
            np.testing.assert_array_equal(picked, batch.extras["value"][batch.trainable()])


def test_batches_land_in_the_place_of_those_before(make_ppo, make_batch):
    """As long as there is room: a larger one goes elsewhere, and takes nothing from what was chosen before."""
    landing, places = StagingBuffer(CPU), []
    for number, segments in enumerate((40, 39, 37, 400, 40)):
        batch = make_batch(make_ppo(), segments=segments, seed=number)
        (chosen,) = source_of(batch, landing=landing).choose([np.arange(7), np.arange(3, 13)])
        _, rows = chosen.parts()
        np.testing.assert_array_equal(rows.observation["obs"], batch.observation["obs"][0, 3:13])
        places.append((chosen, min(tensor.data_ptr() for tensor in chosen.batch.values())))
    assert places[0][1] == places[1][1] == places[2][1] != places[3][1] == places[4][1]


def test_rows_of_a_large_batch_pass_through_pinned_memory(batch, gpu_log, monkeypatch):
    """Every array is picked into pinned memory and sent without waiting, on the stream for transfers."""
    monkeypatch.setattr(transfer, "_MOST_WHOLE", 0)
    entries = np.array([7, 3])
    check(source_of(batch, GPU).take(entries), batch, entries)
    arrays = 9
    picked, sent = ["pinned"] * arrays, ["transfer", *["sent"] * arrays, "compute"]
    assert gpu_log == [*picked, "stream", *sent, "wait", *["record"] * arrays]


def test_a_gpu_has_one_stream_for_transfers(batch, gpu_log, monkeypatch):
    """However many batches are learned from: what one stream has freed, the copies of another cannot use."""
    monkeypatch.setattr(transfer, "_MOST_WHOLE", 0)
    for _ in range(3):
        source_of(batch, GPU).take(np.array([7, 3]))
    assert gpu_log.count("stream") == 1
    assert gpu_log.count("transfer") == 3


def test_what_was_never_written_is_unrolled_as_a_valid_input(batch):
    """Whatever lies behind the end of a segment, the network reads the segment's first observation there."""
    batch.length[:] = [8, 3, 1, 8, 8, 8]
    batch.terminated[:] = False
    batch.observation["number"] = np.full((9, 6), 5)  # one of 1 to 9, say
    for entry, segment in ((4, 1), (8, 1), (2, 2)):  # behind the entry that is bootstrapped from
        batch.observation["number"][entry, segment] = -(10**6)
        batch.observation["obs"][entry, segment] = np.nan
    batch.initial_state = {"memory": np.zeros((6, 2), np.float32)}
    nothing = torch.zeros(9, 6)
    more = {"advantage": nothing, "returns/value": nothing}
    rows = SequenceSource(batch, trainable=batch.trainable(), more=more, device=CPU).take(np.arange(6))
    assert (rows.observation["number"] == 5).all()
    np.testing.assert_array_equal(rows.observation["obs"][4:, 1], np.tile(batch.observation["obs"][0, 1], (4, 1)))
    np.testing.assert_array_equal(rows.observation["obs"][:4, 1], batch.observation["obs"][:4, 1])
