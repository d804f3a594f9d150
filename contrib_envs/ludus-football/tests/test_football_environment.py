"""Matches with the real engine: contract, ends, built-in AI, specific scenarios, workers, pictures."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from ludus.errors import ConfigError, ContractError
from ludus.rendering import Circle, Label, scene_to_json
from ludus.testing import check_environment
from ludus_football.actions import Action
from ludus_football.formations import ACADEMIES, DIFFICULTIES, MATCHES
from ludus_football.game import ROLE
from ludus_football.rewards import PARTS


def step(environment, action=Action.IDLE):
    """Advance one match by a tick with the same action for all seats, or an action for each."""
    seats = environment.spec.roles[0].num_seats
    return environment.step({ROLE: np.broadcast_to(np.array(action, np.int64), (1, seats))[..., None]})


def game(environment):
    """Return the first match."""
    return environment._games._games[0]


def play_to_end(environment, choose=lambda tick: Action.IDLE, *, most=3001):
    """Play until the match ends, and return the number of ticks and the last tick."""
    for tick in range(most):
        result = step(environment, choose(tick))
        if result.terminated[0] or result.truncated[0]:
            return tick + 1, result
    raise AssertionError("the match did not end")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"scenario": "1v1", "max_ticks": 20, "workers": 1},
        {"scenario": "5v5", "max_ticks": 20, "players": "active", "observation": "smm"},
        {"scenario": "academy-3-vs-1-with-keeper", "mask": "rules"},
    ],
    ids=str,
)
def test_contract(football, options):
    """Matches keep the contract, in this process and in another one."""
    check_environment(lambda num_matches: football(num_matches, **options), steps=20)


def test_full_matches_have_all_controllable_players_as_seats(football):
    """The goalkeepers of 5v5 are built-in AI; the names of seats are the engine's numbers of players."""
    seats = {name: football(scenario=name).spec.roles[0] for name in MATCHES}
    assert {name: role.teams for name, role in seats.items()} == {
        "1v1": (0, 1),
        "5v5": (0,) * 4 + (1,) * 4,
        "11v11": (0,) * 11 + (1,) * 11,
    }
    assert seats["5v5"].seat_names[:4] == ("left_1", "left_2", "left_3", "left_4")
    assert football(scenario="11v11", players="active").spec.roles[0].teams == (0, 1)


@pytest.mark.parametrize(
    ("options", "shape", "dtype"),
    [
        ({"scenario": "5v5"}, (214,), np.float32),
        ({"scenario": "11v11"}, (370,), np.float32),
        ({"scenario": "academy-corner"}, (370,), np.float32),
        ({"scenario": "1v1", "observation": "simple115"}, (115,), np.float32),
        ({"scenario": "5v5", "observation": "smm"}, (72, 96, 4), np.uint8),
    ],
)
def test_observations(football, start, options, shape, dtype):
    """The paper's vector has two lengths; both teams see a goal on the right."""
    environment = football(**options)
    tick = start(environment, 1)
    observed = tick.roles[ROLE].observation["obs"]
    assert observed.shape[2:] == shape
    assert observed.dtype == dtype
    assert observed.any(axis=tuple(range(2, observed.ndim))).all()
    assert tick.roles[ROLE].action_mask is None


def test_masks_follow_the_rules(football, start):
    """Two players are at the ball when the match starts; no player sprints, so that it cannot be released."""
    environment = football(mask="rules")
    tick = start(environment, 1)
    mask = tick.roles[ROLE].action_mask[0]
    assert mask[:, Action.SHORT_PASS].sum() >= 2
    assert not mask[:, Action.RELEASE_SPRINT].any()
    mask = step(environment, Action.SPRINT).roles[ROLE].action_mask[0]
    assert mask[:, Action.RELEASE_SPRINT].all()
    assert not mask[:, Action.SPRINT].any()


def test_critics_read_the_state_in_the_view_of_their_team(football, start):
    """All seats of a team have the same state, which differs from that of the other team."""
    states = start(football(), 1).roles[ROLE].privileged["state"][0]
    assert (states[:4] == states[0]).all()
    assert (states[4:] == states[4]).all()
    assert (states[0] != states[4]).any()


@pytest.mark.parametrize("name", ACADEMIES)
def test_academies_start(football, start, name):
    """The seats are the field players of the left team."""
    environment = football(scenario=name)
    start(environment, 1)
    assert environment.spec.roles[0].teams == (0,) * (len(ACADEMIES[name].left) - 1)
    assert (environment.spec.num_teams, environment.spec.score) == (1, "outcome")  # a goal wins
    state = game(environment)._state
    np.testing.assert_allclose(state.position[0, 1], (ACADEMIES[name].left[1].x, ACADEMIES[name].left[1].y), atol=0.02)
    assert state.num_players == ACADEMIES[name].num_players


def test_a_goal_ends_an_academy_and_wins(football, start):
    """The player runs towards the empty goal and shoots."""
    environment = football(scenario="academy-empty-goal-close")
    start(environment, 1)
    ticks, tick = play_to_end(environment, lambda tick: Action.SHOT if tick == 5 else Action.RIGHT)
    assert ticks < 60
    assert tick.terminated[0]
    assert tick.outcome[0].tolist() == [1.0]
    assert tick.roles[ROLE].reward_parts["goal"][0].tolist() == [1.0]


def test_rewards_and_statistics_are_those_of_the_paper(football, start):
    """The goal is the only team reward of an academy; the scorer held the ball for all of its ticks with it."""
    environment = football(scenario="academy-empty-goal-close", goal=3.0, hold=0.5, win=2.0)
    start(environment, 1)
    total = dict.fromkeys(PARTS, 0.0)
    reward, with_ball = 0.0, 0
    for number in range(100):
        tick = step(environment, Action.SHOT if number == 5 else Action.RIGHT)
        role = tick.roles[ROLE]
        with_ball += game(environment)._state.owner_team == 0
        reward += role.reward[0, 0]
        for part, values in role.reward_parts.items():
            total[part] += values[0, 0]
        if tick.terminated[0]:
            break
    assert total["goal"] == 3.0
    assert total["hold"] == 0.5 * with_ball > 0
    assert total["win"] == total["conceded"] == 0
    assert reward == pytest.approx(sum(total.values()))
    assert role.statistics["goals"][0].tolist() == [1.0]
    assert role.statistics["shots"][0].tolist() == [1.0]
    assert role.statistics["possession"][0, 0] == pytest.approx(with_ball / (number + 1))


def test_the_winner_of_a_whole_match_is_rewarded(football, start):
    """Goals are put into the last moment; a match that is a part of another one has no winner."""
    environment = football(scenario="5v5", max_ticks=3)
    for name, win in (("default", 2.0), ("solo", 0.0)):
        start(environment, 1, name=name)
        step(environment)
        step(environment)
        first = game(environment)._end._first_score
        game(environment)._end._first_score = (first[0], first[1] - 1)  # as if the right team had scored
        game(environment)._end._on_goal = False
        tick = step(environment)
        assert tick.outcome[0].tolist() == [0.0, 1.0]
        assert tick.roles[ROLE].reward_parts["win"][0].tolist() == [-win] * 4 + [win] * 4


def test_an_academy_ends_when_the_ball_is_out(football, start):
    """Nothing is won then."""
    environment = football(scenario="academy-empty-goal-close")
    start(environment, 1)
    ticks, tick = play_to_end(environment, lambda _: Action.TOP)
    assert ticks < 120
    assert tick.terminated[0]
    assert tick.outcome[0].tolist() == [0.0]
    assert game(environment)._state.mode != 0


def test_an_academy_ends_when_the_other_team_has_the_ball(football, start):
    """A player that runs straight at the defender loses the ball."""
    environment = football(scenario="academy-3-vs-1-with-keeper")
    start(environment, 2)
    ticks, tick = play_to_end(environment, lambda _: Action.RIGHT)
    assert ticks < 60
    assert tick.terminated[0]
    assert game(environment)._state.owner_team == 1
    assert game(environment)._state.mode == 0


def test_the_time_limit_terminates(football, start):
    """All ticks of the duration are played, and the clock that seats observe is 0."""
    environment = football(scenario="1v1", max_ticks=25)
    start(environment, 4)
    ticks, tick = play_to_end(environment)
    assert ticks == 25 == environment.spec.max_ticks
    assert tick.terminated[0]
    assert tick.outcome[0].tolist() == [0.5, 0.5]
    assert game(environment)._state.steps_left == 0


def test_the_seed_draws_the_kickoff(football, start):
    """Each team gets it in about half of the matches."""
    environment = football(max_ticks=10)
    takers = []
    for seed in range(24):
        start(environment, seed)
        state = game(environment)._state
        takers.append(int(np.linalg.norm(state.position, axis=-1).min(axis=1).argmin()))
    assert 4 < sum(takers) < 20


def test_a_team_of_bots_does_not_act(football, start):
    """Its difficulty is that of the bot, and the other team has that of the scenario or of the option."""
    environment = football(max_ticks=20)
    tick = start(environment, 1, builtin=("",) * 4 + ("hard",) * 4)
    assert tick.roles[ROLE].acting[0].tolist() == [True] * 4 + [False] * 4
    plan = game(environment)._plan
    assert plan.start.setup.difficulties == (0.05, 0.95)
    assert plan.start.agents == (4, 0)
    assert set(DIFFICULTIES) == set(environment.spec.roles[0].builtin)
    skilled = football(skill=0.7)
    start(skilled, 1, builtin=("easy",) * 4 + ("",) * 4)
    assert game(skilled)._plan.start.setup.difficulties == (0.05, 0.7)


def test_a_bot_plays_beside_participants(football, start):
    """Only its seat does not act; the team keeps its seats in the engine."""
    environment = football(max_ticks=20)
    tick = start(environment, 1, builtin=("", "medium", "", "", *[""] * 4))
    assert tick.roles[ROLE].acting[0].tolist() == [True, False] + [True] * 6
    assert game(environment)._plan.start.agents == (4, 4)
    assert game(environment)._plan.start.setup.difficulties == (0.6, 0.05)
    assert step(environment, Action.RIGHT).roles[ROLE].acting[0].sum() == 7


def test_bots_of_one_team_are_of_one_kind(football, start):
    """The engine has one difficulty a team."""
    with pytest.raises(ContractError, match="team 1 has the built-in bots easy, hard; expected one kind"):
        start(football(), 1, builtin=("",) * 4 + ("easy", "hard", "", ""))


def test_the_difficulty_reaches_the_engine(football, start):
    """Equal seeds give other matches between other bots."""
    environment = football(scenario="1v1")
    seen = []
    for bots in (("easy", "easy"), ("easy", "easy"), ("hard", "easy"), ("easy", "hard")):
        start(environment, 1, builtin=bots)
        for _ in range(60):
            step(environment)
        seen.append(game(environment)._state.position)
    np.testing.assert_array_equal(seen[0], seen[1])
    assert not np.allclose(seen[0], seen[2])
    assert not np.allclose(seen[0], seen[3])


@pytest.mark.parametrize("attacker", [0, 1])
@pytest.mark.parametrize(
    ("name", "mode"), [("kickoff", 0), ("corner", 4), ("freekick", 3), ("penalty-area", 0), ("solo", 0)]
)
def test_specific_scenarios_start(football, start, name, mode, attacker):
    """A player of the attacking team is next to the ball, and the match is cut off after the given steps."""
    environment = football()
    start(environment, 3, name=name, attacker=attacker, steps=12)
    state = game(environment)._state
    assert state.mode == mode
    distance = np.linalg.norm(state.position - state.ball[:2], axis=-1).min(axis=1)
    assert distance[attacker] < 0.08 < distance[1 - attacker]
    assert 12 <= state.steps_left <= 3000
    ticks, tick = play_to_end(environment)
    assert ticks == 12
    assert tick.truncated[0]
    assert not tick.terminated[0]


def test_the_attacker_of_a_specific_scenario_is_drawn(football, start):
    """The ball is on the half that is attacked."""
    environment = football()
    signs = []
    for seed in range(20):
        start(environment, seed, name="penalty-area")
        signs.append(np.sign(game(environment)._state.ball[0]))
    assert 3 < signs.count(1.0) < 17


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("solo", {"attacker": 2}, "attacker: expected a whole number from 0 to 1, got 2"),
        ("solo", {"steps": 513}, "steps: expected a whole number from 1 to 512, got 513"),
        ("solo", {"step": 5}, "scenario solo takes the parameters attacker, steps; got 'step'"),
        ("default", {"steps": 5}, "default takes no parameters"),
        ("state", {}, "unknown scenario 'state'"),
    ],
)
def test_wrong_parameters_are_refused(football, start, name, parameters, message):
    """In one line."""
    with pytest.raises(ContractError, match=message):
        start(football(), 1, name=name, **parameters)


def test_matches_start_from_stored_moments(football, start, tmp_path, monkeypatch):
    """A file is a scenario of its own, and ``state`` draws one of all files."""
    monkeypatch.setenv("LUDUS_FOOTBALL_STATES", str(tmp_path.parent))
    source = football()
    places = {}
    for name, seed in (("early", 1), ("late", 2)):
        start(source, seed)
        for _ in range(10 if name == "early" else 30):
            step(source, Action.RIGHT)
        game(source).save_state(tmp_path / f"{name}.state")
        places[name] = game(source)._state.position
    environment = football(states=tmp_path.name)
    assert environment.spec.scenarios[-3:] == ("state", "state-early", "state-late")
    for name, place in places.items():
        start(environment, 7, name=f"state-{name}", steps=4)
        np.testing.assert_allclose(game(environment)._state.position, place)
    assert play_to_end(environment)[1].truncated[0]
    start(environment, 7, name="state-early", builtin=("",) * 4 + ("hard",) * 4)
    assert step(environment).roles[ROLE].acting[0].sum() == 4
    drawn = set()
    for seed in range(12):
        start(environment, seed, name="state")
        drawn |= {name for name, place in places.items() if np.allclose(game(environment)._state.position, place)}
    assert drawn == set(places)
    with pytest.raises(ConfigError, match=r"early.state is of scenario = '5v5' and players = 'all'; expected '11v11'"):
        football(scenario="11v11", states=tmp_path.name)


def test_workers_play_the_same_matches(football, start):
    """Two processes, and one engine in each."""
    observed = []
    for workers in (0, 2):
        environment = football(2, scenario="1v1", workers=workers)
        start(environment, 5, 6)
        rng = np.random.default_rng(1)
        for _ in range(40):
            tick = environment.step({ROLE: rng.integers(19, size=(2, 2, 1))})
        observed.append(tick.roles[ROLE].observation["obs"].copy())
    np.testing.assert_array_equal(*observed)


def test_the_picture_shows_players_and_score(football, start):
    """Ten players, eight rings of seats, and the ball; a yellow card is a spot."""
    environment = football()
    start(environment, 1)
    scene = environment.render_frame(0)
    assert sum(isinstance(shape, Circle) for shape in scene.shapes) == 10 + 8 + 1
    assert [shape.text for shape in scene.shapes if isinstance(shape, Label)] == ["0 : 0"]
    assert scene.caption == "300 s left"
    assert scene_to_json(scene)["width"] == pytest.approx(2 * (54.4 + 5))
    state = game(environment)._state
    state.yellow[1, 2] = True
    game(environment)._state = evolve(state, mode=4, score=(2, 1))
    scene = environment.render_frame(0)
    assert sum(isinstance(shape, Circle) for shape in scene.shapes) == 10 + 8 + 1 + 1
    assert scene.caption == "300 s left, corner"
