"""The ring of rows and what is drawn from it."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus.errors import ConfigError, ContractError, ModelError
from ludus_replay import ReplayBuffer, ReplayLayout, collect


@pytest.fixture(scope="session")
def make_replay(role):
    """Return a function that makes a replay memory."""

    def make(capacity=1000, *, memory_mb=10.0, sums=(), privileged=False, **options):
        layout = ReplayLayout.of(role, sums=sums, privileged=privileged)
        return ReplayBuffer(layout, capacity=capacity, memory_mb=memory_mb, **options)

    return make


def rows_of(replay, batch, **options):
    """Return the rows of a batch."""
    return collect(batch, replay._layout, **{"gamma": 0.5, "n_step": 2, **options})


def known(rows):
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


def drawn_as_known(drawn):
    """Return drawn transitions in the form of `known`."""
    speed, after = drawn.observation["speed"][:, 0], drawn.next_observation["speed"][:, 0]
    return {
        float(speed[i]): {
            "board": drawn.observation["board"][i].tolist(),
            "action": drawn.action[i].tolist(),
            "mask": drawn.action_mask[i].tolist(),
            "reward": float(drawn.reward[i]),
            "discount": float(drawn.discount[i]),
            "next": float(after[i]),
            "next_mask": drawn.next_action_mask[i].tolist(),
        }
        for i in range(speed.size)
    }


@settings(max_examples=40, deadline=None)
@given(capacity=st.integers(1, 60), batches=st.integers(1, 8), exponent=st.sampled_from([None, 0.6]))
def test_draws_are_the_newest_transitions_as_they_were(make_replay, make_batch, capacity, batches, exponent):
    """All of the last rows, none older, each with its own end."""
    replay = make_replay(capacity, priority_exponent=exponent)
    history, starts = {}, []
    for seed in range(batches):
        rows = rows_of(replay, make_batch(seed))
        history |= known(rows)
        speed = rows.arrays["observation/speed"][:, 0]
        starts += [float(s) if o else None for s, o in zip(speed, rows.arrays["offset"], strict=True)]
        replay.add(rows)
    expected = {start for start in starts[-capacity:] if start is not None}
    assert len(replay) == len(expected)
    if expected:
        drawn = drawn_as_known(replay.sample(40 * len(expected), np.random.default_rng(0)))
        assert drawn == {start: history[start] for start in expected}


def test_a_truncated_match_bootstraps_from_what_would_be_legal(make_replay, make_batch):
    """The mask recorded with its final observation is that of the next decision."""
    replay, batch = make_replay(), make_batch(3)
    final = ~batch.decided[1:] & batch.truncated[:-1]
    assert final.any()
    batch.action_mask[1:][final] = np.arange(batch.action_mask.shape[2]) == 0
    replay.add(rows_of(replay, batch, n_step=1))
    drawn = replay.sample(2000, np.random.default_rng(0))
    ends = np.isin(drawn.next_observation["speed"][:, 0], batch.observation["speed"][1:][final])
    assert ends.any()
    assert (drawn.next_action_mask[ends] == (np.arange(batch.action_mask.shape[2]) == 0)).all()


def test_draws_are_copies(make_replay, make_batch):
    """Whoever changes them changes nothing else."""
    replay = make_replay()
    replay.add(rows_of(replay, make_batch()))
    before = replay.state()
    drawn = replay.sample(50, np.random.default_rng(0))
    drawn.observation["board"][:] = 0
    drawn.action_mask[:] = False
    assert all(np.array_equal(array, before[name]) for name, array in replay.state().items())


def test_uniform_draws_are_uniform(make_replay, make_batch):
    """Every transition comes about equally often, with weight 1."""
    replay = make_replay()
    replay.add(rows_of(replay, make_batch(3)))
    drawn = replay.sample(20_000, np.random.default_rng(0))
    _, counts = np.unique(drawn.index, return_counts=True)
    assert counts.size == len(replay)
    assert np.abs(counts / (20_000 / len(replay)) - 1).max() < 0.15
    assert (drawn.weight == 1).all()


def test_equal_seeds_draw_equally(make_replay, make_batch):
    """The generator is the only source of randomness."""
    replay = make_replay(priority_exponent=0.5)
    replay.add(rows_of(replay, make_batch()))
    one, other = (replay.sample(9, np.random.default_rng(4)) for _ in range(2))
    assert np.array_equal(one.index, other.index)


def test_priorities_decide_how_often(make_replay, make_batch):
    """Probabilities are proportional to their power."""
    replay = make_replay(priority_exponent=0.5)
    replay.add(rows_of(replay, make_batch(3)))
    index = np.unique(replay.sample(1000, np.random.default_rng(0)).index)
    priority = 1.0 + np.arange(index.size)
    replay.set_priorities(index, priority)
    drawn = replay.sample(50_000, np.random.default_rng(0))
    found, counts = np.unique(drawn.index, return_counts=True)
    assert np.array_equal(found, index)
    expected = np.sqrt(priority) / np.sqrt(priority).sum()
    assert counts / 50_000 == pytest.approx(expected, rel=0.05)


def test_importance_weights_by_hand(make_replay, make_batch):
    """Priorities 1 and 16 with exponent ½ are drawn 1 : 4; with beta ½ their weights are 1 and ½."""
    replay = make_replay(priority_exponent=0.5)
    replay.add(rows_of(replay, make_batch(3)))
    index = np.unique(replay.sample(1000, np.random.default_rng(0)).index)
    priority = np.where(np.arange(index.size) % 2, 1.0, 16.0)
    replay.set_priorities(index, priority)
    drawn = replay.sample(200, np.random.default_rng(0), beta=0.5)
    heavy = np.isin(drawn.index, index[priority == 16])
    assert 0 < heavy.sum() < 200
    assert drawn.weight[heavy] == pytest.approx(0.5)
    assert drawn.weight[~heavy] == pytest.approx(1)


def test_new_transitions_have_the_largest_priority(make_replay, make_batch):
    """So that each is likely to be drawn once."""
    replay = make_replay(priority_exponent=1.0)
    replay.add(rows_of(replay, make_batch(0)))
    first = np.unique(replay.sample(2000, np.random.default_rng(0)).index)
    replay.set_priorities(first, np.linspace(0.5, 7.0, first.size))
    replay.add(rows_of(replay, make_batch(1)))
    new = ~np.isin(np.arange(replay.capacity), first) & (replay._arrays["offset"] > 0)
    assert replay.max_priority == 7
    assert (replay._tree.get(np.flatnonzero(new)) == 7).all()


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_priorities_must_be_positive(make_replay, make_batch, bad):
    """Otherwise a transition could never be drawn again, or nothing else would be."""
    replay = make_replay(priority_exponent=1.0)
    replay.add(rows_of(replay, make_batch()))
    with pytest.raises(ContractError, match="positive and finite"):
        replay.set_priorities(np.array([0]), np.array([bad]))


def test_priorities_are_ignored_in_uniform_draws(make_replay, make_batch):
    """An algorithm may set them in any case."""
    replay = make_replay()
    replay.add(rows_of(replay, make_batch()))
    replay.set_priorities(np.array([0]), np.array([5.0]))
    assert replay.max_priority == 1


def test_an_empty_memory_has_nothing_to_draw(make_replay):
    """It says so."""
    with pytest.raises(ContractError, match="no transition"):
        make_replay().sample(1, np.random.default_rng(0))


def test_privileged_leaves_and_sums_come_along(make_replay, make_batch):
    """Where the layout has them."""
    replay, batch = make_replay(sums=["bonus"], privileged=True), make_batch(2)
    replay.add(rows_of(replay, batch, n_step=1, sums={"bonus": 2 * batch.reward}))
    drawn = replay.sample(100, np.random.default_rng(0))
    assert drawn.privileged["hidden"].shape == drawn.next_privileged["hidden"].shape == (100, 3)
    assert np.array_equal(drawn.sums["bonus"], 2 * drawn.reward)


# -- memory --------------------------------------------------------------------------------------------------------


def test_memory_bounds_the_rows(make_replay, caplog):
    """One line in the log says so."""
    with caplog.at_level(logging.WARNING):
        replay = make_replay(1_000_000, memory_mb=1)
    held = sum(array.nbytes for array in replay._arrays.values()) + replay._starts.nbytes
    assert 0.9 * 2**20 < held <= 2**20
    (record,) = caplog.records
    row = 2**20 // replay.capacity
    assert record.message == (
        f"replay: 1000000 rows of {row} bytes would take {1e6 * row / 2**20:.0f} MB; holding {replay.capacity} in 1 MB"
    )


def test_memory_that_suffices_is_not_mentioned(make_replay, caplog):
    """The capacity holds then."""
    assert make_replay(1000).capacity == 1000
    assert caplog.records == []


def test_priorities_count_as_memory(make_replay):
    """The tree has up to four numbers per row."""
    plain, prioritized = (make_replay(10**6, memory_mb=1, priority_exponent=e) for e in (None, 0.6))
    held = sum(a.nbytes for a in prioritized._arrays.values()) + prioritized._starts.nbytes
    assert held + prioritized._tree._nodes.nbytes <= 2**20
    assert prioritized.capacity < plain.capacity


def test_too_little_memory_is_refused(make_replay):
    """With the figures to mend it."""
    with pytest.raises(ConfigError, match=r"0.01 MB and a capacity of 1000 hold \d+ rows of \d+ bytes; at least 500"):
        make_replay(1000, memory_mb=0.01, fewest=500)


# -- transactions and checkpoints ----------------------------------------------------------------------------------


def same(one, other):
    """Return whether two states are equal."""
    return one.keys() == other.keys() and all(np.array_equal(array, other[name]) for name, array in one.items())


@pytest.mark.parametrize("capacity", [1000, 30])
@pytest.mark.parametrize("exponent", [None, 0.6])
def test_a_failed_transaction_leaves_no_trace(make_replay, make_batch, capacity, exponent):
    """Neither in the rows nor in draws to come."""
    replay = make_replay(capacity, priority_exponent=exponent)
    for seed in range(3):
        replay.add(rows_of(replay, make_batch(seed)))
    before, drawn = replay.state(), replay.sample(50, np.random.default_rng(0))

    def spoil():
        replay.add(rows_of(replay, make_batch(4)))
        replay.set_priorities(replay.sample(5, np.random.default_rng(0)).index, np.full(5, 9.0))
        replay.add(rows_of(replay, make_batch(5)))
        assert not same(before, replay.state())
        raise KeyError

    with pytest.raises(KeyError), replay.transaction():
        spoil()
    assert same(before, replay.state())
    assert np.array_equal(drawn.index, replay.sample(50, np.random.default_rng(0)).index)
    replay.add(rows_of(replay, make_batch(6)))


def test_a_transaction_that_succeeds_stays(make_replay, make_batch):
    """As if there were none."""
    one, other = make_replay(), make_replay()
    with one.transaction():
        one.add(rows_of(one, make_batch()))
    other.add(rows_of(other, make_batch()))
    assert same(one.state(), other.state())


@pytest.mark.parametrize("capacity", [1000, 30])
@pytest.mark.parametrize("exponent", [None, 0.6])
def test_a_restored_memory_goes_on_alike(make_replay, make_batch, capacity, exponent):
    """Whatever lay in it before."""
    replay, restored = (make_replay(capacity, priority_exponent=exponent) for _ in range(2))
    for seed in range(3):
        replay.add(rows_of(replay, make_batch(seed)))
    for seed in range(10, 20):
        restored.add(rows_of(restored, make_batch(seed)))
    replay.set_priorities(replay.sample(5, np.random.default_rng(0)).index, np.arange(1.0, 6.0))
    restored.load_state(replay.state())
    assert same(replay.state(), restored.state())
    for seed in range(3, 6):
        for one in (replay, restored):
            one.add(rows_of(one, make_batch(seed)))
        drawn, again = (one.sample(50, np.random.default_rng(seed)) for one in (replay, restored))
        assert drawn_as_known(drawn) == drawn_as_known(again)
        assert np.array_equal(drawn.weight, again.weight)
    assert len(replay) == len(restored)


def test_the_state_is_as_large_as_what_is_remembered(make_replay, make_batch):
    """Not as the capacity."""
    replay = make_replay(100_000)
    replay.add(rows_of(replay, make_batch()))
    assert sum(array.nbytes for array in replay.state().values()) < 5_000


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"capacity": 999}, "capacity of 1000 rows, this one of 999"),
        ({"priority_exponent": 0.5}, "other arrays: priorities"),
        ({"sums": ["bonus"]}, "other arrays: rows/sums/bonus"),
    ],
)
def test_the_state_of_another_memory_is_refused(make_replay, make_batch, other, message):
    """The message says what differs, and what to do."""
    replay = make_replay()
    replay.add(rows_of(replay, make_batch()))
    with pytest.raises(ModelError, match=rf"{message}.*; resume with the same replay options"):
        make_replay(**other).load_state(replay.state())


def test_a_state_of_other_shapes_is_refused(make_replay, make_batch):
    """Nothing is copied then."""
    replay = make_replay()
    replay.add(rows_of(replay, make_batch()))
    state = replay.state()
    state["rows/observation/board"] = state["rows/observation/board"][:, :1]
    with pytest.raises(ModelError, match=r"observation/board .*; resume with the same replay options"):
        replay.load_state(state)
