"""Line-ups, specific scenarios, plans, stored files and held games, without the engine."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from ludus.environment import Scenario
from ludus.errors import ConfigError
from ludus_football.actions import Action
from ludus_football.config import FootballConfig
from ludus_football.drills import DRILLS, make_drill
from ludus_football.formations import MATCHES, ROLES, SETUPS, exchange_line_ups
from ludus_football.held_game import overrule
from ludus_football.match_end import MatchEnd
from ludus_football.match_plan import MatchPlanner, scenario_names, seat_players
from ludus_football.state import GameMode, State
from ludus_football.stored_states import StoredState, find_folder, read_folder, read_state, write_state

FIVE = MATCHES["5v5"]
STORED = StoredState(scenario="5v5", players="all", taker=1, engine=b"\x00\n\xffstate")


@pytest.mark.parametrize("name", SETUPS)
def test_line_ups_are_on_the_field(name):
    """Roles are known, the first player is the goalkeeper, and two full teams have equally many players."""
    setup = SETUPS[name]
    for team in (setup.left, setup.right):
        assert team[0].role == "GK"
        assert all(abs(place.x) <= 1 and abs(place.y) <= 0.42 and place.role in ROLES for place in team)
        assert len({(place.x, place.y) for place in team}) >= len(team) - 1  # the counterattacks have two at one place
    assert setup.num_teams == 1 or len(setup.left) == len(setup.right)


def test_line_ups_are_exchanged():
    """Each team keeps its difficulty, and the ball is at the opposite point."""
    setup = evolve(FIVE, ball=(0.5, -0.1), difficulties=(0.2, 0.8))
    other = exchange_line_ups(setup)
    assert (other.left, other.right) == (FIVE.right, FIVE.left)
    assert (other.ball, other.difficulties) == ((-0.5, 0.1), (0.2, 0.8))
    assert exchange_line_ups(other) == setup


def test_seats_are_players_that_can_be_controlled():
    """One seat a team, whose player changes, is the first of them."""
    assert seat_players(FIVE, "all") == ([1, 2, 3, 4], [1, 2, 3, 4])
    assert seat_players(FIVE, "active") == ([1], [1])
    assert seat_players(MATCHES["11v11"], "all")[0] == list(range(11))
    assert seat_players(SETUPS["academy-3-vs-1-with-keeper"], "all") == ([1, 2, 3], [])


def test_only_matches_of_teams_have_specific_scenarios():
    """Stored moments can be of any match."""
    assert scenario_names(FIVE, {}) == tuple(DRILLS)
    assert scenario_names(MATCHES["1v1"], {"a": STORED}) == ("state", "state-a")
    assert scenario_names(SETUPS["academy-corner"], {}) == ()


@pytest.mark.parametrize("size", ["5v5", "11v11"])
@pytest.mark.parametrize("name", DRILLS)
def test_specific_scenarios_draw_positions(name, size):
    """Goalkeepers stay; all others are on the field; no defender is next to the ball; no two draws are equal."""
    setup, rng = MATCHES[size], np.random.default_rng(0)
    drawn = [make_drill(name, setup, attacker=index % 2, rng=rng) for index in range(40)]
    for index, drill in enumerate(drawn):
        assert drill.attacker == index % 2
        defence = drill.setup.left if drill.attacker else drill.setup.right
        ball = np.array(drill.setup.ball) * (1 if drill.attacker else -1)  # in the view of the defence
        places = np.array([(place.x, place.y) for place in defence])
        assert np.linalg.norm(places - ball, axis=1)[1:].min() >= 0.1
        assert (np.abs(places) <= (1, 0.42)).all()
        assert (drill.setup.left[0], drill.setup.right[0]) == (setup.left[0], setup.right[0])
        assert [place.role for place in defence] == [
            place.role for place in (setup.left, setup.right)[not drill.attacker]
        ]
        assert ball[0] <= 0  # near the own goal
    assert len({drill.setup for drill in drawn}) == 40


def test_any_player_may_have_the_ball():
    """The points of a team are shuffled."""
    rng, nearest = np.random.default_rng(1), set()
    for _ in range(60):
        setup = make_drill("solo", FIVE, attacker=0, rng=rng).setup
        places = np.array([(place.x, place.y) for place in setup.left])
        nearest.add(int(np.linalg.norm(places - np.array(setup.ball), axis=1).argmin()))
    assert nearest == {1, 2, 3, 4}


def test_plans_depend_on_the_seed():
    """The engine's seed, the kick-off, and in a specific scenario the clock are drawn."""
    planner = MatchPlanner(FootballConfig(max_ticks=1000, skill=0.4), np.repeat([0, 1], 4), {})
    plans = [planner.plan(seed, Scenario()) for seed in (1, 1, *range(2, 30))]
    assert plans[0] == plans[1]
    assert len({plan.start.seed for plan in plans}) == 29
    assert {plan.start.taker for plan in plans} == {0, 1}
    assert {(plan.max_ticks, plan.clock, plan.start.setup.difficulties) for plan in plans} == {(1000, 1000, (0.4, 0.4))}
    clocks = [planner.plan(seed, Scenario(name="solo", parameters={"steps": 100.0})).clock for seed in range(50)]
    assert 100 <= min(clocks) < 300
    assert 800 < max(clocks) <= 1000


def test_only_seats_that_hold_up_a_game_are_overruled():
    """Ticks 0 to 19: own actions; 20: passes; 21 to 29: the player with the ball runs forward; then backward."""
    state = State.empty((2, 2), (1, 2))
    state.owner_team, state.owner_player = 1, 1
    state.controlled = np.array([1, 0, 1])
    actions = np.array([3, 4, 5])
    expected = {
        0: [3, 4, 5],
        19: [3, 4, 5],
        20: [Action.SHORT_PASS] * 3,
        21: [0, 0, Action.RIGHT],
        29: [0, 0, Action.RIGHT],
        30: [0, 0, Action.LEFT],
    }
    assert {held: overrule(actions, state, held).tolist() for held in expected} == expected


def moment(*, owner=-1, mode=GameMode.NORMAL, score=(0, 0)) -> State:
    """Return a moment of an academy."""
    return evolve(State.empty((2, 1), (1, 0)), owner_team=owner, mode=mode, score=score)


@pytest.mark.parametrize(
    ("name", "moments", "ends"),
    [
        ("academy-corner", [moment(owner=0), moment(owner=1)], [False, False]),
        ("academy-empty-goal", [moment(owner=0), moment(), moment(owner=1)], [False, False, True]),
        ("academy-empty-goal", [moment(owner=0), moment(mode=GameMode.THROW_IN)], [False, True]),
        ("academy-empty-goal", [moment(score=(0, 1))], [True]),
        ("5v5", [moment(owner=0), moment(owner=1, score=(1, 0), mode=GameMode.CORNER)], [False, False]),
    ],
)
def test_matches_end_by_the_rules_of_their_scenario(name, moments, ends):
    """Goals, stops and lost balls end academies; full matches go on."""
    config = FootballConfig(scenario=name)
    plan = MatchPlanner(config, np.array([0]), {}).plan(1, Scenario())
    end = MatchEnd(plan, moment())
    assert [end.is_over(one) for one in moments] == ends


def test_goals_count_from_the_start_of_a_match():
    """A stored moment may have a score."""
    plan = MatchPlanner(FootballConfig(), np.repeat([0, 1], 4), {}).plan(1, Scenario(name="solo"))
    end = MatchEnd(plan, moment(score=(2, 1)))
    assert not end.is_over(moment(score=(2, 1)))
    assert end.is_over(moment(score=(2, 2)))
    assert end.goals(moment(score=(2, 2))) == (0, 1)


def test_stored_moments_are_read_as_they_were_written(tmp_path):
    """In alphabetical order of their names."""
    for name in ("b", "a.1"):
        write_state(tmp_path / f"{name}.state", STORED)
    (tmp_path / "notes.txt").write_text("not a moment")
    assert read_folder(tmp_path, scenario="5v5", players="all") == {"a.1": STORED, "b": STORED}


@pytest.mark.parametrize("name", ["A.state", "a b.state", "a.txt", ".state"])
def test_names_of_files_become_names_of_scenarios(tmp_path, name):
    """Other names are refused."""
    with pytest.raises(ConfigError, match=r"expected NAME\.state"):
        write_state(tmp_path / name, STORED)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no stored moment"),
        (b'{"format": 1}\n', "is no stored moment"),
        (b"[1, 2]\nabc", "is no stored moment"),
        (bytes(5 << 20), "has more than 4 MiB"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, content, message):
    """In one line that names the file."""
    (tmp_path / "a.state").write_bytes(content)
    with pytest.raises(ConfigError, match=rf"a\.state {message}"):
        read_state(tmp_path / "a.state")


def test_damaged_files_are_refused(tmp_path):
    """A checksum finds a changed byte."""
    path = tmp_path / "a.state"
    write_state(path, STORED)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ConfigError, match="is damaged or of another version"):
        read_state(path)


def test_files_outside_of_the_folder_are_refused(tmp_path):
    """A link could name any file."""
    inside = tmp_path / "states"
    inside.mkdir()
    write_state(tmp_path / "secret.state", STORED)
    (inside / "a.state").symlink_to(tmp_path / "secret.state")
    with pytest.raises(ConfigError, match="leads out of the folder"):
        read_folder(inside, scenario="5v5", players="all")


def test_folders_without_moments_are_refused(tmp_path):
    """There would be a scenario without a start."""
    with pytest.raises(ConfigError, match=r"has no file NAME\.state"):
        read_folder(tmp_path, scenario="5v5", players="all")


def test_the_user_names_the_folder_of_stored_moments(tmp_path, monkeypatch):
    """A run file names a folder in it, which is not elsewhere."""
    monkeypatch.delenv("LUDUS_FOOTBALL_STATES", raising=False)
    with pytest.raises(ConfigError, match="set the variable LUDUS_FOOTBALL_STATES"):
        find_folder("mine")
    root = tmp_path / "root"
    (root / "mine").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (root / "link").symlink_to(tmp_path / "other")
    monkeypatch.setenv("LUDUS_FOOTBALL_STATES", str(root))
    assert find_folder("mine") == root / "mine"
    for name in ("link", "nothing"):
        with pytest.raises(ConfigError, match="LUDUS_FOOTBALL_STATES has no folder"):
            find_folder(name)


@pytest.mark.parametrize("name", ["../other", "/tmp", "a/b", ".."])
def test_paths_are_no_names_of_folders(name):
    """The option takes names only."""
    with pytest.raises(ValueError, match="expected the name of a folder"):
        FootballConfig(states=name)
