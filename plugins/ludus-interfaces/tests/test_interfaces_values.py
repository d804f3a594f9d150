"""Interfaces compute hand-computed observations, rewards and actions, and keep the rows of seats."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings, strategies as st
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.interface import SeatView, Spaces, bind_role, stack
from ludus.testing import check_interface
from ludus_interfaces.actions import HideMask, MergeLabels
from ludus_interfaces.frames import FrameStack, SeatRows
from ludus_interfaces.observations import Flatten, OneHot, ScaleObservation, SelectLeaves
from ludus_interfaces.rewards import RewardParts, ScaleReward

ACTION = spaces.MultiDiscrete([3, 2])
LEAVES = spaces.Dict(
    {
        "picture": spaces.Box(0, 255, (1, 2), np.uint8),
        "unit": spaces.Discrete(3, start=1),
        "cards": spaces.MultiDiscrete([2, 3]),
        "flags": spaces.MultiBinary(2),
        "free": spaces.Box(-np.inf, np.inf, (1,)),
    }
)
RAW = Spaces(LEAVES, ACTION)
ROW = {
    "picture": np.array([[[0, 255]]], np.uint8),
    "unit": np.array([2]),
    "cards": np.array([[1, 2]]),
    "flags": np.array([[0, 1]], np.int8),
    "free": np.array([[7.5]], np.float32),
}
ONE = np.array([0])


def apply(interface, observation=ROW, *, raw=RAW, reward=1.0, mask=None, seat_ids=ONE):
    """Bind and observe once."""
    interface.bind(raw)
    view = SeatView(observation=observation, action_mask=mask, reward=np.full(len(seat_ids), reward, np.float32))
    return interface.observe(view, seat_ids)


# -- flatten -------------------------------------------------------------------------------------------------------


def test_flatten_concatenates_all_leaves_in_the_order_of_the_space():
    """Dict spaces sort leaves by name: cards, flags, free, picture, unit."""
    assert apply(Flatten()).observation["obs"].tolist() == [[1, 2, 0, 1, 7.5, 0, 255, 2]]


def test_flatten_keeps_bounds():
    """Every entry has the bounds of its leaf."""
    box = Flatten().bind(RAW).observation
    assert box.low.tolist() == [0, 0, 0, 0, -np.inf, 0, 0, 1]
    assert box.high.tolist() == [1, 2, 1, 1, np.inf, 255, 255, 3]


# -- frame-stack ---------------------------------------------------------------------------------------------------


def test_frame_stack_puts_the_newest_last_and_repeats_the_first():
    """The first observation fills missing frames."""
    interface, raw = FrameStack(3), Spaces(spaces.Discrete(9), ACTION)
    result = [apply(interface, {"obs": np.array([n])}, raw=raw).observation["obs"].tolist() for n in (1, 2, 3, 4)]
    assert result == [[[1, 1, 1]], [[1, 1, 2]], [[1, 2, 3]], [[2, 3, 4]]]


def test_frame_stack_keeps_frames_by_seat_and_clears_them_on_reset():
    """A reset of one seat keeps the frames of others."""
    interface, raw = FrameStack(2), Spaces(spaces.Discrete(9), ACTION)
    both = np.array([40, 8])
    apply(interface, {"obs": np.array([1, 2])}, raw=raw, seat_ids=both)
    interface.reset(np.array([8]))
    result = apply(interface, {"obs": np.array([3, 4])}, raw=raw, seat_ids=both).observation["obs"]
    assert result.tolist() == [[1, 3], [4, 4]]


def test_frame_stack_puts_images_side_by_side_in_their_channels():
    """The channels of the oldest image come first, and a new match repeats its first image."""
    interface, raw = FrameStack(3), Spaces(spaces.Box(0, 255, (2, 2, 2), np.uint8), ACTION)
    assert interface.bind(raw).observation.shape == (2, 2, 6)
    images = [np.full((1, 2, 2, 2), [n, 10 * n], np.uint8) for n in (1, 2, 3)]
    result = [apply(interface, {"obs": image}, raw=raw).observation["obs"] for image in images]
    assert [stacked[0, 1, 0].tolist() for stacked in result] == [
        [1, 10, 1, 10, 1, 10],
        [1, 10, 1, 10, 2, 20],
        [1, 10, 2, 20, 3, 30],
    ]
    assert result[2].flags.c_contiguous


def test_frame_stack_takes_every_kind_of_leaf():
    """By an axis, in its dtype."""
    result = FrameStack(4).bind(RAW).observation
    assert {name: leaf.shape for name, leaf in result.spaces.items()} == {
        "picture": (4, 1, 2),
        "unit": (4,),
        "cards": (4, 2),
        "flags": (4, 2),
        "free": (4, 1),
    }
    assert result["picture"].dtype == np.uint8


def test_frame_stack_returns_copies():
    """Writing to returned frames does not change later ones."""
    interface, raw = FrameStack(2), Spaces(spaces.Discrete(9), ACTION)
    apply(interface, {"obs": np.array([5])}, raw=raw).observation["obs"][:] = 0
    assert apply(interface, {"obs": np.array([6])}, raw=raw).observation["obs"].tolist() == [[5, 6]]


# -- one-hot -------------------------------------------------------------------------------------------------------


def test_one_hot_encodes_numbers():
    """Discrete counts from its start; a MultiDiscrete leaf becomes one vector per number, side by side."""
    result = apply(OneHot()).observation
    assert result["unit"].tolist() == [[0, 1, 0]]
    assert result["cards"].tolist() == [[0, 1, 0, 0, 1]]
    assert result["picture"] is ROW["picture"]


def test_one_hot_can_be_limited_to_some_leaves():
    """Other leaves do not change."""
    result = apply(OneHot(["unit"])).observation
    assert result["unit"].shape == (1, 3)
    assert result["cards"] is ROW["cards"]


def test_one_hot_rejects_a_leaf_of_another_kind():
    """The message lists supported leaves."""
    with pytest.raises(ContractError, match="no Discrete or MultiDiscrete leaf 'free'; there are cards, unit"):
        OneHot(["free"]).bind(RAW)


# -- scale-observation ---------------------------------------------------------------------------------------------


def test_scale_observation_scales_bounded_leaves_only():
    """0 … 255 becomes -1 … 1."""
    result = apply(ScaleObservation()).observation
    assert result["picture"].tolist() == [[[-1, 1]]]
    assert result["free"].tolist() == [[7.5]]
    assert result["unit"] is ROW["unit"]


def test_scale_observation_takes_another_range():
    """0 … 255 becomes 0 … 1."""
    result = apply(ScaleObservation(0, 1), {**ROW, "picture": np.array([[[51, 255]]], np.uint8)}).observation
    np.testing.assert_allclose(result["picture"], [[[0.2, 1]]], rtol=1e-6)


def test_scale_observation_rejects_an_empty_range():
    """Low must be below high."""
    with pytest.raises(ContractError, match="low < high"):
        ScaleObservation(1, 1).bind(RAW)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.float32])
def test_scale_observation_ignores_limits_of_a_dtype(dtype):
    """They would make all observations nearly equal."""
    limits = np.finfo(dtype) if dtype is np.float32 else np.iinfo(dtype)
    leaf = spaces.Box(np.array([limits.min, 0], dtype), np.array([limits.max, 10], dtype), dtype=dtype)
    interface = ScaleObservation()
    bound = interface.bind(Spaces(leaf, ACTION)).observation
    view = SeatView(observation={"obs": np.array([[7, 5]], dtype)}, action_mask=None, reward=np.zeros(1, np.float32))
    assert interface.observe(view, np.zeros(1, np.int64)).observation["obs"].tolist() == [[7, 0]]
    assert (bound.low.tolist(), bound.high.tolist()) == ([np.float32(limits.min), -1], [np.float32(limits.max), 1])


def test_scale_observation_does_not_change_entries_with_one_bound():
    """Bounded entries of the same leaf are scaled."""
    low = np.array([-5, 5, -np.inf, -np.inf, 0], np.float32)
    high = np.array([np.inf, np.inf, 4, np.inf, 10], np.float32)
    interface = ScaleObservation(-2, 2)
    bound = interface.bind(Spaces(spaces.Box(low, high), ACTION))
    row = {"obs": np.array([[3, 7, -9, 1e9, 5]], np.float32)}
    view = SeatView(observation=row, action_mask=None, reward=np.zeros(1, np.float32))
    result = interface.observe(view, np.zeros(1, np.int64)).observation["obs"]
    assert result.tolist() == [[3, 7, -9, 1e9, 0]]
    assert bound.observation.low.tolist() == [-5, 5, -np.inf, -np.inf, -2]
    assert bound.observation.high.tolist() == [np.inf, np.inf, 4, np.inf, 2]


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
@settings(deadline=None, max_examples=30)
def test_scaled_observations_stay_in_their_space(low, width):
    """Despite of rounding."""
    raw = Spaces(spaces.Box(np.float32(low), np.float32(low + width), (5,)), ACTION)
    check_interface(ScaleObservation, raw, rows=3, steps=1)


# -- scale-reward --------------------------------------------------------------------------------------------------


def test_scale_reward_multiplies_and_clips():
    """The factor comes first; 0 means no clipping."""
    assert apply(ScaleReward(10), reward=0.5).reward.tolist() == [5]
    assert apply(ScaleReward(10, clip=2), reward=0.5).reward.tolist() == [2]
    assert apply(ScaleReward(10, clip=2), reward=-0.5).reward.tolist() == [-2]


# -- select-leaves -------------------------------------------------------------------------------------------------


def test_select_leaves_removes_other_leaves():
    """From space and view."""
    interface = SelectLeaves(["free", "unit"])
    assert set(interface.bind(RAW).observation.spaces) == set(apply(interface).observation) == {"free", "unit"}


def test_select_leaves_rejects_unknown_leaves():
    """The message lists the known ones."""
    with pytest.raises(ContractError, match="no observation leaf 'units'; there are cards, flags"):
        SelectLeaves(["units"]).bind(RAW)


# -- merge-labels --------------------------------------------------------------------------------------------------


def test_merge_labels_has_every_combination_once():
    """Choices 0 … 5 are all pairs of the labels."""
    interface = MergeLabels()
    assert interface.bind(RAW).action == spaces.Discrete(6)
    raw = interface.act(np.arange(6)[:, None], np.arange(6))
    assert raw.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]


def test_a_merged_choice_is_legal_if_all_of_its_labels_are():
    """The mask is the product of the labels' masks."""
    mask = np.array([[True, False, True, False, True]])
    assert apply(MergeLabels(), mask=mask).action_mask.tolist() == [[False, True, False, False, False, True]]


def test_merge_labels_rejects_too_many_choices():
    """The message names the number and the option."""
    with pytest.raises(ContractError, match=r"has 6 combinations, more than max_choices = 5"):
        MergeLabels(max_choices=5).bind(RAW)


def test_merge_labels_rejects_continuous_actions():
    """They have no labels."""
    with pytest.raises(ContractError, match="needs discrete actions"):
        MergeLabels().bind(Spaces(LEAVES, spaces.Box(0, 1, (2,))))


# -- hide-mask -----------------------------------------------------------------------------------------------------


def test_hidden_masks_replace_illegal_choices():
    """Each label for itself, by the mask of the seat's own last view; legal choices stay."""
    interface, seats = HideMask(), np.array([7, 3])
    interface.bind(RAW)
    mask = np.array([[False, True, True, True, False], [True, False, True, False, True]])
    view = SeatView(observation={}, action_mask=mask, reward=np.zeros(2, np.float32))
    assert interface.observe(view, seats).action_mask.all()
    assert interface.act(np.array([[0, 1], [2, 1]]), seats).tolist() == [[1, 0], [2, 1]]
    assert interface.act(np.array([[0, 1]]), seats[1:]).tolist() == [[0, 1]]


def test_hidden_masks_keep_the_meaning_of_labels():
    """`Role.labels_used` stays, unlike behind other interfaces that change actions."""
    role = Role(
        name="hero", observation_space=LEAVES, action_space=RAW.action, teams=(0,), labels_used=((True, False),) * 3
    )
    assert bind_role(role, HideMask()).labels_used == role.labels_used
    assert bind_role(role, MergeLabels()).labels_used is None
    assert bind_role(role, stack(HideMask(), OneHot())).labels_used == role.labels_used


def test_hide_mask_needs_labels():
    """Real numbers have no mask."""
    with pytest.raises(ContractError, match="needs discrete actions"):
        HideMask().bind(Spaces(LEAVES, spaces.Box(0, 1, (2,))))


# -- together ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        Flatten,
        FrameStack,
        OneHot,
        ScaleObservation,
        ScaleReward,
        MergeLabels,
        HideMask,
        lambda: SelectLeaves(["free", "unit"]),
        lambda: stack(OneHot(), ScaleObservation(), FrameStack(2), Flatten(), MergeLabels(), ScaleReward(0.1)),
    ],
)
def test_interfaces_satisfy_the_contract(make):
    """Each interface, and all of them stacked."""
    check_interface(make, RAW)


# -- reward parts ------------------------------------------------------------------------------------------------------


def weighted_reward(interface, seat_ids, **parts):
    """Return the reward that the interface computes from parts."""
    arrays = {name: np.asarray(values, np.float32) for name, values in parts.items()}
    total = np.sum(list(arrays.values()), axis=0).astype(np.float32) if arrays else np.zeros(len(seat_ids), np.float32)
    view = SeatView(
        observation={"obs": np.zeros((len(seat_ids), 1), np.float32)},
        action_mask=None,
        reward=total,
        reward_parts=arrays,
    )
    return interface.observe(view, np.asarray(seat_ids)).reward.tolist()


def test_parts_are_weighted():
    """The weight of unnamed parts is 1."""
    interface = RewardParts({"hit": 0.5, "taken": 0.0})
    assert weighted_reward(interface, [0, 1], win=[1, 0], hit=[4, 2], taken=[-8, -8]) == [3, 1]


def test_guidance_fades():
    """Linearly, until its share of the training budget is used."""
    interface = RewardParts({"hint": 2.0}, fade={"hint": 0.5})
    rewards = []
    for progress in (0.0, 0.25, 0.5, 0.75):
        interface.set_progress(progress)
        rewards.append(weighted_reward(interface, [0], win=[1], hint=[1])[0])
    assert rewards == [3, 2, 1, 1]


def test_parts_in_once_count_once_per_match():
    """By seat; a reward of 0 does not count."""
    interface = RewardParts({}, once=("cheese",))
    interface.reset(np.array([0, 7]))
    assert weighted_reward(interface, [0, 7], cheese=[0, 5]) == [0, 5]
    assert weighted_reward(interface, [7, 0], cheese=[5, 5]) == [0, 5]
    interface.reset(np.array([7]))
    assert weighted_reward(interface, [0, 7], cheese=[5, 5]) == [0, 5]


def test_unknown_parts_are_rejected():
    """The message lists the known ones."""
    with pytest.raises(ContractError, match="gives no reward part 'chese'; it gives cheese, win"):
        weighted_reward(RewardParts({"chese": 1.0}), [0], cheese=[1], win=[0])


@pytest.mark.parametrize("options", [{"weights": {"win": 2.0}}, {"fade": {"win": 1.0}}, {"once": ["win"]}], ids=str)
def test_options_for_a_reward_without_parts_are_rejected(options):
    """They would have no effect."""
    view = SeatView(observation={}, action_mask=None, reward=np.ones(1, np.float32))
    with pytest.raises(ContractError, match="gives no reward part 'win'; it gives none"):
        RewardParts(**{"weights": {}} | options).observe(view, np.zeros(1, np.int64))
    assert RewardParts({}).observe(view, np.zeros(1, np.int64)) is view


def test_without_parts_nothing_changes():
    """Agents get no rewards, and there are none before the first tick."""
    assert weighted_reward(RewardParts({"win": 2.0}), [0]) == [0]


def test_the_next_interface_gets_weighted_parts():
    """And the progress."""
    below, above = RewardParts({"hit": 0.5}), RewardParts({"hit": 0.5}, fade={"hit": 1.0})
    stacked = stack(below, above)
    stacked.set_progress(0.5)
    assert weighted_reward(stacked, [0], hit=[8]) == [1]


@given(st.lists(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5, unique=True), max_size=6))
@settings(deadline=None, max_examples=50)
def test_every_seat_id_keeps_its_row(batches):
    """There are as many rows as seat ids."""
    table, known = SeatRows(), {}
    for seat_ids in batches:
        rows = table.rows(np.array(seat_ids))
        for seat_id, row in zip(seat_ids, rows.tolist(), strict=True):
            assert known.setdefault(seat_id, row) == row
    assert sorted(known.values()) == list(range(table.count)) == list(range(len(known)))


def test_rows_are_fresh_once_and_again_after_a_reset():
    """New and reset rows are fresh until they are taken."""
    table = SeatRows()
    seat_ids = np.array([7, 3])
    assert table.take_fresh(table.rows(seat_ids)).tolist() == [True, True]
    table.reset(np.array([3, 99]))
    assert table.take_fresh(table.rows(seat_ids)).tolist() == [False, True]


def test_frames_that_exceed_memory_are_refused():
    """Several frame-stacks multiply their frames."""
    interface = stack(*(FrameStack(frames=100) for _ in range(6)))
    with pytest.raises(ContractError, match=r"100 frames of [\d,]+ numbers exceed 30,000,000: expected fewer"):
        interface.bind(Spaces(spaces.Box(0, 1, (3,)), ACTION))
