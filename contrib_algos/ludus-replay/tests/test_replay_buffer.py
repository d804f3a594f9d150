"""Tests of the replay buffer."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus.errors import ConfigError, ContractError, ModelError
from ludus_replay.buffer import ReplayBuffer
from ludus_replay.layout import ReplayLayout
from ludus_replay.rows import make_rows


@pytest.fixture(scope="session")
def make_replay(role):
    """Return a function that makes a replay buffer."""

    def make(capacity=1000, *, memory_mb=10.0, sums=(), privileged=False, **options):
        layout = ReplayLayout.for_role(role, sums=sums, privileged=privileged)
        return ReplayBuffer(layout, capacity=capacity, memory_mb=memory_mb, **options)

    return make


def rows_from(replay, batch, **options):
    """Return the rows of a batch."""
    return make_rows(batch, replay._layout, **{"gamma": 0.5, "n_step": 2, **options})


def index_transitions(rows):
    """Return every transition of rows by the number of its first observation."""
    arrays, found = rows.arrays, {}
    for row in np.flatnonzero(arrays["offset"]):
        end = row + arrays["offset"][row] * (arrays["discount"][row] > 0)
        found[float(arrays["observation/speed"][row, 0])] = {
            "board": arrays["observation/board"][row].tolist(),
            "action": arrays["action"][row].tolist(),
            "mask": arrays["action_mask"][row].tolist(),
            "reward": float(arrays["reward"][row]),
            "discount": float(arrays["discount"][row]),
            "next": float(arrays["observation/speed"][end, 0]),
            "next_mask": arrays["action_mask"][end].tolist(),
        }
    return found


def index_sample(sample):
    """Return sampled transitions in the form of `index_transitions`."""
    speed, after = sample.observation["speed"][:, 0], sample.next_observation["speed"][:, 0]
    return {
        float(speed[i]): {
            "board": sample.observation["board"][i].tolist(),
            "action": sample.action[i].tolist(),
            "mask": sample.action_mask[i].tolist(),
            "reward": float(sample.reward[i]),
            "discount": float(sample.discount[i]),
            "next": float(after[i]),
            "next_mask": sample.next_action_mask[i].tolist(),
        }
        for i in range(speed.size)
    }


@settings(max_examples=40, deadline=None)
@given(capacity=st.integers(1, 60), batches=st.integers(1, 8), exponent=st.sampled_from([None, 0.6]))
def test_samples_are_the_newest_transitions(make_replay, make_batch, capacity, batches, exponent):
    """Exactly the transitions of the last `capacity` rows, each with its own end."""
    replay = make_replay(capacity, priority_exponent=exponent)
    history, starts = {}, []
    for seed in range(batches):
        rows = rows_from(replay, make_batch(seed))
        history |= index_transitions(rows)
        speed = rows.arrays["observation/speed"][:, 0]
        starts += [float(s) if o else None for s, o in zip(speed, rows.arrays["offset"], strict=True)]
        replay.add(rows)
    expected = {start for start in starts[-capacity:] if start is not None}
    assert len(replay) == len(expected)
    if expected:
        sample = index_sample(replay.sample(40 * len(expected), np.random.default_rng(0)))
        assert sample == {start: history[start] for start in expected}


def test_truncated_match_bootstraps_with_its_final_mask(make_replay, make_batch):
    """The mask recorded with the final observation becomes the next mask."""
    replay, batch = make_replay(), make_batch(3)
    final = ~batch.decided[1:] & batch.truncated[:-1]
    assert final.any()
    batch.action_mask[1:][final] = np.arange(batch.action_mask.shape[2]) == 0
    replay.add(rows_from(replay, batch, n_step=1))
    sample = replay.sample(2000, np.random.default_rng(0))
    ends = np.isin(sample.next_observation["speed"][:, 0], batch.observation["speed"][1:][final])
    assert ends.any()
    assert (sample.next_action_mask[ends] == (np.arange(batch.action_mask.shape[2]) == 0)).all()


def test_samples_are_copies(make_replay, make_batch):
    """Changing a sample does not change the buffer."""
    replay = make_replay()
    replay.add(rows_from(replay, make_batch()))
    before = replay.state()
    sample = replay.sample(50, np.random.default_rng(0))
    sample.observation["board"][:] = 0
    sample.action_mask[:] = False
    assert all(np.array_equal(array, before[name]) for name, array in replay.state().items())


def test_uniform_samples_are_uniform(make_replay, make_batch):
    """Every transition is sampled about equally often, with weight 1."""
    replay = make_replay()
    replay.add(rows_from(replay, make_batch(3)))
    sample = replay.sample(20_000, np.random.default_rng(0))
    _, counts = np.unique(sample.index, return_counts=True)
    assert counts.size == len(replay)
    assert np.abs(counts / (20_000 / len(replay)) - 1).max() < 0.15
    assert (sample.weight == 1).all()


def test_equal_seeds_give_equal_samples(make_replay, make_batch):
    """The generator is the only source of randomness."""
    replay = make_replay(priority_exponent=0.5)
    replay.add(rows_from(replay, make_batch()))
    one, other = (replay.sample(9, np.random.default_rng(4)) for _ in range(2))
    assert np.array_equal(one.index, other.index)


def test_sampling_is_proportional_to_the_power_of_priorities(make_replay, make_batch):
    """Frequencies match to 5 %."""
    replay = make_replay(priority_exponent=0.5)
    replay.add(rows_from(replay, make_batch(3)))
    index = np.unique(replay.sample(1000, np.random.default_rng(0)).index)
    priority = 1.0 + np.arange(index.size)
    replay.set_priorities(index, priority)
    sample = replay.sample(50_000, np.random.default_rng(0))
    found, counts = np.unique(sample.index, return_counts=True)
    assert np.array_equal(found, index)
    expected = np.sqrt(priority) / np.sqrt(priority).sum()
    assert counts / 50_000 == pytest.approx(expected, rel=0.05)


def test_importance_weights_equal_hand_computed_values(make_replay, make_batch):
    """Priorities 1 and 16 with exponent ½ are sampled 1 : 4; with beta ½ their weights are 1 and ½."""
    replay = make_replay(priority_exponent=0.5)
    replay.add(rows_from(replay, make_batch(3)))
    index = np.unique(replay.sample(1000, np.random.default_rng(0)).index)
    priority = np.where(np.arange(index.size) % 2, 1.0, 16.0)
    replay.set_priorities(index, priority)
    sample = replay.sample(200, np.random.default_rng(0), beta=0.5)
    heavy = np.isin(sample.index, index[priority == 16])
    assert 0 < heavy.sum() < 200
    assert sample.weight[heavy] == pytest.approx(0.5)
    assert sample.weight[~heavy] == pytest.approx(1)


def test_new_transitions_get_the_largest_priority(make_replay, make_batch):
    """New transitions are likely to be sampled once."""
    replay = make_replay(priority_exponent=1.0)
    replay.add(rows_from(replay, make_batch(0)))
    first = np.unique(replay.sample(2000, np.random.default_rng(0)).index)
    replay.set_priorities(first, np.linspace(0.5, 7.0, first.size))
    replay.add(rows_from(replay, make_batch(1)))
    new = ~np.isin(np.arange(replay.capacity), first) & (replay._arrays["offset"] > 0)
    assert replay.max_priority == 7
    assert (replay._tree.get(np.flatnonzero(new)) == 7).all()


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_priority_that_is_not_positive_raises(make_replay, make_batch, bad):
    """Zero would exclude a transition for ever, infinity all others."""
    replay = make_replay(priority_exponent=1.0)
    replay.add(rows_from(replay, make_batch()))
    with pytest.raises(ContractError, match="positive and finite"):
        replay.set_priorities(np.array([0]), np.array([bad]))


def test_priorities_are_ignored_in_a_uniform_buffer(make_replay, make_batch):
    """An algorithm may set them anyway."""
    replay = make_replay()
    replay.add(rows_from(replay, make_batch()))
    replay.set_priorities(np.array([0]), np.array([5.0]))
    assert replay.max_priority == 1


def test_sampling_from_an_empty_buffer_raises(make_replay):
    """The message states that the buffer is empty."""
    with pytest.raises(ContractError, match="the buffer is empty"):
        make_replay().sample(1, np.random.default_rng(0))


def test_samples_include_privileged_leaves_and_sums(make_replay, make_batch):
    """If the layout includes them."""
    replay, batch = make_replay(sums=["bonus"], privileged=True), make_batch(2)
    replay.add(rows_from(replay, batch, n_step=1, sums={"bonus": 2 * batch.reward}))
    sample = replay.sample(100, np.random.default_rng(0))
    assert sample.privileged["hidden"].shape == sample.next_privileged["hidden"].shape == (100, 3)
    assert np.array_equal(sample.sums["bonus"], 2 * sample.reward)


# -- memory --------------------------------------------------------------------------------------------------------


def test_memory_limit_reduces_the_capacity(make_replay, caplog):
    """One log line reports it."""
    with caplog.at_level(logging.WARNING):
        replay = make_replay(1_000_000, memory_mb=1)
    held = sum(array.nbytes for array in replay._arrays.values()) + replay._starts.nbytes
    assert 0.9 * 2**20 < held <= 2**20
    (record,) = caplog.records
    row = 2**20 // replay.capacity
    assert record.message == (
        f"replay: 1000000 rows of {row} bytes would take {1e6 * row / 2**20:.0f} MB; "
        f"storing {replay.capacity} rows in 1 MB"
    )


def test_sufficient_memory_is_not_logged(make_replay, caplog):
    """The capacity is as requested."""
    assert make_replay(1000).capacity == 1000
    assert caplog.records == []


def test_memory_limit_includes_priorities(make_replay):
    """The tree has up to four numbers per row."""
    plain, prioritized = (make_replay(10**6, memory_mb=1, priority_exponent=e) for e in (None, 0.6))
    held = sum(a.nbytes for a in prioritized._arrays.values()) + prioritized._starts.nbytes
    assert held + prioritized._tree._nodes.nbytes <= 2**20
    assert prioritized.capacity < plain.capacity


def test_too_little_memory_raises(make_replay):
    """The message has the figures that the user needs to change."""
    with pytest.raises(
        ConfigError, match=r"0.01 MB and a capacity of 1000 fit \d+ rows of \d+ bytes; expected at least 500"
    ):
        make_replay(1000, memory_mb=0.01, min_rows=500)


# -- transactions and checkpoints ----------------------------------------------------------------------------------


def states_equal(one, other):
    """Return whether two states are equal."""
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


@pytest.mark.parametrize("capacity", [1000, 30])
@pytest.mark.parametrize("exponent", [None, 0.6])
def test_failed_transaction_is_undone(make_replay, make_batch, capacity, exponent):
    """Rows and later samples are as before."""
    replay = make_replay(capacity, priority_exponent=exponent)
    for seed in range(3):
        replay.add(rows_from(replay, make_batch(seed)))
    before, sample = replay.state(), replay.sample(50, np.random.default_rng(0))

    def fail():
        replay.add(rows_from(replay, make_batch(4)))
        replay.set_priorities(replay.sample(5, np.random.default_rng(0)).index, np.full(5, 9.0))
        replay.add(rows_from(replay, make_batch(5)))
        assert not states_equal(before, replay.state())
        raise KeyError

    with pytest.raises(KeyError), replay.transaction():
        fail()
    assert states_equal(before, replay.state())
    assert np.array_equal(sample.index, replay.sample(50, np.random.default_rng(0)).index)
    replay.add(rows_from(replay, make_batch(6)))


def test_successful_transaction_is_kept(make_replay, make_batch):
    """The state equals that without a transaction."""
    one, other = make_replay(), make_replay()
    with one.transaction():
        one.add(rows_from(one, make_batch()))
    other.add(rows_from(other, make_batch()))
    assert states_equal(one.state(), other.state())


@pytest.mark.parametrize("capacity", [1000, 30])
@pytest.mark.parametrize("exponent", [None, 0.6])
def test_restored_buffer_continues_identically(make_replay, make_batch, capacity, exponent):
    """Samples and later additions are equal, whatever the buffer contained before."""
    replay, restored = (make_replay(capacity, priority_exponent=exponent) for _ in range(2))
    for seed in range(3):
        replay.add(rows_from(replay, make_batch(seed)))
    for seed in range(10, 20):
        restored.add(rows_from(restored, make_batch(seed)))
    replay.set_priorities(replay.sample(5, np.random.default_rng(0)).index, np.arange(1.0, 6.0))
    restored.load_state(replay.state())
    assert states_equal(replay.state(), restored.state())
    for seed in range(3, 6):
        for one in (replay, restored):
            one.add(rows_from(one, make_batch(seed)))
        sample, again = (one.sample(50, np.random.default_rng(seed)) for one in (replay, restored))
        assert index_sample(sample) == index_sample(again)
        assert np.array_equal(sample.weight, again.weight)
    assert len(replay) == len(restored)


def test_state_contains_only_rows_in_use(make_replay, make_batch):
    """The size does not depend on the capacity."""
    replay = make_replay(100_000)
    replay.add(rows_from(replay, make_batch()))
    assert sum(array.nbytes for array in replay.state().values()) < 5_000


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"capacity": 999}, "capacity of 1000 rows, expected 999"),
        ({"priority_exponent": 0.5}, "other arrays: priorities"),
        ({"sums": ["bonus"]}, "other arrays: rows/sums/bonus"),
    ],
)
def test_state_of_another_buffer_raises(make_replay, make_batch, other, message):
    """The message names the difference and the advice."""
    replay = make_replay()
    replay.add(rows_from(replay, make_batch()))
    with pytest.raises(ModelError, match=rf"{message}.*; resume with the same replay options"):
        make_replay(**other).load_state(replay.state())


def test_state_with_other_shapes_raises(make_replay, make_batch):
    """The message names the array and the advice."""
    replay = make_replay()
    replay.add(rows_from(replay, make_batch()))
    state = replay.state()
    state["rows/observation/board"] = state["rows/observation/board"][:, :1]
    with pytest.raises(ModelError, match=r"observation/board .*; resume with the same replay options"):
        replay.load_state(state)
