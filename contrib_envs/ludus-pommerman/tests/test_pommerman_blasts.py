"""Bombs, flames, wood, deaths and the end of matches, from scripted situations."""

from __future__ import annotations

import numpy as np
import pytest

CROSS = {(5, 5), (4, 5), (6, 5), (5, 4), (5, 6)}

# -- bombs ------------------------------------------------------------------------------------------------------------


def test_bombs_explode_after_ten_steps(match):
    """The step that lays them counts."""
    game = match().agent(0, 5, 5, reach=2).step("bomb").step("up").step("up").step("left", times=6)
    assert game.flames() == set()
    assert game.step().flames() == CROSS
    assert game.bombs() == {}


def test_explosions_return_ammunition(match):
    """To the agent that laid the bomb."""
    game = match().agent(0, 5, 5).bomb(2, 5, life=1, owner=0)
    game.world.ammo[0, 0] = 0
    assert game.step().world.ammo[0].tolist() == [1, 1, 1, 1]


def test_returned_ammunition_is_limited(match):
    """To 10 bombs."""
    game = match().agent(0, 5, 5, ammo=10).bomb(2, 5, life=1)
    assert game.step().world.ammo[0, 0] == 10


def test_blasts_reach_their_strength_less_one(match):
    """In four directions."""
    game = match().bomb(5, 5, life=1, strength=4).step()
    assert game.flames() == {(5, c) for c in range(2, 9)} | {(r, 5) for r in range(2, 9)}


def test_a_blast_of_strength_one_is_one_cell(match):
    """That of the bomb."""
    assert match().bomb(5, 5, life=1, strength=1).step().flames() == {(5, 5)}


def test_rigid_walls_stop_blasts(match):
    """Before the wall."""
    game = match().put("rigid", (5, 7)).bomb(5, 5, life=1, strength=5).step()
    assert {(5, 6), (5, 1)} < game.flames()
    assert not {(5, 7), (5, 8)} & game.flames()
    assert game.of("board", 5, 7) == 1


def test_wood_stops_blasts(match):
    """And burns."""
    game = match().put("wood", (5, 7), (5, 8)).bomb(5, 5, life=1, strength=5).step()
    assert (5, 7) in game.flames()
    assert (5, 8) not in game.flames()
    assert (game.of("board", 5, 7), game.of("board", 5, 8), game.tally("wood")) == (0, 2, 1)


def test_blasts_pass_items_bombs_and_agents(match):
    """The item burns, the bomb explodes, the agent dies."""
    game = match().agent(1, 5, 8).put("kick", (5, 6)).bomb(5, 5, life=1, strength=6).bomb(5, 7, owner=1).step()
    assert {(5, 9), (5, 10), (4, 7)} < game.flames()
    assert game.of("board", 5, 6) == 0
    assert not game.world.alive[0, 1]


def test_blasts_end_at_the_edge(match):
    """And do not appear on the other side."""
    assert match().bomb(0, 5, life=1, strength=3).step().flames() == {
        (0, 3),
        (0, 4),
        (0, 5),
        (0, 6),
        (0, 7),
        (1, 5),
        (2, 5),
    }


def test_bombs_in_a_blast_explode_at_once(match):
    """In chains."""
    game = match().bomb(5, 2, life=1, strength=3).bomb(5, 4, strength=3).bomb(5, 6, strength=3).bomb(9, 9).step()
    assert game.bombs() == {(9, 9): ""}
    assert {(5, column) for column in range(9)} < game.flames()


def test_bombs_out_of_reach_do_not_explode(match):
    """A chain ends there."""
    assert match().bomb(5, 2, life=1, strength=3).bomb(5, 5).step().bombs() == {(5, 5): ""}


def test_wood_protects_bombs_in_a_chain(match):
    """Two bombs that explode on one step both end at the same wood."""
    game = match().put("wood", (5, 5)).bomb(5, 4, life=1).bomb(5, 6, life=5).step()
    assert game.bombs() == {(5, 6): ""}
    game = match().put("wood", (5, 5)).bomb(5, 4, life=1, strength=3).bomb(5, 7, life=1, strength=3).step()
    assert {(5, 5), (5, 6)} < game.flames()
    assert game.of("board", 5, 5) == 0


def test_bombs_that_move_into_flames_explode(match):
    """On the step on which they enter."""
    game = match().bomb(5, 4, moves="right").flame(5, 5).step()
    assert game.bombs() == {}
    assert game.flames() == CROSS


def test_moving_bombs_explode_where_they_are(match):
    """After the move."""
    assert match().bomb(5, 4, life=1, moves="right").step().flames() == CROSS


# -- flames and wood --------------------------------------------------------------------------------------------------


def test_flames_are_seen_three_times(match):
    """As 3, 2 and 1."""
    game = match().bomb(5, 5, life=1)
    shown = [(int(game.step().of("flame", 5, 5)), int(game.observed("board")[5, 5])) for _ in range(4)]
    assert shown == [(3, 4), (2, 4), (1, 4), (0, 0)]


@pytest.mark.parametrize(("life", "survives"), [(3, False), (2, False), (1, True)])
def test_flames_kill_while_they_are_seen(match, life, survives):
    """The last ones end before agents move."""
    game = match().agent(0, 5, 4).flame(5, 5, life).step("right")
    assert (game.at(0), bool(game.world.alive[0, 0])) == ((5, 5), survives)


def test_new_flames_last_as_long_as_others(match):
    """Also where there are flames already."""
    game = match().bomb(5, 5, life=1).flame(5, 6, 2).step()
    assert game.of("flame", 5, 6) == 3


def test_items_appear_after_the_flames(match):
    """Not before."""
    game = match().put("wood", (5, 6), hidden="range").bomb(5, 5, life=1).step()
    assert [int(game.observed("board")[5, 6])] + [int(game.step().observed("board")[5, 6]) for _ in range(3)] == [
        4,
        4,
        4,
        7,
    ]


def test_items_can_be_taken_on_the_step_on_which_they_appear(match):
    """By an agent that enters."""
    game = match().agent(0, 5, 7).put("wood", (5, 6), hidden="kick").bomb(5, 5, life=1).step(times=3).step("left")
    assert (game.at(0), bool(game.world.kick[0, 0])) == ((5, 6), True)


def test_a_second_blast_burns_the_item(match):
    """While there are flames where the wood was."""
    game = match().put("wood", (5, 6), hidden="kick").bomb(5, 5, life=1).bomb(7, 6, life=3, strength=3).step(times=8)
    assert game.of("board", 5, 6) == game.of("hidden", 5, 6) == 0


def test_visible_items_burn(match):
    """They do not return after the flames."""
    game = match().put("range", (5, 6)).bomb(5, 5, life=1).step(times=5)
    assert game.of("board", 5, 6) == 0


def test_wood_without_an_item_becomes_a_passage(match):
    """After the flames."""
    game = match().put("wood", (5, 6)).bomb(5, 5, life=1).step(times=4)
    assert int(game.observed("board")[5, 6]) == 0


# -- deaths -----------------------------------------------------------------------------------------------------------


def test_own_bombs_kill(match):
    """The dead do not act, and do not count as a kill of their own."""
    game = match(variant="team").agent(0, 5, 5).bomb(5, 6, life=1).step()
    assert game.world.alive[0].tolist() == [False, True, True, True]
    assert game.seen.acting[0].tolist() == [False, True, True, True]
    assert game.tally("kills") == 0


def test_kills_belong_to_the_owner_of_the_flames(match):
    """Enemies count; teammates do not."""
    game = match(variant="team").agent(1, 5, 4).agent(2, 5, 6).bomb(5, 5, life=1, owner=0).step()
    assert game.world.alive[0].tolist() == [True, False, False, True]
    assert [game.tally("kills", seat) for seat in range(4)] == [1, 0, 0, 0]


def test_agents_escape_by_moving_in_time(match):
    """Agents move before bombs explode."""
    game = match().agent(0, 5, 6).bomb(5, 5, life=1).step("down")
    assert game.world.alive[0, 0]


def test_bombs_of_the_dead_explode(match):
    """They remain."""
    game = match(variant="team").agent(0, 5, 5, alive=False).bomb(2, 5, life=1, owner=0).step()
    assert (2, 5) in game.flames()


# -- ends -------------------------------------------------------------------------------------------------------------


def kill(game, *seats):
    """Put flames without an owner under agents, and advance."""
    for seat in seats:
        game.flame(*game.at(seat))
    return game.step()


def test_the_last_one_wins(match):
    """In a free-for-all; the others have lost when they died."""
    game = kill(match(), 1)
    assert (game.seen.reward[0].tolist(), game.seen.terminated[0].tolist()) == (
        [0, -1, 0, 0],
        [False, True, False, False],
    )
    assert not game.tick.terminated[0]
    game = kill(game, 0, 3)
    assert game.tick.terminated[0]
    assert game.tick.outcome[0].tolist() == [0, 0, 1, 0]
    assert game.seen.reward[0].tolist() == [-1, 0, 1, -1]


def test_simultaneous_deaths_are_a_tie(match):
    """A tie: half a point and a reward of -1 for all that still lived."""
    game = kill(match(), 0, 1)
    game = kill(game, 2, 3)
    assert game.tick.outcome[0].tolist() == [0.5] * 4
    assert game.seen.reward[0].tolist() == [0, 0, -1, -1]


def test_the_time_limit_is_a_tie(match):
    """It is a rule, so the match terminates; all lose."""
    game = match(time_limit=3).step(times=2)
    assert not game.tick.terminated[0]
    game.step()
    assert game.tick.terminated[0]
    assert not game.tick.truncated[0]
    assert game.tick.outcome[0].tolist() == [0.5] * 4
    assert game.seen.reward[0].tolist() == [-1] * 4


def test_a_win_on_the_last_step_counts(match):
    """Before the time limit does."""
    game = kill(match(time_limit=1, variant="one-vs-one"), 0)
    assert game.tick.outcome[0].tolist() == [0, 1]
    assert game.seen.reward[0].tolist() == [-1, 1]


def test_teams_win_together(match):
    """The dead teammate of a winner wins, too."""
    game = kill(match(variant="team"), 0, 1)
    assert not game.tick.terminated[0]
    assert game.seen.reward[0].tolist() == [0, 0, 0, 0]
    game = kill(game, 3)
    assert game.tick.outcome[0].tolist() == [1, 0]
    assert game.seen.reward[0].tolist() == [1, -1, 1, -1]


def test_teams_lose_together_if_the_last_die_at_once(match):
    """Both get -1 and half a point."""
    game = kill(match(variant="team"), 0, 1, 2, 3)
    assert game.tick.outcome[0].tolist() == [0.5, 0.5]
    assert game.seen.reward[0].tolist() == [-1] * 4


def test_a_side_of_one_against_one_wins(match):
    """On the 8x8 board."""
    game = kill(match(variant="one-vs-one"), 1)
    assert (game.tick.outcome[0].tolist(), game.seen.reward[0].tolist()) == ([1, 0], [1, -1])


def test_ended_matches_are_idle(match):
    """Nothing changes, and no seat acts."""
    game = kill(match(variant="one-vs-one"), 1).bomb(3, 3, life=2)
    flames = game.flames()
    game.step(times=4)
    assert game.flames() == flames
    assert (game.of("life", 3, 3), game.seen.acting.any(), game.tick.terminated[0]) == (2, False, False)
    assert (game.seen.reward == 0).all()


def test_reward_parts_are_weighted(match):
    """Kills, wood and items, by the options of their names."""
    game = match(variant="team", kill=0.5, wood_reward=0.25, item=0.125)
    game.agent(0, 5, 2).agent(1, 5, 6).put("range", (5, 1)).put("wood", (4, 5)).bomb(5, 5, life=1).step("left")
    parts = {name: float(part[0, 0]) for name, part in game.seen.reward_parts.items()}
    assert parts == {"win": 0.0, "kill": 0.5, "wood": 0.25, "item": 0.125}
    assert game.seen.reward[0].tolist() == [0.875, 0, 0, 0]


# -- collapse ---------------------------------------------------------------------------------------------------------


def test_rings_collapse(match):
    """The outer one first, the fourth one last; what is in them is gone."""
    game = match(variant="collapse", first_collapse=4, time_limit=8).agent(0, 0, 0).bomb(0, 5, owner=1)
    game.world.ammo[0, 1] = 0
    game.put("kick", (10, 10)).flame(0, 9).step(times=3)
    assert game.world.alive[0, 0]
    game.step()
    board = game.world.board[0].reshape(13, 13)[1:-1, 1:-1]
    assert (board == 1).sum() == 40
    assert game.world.alive[0].tolist() == [False, True, True, True]
    assert (game.bombs(), game.flames(), int(game.world.ammo[0, 1])) == ({}, set(), 1)
    assert game.seen.reward[0].tolist() == [-1, 0, 0, 0]
    game.step()
    assert game.tick.terminated[0]
    assert game.tick.outcome[0].tolist() == [0.5] * 4


def test_rings_collapse_at_500_575_650_and_725(match):
    """The centre of 3x3 cells remains."""
    game = match(variant="collapse")
    for seat, cell in enumerate([(4, 4), (4, 5), (5, 4), (5, 5)]):
        game.agent(seat, *cell)
    walls = []
    for _ in range(5):
        game.step(times=75 if walls else 499)
        walls.append(int((game.world.board[0].reshape(13, 13)[1:-1, 1:-1] == 1).sum()))
    assert walls == [0, 40, 72, 96, 112]
    assert game.world.ticks[0] == 799


def test_boards_collapse_in_one_variant_only(match):
    """Not in a free-for-all."""
    game = match(first_collapse=1).step(times=3)
    assert (game.world.board[0] == 1).sum() == 48


# -- observations -----------------------------------------------------------------------------------------------------


def test_observations_show_everything_without_fog(match):
    """Agents above bombs, and maps of bombs."""
    game = match().agent(0, 5, 5, reach=3).bomb(7, 7, life=5, strength=4, moves="up").put("rigid", (0, 0)).step("bomb")
    for seat in range(4):
        board = game.observed("board", seat)
        assert (board[5, 5], board[6, 7], board[0, 0], board[9, 1]) == (10, 3, 1, 11)
        assert game.observed("bomb_life", seat)[[5, 6], [5, 7]].tolist() == [9, 4]
        assert game.observed("bomb_blast_strength", seat)[[5, 6], [5, 7]].tolist() == [3, 4]
        assert game.observed("bomb_moving_direction", seat)[[5, 6], [5, 7]].tolist() == [0, 1]
    assert game.observed("position").tolist() == [5, 5]
    assert (game.observed("ammo")[0], game.observed("blast_strength")[0], game.observed("step_count")[0]) == (0, 3, 1)


def test_fog_hides_what_is_farther_than_four_cells(match):
    """On the board and on all maps."""
    game = (
        match(variant="team")
        .agent(0, 2, 5)
        .agent(1, 6, 5)
        .agent(2, 7, 5)
        .bomb(6, 1)
        .bomb(6, 0)
        .flame(5, 9)
        .flame(5, 10)
    )
    board = game.step().observed("board")
    assert (board[6, 5], board[7, 5], board[6, 1], board[6, 0], board[5, 9], board[5, 10]) == (11, 5, 3, 5, 4, 5)
    assert (game.observed("bomb_life")[6, 1], game.observed("bomb_life")[6, 0]) == (8, 0)
    assert (game.observed("flame_life")[5, 9], game.observed("flame_life")[5, 10]) == (2, 0)
    assert (board == 5).sum() == 121 - 7 * 9


def test_teammates_and_enemies_are_named(match):
    """By the codes of the board; 9 where there is none."""
    team, free, two = match(variant="team").step(), match().step(), match(variant="one-vs-one").step()
    assert (team.observed("teammate", 1).tolist(), team.observed("enemies", 1).tolist()) == ([13], [10, 12, 9])
    assert (free.observed("teammate", 2).tolist(), free.observed("enemies", 2).tolist()) == ([9], [10, 11, 13])
    assert (two.observed("teammate", 0).tolist(), two.observed("enemies", 0).tolist()) == ([9], [11, 9, 9])


def test_all_seats_know_who_lives(match):
    """Also those that do not see it."""
    game = kill(match(variant="team"), 2)
    assert game.observed("alive", 0).tolist() == [1, 1, 0, 1]


def test_words_reach_the_teammate_on_the_next_step(match):
    """No other seat receives them; dead agents send none."""
    game = match(variant="radio").step("stop:3,5", "up:1,0")
    assert [game.observed("message", seat).tolist() for seat in range(4)] == [[0, 0], [0, 0], [3, 5], [1, 0]]
    assert game.step().observed("message", 2).tolist() == [0, 0]
    game = kill(game, 0).step("stop:7,7")
    assert game.observed("message", 2).tolist() == [0, 0]


def test_critics_see_everything(match):
    """Also behind the fog, and items under wood."""
    game = match(variant="team", privileged=True).agent(2, 9, 9, ammo=3, kick=True)
    game.put("wood", (8, 2), hidden="kick").bomb(9, 5, life=5).step()
    seen = {name: leaf[0, 0] for name, leaf in game.seen.privileged.items()}
    assert (seen["full_board"][9, 9], seen["hidden_items"][8, 2], seen["full_bomb_life"][9, 5]) == (12, 8, 4)
    assert seen["agents"][2].tolist() == [9, 9, 1, 3, 2, 1]
    assert (game.observed("board")[9, 9], int(np.max(seen["full_board"]))) == (5, 13)
