"""Which labels count in ``labels``."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

ROWS = 3000
LEAVES = ("wanted", "second", "third")


@pytest.fixture
def returns(make, play, start):
    """Return a function that plays actions ``[B, 3]`` computed from targets ``[B, 3]``, and returns both."""

    def returns(choose, **options):
        environment = make("labels", ROWS, choices=4, **options)
        player = start(environment)
        asked = np.stack([player.observation[name][:, 0].argmax(axis=1) for name in LEAVES], axis=1)
        return play(environment, lambda *_: choose(asked)[:, None])[:, 0], asked

    return returns


def shift(asked, *by):
    """Return the targets with wrong values for the shifted labels."""
    return (asked + np.array(by)) % np.array([2, 4, 4])


@pytest.mark.parametrize("coupled", [False, True])
def test_right_answers_are_worth_one(make, make_agent, play, by_agent, coupled):
    """In every match."""
    environment = make("labels", ROWS, coupled=coupled)
    total = play(environment, by_agent(make_agent("labels-perfect", environment)))
    assert total.min() == 1.0 == total.max()
    assert environment._tick.outcome.min() == 1.0


@pytest.mark.parametrize("by", range(1, 4))
def test_the_label_that_was_not_chosen_changes_nothing(returns, by):
    """The return stays 1 for every variant, and the spec describes the variant."""

    def choose(asked):
        unused = np.where(asked[:, :1] == 0, np.array([[0, 0, by]]), np.array([[0, by, 0]]))
        return shift(asked, 0, 0, 0) * (unused == 0) + (asked + unused) % 4 * (unused > 0)

    total, _ = returns(choose)
    assert total.min() == 1.0


def test_the_spec_tells_which_labels_are_used(make):
    """Second or third beside the first; all of them where they are coupled."""
    assert make("labels").spec.role("player").labels_used == ((True, True, False), (True, False, True))
    assert make("labels", coupled=True).spec.role("player").labels_used is None


def test_any_label_that_counts_makes_a_match_worth_nothing_if_it_is_wrong(returns):
    """The first label, and the one it should have chosen."""
    assert not returns(lambda asked: shift(asked, 1, 0, 0))[0].any()
    for wanted, by in ((0, (0, 1, 0)), (1, (0, 0, 1))):
        total, asked = returns(lambda asked, by=by: shift(asked, *by))
        assert not total[asked[:, 0] == wanted].any()


def test_coupled_labels_must_be_right_together(returns):
    """One wrong label, whichever, and the match is worth nothing."""
    for by in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 3, 3)):
        assert not returns(lambda asked, by=by: shift(asked, *by), coupled=True)[0].any()


def test_any_number_of_labels_can_be_chosen_from(make, make_agent, play, by_agent):
    """The perfect agent reads them all; the label wanted and the one it names count, the others do not."""
    environment = make("labels", ROWS, labels=5)
    role = environment.spec.role("player")
    assert role.action_space.nvec.tolist() == [5, 6, 6, 6, 6, 6]
    assert role.labels_used[3] == (True, False, False, False, True, False)
    perfect = by_agent(make_agent("labels-perfect", environment))
    assert play(environment, perfect).min() == 1.0

    def only_what_counts(player, number):
        action = perfect(player, number)
        others = np.arange(1, 6) != action[..., :1] + 1
        return np.concatenate([action[..., :1], np.where(others, 0, action[..., 1:])], axis=-1)

    assert play(environment, only_what_counts).min() == 1.0


def test_a_shared_reward_is_the_share_of_right_labels(make, make_agent, play, by_agent):
    """One more wrong label costs one more part, and only all of them together win."""
    environment = make("labels", 20, labels=3, coupled=True, shared=True)
    perfect = by_agent(make_agent("labels-perfect", environment))
    for wrong in range(5):

        def decide(player, number, wrong=wrong):
            action = perfect(player, number)
            action[..., :wrong] = (action[..., :wrong] + 1) % np.array([3, 6, 6, 6])[:wrong]
            return action

        assert play(environment, decide).tolist() == [[1 - wrong / 4]] * 20
        assert environment._tick.outcome.tolist() == [[float(wrong == 0)]] * 20


@pytest.mark.parametrize("coupled", [False, True])
def test_a_key_is_added_to_what_is_shown(make, make_agent, start, play, by_agent, coupled):
    """Of all labels but the first, modulo the choices; everything else stays as it is without a key."""
    environment = make("labels", ROWS, choices=4, coupled=coupled, keyed=True)
    player, plain = start(environment), start(make("labels", ROWS, choices=4, coupled=coupled))
    shown = np.stack([player.observation[name][:, 0].argmax(axis=1) for name in LEAVES], axis=1)
    key = player.observation["key"][:, 0].argmax(axis=1)
    assert all(np.array_equal(player.observation[name], plain.observation[name]) for name in LEAVES)
    assert abs(np.bincount(key, minlength=4) - ROWS / 4).max() < 100
    asked = (shown + np.column_stack([np.zeros(ROWS, np.int64), key, key])) % np.array([2, 4, 4])
    assert play(environment, lambda *_: asked[:, None]).min() == 1.0
    assert play(environment, by_agent(make_agent("labels-perfect", environment))).min() == 1.0
    assert play(environment, lambda *_: shown[:, None])[key > 0].max() == 0.0


def test_a_policy_that_does_not_choose_the_label_receives_a_half(returns):
    """Both other labels right, the first one fixed: right where that is wanted, which is so in half of the matches."""
    for fixed in (0, 1):
        total, asked = returns(lambda asked, fixed=fixed: np.column_stack([np.full(ROWS, fixed), asked[:, 1:]]))
        assert [total[asked[:, 0] == wanted].mean() for wanted in (0, 1)] == [wanted == fixed for wanted in (0, 1)]


@pytest.mark.parametrize(("coupled", "odds"), [(False, 1 / 8), (True, 1 / 32)])
def test_guessing_is_right_by_chance(returns, coupled, odds):
    """The mean over all actions, exactly: 1/(2·choices), and 1/(2·choices²) where labels are coupled."""
    actions = itertools.product(range(2), range(4), range(4))
    totals = [returns(lambda _, one=one: np.tile(one, (ROWS, 1)), coupled=coupled)[0] for one in actions]
    assert np.mean(totals, axis=0).tolist() == [odds] * ROWS


def test_all_questions_are_equally_likely(returns):
    """32 of them in 3,000 matches."""
    _, asked = returns(lambda asked: asked)
    counts = np.bincount(asked @ np.array([16, 4, 1]), minlength=32)
    assert abs(counts - ROWS / 32).max() < 45


def test_an_action_is_typed_as_words(make):
    """The label that is chosen, then both numbers."""
    assert make("labels").parse_action("player", "third 1 5").tolist() == [1, 1, 5]
    with pytest.raises(ValueError, match="expected one of second third, then one of 0 1 2 3 4 5, then"):
        make("labels").parse_action("player", "third 1")
