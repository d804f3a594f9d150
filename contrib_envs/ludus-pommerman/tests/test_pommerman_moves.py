"""Movement, conflicts and kicks, from scripted situations."""

from __future__ import annotations

import pytest

# -- agents -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "cell"), [("stop", (5, 5)), ("up", (4, 5)), ("down", (6, 5)), ("left", (5, 4)), ("right", (5, 6))]
)
def test_agents_move_by_one_cell(match, action, cell):
    """In four directions."""
    assert match().agent(0, 5, 5).step(action).at(0) == cell


@pytest.mark.parametrize("wall", ["rigid", "wood"])
def test_walls_block_agents(match, wall):
    """A move into a wall means to stay."""
    assert match().agent(0, 5, 5).put(wall, (5, 6)).step("right").at(0) == (5, 5)


@pytest.mark.parametrize(("start", "action"), [((0, 4), "up"), ((10, 4), "down"), ((4, 0), "left"), ((4, 10), "right")])
def test_the_board_ends(match, start, action):
    """A move off the board means to stay."""
    assert match().agent(0, *start).step(action).at(0) == start


def test_two_agents_cannot_enter_one_cell(match):
    """Both stay."""
    game = match().agent(0, 5, 4).agent(1, 5, 6).step("right", "left")
    assert (game.at(0), game.at(1)) == ((5, 4), (5, 6))


def test_agents_cannot_change_places(match):
    """Both stay."""
    game = match().agent(0, 5, 5).agent(1, 5, 6).step("right", "left")
    assert (game.at(0), game.at(1)) == ((5, 5), (5, 6))


def test_an_agent_that_stays_blocks(match):
    """The other one stays, too."""
    game = match().agent(0, 5, 5).agent(1, 5, 6).step("right", "stop")
    assert game.at(0) == (5, 5)


def test_agents_follow_each_other(match):
    """A cell that becomes free on the same step can be entered."""
    game = match().agent(0, 5, 5).agent(1, 5, 6).step("right", "right")
    assert (game.at(0), game.at(1)) == ((5, 6), (5, 7))


def test_agents_move_in_a_circle(match):
    """Four agents, each into the cell of the next."""
    game = match().agent(0, 4, 4).agent(1, 4, 5).agent(2, 5, 5).agent(3, 5, 4).step("right", "down", "left", "up")
    assert [game.at(seat) for seat in range(4)] == [(4, 5), (5, 5), (5, 4), (4, 4)]


def test_a_bounce_stops_those_behind(match):
    """The first two want one cell; the third wants the cell of the second, the fourth that of the third."""
    game = match().agent(0, 5, 3).agent(1, 5, 5).agent(2, 5, 6).agent(3, 5, 7).step("right", "left", "left", "left")
    assert [game.at(seat) for seat in range(4)] == [(5, 3), (5, 5), (5, 6), (5, 7)]


def test_a_wall_stops_a_queue(match):
    """The first cannot move, so the others cannot either."""
    game = match().put("wood", (5, 3)).agent(0, 5, 4).agent(1, 5, 5).agent(2, 5, 6).step("left", "left", "left")
    assert [game.at(seat) for seat in range(3)] == [(5, 4), (5, 5), (5, 6)]


def test_three_agents_cannot_enter_one_cell(match):
    """All stay."""
    game = match().agent(0, 5, 4).agent(1, 5, 6).agent(2, 4, 5).step("right", "left", "down")
    assert [game.at(seat) for seat in range(3)] == [(5, 4), (5, 6), (4, 5)]


def test_dead_agents_do_not_block(match):
    """Their cell is free, and they do not move."""
    game = match().agent(0, 5, 5).agent(1, 5, 6, alive=False).step("right", "left")
    assert (game.at(0), game.at(1)) == ((5, 6), (5, 6))


# -- laying bombs -----------------------------------------------------------------------------------------------------


def test_a_bomb_lies_under_the_agent(match):
    """It takes ammunition and has the strength of the agent."""
    game = match().agent(0, 5, 5, reach=3).step("bomb")
    assert game.bombs() == {(5, 5): ""}
    assert (game.of("life", 5, 5), game.of("strength", 5, 5), game.world.ammo[0, 0]) == (9, 3, 0)
    assert game.tally("bombs") == 1


def test_without_ammunition_there_is_no_bomb(match):
    """The action means to stay."""
    assert match().agent(0, 5, 5, ammo=0).step("bomb").bombs() == {}


def test_there_is_one_bomb_in_a_cell(match):
    """The second one is not laid, and keeps its ammunition."""
    game = match().agent(0, 5, 5, ammo=2).step("bomb").step("bomb")
    assert (game.world.ammo[0, 0], game.of("life", 5, 5), game.tally("bombs")) == (1, 8, 1)


def test_agents_leave_their_bombs(match):
    """But cannot return."""
    game = match().agent(0, 5, 5).step("bomb").step("right")
    assert game.at(0) == (5, 6)
    assert game.step("left").at(0) == (5, 6)


def test_agents_cannot_enter_bombs(match):
    """Without the ability to kick."""
    game = match().agent(0, 5, 5).bomb(5, 6).step("right")
    assert (game.at(0), game.bombs()) == ((5, 5), {(5, 6): ""})


# -- kicks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "bomb", "after"),
    [
        ("right", (5, 6), (5, 7)),
        ("left", (5, 4), (5, 3)),
        ("up", (4, 5), (3, 5)),
        ("down", (6, 5), (7, 5)),
    ],
)
def test_kicked_bombs_move_on(match, action, bomb, after):
    """The agent takes the cell of the bomb, which moves in its direction."""
    game = match().agent(0, 5, 5, kick=True).bomb(*bomb).step(action)
    assert (game.at(0), game.bombs()) == (bomb, {after: action})
    assert game.tally("kicks") == 1


def test_bombs_go_on_moving(match):
    """By a cell on each step."""
    game = match().agent(0, 5, 2, kick=True).bomb(5, 3).step("right").step(times=3)
    assert game.bombs() == {(5, 7): "right"}


@pytest.mark.parametrize("name", ["rigid", "wood", "range"])
def test_bombs_are_not_kicked_into_walls_and_items(match, name):
    """The agent stays, too."""
    game = match().agent(0, 5, 5, kick=True).bomb(5, 6).put(name, (5, 7)).step("right")
    assert (game.at(0), game.bombs()) == ((5, 5), {(5, 6): ""})
    assert game.tally("kicks") == 0


def test_bombs_are_not_kicked_into_bombs(match):
    """The agent stays, too."""
    game = match().agent(0, 5, 5, kick=True).bomb(5, 6).bomb(5, 7).step("right")
    assert (game.at(0), game.bombs()) == ((5, 5), {(5, 6): "", (5, 7): ""})


def test_bombs_are_not_kicked_into_agents(match):
    """The agent stays, too."""
    game = match().agent(0, 5, 5, kick=True).agent(1, 5, 7).bomb(5, 6).step("right")
    assert (game.at(0), game.bombs()) == ((5, 5), {(5, 6): ""})


def test_bombs_are_not_kicked_off_the_board(match):
    """The agent stays, too."""
    game = match().agent(0, 5, 9, kick=True).bomb(5, 10).step("right")
    assert (game.at(0), game.bombs()) == ((5, 9), {(5, 10): ""})


@pytest.mark.parametrize("name", ["rigid", "wood", "kick"])
def test_walls_and_items_stop_moving_bombs(match, name):
    """They lie still then."""
    game = match().bomb(5, 5, moves="right").put(name, (5, 7)).step(times=3)
    assert game.bombs() == {(5, 6): ""}


def test_agents_stop_moving_bombs(match):
    """An agent that stays is not moved."""
    game = match().agent(0, 5, 7).bomb(5, 5, moves="right").step(times=2)
    assert (game.at(0), game.bombs()) == ((5, 7), {(5, 6): ""})


def test_two_bombs_cannot_enter_one_cell(match):
    """Both stop."""
    game = match().bomb(5, 4, moves="right").bomb(5, 6, moves="left").step()
    assert game.bombs() == {(5, 4): "", (5, 6): ""}


def test_bombs_cannot_change_places(match):
    """Both stop."""
    game = match().bomb(5, 5, moves="right").bomb(5, 6, moves="left").step()
    assert game.bombs() == {(5, 5): "", (5, 6): ""}


def test_bombs_follow_each_other(match):
    """As agents do."""
    game = match().bomb(5, 5, moves="right").bomb(5, 6, moves="right").step()
    assert game.bombs() == {(5, 6): "right", (5, 7): "right"}


def test_a_lying_bomb_stops_a_moving_one(match):
    """It is not pushed."""
    game = match().bomb(5, 5, moves="right").bomb(5, 6).step()
    assert game.bombs() == {(5, 5): "", (5, 6): ""}


def test_agents_and_bombs_cannot_change_places(match):
    """The bomb stays, and so does an agent that cannot kick."""
    game = match().agent(0, 5, 6).bomb(5, 5, moves="right").step("left")
    assert (game.at(0), game.bombs()) == ((5, 6), {(5, 5): ""})


def test_approaching_bombs_are_kicked_back(match):
    """The bomb stays first, and is then kicked from its cell."""
    game = match().agent(0, 5, 6, kick=True).bomb(5, 5, moves="right").step("left")
    assert (game.at(0), game.bombs()) == ((5, 5), {(5, 4): "left"})


def test_bombs_are_kicked_from_the_cell_they_want(match):
    """Agent and bomb want one cell: the bomb goes on from there in the direction of the agent."""
    game = match().agent(0, 4, 6, kick=True).bomb(5, 5, moves="right").step("down")
    assert (game.at(0), game.bombs()) == ((5, 6), {(6, 6): "down"})


def test_bombs_are_kicked_back_to_where_they_were(match):
    """Bomb and agent want the cell between them; the kick returns the bomb to its own cell."""
    game = match().agent(0, 5, 7, kick=True).bomb(5, 5, moves="right").step("left")
    assert (game.at(0), game.bombs()) == ((5, 6), {(5, 5): "left"})


def test_without_kick_agent_and_bomb_stay(match):
    """If both want one cell."""
    game = match().agent(0, 4, 6).bomb(5, 5, moves="right").step("down")
    assert (game.at(0), game.bombs()) == ((4, 6), {(5, 5): ""})


def test_a_late_conflict_stops_those_behind(match):
    """A kick fails, so the agent stays, and so does the one that follows it."""
    game = match().agent(0, 5, 5, kick=True).agent(1, 5, 4).bomb(5, 6).put("rigid", (5, 7)).step("right", "right")
    assert (game.at(0), game.at(1)) == ((5, 5), (5, 4))


def test_a_late_conflict_undoes_a_kick(match):
    """Two bombs are kicked into one cell: both stay, and so do both agents."""
    game = match().agent(0, 5, 3, kick=True).bomb(5, 4).agent(1, 5, 7, kick=True).bomb(5, 6).step("right", "left")
    assert (game.at(0), game.at(1)) == ((5, 3), (5, 7))
    assert game.bombs() == {(5, 4): "", (5, 6): ""}
    assert game.tally("kicks") == game.tally("kicks", 1) == 0


def test_undone_moves_undo_kicks(match):
    """A bomb that must stop returns into the cell that another bomb was kicked to."""
    game = match().agent(0, 5, 3, kick=True).bomb(5, 4).bomb(4, 5, moves="down").agent(1, 6, 5).step("right", "up")
    assert (game.at(0), game.at(1)) == ((5, 3), (6, 5))
    assert game.bombs() == {(5, 4): "", (4, 5): ""}


def test_a_bomb_under_an_agent_can_be_kicked_when_it_leaves(match):
    """The first agent leaves to the side, the second one kicks."""
    game = match().agent(0, 5, 5).agent(1, 5, 4, kick=True).bomb(5, 5).step("up", "right")
    assert (game.at(0), game.at(1), game.bombs()) == ((4, 5), (5, 5), {(5, 6): "right"})


# -- items ------------------------------------------------------------------------------------------------------------


def test_extra_bombs_add_ammunition(match):
    """And the item is gone."""
    game = match().agent(0, 5, 5).put("extra-bomb", (5, 6)).step("right")
    assert (game.world.ammo[0, 0], game.of("board", 5, 6), game.tally("items")) == (2, 0, 1)


def test_ranges_add_strength(match):
    """To bombs that are laid later."""
    game = match().agent(0, 5, 5).bomb(9, 5).put("range", (5, 6)).step("right").step("bomb")
    assert (game.world.reach[0, 0], game.of("strength", 5, 6), game.of("strength", 9, 5)) == (3, 3, 2)


def test_kick_items_teach_to_kick(match):
    """For the rest of the match."""
    game = match().agent(0, 5, 5).put("kick", (5, 6)).bomb(5, 7).step("right").step("right")
    assert (game.at(0), game.bombs()) == ((5, 7), {(5, 8): "right"})


def test_an_item_that_is_not_reached_stays(match):
    """Two agents that want it bounce."""
    game = match().agent(0, 5, 5).agent(1, 5, 7).put("kick", (5, 6)).step("right", "left")
    assert game.of("board", 5, 6) == 8
    assert not game.world.kick.any()


@pytest.mark.parametrize(("variant", "most"), [("ffa", 10), ("team", 4)])
def test_the_strength_is_limited(match, variant, most):
    """To 10, with fog to the number of cells that a seat sees."""
    game = match(variant=variant).agent(0, 5, 5, reach=most).put("range", (5, 6)).step("right")
    assert game.world.reach[0, 0] == most


def test_the_ammunition_is_limited(match):
    """To 10 bombs."""
    game = match().agent(0, 5, 5, ammo=10).put("extra-bomb", (5, 6)).step("right")
    assert game.world.ammo[0, 0] == 10
