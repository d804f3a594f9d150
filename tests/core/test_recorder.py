"""Recorded segments contain every decision once, in order and with its rewards."""

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


def make_recorder(*, num_trajectories=2, decisions=4, **memory):
    """Return a recorder of T = `decisions` with a field and a recurrent state."""
    state = {"h": np.zeros((1, 1), np.float32)}
    layout = SegmentLayout.for_role(ROLE, fields=(Field("log_prob"),), decisions=decisions, state=state)
    return Recorder(layout, num_trajectories, **memory)


def make_entry(values):
    """Return the entry of n decisions with distinct observations."""
    values = np.asarray(values, np.float32)
    return {
        "observation/obs": values[:, None],
        "privileged/secret": np.stack([values, -values], axis=1),
        "action": np.stack([values, values], axis=1).astype(np.int64) % 5,
        "action_mask": np.ones((len(values), 1005), bool),
        "extras/log_prob": -values,
    }


def decide(recorder, trajectories, values, *, version=1):
    """Record decisions; the state before a decision is its observation plus a half."""
    state = {"h": np.asarray(values, np.float32)[:, None] + 0.5}
    recorder.add_decisions(np.asarray(trajectories), make_entry(values), version=version, state=state)


def assign_rewards(recorder, trajectories, rewards):
    """Assign rewards to pending decisions after two ticks."""
    count = len(trajectories)
    return recorder.assign_rewards(
        np.asarray(trajectories), reward=np.asarray(rewards, np.float32), elapsed_ticks=np.full(count, 2, np.int32)
    )


def end_trajectories(recorder, trajectories, rewards, *, truncated=False, terminated=None):
    """End the matches of trajectories after three ticks."""
    count = len(trajectories)
    return recorder.end_trajectories(
        np.asarray(trajectories),
        reward=np.asarray(rewards, np.float32),
        elapsed_ticks=np.full(count, 3, np.int32),
        terminated=np.full(count, not truncated if terminated is None else terminated),
        truncated=np.full(count, truncated),
    )


def test_layout_of_a_role():
    """Shapes and dtypes come from the role, the fields and the example of a state."""
    layout = make_recorder().layout
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
def test_invalid_actions_are_rejected(space, action, problem):
    """Choices out of range and real numbers that are not finite; the last choice of a label is valid."""
    role = Role(name="player", observation_space=spaces.Box(0, 1, (1,)), action_space=space, teams=(0,))
    layout = SegmentLayout.for_role(role, fields=(), decisions=4)
    arrays = {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.block_shapes(2).items()}
    arrays["action"][1, 1] = [size - 1 for size in layout.labels] or 1e30
    layout.check_arrays(arrays)
    arrays["action"][2, 0] = action
    arrays["action"][1, 1] = 0
    with pytest.raises(ContractError, match=problem):
        layout.check_arrays(arrays)


def test_a_block_without_segments_is_valid():
    """It has no action to check."""
    layout = make_recorder().layout
    layout.check_arrays({name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.block_shapes(0).items()})


def test_continuous_actions_have_no_mask():
    """Actions of a Box are recorded as real numbers."""
    role = Role(
        name="player",
        observation_space=spaces.Discrete(3),
        action_space=spaces.Box(-1, 1, (3,), np.float32),
        teams=(0,),
    )
    layout = SegmentLayout.for_role(role, fields=(), decisions=2)
    assert layout.arrays["action"] == ((3,), np.dtype(np.float32))
    assert "action_mask" not in layout.arrays


def used_memory(shapes):
    """Return memory of an earlier block whose masks are all False."""
    return {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}


@pytest.mark.parametrize("memory", [{}, {"allocate": used_memory}])
def test_without_masks_all_actions_are_legal(memory):
    """Learners of discrete actions always get a mask, also for final observations."""
    recorder = make_recorder(**memory)
    trajectories = recorder.open_trajectories(1)
    first, last = ({name: one for name, one in make_entry([k]).items() if name != "action_mask"} for k in (1, 2))
    recorder.add_decisions(trajectories, first, version=1, state={"h": np.zeros((1, 1), np.float32)})
    end_trajectories(recorder, trajectories, [1.0], truncated=True)
    recorder.add_final_observations(trajectories, last)
    batch = recorder.flush()
    assert batch.decided[:2, 0].tolist() == [True, False]
    assert batch.action_mask[:2, 0].all()


def test_a_pending_decision_is_bootstrap_entry_and_start_of_the_next_segment():
    """Version, state and log-probability are carried over; the reward is in the second segment."""
    recorder = make_recorder()
    trajectories = recorder.open_trajectories(1)
    for value in (1, 2):
        assign_rewards(recorder, trajectories, [10.0 * value])
        decide(recorder, trajectories, [value], version=value)
    first = recorder.flush()
    assert first.length.tolist() == [1]
    assert first.observation["obs"][:2, 0, 0].tolist() == [1, 2]
    assert first.trainable()[:, 0].tolist() == [True, False, False, False, False]
    assert first.reward[0, 0] == 20
    assign_rewards(recorder, trajectories, [5.0])
    decide(recorder, trajectories, [3], version=7)
    second = recorder.flush()
    assert (second.length.tolist(), second.version.tolist()) == ([1], [2])
    assert second.observation["obs"][:2, 0, 0].tolist() == [2, 3]
    assert second.initial_state["h"][0, 0] == 2.5
    assert second.extras["log_prob"][0, 0] == -2
    assert second.reward[0, 0] == 5


def test_a_terminated_match_adds_no_final_entry():
    """The next entry starts another match of the trajectory."""
    recorder = make_recorder()
    trajectories = recorder.open_trajectories(1)
    decide(recorder, trajectories, [1])
    assert end_trajectories(recorder, trajectories, [1.0]).tolist() == [False]
    recorder.close_trajectories(trajectories)
    assert recorder.open_trajectories(1).tolist() == trajectories.tolist()
    decide(recorder, trajectories, [2])
    batch = recorder.flush()
    assert batch.terminated[:2, 0].tolist() == [True, False]
    assert batch.decided[:2, 0].tolist() == [True, True]
    assert batch.length.tolist() == [1]


def test_a_truncated_match_adds_its_final_observation():
    """For bootstrapping only, in the middle and at the end of a segment."""
    recorder = make_recorder()
    trajectories = recorder.open_trajectories(2)
    decide(recorder, trajectories, [1, 11])
    assert end_trajectories(recorder, trajectories, [1.0, 2.0], truncated=True).tolist() == [True, True]
    recorder.add_final_observations(trajectories, make_entry([2, 12]))
    decide(recorder, trajectories[:1], [3])
    end_trajectories(recorder, trajectories[:1], [4.0])
    batch = recorder.flush()
    assert batch.observation["obs"][:3, 0, 0].tolist() == [1, 2, 3]
    assert batch.decided[:3, 0].tolist() == [True, False, True]
    assert batch.length.tolist() == [3, 1]
    assert batch.trainable().sum(axis=0).tolist() == [2, 1]
    assert batch.truncated[0].tolist() == [True, True]


def test_a_terminated_and_truncated_match_counts_as_terminated():
    """There is nothing to bootstrap from."""
    recorder = make_recorder()
    trajectories = recorder.open_trajectories(1)
    decide(recorder, trajectories, [1])
    assert not end_trajectories(recorder, trajectories, [1.0], truncated=True, terminated=True).any()
    batch = recorder.flush()
    assert batch.terminated[0, 0]
    assert not batch.truncated[0, 0]


def test_a_seat_that_never_decided_records_nothing():
    """Neither rewards nor final observations."""
    recorder = make_recorder()
    trajectories = recorder.open_trajectories(1)
    assert not assign_rewards(recorder, trajectories, [3.0]).any()
    assert not end_trajectories(recorder, trajectories, [4.0], truncated=True).any()
    assert recorder.flush().num_segments == 0


def test_a_flush_returns_used_trajectories_only():
    """Those after the last decision are left out; others without decisions are empty segments."""
    recorder = make_recorder(num_trajectories=4)
    trajectories = recorder.open_trajectories(4)
    for value in (1, 2):
        assign_rewards(recorder, trajectories[[0, 2]], [1.0, 1.0])
        decide(recorder, trajectories[[0, 2]], [value, 10 + value])
    batch = recorder.flush()
    assert batch.length.tolist() == [1, 0, 1]
    assert batch.observation["obs"][0, [0, 2], 0].tolist() == [1, 11]


@pytest.mark.parametrize("width", [1, 3])
def test_entries_of_another_shape_are_rejected(width):
    """They are neither truncated nor broadcast."""
    recorder = make_recorder()
    wrong = make_entry([1, 2]) | {"privileged/secret": np.zeros((2, width), np.float32)}
    with pytest.raises(ValueError, match="privileged/secret has shape"):
        recorder.add_decisions(recorder.open_trajectories(2), wrong, version=1)


def test_other_dtypes_are_converted():
    """An environment may return float64 although its space is float32."""
    recorder = make_recorder()
    wide = make_entry([1, 2]) | {"privileged/secret": np.array([[1.5, 2.5], [3.5, 4.5]], np.float64)}
    trajectories = recorder.open_trajectories(2)
    recorder.add_decisions(trajectories, wide, version=1)
    assert recorder._arrays["privileged/secret"][0, trajectories].tolist() == [[1.5, 2.5], [3.5, 4.5]]


def test_the_lowest_closed_trajectories_are_opened_first():
    """Used trajectories stay next to each other."""
    recorder = make_recorder(num_trajectories=4)
    assert recorder.open_trajectories(3).tolist() == [0, 1, 2]
    recorder.close_trajectories(np.array([2, 0]))
    assert recorder.open_trajectories(3).tolist() == [0, 2, 3]


def test_it_is_full_when_a_trajectory_has_its_bootstrap_entry():
    """T decisions and the one after them fit."""
    recorder = make_recorder(decisions=2)
    trajectories = recorder.open_trajectories(1)
    fullness = []
    for value in (1, 2, 3):
        assign_rewards(recorder, trajectories, [1.0])
        decide(recorder, trajectories, [value])
        fullness.append(recorder.full)
    assert fullness == [False, False, True]
    assert recorder.flush().length.tolist() == [2]
    assert not recorder.full


# -- against a slow model --------------------------------------------------------------------------------------------


@define
class Reference:
    """The expected decisions of each match, in order and with all of their values."""

    done: dict[int, dict] = field(factory=dict)  # decision → expected entry
    after: dict[int, int] = field(factory=dict)  # decision → next entry, if the match continues

    def start(self, number, version):
        """Record a decision."""
        self.done[number] = {"version": version, "reward": None, "terminated": False, "truncated": False}


def check(batches, model, *, decisions):
    """Compare all trainable entries, their rewards and their successors with the reference."""
    observed = []
    for batch in batches:
        assert batch.num_segments == 0 or batch.length.max() <= decisions
        trainable = batch.trainable()
        for t, n in np.argwhere(trainable):
            number = int(batch.observation["obs"][t, n, 0])
            expected = model.done[number]
            observed.append(number)
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
    assert sorted(observed) == sorted(number for number, done in model.done.items() if done["reward"] is not None)


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["decide", "decide", "terminate", "truncate", "flush", "learn"])),
    max_size=60,
)


@settings(deadline=None, max_examples=150)
@given(steps=STEPS, decisions=st.integers(1, 4))
def test_any_schedule_equals_the_reference(steps, decisions):
    """For any schedule of four seats."""
    recorder, model, batches = make_recorder(num_trajectories=4, decisions=decisions), Reference(), []
    seats = {}  # seat → trajectory and its pending decision
    version = 1

    def outcome(pending, reward, elapsed, **how):
        if pending is not None:
            model.done[pending] |= {"reward": reward, "elapsed": elapsed, **how}

    for number, (seat, what) in enumerate(steps, start=1):
        if what in ("flush", "learn"):
            batches.append(recorder.flush())
            version += what == "learn"
        elif what == "decide":
            trajectory, pending = seats[seat] if seat in seats else (recorder.open_trajectories(1), None)
            assign_rewards(recorder, trajectory, [number])
            outcome(pending, number, 2)
            model.after[pending] = number
            decide(recorder, trajectory, [number], version=version)
            model.start(number, version)
            seats[seat] = (trajectory, number)
        elif seat in seats:
            trajectory, pending = seats.pop(seat)
            cut = end_trajectories(recorder, trajectory, [number], truncated=what == "truncate")
            outcome(pending, number, 3, terminated=what == "terminate", truncated=what == "truncate")
            model.after[pending] = number
            assert cut.item() == (what == "truncate")
            if cut.item():
                recorder.add_final_observations(trajectory, make_entry([number]))
            recorder.close_trajectories(trajectory)
        if recorder.full:
            batches.append(recorder.flush())
    check([*batches, recorder.flush()], model, decisions=decisions)


@pytest.mark.parametrize("count", [1, 3])
def test_closed_trajectories_are_opened_again(count):
    """A sampler never runs out of trajectories."""
    recorder = make_recorder(num_trajectories=3)
    for _ in range(5):
        trajectories = recorder.open_trajectories(count)
        recorder.close_trajectories(trajectories)
    assert sorted(recorder.open_trajectories(3).tolist()) == [0, 1, 2]


@pytest.mark.parametrize("decisions", [10**12, 2**63 - 1])
def test_a_block_without_memory_is_an_error(decisions):
    """The message names the options that determine its size."""
    text = r"a block of segments needs [\d,]{9,} GiB: lower segment_decisions of the algorithm or sampling\.matches"
    with pytest.raises(ConfigError, match=text):
        make_recorder(decisions=decisions)
