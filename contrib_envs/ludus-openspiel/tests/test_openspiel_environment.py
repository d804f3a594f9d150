"""OpenSpiel games as ludus environments."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from ludus import Scenario
from ludus.errors import ConfigError, ContractError, PluginError
from ludus.testing import check_environment
from ludus_openspiel.config import OpenSpielConfig
from ludus_openspiel.environment import make_environment
from ludus_openspiel.games import OpenSpielSpec, load_game
from ludus_openspiel.plugin import ludus_register_environments


def make(game="kuhn_poker", num_matches=1, **options):
    """Make an environment."""
    return make_environment(OpenSpielConfig(game=game, **options), num_matches=num_matches)


def seeds(*values):
    """Return match seeds."""
    return np.array(values, np.uint64)


def act(env, *choices):
    """Step a single match with the action of every seat."""
    return env.step({"player": np.array(choices, np.int64).reshape(1, -1, 1)})


def seat(tick, index):
    """Return observation and mask of a seat of the only match."""
    role = tick.roles["player"]
    return role.observation["obs"][0, index], role.action_mask[0, index]


def acting(tick):
    """Return the acting seats of the only match."""
    return tick.roles["player"].acting[0].tolist()


def play_randomly(env, match_seeds, random_seed, ticks):
    """Return all observations of `ticks` ticks with random legal actions, by match."""
    tick, random = env.reset(match_seeds), [np.random.default_rng([random_seed, int(s)]) for s in match_seeds]
    observed = []
    for _ in range(ticks):
        role = tick.roles["player"]
        observed.append([a.copy() for a in (role.observation["obs"], role.acting, role.reward, tick.outcome)])
        masks = role.action_mask | ~role.acting[..., None]
        draws = np.stack([source.random(masks.shape[1:]) for source in random])
        tick = env.step({"player": (draws * masks).argmax(axis=2)[..., None]})
    return [np.stack(arrays) for arrays in zip(*observed, strict=True)]


@pytest.mark.parametrize(
    "options",
    [
        {"game": "kuhn_poker"},
        {"game": "kuhn_poker(players=3)"},
        {"game": "leduc_poker", "observation": "observation"},
        {"game": "connect_four", "max_ticks": 20},
        {"game": "goofspiel(num_cards=4)"},
        {"game": "markov_soccer", "max_ticks": 30},
        {"game": "2048"},
        {"game": "pig"},
    ],
    ids=str,
)
def test_contract(options):
    """Games of every kind keep the contract, here and in another process."""
    (component,) = ludus_register_environments()
    check_environment(component, options=options, steps=100)


def test_the_spec_describes_the_game():
    """The spec holds OpenSpiel's properties of the game, its name and the tensor."""
    spec = make("leduc_poker(players=2)").spec
    assert isinstance(spec, OpenSpielSpec)
    assert (spec.game, spec.tensor) == ("leduc_poker(players=2)", "information_state")
    assert (spec.turn, spec.max_ticks, spec.reward_range) == ("turn-based", 8, (-13, 13))
    assert (spec.zero_sum, spec.constant_sum, spec.perfect_information) == (True, True, False)
    assert spec.roles[0].teams == (0, 1)


def test_simultaneous_games_are_declared_so():
    """All seats act on every tick of a simultaneous game."""
    env = make("goofspiel(num_cards=4)")
    assert env.spec.turn == "simultaneous"
    assert acting(env.reset(seeds(1))) == [True, True]


def test_three_players_have_no_constant_sum():
    """Ties of two of three share half a point each and so do not sum to 1."""
    assert not make("kuhn_poker(players=3)").spec.constant_sum


@pytest.mark.parametrize(
    ("game", "tensor", "shape"), [("kuhn_poker", "information_state", (11,)), ("tic_tac_toe", "observation", (3, 3, 3))]
)
def test_auto_chooses_the_tensor(game, tensor, shape):
    """The information state in games of imperfect information, else the observation."""
    spec = make(game).spec
    assert spec.tensor == tensor
    assert spec.roles[0].observation_space.shape == shape


def test_boards_are_channel_last():
    """OpenSpiel states the layout of its tensors; the plane of the player to move is the last one of Go."""
    env = make("go(board_size=3)")
    assert env.spec.notes == ("image obs [4, 3, 3]: channels, height, width; observed as [3, 3, 4]",)
    env.reset(seeds(0))
    observation, _ = seat(act(env, 1, 0), 1)  # black at the second point of the first row
    assert observation.shape == (3, 3, 4)
    assert np.argwhere(observation[..., 0]).tolist() == [[0, 1]]
    assert (observation[..., 3] == 1).all()  # white moves


def test_the_mover_sees_its_own_card():
    """The observation of a seat is OpenSpiel's tensor of that player."""
    env = make()
    tick = env.reset(seeds(5))
    assert acting(tick) == [True, False]
    observation, mask = seat(tick, 0)
    assert mask.tolist() == [True, True]
    assert observation[:2].tolist() == [1, 0]  # I am player 0
    assert observation[2:5].sum() == 1  # and hold one of three cards


def test_only_legal_actions_are_allowed():
    """Masks follow the rules of the game."""
    env = make("tic_tac_toe")
    env.reset(seeds(0))
    _, mask = seat(act(env, 4, 0), 1)
    assert mask.tolist() == [True] * 4 + [False] + [True] * 4
    with pytest.raises(ContractError, match="illegal action"):
        act(env, 0, 4)


def test_the_winner_is_paid():
    """Rewards are the changes of the returns, and the higher return wins."""
    env = make("tic_tac_toe")
    env.reset(seeds(0))
    for first, second in ((0, 0), (0, 3), (1, 0), (0, 4)):
        tick = act(env, first, second)
        assert not tick.roles["player"].reward.any()
    tick = act(env, 2, 0)
    assert tick.roles["player"].reward.tolist() == [[1, -1]]
    assert tick.outcome.tolist() == [[1, 0]]
    assert tick.terminated.tolist() == [True]
    assert seat(tick, 0)[0].any()  # both see the final position
    assert (seat(tick, 0)[0] == seat(tick, 1)[0]).all()


def test_a_new_match_pays_for_itself():
    """Returns of the previous match do not count."""
    env = make("matrix_rps")
    for match in range(2):
        env.reset(seeds(match))
        assert act(env, 1, 0).roles["player"].reward.tolist() == [[1, -1]]


def test_matches_at_one_index_repeat():
    """The same seed gives the same match again."""
    env = make("leduc_poker")
    first, again = (play_randomly(env, seeds(9), 1, 8) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_draw_is_half_a_win():
    """Equal returns share the point."""
    env = make("matrix_rps")
    env.reset(seeds(0))
    assert act(env, 1, 1).outcome.tolist() == [[0.5, 0.5]]


def test_joint_moves_are_applied_together():
    """Paper beats rock in both seats."""
    for moves, rewards in (((1, 0), [[1, -1]]), ((0, 1), [[-1, 1]])):
        env = make("matrix_rps")
        env.reset(seeds(0))
        assert act(env, *moves).roles["player"].reward.tolist() == rewards


def test_intermediate_returns_are_rewards():
    """Intermediate rewards are paid on their tick, and their sum decides the match."""
    *_, reward, outcome = play_randomly(make("laser_tag(horizon=300)"), seeds(1), 0, 301)
    (early,) = np.nonzero(reward[:299, 0].any(axis=1))
    assert early.size
    points = reward[:, 0].sum(axis=0)
    assert outcome[-1, 0].tolist() == (
        [1, 0] if points[0] > points[1] else [0, 1] if points[1] > points[0] else [0.5] * 2
    )
    assert abs(points).max() > 1  # more than one of the rewards counts
    assert set(np.unique(reward)) <= {-1, 0, 1}


def test_a_single_player_wins_with_points():
    """Alone, a positive return is a win if outcomes are what counts."""
    env = make("2048", score="outcome")
    tick = env.reset(seeds(3))
    total = 0.0
    while not tick.terminated[0]:
        tick = act(env, int(np.flatnonzero(seat(tick, 0)[1])[0]))
        total += float(tick.roles["player"].reward[0, 0])
    assert total > 100
    assert tick.outcome.tolist() == [[1]]


def test_matches_are_cut_off():
    """max_ticks truncates, with the last position as the observation of all seats."""
    env = make("tic_tac_toe", max_ticks=2)
    env.reset(seeds(0))
    act(env, 0, 0)
    tick = act(env, 0, 1)
    assert (tick.truncated.tolist(), tick.terminated.tolist()) == ([True], [False])
    assert tick.roles["player"].action_mask.sum(axis=2).tolist() == [[7, 0]]  # the first would move next
    assert tick.outcome.tolist() == [[0.5, 0.5]]
    assert env.spec.max_ticks == 2


@given(seed=st.integers(0, 2**64 - 1))
@settings(deadline=None, max_examples=10)
def test_chance_depends_on_the_seed_alone(seed):
    """A match is the same at any index of any batch, in this process or another."""
    mine = seeds(seed, seed ^ 1, seed ^ 2)
    alone = play_randomly(make("leduc_poker"), mine[2:], 7, 8)
    together = play_randomly(make("leduc_poker", 3), mine, 7, 8)
    for one, three in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one[:, 0], three[:, 2])


def test_workers_play_the_same_matches():
    """Chance is the same in other processes."""
    here, there = make("leduc_poker", 4), make("leduc_poker", 4, workers=2)
    try:
        mine, theirs = (play_randomly(env, seeds(1, 2, 3, 4), 5, 8) for env in (here, there))
    finally:
        there.close()
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_chance_is_fair():
    """The six deals of Kuhn poker are equally frequent."""
    env = make(num_matches=3000)
    env.reset(np.arange(3000, dtype=np.uint64))
    tick = env.step({"player": np.ones((3000, 2, 1), np.int64)})
    cards = tick.roles["player"].observation["obs"][:, :, 2:5].argmax(axis=2)
    deals = np.bincount(cards[:, 0] * 3 + cards[:, 1], minlength=9)
    assert deals[[0, 4, 8]].tolist() == [0, 0, 0]
    assert abs(deals[[1, 2, 3, 5, 6, 7]] - 500).max() < 80  # four standard deviations


def test_one_match_can_be_reset():
    """The other matches continue."""
    env = make("kuhn_poker", 2)
    env.reset(seeds(1, 2))
    env.step({"player": np.ones((2, 2, 1), np.int64)})
    tick = env.reset(seeds(1), indices=np.array([0]))
    assert tick.roles["player"].acting.tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"game": "kuhn_pokr"}, "game: OpenSpiel has no game 'kuhn_pokr' — did you mean 'kuhn_poker'"),
        ({"game": "kuhn_poker(plyers=2)"}, "cannot be made: Unknown parameter 'plyers'"),
        ({"game": "nfg_game"}, "game: 'nfg_game' cannot be made"),
        (
            {"game": "crossword"},
            "observation: crossword has no observation tensor: ObservationTensorShape unimplemented",
        ),
        ({"game": "mfg_crowd_modelling"}, "mean field game"),
        ({"game": "stones_and_gems"}, "which no seed determines"),
        (
            {"game": "tic_tac_toe", "observation": "information_state"},
            "has no information_state; it offers observation",
        ),
    ],
)
def test_invalid_options_raise_one_line(options, message):
    """The message names the option and the mistake."""
    with pytest.raises(ConfigError) as caught:
        make(**options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_games_written_in_python_are_found(workers):
    """They play the same matches as their C++ versions."""
    games = [make(game, 2, workers=workers) for game in ("kuhn_poker", "python_kuhn_poker")]
    try:
        twins = [play_randomly(game, seeds(1, 2), 4, 6) for game in games]
    finally:
        for game in games:
            game.close()
    for one, other in zip(*twins, strict=True):
        np.testing.assert_array_equal(one, other)


def test_there_are_no_scenarios():
    """An unknown scenario raises."""
    with pytest.raises(ContractError, match="unknown scenario 'storm'"):
        make().reset(seeds(1), scenarios=[Scenario(name="storm")])


def test_a_missing_library_is_named(monkeypatch):
    """Without OpenSpiel the message names the package to install."""
    load_game.cache_clear()
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(PluginError, match='pip install "open_spiel>=') as caught:
        make()
    assert isinstance(caught.value.__cause__, ImportError)


@pytest.mark.parametrize("workers", [0, 1])
def test_roles_by_option(workers) -> None:
    """Players keep their numbers as teams, and the matches are the same as with one role."""
    one, two = (
        make("goofspiel(num_cards=3)"),
        make("goofspiel(num_cards=3)", roles={"b": [1], "a": [0]}, workers=workers),
    )
    assert [(role.name, role.teams) for role in two.spec.roles] == [("b", (1,)), ("a", (0,))]
    ticks = [env.reset(seeds(3)) for env in (one, two)]
    while True:
        together, apart = ticks[0].roles["player"], [ticks[1].roles[name] for name in "ab"]
        for name in ("acting", "reward", "action_mask"):
            assert np.array_equal(getattr(together, name), np.concatenate([getattr(r, name) for r in apart], axis=1))
        assert np.array_equal(
            together.observation["obs"], np.concatenate([r.observation["obs"] for r in apart], axis=1)
        )
        assert ticks[0].outcome.tolist() == ticks[1].outcome.tolist()
        if ticks[0].terminated.item():
            two.close()
            return
        chosen = together.action_mask.argmax(-1)[..., None]
        ticks = [one.step({"player": chosen}), two.step({"a": chosen[:, :1], "b": chosen[:, 1:]})]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"a": [0]}, "roles: expected every player from 0 to 1 in one role and no empty role, got a = .0.$"),
        ({"a": [0, 1], "b": [1]}, "roles: expected every player from 0 to 1 in one role"),
        ({"a": [0, 1], "b": []}, "roles: expected every player from 0 to 1 in one role"),
        ({"A": [0, 1]}, "roles: expected a name of 1 to 64 characters .* got 'A'"),
    ],
)
def test_wrong_roles(roles, message) -> None:
    """Every player is in exactly one role."""
    with pytest.raises(ConfigError, match=message):
        make("kuhn_poker", roles=roles)


def test_time_limits_may_be_rules() -> None:
    """Then they terminate the match."""
    env = make("tic_tac_toe", max_ticks=1, time_limit="terminates")
    env.reset(seeds(0))
    tick = act(env, 0, 0)
    assert (tick.terminated.item(), tick.truncated.item()) == (True, False)


@pytest.mark.parametrize(
    "game",
    [
        "efg_game(filename=/etc/passwd)",
        "nfg_game(filename=../outside.nfg)",
        "efg_game(filename=no_such.efg)",
        "bargaining(instances_file=link.txt)",
        "crossword(puzzles_root=/etc)",
        "misere(game=efg_game(filename=/dev/zero))",
    ],
)
def test_files_outside_of_the_current_folder_are_not_read(game, tmp_path, monkeypatch):
    """A run file from elsewhere may name any file, also through a link."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside.nfg").write_text("NFG 1 R")
    (inside / "link.txt").symlink_to(tmp_path / "outside.nfg")
    monkeypatch.chdir(inside)
    with pytest.raises(ConfigError, match="expected a file below the current folder"):
        load_game(game)


def test_files_below_the_current_folder_are_read(tmp_path, monkeypatch):
    """OpenSpiel reads the format of Gambit."""
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / "coins.nfg").write_text('NFG 1 R "coins" { "a" "b" } { 2 2 } 1 -1 -1 1 -1 1 1 -1\n')
    monkeypatch.chdir(tmp_path)
    assert load_game("nfg_game(filename=games/coins.nfg)").num_players() == 2


@pytest.mark.parametrize(
    ("name", "teams", "score"),
    [
        ("liars_dice", 2, "outcome"),
        ("goofspiel(num_cards=3)", 2, "outcome"),
        ("hex(board_size=3)", 2, "outcome"),
        ("go(board_size=5)", 2, "outcome"),
        ("leduc_poker(players=3)", 3, "outcome"),
        ("matrix_pd", 2, "return"),
        ("bargaining", 2, "return"),
        ("tiny_hanabi", 1, "return"),
        ("catch", 1, "return"),
    ],
)
def test_utilities_decide_what_measures_participants(name, teams, score):
    """Outcomes in games of constant sum; players that are paid the same are a team."""
    spec = make(name).spec
    assert (spec.num_teams, spec.score) == (teams, score)


def test_a_team_of_players_plays_together():
    """All get the same reward, and no match is won."""
    env = make("tiny_hanabi")
    assert [seat.team for seat in env.spec.seats] == [0, 0]
    *_, reward, outcome = play_randomly(env, seeds(1), 0, 3)
    assert (reward[..., 0] == reward[..., 1]).all()
    assert outcome[-1].tolist() == [[0.5]]


def test_outcomes_may_measure_any_game():
    """The option overrides what the utilities suggest; a single team then wins with a positive return."""
    env = make("catch", score="outcome")
    assert (env.spec.score, env.spec.outcome_rule) == ("outcome", "a positive return wins")
    *_, reward, outcome = play_randomly(env, seeds(1), 0, 30)
    assert outcome[-1].tolist() == [[float(reward.sum() > 0)]]
