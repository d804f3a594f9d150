"""Segments hold every decision once, in order, with what followed it, whatever the schedule of matches and flushes."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import define, field
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus._sampling.recorder import Recorder
from ludus._sampling.segment_layout import SegmentLayout
from ludus.environment import Role
from ludus.errors import ConfigError, ContractError
from ludus.segment import Field

ROLE = Role(
    name="player",
    observation_space=spaces.Box(0, 1e9, (1,), np.float32),
    action_space=spaces.MultiDiscrete([1000, 5]),
    teams=(0, 1),
    privileged_space=spaces.Dict({"secret": spaces.Box(0, 1e9, (2,), np.float32)}),
)


def recorder(*, seat_ids=2, decisions=4, **memory):
    """Return a recorder of T = `decisions` with a field and a recurrent state."""
    state = {"h": np.zeros((1, 1), np.float32)}
    layout = SegmentLayout.for_role(ROLE, fields=(Field("log_prob"),), decisions=decisions, state=state)
    return Recorder(layout, seat_ids, **memory)


def entry(values):
    """Return the entry of n decisions that are told apart by their observation."""
    values = np.asarray(values, np.float32)
    return {
        "observation/obs": values[:, None],
        "privileged/secret": np.stack([values, -values], axis=1),
        "action": np.stack([values, values], axis=1).astype(np.int64) % 5,
        "action_mask": np.ones((len(values), 1005), bool),
        "extras/log_prob": -values,
    }


def decide(made, seat_ids, values, *, version=1):
    """Record decisions; the state before a decision is its observation plus a half."""
    state = {"h": np.asarray(values, np.float32)[:, None] + 0.5}
    made.add_decisions(np.asarray(seat_ids), entry(values), version=version, state=state)


def settle(made, seat_ids, rewards):
    """Settle pending decisions with these rewards after two ticks."""
    count = len(seat_ids)
    return made.assign_rewards(
        np.asarray(seat_ids), reward=np.asarray(rewards, np.float32), elapsed_ticks=np.full(count, 2, np.int32)
    )


def end(made, seat_ids, rewards, *, truncated=False, terminated=None):
    """End the matches of streams after three ticks."""
    count = len(seat_ids)
    return made.end_matches(
        np.asarray(seat_ids),
        reward=np.asarray(rewards, np.float32),
        elapsed_ticks=np.full(count, 3, np.int32),
        terminated=np.full(count, not truncated if terminated is None else terminated),
        truncated=np.full(count, truncated),
    )


def test_the_layout_names_everything_that_is_recorded():
    """Shapes and dtypes come from the role, the fields and the example of a state."""
    layout = recorder().layout
    assert layout.arrays["observation/obs"] == ((1,), np.dtype(np.float32))
    assert layout.arrays["privileged/secret"] == ((2,), np.dtype(np.float32))
    assert layout.arrays["action"] == ((2,), np.dtype(np.int64))
    assert layout.arrays["action_mask"] == ((1005,), np.dtype(bool))
    assert layout.arrays["extras/log_prob"] == ((), np.dtype(np.float32))
    assert layout.state == {"h": ((1,), np.dtype(np.float32))}


@pytest.mark.parametrize(
    ("space", "action", "problem"),
    [
        (spaces.Discrete(3), [3], r"expected label 0 of actions in \[0, 2\], got 0…3"),
        (spaces.Discrete(3), [-1], r"expected label 0 of actions in \[0, 2\], got -1…0"),
        (spaces.MultiDiscrete([3, 4]), [3, 0], "label 0 .*, got 0…3"),
        (spaces.MultiDiscrete([3, 4]), [0, -1], "label 1 .*, got -1…0"),
        (spaces.MultiBinary(2), [0, 2], "label 1 .*, got 0…2"),
        (spaces.Box(-1, 1, (2,)), [0, np.nan], "an action is not finite"),
        (spaces.Box(-1, 1, (2,)), [np.inf, 0], "an action is not finite"),
    ],
)
def test_a_choice_that_there_is_not_is_refused(space, action, problem):
    """Among others that there are, the last ones included: an index must not wrap around. Real numbers are finite."""
    role = Role(name="player", observation_space=spaces.Box(0, 1, (1,)), action_space=space, teams=(0,))
    layout = SegmentLayout.for_role(role, fields=(), decisions=4)
    arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.block_shapes(2).items()}
    arrays["action"][1, 1] = [size - 1 for size in layout.labels] or 1e30
    layout.check_arrays(arrays)
    arrays["action"][2, 0] = action
    arrays["action"][1, 1] = 0
    with pytest.raises(ContractError, match=problem):
        layout.check_arrays(arrays)


def test_a_block_without_segments_is_one_of_its_layout():
    """It has no action that could be outside."""
    layout = recorder().layout
    layout.check_arrays({name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.block_shapes(0).items()})


def test_continuous_actions_have_no_mask():
    """A Box is recorded as real numbers and nothing is masked."""
    role = Role(
        name="player",
        observation_space=spaces.Discrete(3),
        action_space=spaces.Box(-1, 1, (3,), np.float32),
        teams=(0,),
    )
    layout = SegmentLayout.for_role(role, fields=(), decisions=2)
    assert layout.arrays["action"] == ((3,), np.dtype(np.float32))
    assert "action_mask" not in layout.arrays


def used(shapes):
    """Return memory as an earlier block left it: everything is 0."""
    return {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}


@pytest.mark.parametrize("memory", [{}, {"allocate": used}])
def test_a_game_without_masks_leaves_everything_legal(memory):
    """The learner of discrete actions always gets a mask, that of a final observation included."""
    made = recorder(**memory)
    seat_ids = made.open_trajectories(1)
    first, last = ({name: one for name, one in entry([k]).items() if name != "action_mask"} for k in (1, 2))
    made.add_decisions(seat_ids, first, version=1, state={"h": np.zeros((1, 1), np.float32)})
    end(made, seat_ids, [1.0], truncated=True)
    made.add_final_observations(seat_ids, last)
    batch = made.flush()
    assert batch.decided[:2, 0].tolist() == [True, False]
    assert batch.action_mask[:2, 0].all()


def test_a_pending_decision_is_the_bootstrap_of_one_segment_and_the_start_of_the_next():
    """It is carried over with its version, state and log-probability, and its reward lands in the second segment."""
    made = recorder()
    seat_ids = made.open_trajectories(1)
    for value in (1, 2):
        settle(made, seat_ids, [10.0 * value])
        decide(made, seat_ids, [value], version=value)
    first = made.flush()
    assert first.length.tolist() == [1]
    assert first.observation["obs"][:2, 0, 0].tolist() == [1, 2]
    assert first.trainable()[:, 0].tolist() == [True, False, False, False, False]
    assert first.reward[0, 0] == 20
    settle(made, seat_ids, [5.0])
    decide(made, seat_ids, [3], version=7)
    second = made.flush()
    assert (second.length.tolist(), second.version.tolist()) == ([1], [2])
    assert second.observation["obs"][:2, 0, 0].tolist() == [2, 3]
    assert second.initial_state["h"][0, 0] == 2.5
    assert second.extras["log_prob"][0, 0] == -2
    assert second.reward[0, 0] == 5


def test_a_terminated_match_leaves_no_final_entry():
    """The entry after it starts another match in the same stream."""
    made = recorder()
    seat_ids = made.open_trajectories(1)
    decide(made, seat_ids, [1])
    assert end(made, seat_ids, [1.0]).tolist() == [False]
    made.close_trajectories(seat_ids)
    assert made.open_trajectories(1).tolist() == seat_ids.tolist()
    decide(made, seat_ids, [2])
    batch = made.flush()
    assert batch.terminated[:2, 0].tolist() == [True, False]
    assert batch.decided[:2, 0].tolist() == [True, True]
    assert batch.length.tolist() == [1]


def test_a_truncated_match_leaves_its_final_observation():
    """It is there to bootstrap from and never trained on, in the middle and at the end of a segment."""
    made = recorder()
    seat_ids = made.open_trajectories(2)
    decide(made, seat_ids, [1, 11])
    assert end(made, seat_ids, [1.0, 2.0], truncated=True).tolist() == [True, True]
    made.add_final_observations(seat_ids, entry([2, 12]))
    decide(made, seat_ids[:1], [3])
    end(made, seat_ids[:1], [4.0])
    batch = made.flush()
    assert batch.observation["obs"][:3, 0, 0].tolist() == [1, 2, 3]
    assert batch.decided[:3, 0].tolist() == [True, False, True]
    assert batch.length.tolist() == [3, 1]
    assert batch.trainable().sum(axis=0).tolist() == [2, 1]
    assert batch.truncated[0].tolist() == [True, True]


def test_a_match_that_both_ends_and_is_cut_off_is_terminated():
    """Nothing is left to bootstrap from."""
    made = recorder()
    seat_ids = made.open_trajectories(1)
    decide(made, seat_ids, [1])
    assert not end(made, seat_ids, [1.0], truncated=True, terminated=True).any()
    batch = made.flush()
    assert batch.terminated[0, 0]
    assert not batch.truncated[0, 0]


def test_a_seat_that_never_decided_leaves_nothing():
    """Neither a reward nor a final observation has a decision to belong to."""
    made = recorder()
    seat_ids = made.open_trajectories(1)
    assert not settle(made, seat_ids, [3.0]).any()
    assert not end(made, seat_ids, [4.0], truncated=True).any()
    assert made.flush().num_segments == 0


def test_only_used_streams_leave():
    """Those after the last one with a decision do not; others that hold nothing are empty segments."""
    made = recorder(seat_ids=4)
    seat_ids = made.open_trajectories(4)
    for value in (1, 2):
        settle(made, seat_ids[[0, 2]], [1.0, 1.0])
        decide(made, seat_ids[[0, 2]], [value, 10 + value])
    batch = made.flush()
    assert batch.length.tolist() == [1, 0, 1]
    assert batch.observation["obs"][0, [0, 2], 0].tolist() == [1, 11]


@pytest.mark.parametrize("width", [1, 3])
def test_entries_of_another_shape_are_refused(width):
    """Neither cut off nor filled up."""
    made = recorder()
    wrong = entry([1, 2]) | {"privileged/secret": np.zeros((2, width), np.float32)}
    with pytest.raises(ValueError, match="privileged/secret has shape"):
        made.add_decisions(made.open_trajectories(2), wrong, version=1)


def test_other_dtypes_are_converted():
    """An environment may compute in float64, whatever its space says."""
    made = recorder()
    wide = entry([1, 2]) | {"privileged/secret": np.array([[1.5, 2.5], [3.5, 4.5]], np.float64)}
    seat_ids = made.open_trajectories(2)
    made.add_decisions(seat_ids, wide, version=1)
    assert made._arrays["privileged/secret"][0, seat_ids].tolist() == [[1.5, 2.5], [3.5, 4.5]]


def test_streams_that_were_closed_are_opened_again_from_the_lowest():
    """So the used ones stay side by side."""
    made = recorder(seat_ids=4)
    assert made.open_trajectories(3).tolist() == [0, 1, 2]
    made.close_trajectories(np.array([2, 0]))
    assert made.open_trajectories(3).tolist() == [0, 2, 3]


def test_it_is_full_when_a_stream_holds_its_bootstrap():
    """T decisions and the one after them fit."""
    made = recorder(decisions=2)
    seat_ids = made.open_trajectories(1)
    fullness = []
    for value in (1, 2, 3):
        settle(made, seat_ids, [1.0])
        decide(made, seat_ids, [value])
        fullness.append(made.full)
    assert fullness == [False, False, True]
    assert made.flush().length.tolist() == [2]
    assert not made.full


# -- against a slow model --------------------------------------------------------------------------------------------


@define
class Model:
    """What must come out: per stream of a match, the decisions in order with everything that belongs to them."""

    done: dict[int, dict] = field(factory=dict)  # decision → what it must carry
    after: dict[int, int] = field(factory=dict)  # decision → the entry that must follow it, where its match goes on

    def start(self, number, version):
        """Note a decision."""
        self.done[number] = {"version": version, "reward": None, "terminated": False, "truncated": False}


def check(batches, model, *, decisions):
    """Compare all trainable entries with the model: none lost, none twice, each with its outcome and successor."""
    seen = []
    for batch in batches:
        assert batch.num_segments == 0 or batch.length.max() <= decisions
        used = batch.trainable()
        for t, n in np.argwhere(used):
            number = int(batch.observation["obs"][t, n, 0])
            expected = model.done[number]
            seen.append(number)
            assert batch.reward[t, n] == expected["reward"]
            assert batch.elapsed_ticks[t, n] == expected["elapsed"]
            assert batch.extras["log_prob"][t, n] == -number
            assert batch.terminated[t, n] == expected["terminated"]
            assert batch.truncated[t, n] == expected["truncated"]
            if t == 0:
                assert batch.version[n] == expected["version"]
                assert batch.initial_state["h"][n, 0] == number + 0.5
            if not expected["terminated"]:
                assert batch.observation["obs"][t + 1, n, 0] == model.after[number]
    assert sorted(seen) == sorted(number for number, done in model.done.items() if done["reward"] is not None)


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["decide", "decide", "terminate", "truncate", "flush", "learn"])),
    max_size=60,
)


@settings(deadline=None, max_examples=150)
@given(steps=STEPS, decisions=st.integers(1, 4))
def test_no_decision_is_lost_or_doubled(steps, decisions):
    """Any schedule of four seats agrees with a dictionary that keeps every decision by itself."""
    made, model, batches = recorder(seat_ids=4, decisions=decisions), Model(), []
    seats = {}  # seat → stream and its pending decision
    version = 1

    def outcome(pending, reward, elapsed, **how):
        if pending is not None:
            model.done[pending] |= {"reward": reward, "elapsed": elapsed, **how}

    for number, (seat, what) in enumerate(steps, start=1):
        if what in ("flush", "learn"):
            batches.append(made.flush())
            version += what == "learn"
        elif what == "decide":
            stream, pending = seats[seat] if seat in seats else (made.open_trajectories(1), None)
            settle(made, stream, [number])
            outcome(pending, number, 2)
            model.after[pending] = number
            decide(made, stream, [number], version=version)
            model.start(number, version)
            seats[seat] = (stream, number)
        elif seat in seats:
            stream, pending = seats.pop(seat)
            cut = end(made, stream, [number], truncated=what == "truncate")
            outcome(pending, number, 3, terminated=what == "terminate", truncated=what == "truncate")
            model.after[pending] = number
            assert cut.item() == (what == "truncate")
            if cut.item():
                made.add_final_observations(stream, entry([number]))
            made.close_trajectories(stream)
        if made.full:
            batches.append(made.flush())
    check([*batches, made.flush()], model, decisions=decisions)


@pytest.mark.parametrize("count", [1, 3])
def test_streams_are_taken_back(count):
    """A stream that was closed is opened again, so that a sampler never runs out."""
    made = recorder(seat_ids=3)
    for _ in range(5):
        seat_ids = made.open_trajectories(count)
        made.close_trajectories(seat_ids)
    assert sorted(made.open_trajectories(3).tolist()) == [0, 1, 2]


@pytest.mark.parametrize("decisions", [10**12, 2**63 - 1])
def test_a_block_for_which_there_is_no_memory_is_refused(decisions):
    """The line says which options make it so large."""
    text = r"a block of segments needs [\d,]{9,} GiB: lower segment_decisions of the algorithm or sampling\.matches"
    with pytest.raises(ConfigError, match=text):
        recorder(decisions=decisions)
