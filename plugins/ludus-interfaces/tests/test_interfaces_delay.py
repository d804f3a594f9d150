"""The interface ``delay``."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.environment import Role
from ludus.errors import ContractError
from ludus.interface import SeatView, Spaces, bind_role, stack
from ludus_interfaces.actions import HideMask
from ludus_interfaces.delay import Delay
from ludus_interfaces.frames import FrameStack
from ludus_interfaces.joint_seats import combine

BUTTONS = Spaces(spaces.Box(0, 1, (1,)), spaces.Discrete(6))
SEAT = np.array([3])


def play(interface, choices, *, elapsed=None, masks=None, raw=BUTTONS):
    """Return the executed actions of one seat that chooses these actions, and its observations of the delay."""
    interface.bind(raw)
    interface.reset(SEAT)
    executed, seen = [], []
    for step, choice in enumerate(choices):
        if elapsed is not None:
            interface.elapse(np.array([elapsed[step]]), SEAT)
        mask = None if masks is None else np.array([masks[step]], bool)
        view = SeatView(observation={"obs": np.zeros((1, 1), np.float32)}, action_mask=mask, reward=np.zeros(1))
        seen.append(interface.observe(view, SEAT).observation.get("delay"))
        executed.append(interface.act(np.array([np.atleast_1d(choice)]), SEAT)[0].tolist())
    return executed, seen


def first_labels(result):
    """Return the first label of the executed actions."""
    return [action[0] for action in result[0]]


# -- when actions are executed -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delay_ms", "expected"),
    [
        (0.0, [1, 2, 3, 4, 5]),
        (100.0, [0, 1, 2, 3, 4]),
        (150.0, [0, 0, 1, 2, 3]),  # within a tick: it arrives on the next one
        (300.0, [0, 0, 0, 1, 2]),
    ],
)
def test_actions_are_executed_after_the_delay(delay_ms, expected):
    """Before the first arrival choice 0 is executed; with no delay every action at once."""
    interface = Delay(tick_ms=100.0, fixed_ms=delay_ms)
    assert first_labels(play(interface, [1, 2, 3, 4, 5])) == expected


def test_ticks_can_be_the_unit():
    """With a tick of 1 ms; rounding errors add no tick."""
    assert first_labels(play(Delay(tick_ms=0.1, fixed_ms=0.3, max_ms=0.3), [1, 2, 3, 4, 5])) == [0, 0, 0, 1, 2]


def test_the_first_action_is_an_option():
    """It is executed until another one arrives."""
    interface = Delay(tick_ms=100.0, fixed_ms=200.0, first_action=(5,))
    assert first_labels(play(interface, [1, 2, 3])) == [5, 5, 1]


def test_the_delay_counts_ticks_of_the_game():
    """After an animation of 8 ticks the newest action that arrived meanwhile is executed; older ones are dropped."""
    interface = Delay(tick_ms=100.0, fixed_ms=200.0)
    elapsed = [0, 1, 1, 8, 1, 1]
    assert first_labels(play(interface, [1, 2, 3, 4, 5, 1], elapsed=elapsed)) == [0, 0, 1, 3, 3, 4]


def test_elapsed_ticks_before_the_first_decision_do_not_count():
    """Nothing is under way then, and later matches start like the first."""
    interface = Delay(tick_ms=100.0, fixed_ms=100.0)
    for _ in range(2):
        assert first_labels(play(interface, [1, 2], elapsed=[7, 1])) == [0, 1]


def test_with_jitter_the_newest_arrived_action_is_executed():
    """Actions are never executed after a newer one, and every one is at most the longest jitter old."""
    interface = Delay(tick_ms=100.0, max_ms=0.0, jitter_ms=300.0, first_action=(0,), seed=5)
    raw = Spaces(BUTTONS.observation, spaces.Discrete(400))
    executed = np.array(first_labels(play(interface, np.arange(1, 400), raw=raw)))
    lags = np.arange(1, 400)[5:] - executed[5:]
    assert (np.diff(executed) >= 0).all()
    assert set(lags.tolist()) == {1, 2, 3}
    assert (np.diff(executed) == 0).any()  # none arrived, the last one is repeated
    assert (np.diff(executed) > 1).any()  # one was overtaken


def test_labels_and_real_numbers_are_delayed_together():
    """Hybrid actions keep their parts; without a first action real numbers are the closest to 0."""
    raw = Spaces(BUTTONS.observation, spaces.Tuple((spaces.MultiDiscrete([3, 2]), spaces.Box(0.5, 2.0, (1,)))))
    executed, _ = play(Delay(tick_ms=100.0, fixed_ms=100.0), [[2, 1, 1.5], [1, 0, 2.0]], raw=raw)
    assert executed == [[0, 0, 0.5], [2, 1, 1.5]]


# -- illegal actions ---------------------------------------------------------------------------------------------------


def test_illegal_arrivals_are_replaced_and_counted():
    """By the first action, or where that is illegal too by the first legal choice; legal ones are executed."""
    interface = Delay(tick_ms=100.0, fixed_ms=100.0, first_action=(4,))
    masks = [[1, 1, 1, 1, 1, 1], [1, 0, 1, 1, 1, 1], [0, 0, 0, 1, 0, 1], [0, 0, 0, 1, 0, 1]]
    assert first_labels(play(interface, [1, 2, 3, 3], masks=masks)) == [4, 4, 3, 3]
    assert (interface.executed, interface.replaced) == (4, 2)


def test_each_label_is_replaced_for_itself():
    """The other labels of the action are executed."""
    raw = Spaces(BUTTONS.observation, spaces.MultiDiscrete([3, 2]))
    masks = [[1, 1, 1, 1, 1], [1, 1, 0, 1, 1]]
    executed, _ = play(Delay(tick_ms=100.0, fixed_ms=100.0), [[2, 1], [0, 0]], masks=masks, raw=raw)
    assert executed[1] == [0, 1]


def test_with_a_hidden_mask_the_seat_may_choose_ahead():
    """`hide-mask` next to the environment: a choice that is illegal when it is chosen may be legal on arrival."""
    interface = stack(HideMask(), Delay(tick_ms=100.0, fixed_ms=100.0))
    masks = [[1, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]]
    assert first_labels(play(interface, [1, 2], masks=masks)) == [0, 1]


# -- what is observed ----------------------------------------------------------------------------------------------


def test_the_last_actions_and_the_delay_are_observed():
    """The delay as a share of the longest, then age and one-hot choices of the actions under way, the newest first."""
    raw = Spaces(BUTTONS.observation, spaces.Discrete(3))
    interface = Delay(tick_ms=100.0, fixed_ms=150.0, max_ms=200.0)
    _, seen = play(interface, [2, 1, 0], elapsed=[0, 1, 2], raw=raw)
    third = np.float32(1 / 3)
    assert seen[0][0].tolist() == [0.75, 1, 0, 0, 0, 1, 0, 0, 0]
    assert seen[1][0].tolist() == [0.75, third, 0, 0, 1, 1, 0, 0, 0]
    assert seen[2][0].tolist() == [0.75, np.float32(2 / 3), 0, 1, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(("actions", "size"), [(0, 1 + 3 * 7), (1, 1 + 7), (5, 1 + 5 * 7)])
def test_the_number_of_observed_actions_is_an_option(actions, size):
    """By default as many as can be under way."""
    bound = Delay(tick_ms=100.0, actions=actions).bind(BUTTONS)
    assert bound.observation["delay"].shape == (size,)


def test_without_an_observation_only_actions_change():
    """An opponent that was trained without delay can be delayed."""
    interface = Delay(tick_ms=100.0, fixed_ms=100.0, actions=-1)
    assert interface.bind(BUTTONS) == BUTTONS
    executed, seen = play(interface, [1, 2])
    assert (executed, seen) == ([[0], [1]], [None, None])


def test_actions_keep_their_meaning():
    """`Role.labels_used` stays."""
    role = Role(
        name="hero",
        observation_space=BUTTONS.observation,
        action_space=BUTTONS.action,
        teams=(0,),
        labels_used=((True,),) * 6,
    )
    assert bind_role(role, Delay(tick_ms=1.0)).labels_used == role.labels_used


# -- delays of matches ---------------------------------------------------------------------------------------------


def drawn(interface, seat_ids, matches):
    """Return the observed delays ``[matches, seats]`` in ms of a longest delay of 300 ms."""
    interface.bind(BUTTONS)
    delays = []
    for _ in range(matches):
        interface.reset(seat_ids)
        view = SeatView(
            observation={"obs": np.zeros((seat_ids.size, 1), np.float32)}, action_mask=None, reward=np.zeros(1)
        )
        delays.append(300 * interface.observe(view, seat_ids).observation["delay"][:, 0])
    return np.array(delays)


def test_every_match_of_a_seat_has_its_own_delay():
    """Uniform in the range, independent between the seats of a match, equal for equal seeds."""
    seats = np.array([0, 1, 9])
    delays = drawn(Delay(tick_ms=100.0, min_ms=60.0), seats, 2000)
    assert delays.min() >= 60
    assert delays.max() <= 300
    assert delays.mean(axis=0) == pytest.approx([180] * 3, abs=6)
    assert np.corrcoef(delays.T)[np.triu_indices(3, 1)] == pytest.approx([0] * 3, abs=0.06)
    assert np.array_equal(delays[:5, 1:], drawn(Delay(tick_ms=100.0, min_ms=60.0), seats[1:], 5))
    assert not np.array_equal(delays[:5], drawn(Delay(tick_ms=100.0, min_ms=60.0, seed=1), seats, 5))


def test_the_best_policy_needs_the_delay():
    """A game whose light turns on every tick: a seat that reads its delay always presses the button of the light."""
    turns, matches = 6, 40
    scores = {}
    for reads_delay in (True, False):
        interface = Delay(tick_ms=100.0)
        interface.bind(Spaces(spaces.Discrete(turns), BUTTONS.action))
        hits = []
        for _ in range(matches):
            interface.reset(SEAT)
            for tick in range(30):
                view = SeatView(observation={"obs": np.array([tick % turns])}, action_mask=None, reward=np.zeros(1))
                seen = interface.observe(view, SEAT).observation
                ahead = np.ceil(3 * seen["delay"][0, 0] - 1e-6) if reads_delay else 2
                executed = interface.act(np.array([[(tick + int(ahead)) % turns]]), SEAT)
                hits.append(tick < 3 or executed[0, 0] == tick % turns)
        scores[reads_delay] = np.mean(hits)
    assert scores[True] == 1
    assert scores[False] == pytest.approx(0.1 + 0.9 / 3, abs=0.15)


# -- together with others ------------------------------------------------------------------------------------------


def test_parts_of_a_joint_seat_have_delays_of_their_own():
    """`combine` passes the time between decisions on."""
    raw = Spaces(
        spaces.Dict({"0.obs": spaces.Box(0, 1, (1,)), "1.obs": spaces.Box(0, 1, (1,))}), spaces.MultiDiscrete([6, 6])
    )
    late, prompt = (Delay(tick_ms=100.0, fixed_ms=delay_ms, actions=-1) for delay_ms in (200.0, 0.0))
    interface = combine(late, prompt)
    interface.bind(raw)
    interface.reset(SEAT)
    executed = []
    for step, ticks in enumerate([0, 1, 8], start=1):
        interface.elapse(np.array([ticks]), SEAT)
        leaves = {name: np.zeros((1, 1), np.float32) for name in ("0.obs", "1.obs")}
        interface.observe(SeatView(observation=leaves, action_mask=None, reward=np.zeros(1, np.float32)), SEAT)
        executed.append(interface.act(np.array([[step, step]]), SEAT)[0].tolist())
    assert executed == [[0, 1], [0, 2], [2, 3]]


def test_time_passes_other_interfaces_of_a_stack():
    """An interface without a clock does not stop it."""
    interface = stack(FrameStack(2), Delay(tick_ms=100.0, fixed_ms=200.0, actions=-1))
    assert first_labels(play(interface, [1, 2], elapsed=[0, 8])) == [0, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_ms": 400.0}, "expected min_ms ≤ max_ms, got 400 and 300"),
        ({"fixed_ms": 301.0}, "expected fixed_ms from 0 to max_ms = 300, got 301"),
        ({"tick_ms": 0.1}, "3,001 actions can be under way"),
        ({"first_action": (6,)}, r"first_action: expected an action of Discrete\(6\), got \(6,\)"),
        ({"first_action": (1, 2)}, r"first_action: expected an action of Discrete\(6\), got \(1, 2\)"),
    ],
)
def test_wrong_options_are_refused(options, message):
    """The message states what is wrong, and what is expected."""
    with pytest.raises(ContractError, match=message):
        Delay(**{"tick_ms": 100.0, **options}).bind(BUTTONS)


def test_two_delays_of_one_seat_need_different_leaves():
    """The second one would replace the observation of the first."""
    with pytest.raises(ContractError, match="has a leaf 'delay' already"):
        stack(Delay(tick_ms=100.0), Delay(tick_ms=100.0)).bind(BUTTONS)
