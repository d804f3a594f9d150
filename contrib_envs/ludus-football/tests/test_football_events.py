"""Events, rewards and statistics on hand-made sequences of two against two, and on sequences of the real engine."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from ludus_football.actions import Action
from ludus_football.events import KICK_STEPS, SLIDE_STEPS, EventTracker
from ludus_football.reward_config import RewardWeights
from ludus_football.rewards import PARTS, TEAM_PARTS, RewardTracker
from ludus_football.state import GameMode, State
from ludus_football.statistics import STATISTICS, StatisticsTracker

#: Seats of the hand-made match: two players of each team.
L0, L1, R0, R1 = range(4)
PLACES = {L0: (0.8, 0.1), L1: (0.9, -0.1), R0: (-0.6, 0.0), R1: (0.85, 0.3)}


class Story:
    """A match of two against two as a list of moments, in each of which seats may choose actions.

    Args:
        turned: Whether the whole match is turned by 180 degrees, so that the teams exchange their sides.
        weights: Rewards.
    """

    def __init__(self, *, turned=False, weights=None) -> None:
        self._turned = turned
        self._state = State.empty((2, 2), (2, 2))
        self._state.position[:] = np.array(list(PLACES.values())).reshape(2, 2, 2)
        self._actions = np.zeros(4, np.int64)
        self._events = EventTracker()
        first = self._turn()
        self._events.start(first)
        self._rewards = RewardTracker(RewardWeights() if weights is None else weights, first.team)
        self._rewards.start(first)
        self._statistics = StatisticsTracker(first.team)
        self._statistics.start()
        self.event = None
        self.parts = {name: np.full(4, np.nan, np.float32) for name in PARTS}

    def start_statistics(self) -> None:
        """Start the statistics of the next match."""
        self._statistics.start()

    def _turn(self) -> State:
        return self._state.mirrored() if self._turned else self._state

    def team(self, team: int) -> int:
        """Return a team as events name it."""
        return 1 - team if self._turned and team >= 0 else team

    def choose(self, seat, action):
        """Let a seat choose an action in the current moment."""
        self._actions[seat] = action
        return self

    def then(self, owner=None, *, speed=0.0, winner=-1, steps=1, **changes):
        """Advance to moments in which a seat's player has the ball, which moves by metres a step; None: no player."""
        team, player = (-1, -1) if owner is None else divmod(owner, 2)
        ball = self._state.ball.copy()
        if owner is not None:
            ball[:2] = PLACES[owner]
        direction = np.array([speed / 54.4, 0, 0], np.float32)
        changes = {"ball": ball, "mode": GameMode.NORMAL} | changes
        for _ in range(steps):
            self._state = evolve(self._state, owner_team=team, owner_player=player, ball_direction=direction, **changes)
            state = self._turn()
            self.event = self._events.update(state, self._actions)
            self._rewards.write(self.event, state, self.parts, winner=self.team(winner))
            self._statistics.add(self.event, state)
            self._actions[:] = Action.IDLE
        return self

    def reward(self, name):
        """Return a part of the reward by seat."""
        return self.parts[name].round(6).tolist()

    def statistic(self, name):
        """Return a statistic by seat."""
        values = {key: np.full(4, np.nan, np.float32) for key in STATISTICS}
        self._statistics.write(values)
        return values[name].round(6).tolist()


@pytest.fixture(params=[False, True], ids=["left", "right"])
def story(request) -> Story:
    """Return a new match, as it is and turned."""
    return Story(turned=request.param)


def at(x, y) -> np.ndarray:
    """Return a place of the ball."""
    return np.array([x, y, 0.1], np.float32)


def test_a_completed_pass(story):
    """A pass counts when the ball leaves its player, and is completed when the teammate has it."""
    story.then(L0).choose(L0, Action.SHORT_PASS).then(L0, steps=3)
    assert story.event.kicker == -1
    story.then(None, speed=1.0)
    assert (story.event.kicker, story.event.kick) == (L0, Action.SHORT_PASS)
    story.then(None, speed=0.9)
    assert story.event.kicker == -1
    story.then(L1)
    assert story.event.passer == L0
    assert story.then(L1).event.passer == -1
    assert story.statistic("short_passes") == [1, 0, 0, 0]
    assert story.statistic("completed_passes") == [1, 0, 0, 0]
    assert story.statistic("possession") == [0.5, 0.25, 0, 0]
    assert story.statistic("opponent_possession") == [0, 0, 0.75, 0.75]


@pytest.mark.parametrize("receiver", [R0, L0])
def test_a_pass_that_no_teammate_gets_is_not_completed(story, receiver):
    """An opponent or the passer itself gets it."""
    story.then(L0).choose(L0, Action.HIGH_PASS).then(None, speed=1.0).then(receiver).then(L1)
    assert story.statistic("high_passes") == [1, 0, 0, 0]
    assert story.statistic("completed_passes") == [0] * 4


def test_a_pass_into_the_out_is_not_completed(story):
    """The throw-in of the opponents ends it, even if the teammate gets the ball afterwards."""
    story.then(L0).choose(L0, Action.LONG_PASS).then(None, speed=1.0)
    story.then(R1, mode=GameMode.THROW_IN).then(L1)
    assert story.statistic("long_passes") == [1, 0, 0, 0]
    assert story.statistic("completed_passes") == [0] * 4


def test_what_is_no_kick(story):
    """Choices without the ball, too early, not followed by a faster ball, or of players who lose it are none."""
    story.then(L0).choose(L1, Action.SHOT).choose(R0, Action.SHORT_PASS).then(None, speed=1.0)
    story.then(L0).choose(L0, Action.SHOT).then(L0, steps=KICK_STEPS + 1).then(None, speed=1.0)
    story.then(L0).choose(L0, Action.SHOT).then(None, speed=0.4)
    story.then(L0, speed=1.0).choose(L0, Action.SHOT).then(R0, speed=1.4).then(None, speed=5.0)
    assert sum(sum(story.statistic(name)) for name in ("shots", "short_passes", "long_passes", "high_passes")) == 0


def test_the_last_choice_is_the_kick(story):
    """A player who chose a pass and then a shot shoots."""
    story.then(L0).choose(L0, Action.SHORT_PASS).then(L0).choose(L0, Action.SHOT).then(None, speed=2.0)
    assert story.event.kick == Action.SHOT
    assert story.statistic("shots") == story.statistic("zone_shots") == [1, 0, 0, 0]


@pytest.mark.parametrize(("place", "count"), [((0.71, 0.0), 1), ((0.69, 0.0), 0), ((0.8, 0.25), 0), ((-0.9, 0.0), 0)])
def test_the_zone_of_shots(story, place, count):
    """It is the penalty area of the opponents, from 16.5 m before their goal line."""
    story.then(L0, ball=at(*place)).choose(L0, Action.SHOT).then(None, speed=2.0)
    assert story.statistic("shots") == [1, 0, 0, 0]
    assert story.statistic("zone_shots") == [count, 0, 0, 0]


def test_a_goal_with_assist(story):
    """Scorer and assistant are the last two of the team; the team parts have opposite signs."""
    story.then(R1).then(L0).then(None).then(L1).then(None, score=(1, 0))
    assert (story.team(0), L1, L0) == (story.event.scored, story.event.scorer, story.event.assistant)
    assert story.reward("goal") == [1, 1, 0, 0]
    assert story.reward("conceded") == [0, 0, -1, -1]
    assert story.reward("secondary_attack") == pytest.approx([0.1, 0, 0, 0])
    assert story.reward("excess") == [0] * 4
    assert story.statistic("goals") == [0, 1, 0, 0]
    assert story.then(None).reward("goal") == [0] * 4


def test_goals_without_assist(story):
    """An opponent in between, or a stop of play, takes the assist away."""
    story.then(L0).then(R1).then(L1).then(None, score=(1, 0))
    assert (story.event.scorer, story.event.assistant) == (L1, -1)
    story.then(L0).then(L1, mode=GameMode.FREE_KICK).then(None, score=(2, 0))
    assert (story.event.scorer, story.event.assistant) == (L1, -1)


def test_an_own_goal_has_no_scorer(story):
    """The last touch was by the other team."""
    story.then(L0).then(R1).then(None, score=(1, 0))
    assert (story.event.scored, story.event.scorer, story.event.assistant) == (story.team(0), -1, -1)
    assert story.reward("goal") == [1, 1, 0, 0]


def test_changes_of_possession(story):
    """The first holder, and the first after a goal, gain nothing; a free ball changes nothing."""
    assert story.then(L0).event.gained == -1
    assert story.then(None).then(L1).event.gained == -1
    story.then(None).then(R0)
    assert story.event.gained == story.team(1)
    assert story.reward("possession") == pytest.approx([-0.2, -0.2, 0.2, 0.2])
    assert story.then(R1).reward("possession") == [0] * 4
    story.then(L0)
    assert story.reward("possession") == pytest.approx([0.2, 0.2, -0.2, -0.2])
    assert story.then(None, score=(0, 1)).then(R0).event.gained == -1


@pytest.mark.parametrize(
    ("mode", "ball", "put_out"),
    [
        (GameMode.CORNER, at(1.01, 0.43), 1),
        (GameMode.CORNER, at(-1.01, 0.43), 0),
        (GameMode.GOAL_KICK, at(0.93, 0.0), 0),
        (GameMode.GOAL_KICK, at(-0.93, 0.0), 1),
        (GameMode.THROW_IN, at(0.85, 0.31), 0),  # next to a player of the right team, who takes it
        (GameMode.THROW_IN, at(0.8, 0.12), 1),
        (GameMode.FREE_KICK, at(0.8, 0.12), -1),
        (GameMode.PENALTY, at(0.8, 0.12), -1),
    ],
)
def test_balls_out_of_the_field(story, mode, ball, put_out):
    """The team against which the set piece is given pays once; fouls are none."""
    story.then(None, mode=mode, ball=ball)
    assert story.event.put_out == story.team(put_out)
    expected = [-0.001 if put_out == seat // 2 else 0 for seat in range(4)]
    assert story.reward("out") == pytest.approx(expected)
    assert story.then(None, mode=mode, ball=ball).event.put_out == -1


def test_the_taker_of_a_set_piece_holds_the_ball(story):
    """The opponents' free kick changes possession, and its kick counts although the engine reports no owner."""
    story.then(L0).then(None, mode=GameMode.FREE_KICK, ball=at(-0.6, 0.01))
    assert story.event.gained == story.team(1)
    story.choose(R0, Action.LONG_PASS).then(None, mode=GameMode.FREE_KICK, ball=at(-0.6, 0.01))
    story.then(None, speed=2.0).then(R1)
    assert story.statistic("long_passes") == story.statistic("completed_passes") == [0, 0, 1, 0]


def test_set_pieces_without_a_taker(story):
    """No player holds the ball while all are far from it, or while the nearest player was sent off."""
    story.then(L0).then(None, mode=GameMode.FREE_KICK, ball=at(-0.7, 0.0))  # 5.4 m from the nearest player
    assert story.event.gained == -1
    gone = np.array([[True, True], [False, True]])
    story.then(None, mode=GameMode.FREE_KICK, ball=at(-0.6, 0.0), active=gone)
    assert story.event.gained == -1


def test_a_slide_that_wins_a_free_kick_is_not_won(story):
    """The opponents' foul gives possession to the seat that slid, but not by its slide."""
    story.then(L1, ball=at(0.88, 0.3)).choose(R1, Action.SLIDING)
    story.then(None, mode=GameMode.FREE_KICK, ball=at(0.85, 0.3))
    assert (story.event.gained, story.event.tackler) == (story.team(1), -1)


def test_a_slide_that_wins_the_ball(story):
    """The seat that slid near the opponent who had it is rewarded when its player gets the ball."""
    story.then(L1, ball=at(0.88, 0.3)).choose(R1, Action.SLIDING).then(L1)
    assert story.event.slides.tolist() == [False, False, False, True]
    story.then(None).then(R1)
    assert (story.event.tackler, story.event.gained) == (R1, story.team(1))
    assert story.reward("slide") == pytest.approx([0, 0, 0, 0.1])
    assert story.statistic("slides") == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("steps", "owner", "ball", "winner"),
    [
        (SLIDE_STEPS + 1, L1, (0.88, 0.3), R1),  # too late
        (1, L1, (0.5, 0.3), R1),  # far from the ball
        (1, None, (0.88, 0.3), R1),  # no opponent had it
        (1, R0, (0.88, 0.3), R1),  # a teammate had it
        (1, L1, (0.88, 0.3), R0),  # a teammate gets it
    ],
)
def test_slides_that_win_nothing(story, steps, owner, ball, winner):
    """They count as slides only."""
    story.then(L1).then(owner, ball=at(*ball)).choose(R1, Action.SLIDING).then(None, steps=steps).then(winner)
    assert story.event.tackler == -1
    assert story.reward("slide") == [0] * 4
    assert story.statistic("slides") == [0, 0, 0, 1]


def test_a_slide_goes_on_for_some_steps(story):
    """Choosing it again during a slide begins no other one."""
    for _ in range(SLIDE_STEPS + 2):
        story.choose(R1, Action.SLIDING).then(None)
    assert story.statistic("slides") == [0, 0, 0, 2]


def test_holding_the_ball(story):
    """Only the seat with the ball gets it."""
    assert story.then(R0).reward("hold") == pytest.approx([0, 0, 0.0003, 0])
    assert story.then(None).reward("hold") == [0] * 4


def test_the_end_of_a_match(story):
    """The winner's seats get 2, the others -2; a draw gives nothing."""
    assert story.then(None).reward("win") == [0] * 4
    assert story.then(None, winner=1).reward("win") == [-2, -2, 2, 2]


def test_goal_clipping():
    """Goals beyond a difference of 1 are another part, and so are those that lead back to it."""
    story = Story(weights=RewardWeights(goal_clip=1, goal=1.0, conceded=0.5))
    seen = []
    for score in ((1, 0), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)):
        story.then(None, score=score)
        seen.append([story.reward(part)[::2] for part in ("goal", "conceded", "excess")])
    assert seen == [
        [[1, 0], [0, -0.5], [0, 0]],
        [[0, 0], [0, 0], [1, -0.5]],
        [[0, 0], [0, 0], [-0.5, 1]],
        [[0, 1], [-0.5, 0], [0, 0]],
        [[0, 1], [-0.5, 0], [0, 0]],
        [[0, 0], [0, 0], [-0.5, 1]],
    ]


def test_without_goal_clipping_no_goal_is_excess():
    """A difference of 5 counts as any other."""
    story = Story(weights=RewardWeights(goal_clip=0))
    for goals in range(1, 6):
        story.then(None, score=(goals, 0))
        assert story.reward("goal") == [1, 1, 0, 0]
        assert story.reward("excess") == [0] * 4


def test_team_parts_are_zero_sum_and_the_same_for_a_team(story):
    """On every step of a match with many events, but for the balls put out."""
    moments = [
        lambda: story.then(L0),
        lambda: story.then(R0),
        lambda: story.then(None, score=(0, 1)),
        lambda: story.then(R1),
        lambda: story.then(None, mode=GameMode.CORNER, ball=at(1.01, 0.4)),
        lambda: story.then(None, winner=1),
    ]
    for happen in moments:
        happen()
        for part in TEAM_PARTS:
            values = story.parts[part].reshape(2, 2)
            assert (values[:, 0] == values[:, 1]).all()
            if part != "out":
                goals = story.parts["goal"] + story.parts["conceded"]
                assert (goals if part in ("goal", "conceded") else values).sum() == pytest.approx(0)


def test_mean_positions():
    """Both teams see their own half to the left."""
    story = Story().then(L0).then(None)
    assert story.statistic("mean_x") == pytest.approx([0.8, 0.9, 0.6, -0.85])
    assert story.statistic("mean_y") == pytest.approx([0.1, -0.1, 0, -0.3])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("goal", [(23, "scored", 1), (23, "scorer", 6)]),
        ("throw_in", [(11, "put_out", 1)]),
        ("pass", [(9, "kicker", 0), (15, "passer", 0)]),
        ("slide", [(9, "gained", 1), (9, "tackler", 6)]),
        ("goal_kick", [(12, "put_out", 0)]),
        ("corner", [(10, "put_out", 0)]),
    ],
)
def test_sequences_of_the_real_engine(recording, name, expected):
    """A goal, a pass, a won slide and three set pieces, as seen in the recording, are found and nothing else."""
    states, actions = recording.sequence(name)
    tracker = EventTracker()
    tracker.start(states[0])
    found = []
    for step in range(1, len(states)):
        events = tracker.update(states[step], actions[step - 1])
        names = ("scored", "scorer", "assistant", "gained", "put_out", "kicker", "passer", "tackler")
        found.extend((step, name, getattr(events, name)) for name in names if getattr(events, name) != -1)
    assert found == expected


def test_a_tracker_starts_again(story):
    """A new match knows nothing of the last one."""
    states = [State.empty((2, 2), (2, 2)) for _ in range(2)]
    states[0].owner_team, states[0].owner_player = 0, 0
    states[1].owner_team, states[1].owner_player = 1, 0
    tracker = EventTracker()
    for expected in (1, 1):
        tracker.start(states[0])
        assert tracker.update(states[1], np.zeros(4, np.int64)).gained == expected
    tracker.start(states[0])
    assert tracker.update(states[0], np.zeros(4, np.int64)).gained == -1


def test_a_kick_chosen_in_the_last_match_is_forgotten():
    """The ball that leaves another player at the start of the next match is not kicked."""
    held, free = (State.empty((2, 2), (2, 2)) for _ in range(2))
    held.owner_team, held.owner_player = 0, 0
    free.ball_direction[0] = 0.05
    tracker = EventTracker()
    tracker.start(held)
    tracker.update(held, np.array([Action.SHOT, 0, 0, 0]))
    tracker.start(held)
    assert tracker.update(free, np.zeros(4, np.int64)).kicker == -1


def test_goals_before_the_first_state_are_not_rewarded():
    """A match that starts at 2:1 counts goals from there, with the goal difference that it has."""
    state = State.empty((1, 1), (1, 1))
    events, rewards = EventTracker(), RewardTracker(RewardWeights(goal_clip=1), state.team)
    state.score = (2, 1)
    events.start(state)
    rewards.start(state)
    parts = {name: np.zeros(2, np.float32) for name in PARTS}
    for score, goal, excess in [((2, 1), 0, 0), ((3, 1), 0, 1)]:
        state.score = score
        rewards.write(events.update(state, np.zeros(2, np.int64)), state, parts)
        assert (parts["goal"][0], parts["excess"][0]) == (goal, excess)


def test_statistics_start_again(story):
    """A new match starts from 0."""
    story.then(L0).then(L0)
    story.start_statistics()
    assert story.then(None).statistic("possession") == [0] * 4


@pytest.mark.parametrize("team", [0, 1])
def test_checkpoints_are_rewarded_once(team):
    """The thresholds are 0.99, 0.90 … 0.19 from the goal; a goal counts for those that are left."""
    state = State.empty((2, 2), (2, 2))
    events, rewards = EventTracker(), RewardTracker(RewardWeights(checkpoint=0.1), state.team)
    events.start(state)
    rewards.start(state)
    parts = {name: np.zeros(4, np.float32) for name in PARTS}
    towards_goal = 1 - 2 * team
    paid = []
    for x, owner, score in [(0.0, team, 0), (0.5, -1, 0), (0.5, team, 0), (0.6, team, 0), (0.3, team, 0), (0.0, -1, 1)]:
        state.ball = np.array([x * towards_goal, 0, 0], np.float32)
        state.owner_team, state.owner_player = owner, min(owner, 0)
        state.score = (score, 0) if team == 0 else (0, score)
        rewards.write(events.update(state, np.zeros(4, np.int64)), state, parts)
        assert (parts["checkpoint"][state.team != team] == 0).all()
        paid.append(parts["checkpoint"][state.team == team].tolist())
    assert np.array(paid) == pytest.approx(np.repeat([[0.0], [0.0], [0.6], [0.1], [0.0], [0.3]], 2, axis=1))
