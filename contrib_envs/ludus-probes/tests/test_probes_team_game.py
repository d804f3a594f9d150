"""Scores, offsets and what critics see in ``team-game``."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_probes.environment import ROLE

ROWS = 4000


@pytest.fixture
def scores(make, play, start):
    """Return a function that plays ``[B, S]`` answers made from the signs ``[B, S]``.

    It returns what the seats received less the offset as their critics see it, the signs, and the outcome.
    """

    def scores(choose, **options):
        environment = make("team-game", ROWS, **options)
        player = start(environment)
        signs, offset = player.observation["obs"].argmax(axis=2), player.privileged["offset"][..., 0].astype(float)
        total = play(environment, lambda *_: choose(signs)[..., None])
        return total - offset, signs, environment._tick.outcome

    return scores


def test_a_team_that_answers_its_signs_receives_one_and_the_offset(scores):
    """Every seat of it, in every match, and it wins."""
    paid, _, outcome = scores(lambda signs: signs)
    assert abs(paid - 1.0).max() < 1e-6
    assert outcome.min() == 1.0


def test_the_agent_answers_the_signs(make, make_agent, start, by_agent):
    """Of all seats."""
    environment = make("team-game", ROWS)
    player = start(environment)
    decided = by_agent(make_agent("team-game-perfect", environment))(player, 0)
    assert np.array_equal(decided[..., 0], player.observation["obs"].argmax(axis=2))


@pytest.mark.parametrize(("wrong", "score"), [(1, 2 / 3), (2, 1 / 3), (3, 0.0)])
def test_the_reward_is_the_share_of_right_answers(scores, wrong, score):
    """Shared by all seats, those that were right and those that were wrong; such a match is not won."""
    paid, _, outcome = scores(lambda signs: (signs + (np.arange(3) < wrong)) % 4)
    assert abs(paid - score).max() < 1e-6
    assert outcome.max() == 0.0


def test_who_does_not_look_receives_one_in_the_choices(scores):
    """The same answer to every sign: 1/4, exactly, where all signs are equally likely, and they are."""
    paid, signs, _ = scores(np.zeros_like, members=1)
    by_sign = [paid[signs[:, 0] == sign].mean() for sign in range(4)]
    assert np.mean(by_sign) == pytest.approx(0.25, abs=1e-6)
    assert abs(np.bincount(signs[:, 0]) - ROWS / 4).max() < 120


def test_two_teams_are_paid_their_lead(scores):
    """1 against a team that is always wrong, 0 between equals; the offset changes sign; the higher score wins."""
    lead, _, outcome = scores(lambda signs: (signs + (np.arange(6) >= 3)) % 4, teams=2)
    assert abs(lead - np.array([1.0] * 3 + [-1.0] * 3)).max() < 1e-6
    assert outcome.tolist() == [[1.0, 0.0]] * ROWS
    equal, _, outcome = scores(lambda signs: signs, teams=2)
    assert abs(equal).max() < 1e-6
    assert outcome.tolist() == [[0.5, 0.5]] * ROWS


def test_the_perfect_team_knows_its_value_against_its_like(make, make_agent, start):
    """The game is zero-sum then, and so is the value."""
    environment = make("team-game", 2, teams=2)
    agent = make_agent("team-game-perfect", environment)
    observed = {"obs": start(environment).observation["obs"][:, 0]}
    _, values = agent.act_and_evaluate(observed, action_mask=None, seat_ids=np.arange(2), rng=np.random.default_rng(0))
    assert values.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("width", [0.0, 2.0, 8.0])
def test_the_offset_is_uniform(make, start, width):
    """Mean 0 and variance offset²/3, within five standard errors; 64/3 by default."""
    offset = start(make("team-game", ROWS, offset=width)).privileged["offset"][:, 0, 0]
    assert abs(offset.mean()) <= 5 * width / np.sqrt(3 * ROWS)
    assert offset.var() == pytest.approx(width**2 / 3, rel=0.08)
    assert abs(offset).max() <= width


def test_the_offset_is_independent_of_the_signs(make, start):
    """Observations do not reveal it: the means by sign differ by chance only."""
    player = start(make("team-game", ROWS))
    offset, signs = player.privileged["offset"][:, 0, 0], player.observation["obs"].argmax(axis=2)
    for seat in range(3):
        means = [offset[signs[:, seat] == sign].mean() for sign in range(4)]
        assert np.ptp(means) < 1.0  # standard error 0.15 each, of a number between -8 and 8


def test_critics_see_everything_from_their_teams_side(make, start):
    """All signs, own team first, and the offset as the team is paid it."""
    player = start(make("team-game", 5, teams=2, members=2))
    signs = player.observation["obs"]
    assert np.array_equal(player.privileged["signs"][:, 1], signs)
    assert np.array_equal(player.privileged["signs"][:, 2], signs[:, [2, 3, 0, 1]])
    assert np.array_equal(player.privileged["offset"][:, 3], -player.privileged["offset"][:, 0])


def test_a_seat_sees_its_own_sign_alone(make, start):
    """Nothing of the others, nothing of the offset."""
    environment = make("team-game", 5)
    assert environment.spec.role(ROLE).observation_space.shape == (4,)
    assert (start(environment).observation["obs"].sum(axis=2) == 1.0).all()
