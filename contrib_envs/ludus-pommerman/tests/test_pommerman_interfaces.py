"""The interfaces of Arena, on hand-made states."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.installed import open_game, open_interfaces
from ludus.interface import SeatView, Spaces
from ludus.testing import check_environment, check_interface
from ludus_pommerman.config import PommermanConfig
from ludus_pommerman.environment import Pommerman
from ludus_pommerman.interfaces import ATTRIBUTES, CHANNELS, ActMask, Attr, BoardMap, Rotate, own_seats

NAMES = ("board-map", "attr", "act-mask", "rotate")
SEATS = np.array([4, 9, 11, 20])


def raw_spaces(variant="team"):
    """Return the spaces of a variant."""
    role = Pommerman(PommermanConfig(variant=variant), num_matches=1).spec.roles[0]
    return Spaces(role.observation_space, role.action_space)


def view_of(game, seats=4):
    """Return the views of all seats of a match."""
    observation = {name: leaf[0].copy() for name, leaf in game.seen.observation.items()}
    return SeatView(observation=observation, action_mask=None, reward=np.zeros(seats, np.float32))


def observe(name, view, variant="team", **options):
    """Return what an interface makes of a view."""
    interface = open_interfaces([{"name": name, **options}] if options else [name])
    interface.bind(raw_spaces(variant))
    return interface.observe(view, SEATS[: len(view.reward)])


@pytest.mark.parametrize("make", [BoardMap, Attr, ActMask, Rotate, lambda: BoardMap(keep=False)])
@pytest.mark.parametrize("variant", ["team", "radio", "one-vs-one"])
def test_interfaces_keep_the_contract(make, variant):
    """The kit finds no violation."""
    check_interface(make, raw_spaces(variant), masked=False)


def test_seats_know_who_they_are(match):
    """By the codes of the others."""
    assert own_seats(view_of(match().step()).observation).tolist() == [0, 1, 2, 3]
    assert own_seats(view_of(match(variant="team").step()).observation).tolist() == [0, 1, 2, 3]
    assert own_seats(view_of(match(variant="one-vs-one").step(), 2).observation).tolist() == [0, 1]


def test_board_map(match):
    """Every thing is in its channel."""
    game = (
        match(variant="ffa").agent(0, 5, 5).agent(1, 5, 6).put("rigid", (0, 0)).put("wood", (0, 1)).put("kick", (0, 2))
    )
    game.bomb(2, 2, life=4, strength=5, moves="left").flame(8, 8).step()
    image = observe("board-map", view_of(game), "ffa").observation["board_map"]
    assert (image.shape, image.dtype) == ((4, 11, 11, 18), np.float32)
    own = image[0]
    found = {
        name: {tuple(map(int, cell)) for cell in np.argwhere(own[..., channel])}
        for channel, name in enumerate(CHANNELS)
    }
    assert found["own"] == {(5, 5)}
    assert found["teammate"] == found["fog"] == found["moves-right"] == set()
    assert found["enemies"] == {(5, 6), (9, 9), (1, 9)}
    assert (found["rigid"], found["wood"], found["kick"]) == ({(0, 0)}, {(0, 1)}, {(0, 2)})
    assert found["bomb"] == found["bomb-life"] == found["bomb-strength"] == found["moves-left"] == {(2, 1)}
    assert found["flames"] == found["flame-life"] == {(8, 8)}
    assert own[2, 1, [11, 12]].tolist() == pytest.approx([0.5, 3 / 9])
    assert own[8, 8, 17] == pytest.approx(2 / 3)


def test_board_map_shows_teammates_and_fog(match):
    """As the seat sees them."""
    game = match(variant="team").agent(0, 5, 5).agent(2, 5, 7).agent(1, 4, 4).agent(3, 10, 10).step()
    image = observe("board-map", view_of(game)).observation["board_map"][0]
    at = {name: np.argwhere(image[..., CHANNELS.index(name)]).tolist() for name in ("own", "teammate", "enemies")}
    assert at == {"own": [[5, 5]], "teammate": [[5, 7]], "enemies": [[4, 4]]}
    assert image[..., CHANNELS.index("fog")].sum() == 121 - 81


def test_board_map_can_replace_what_it_shows():
    """The other leaves stay."""
    kept = BoardMap(keep=True).bind(raw_spaces()).observation.spaces
    alone = BoardMap(keep=False).bind(raw_spaces()).observation.spaces
    assert set(kept) - set(alone) == {
        "board", "bomb_blast_strength", "bomb_life", "bomb_moving_direction", "flame_life",
    }  # fmt: skip
    assert "position" in alone


def test_features_can_replace_the_observation():
    """Image, vector and availability remain."""
    bound = open_interfaces(
        ["rotate", "act-mask", {"name": "board-map", "keep": False}, {"name": "attr", "keep": False}]
    ).bind(raw_spaces("radio"))
    assert set(bound.observation.spaces) == {"available", "board_map", "attr"}


def test_attr(match):
    """Numbers in [0, 1]."""
    game = match(variant="team", time_limit=100).agent(0, 5, 10, ammo=3, reach=4, kick=True).agent(1, 0, 0, alive=False)
    view = view_of(game.agent(2, 0, 1, alive=False).step(times=25))
    interface = Attr()
    role = game.environment.spec.roles[0]
    bound = interface.bind(Spaces(role.observation_space, role.action_space))
    vector = interface.observe(view, SEATS).observation["attr"]
    assert bound.observation["attr"].shape == vector.shape[1:] == (8,)
    expected = {
        "row": 0.5, "column": 1.0, "ammo": 0.3, "blast-strength": 0.4, "can-kick": 1.0, "teammate-alive": 0.0,
        "enemies-alive": 1 / 3, "step": 0.25,
    }  # fmt: skip
    assert dict(zip(ATTRIBUTES, vector[0].tolist(), strict=True)) == pytest.approx(expected)
    assert set(Attr(keep=False).bind(raw_spaces()).observation.spaces) == {
        "board", "bomb_blast_strength", "bomb_life", "bomb_moving_direction", "flame_life", "attr",
    }  # fmt: skip


def test_attr_holds_the_words_of_the_teammate(match):
    """One-hot."""
    game = match(variant="radio").step("stop:3,5")
    vector = observe("attr", view_of(game), "radio").observation["attr"][2]
    assert vector.shape == (24,)
    assert np.flatnonzero(vector[8:]).tolist() == [3, 8 + 5]


def test_act_mask(match):
    """Walls, the edge, bombs, ammunition."""
    game = (
        match()
        .agent(0, 0, 5, ammo=0)
        .put("wood", (1, 5))
        .bomb(0, 6)
        .agent(1, 5, 5)
        .bomb(5, 5)
        .agent(2, 8, 8, kick=True)
    )
    view = observe("act-mask", view_of(game.bomb(8, 9).put("kick", (7, 8)).step()), "ffa")
    expected = [
        [True, False, False, True, False, False],  # right is a bomb, and there is no ammunition
        [True, True, True, True, True, False],  # on a bomb
        [True, True, True, True, True, True],  # beside a bomb, with kick
        [True, True, True, True, True, True],
    ]
    assert view.action_mask.tolist() == expected
    assert view.observation["available"].tolist() == np.array(expected, int).tolist()
    assert view.observation["available"].dtype == np.int8


def test_act_mask_leaves_words_legal(match):
    """All of them."""
    mask = observe("act-mask", view_of(match(variant="radio").agent(0, 0, 0).step()), "radio").action_mask
    assert mask.shape == (4, 22)
    assert mask[0, :6].tolist() == [True, False, True, False, True, True]
    assert mask[:, 6:].all()


def test_act_mask_as_leaf_or_as_mask(match):
    """By its options."""
    view = view_of(match().step())
    leaf, mask = ActMask(mask=False), ActMask(leaf=False)
    for interface in (leaf, mask):
        interface.bind(raw_spaces("ffa"))
    assert leaf.observe(view, SEATS).action_mask is None
    assert "available" not in mask.observe(view, SEATS).observation


@pytest.mark.parametrize("variant", ["ffa", "one-vs-one"])
def test_rotate_puts_all_seats_into_the_upper_left_corner(match, variant):
    """Where their own code is."""
    game = match(variant=variant).step()
    seats = 2 if variant == "one-vs-one" else 4
    seen = observe("rotate", view_of(game, seats), variant).observation
    assert seen["position"].tolist() == [[1, 1]] * seats
    assert seen["board"][:, 1, 1].tolist() == [10, 11, 12, 13][:seats]


def test_rotate_turns_maps_and_directions(match):
    """A bomb of seat 0 that moves away from it to the right, seen by seat 1, which starts below: it moves up."""
    seen = observe("rotate", view_of(match().bomb(1, 3, moves="right").step()), "ffa").observation
    for seat, (row, column), direction in [(0, (1, 4), 4), (1, (4, 9), 2), (2, (9, 6), 3), (3, (6, 1), 1)]:
        assert np.argwhere(seen["bomb_life"][seat]).tolist() == [[row, column]]
        assert seen["bomb_moving_direction"][seat, row, column] == direction


@pytest.mark.parametrize("seat", range(4))
@pytest.mark.parametrize("action", range(6))
def test_rotate_turns_actions_back(match, seat, action):
    """A move in the turned board is seen there as that move."""
    interface = Rotate()
    interface.bind(raw_spaces("ffa"))
    game = match().agent(seat, 5, 5).step()
    before = interface.observe(view_of(game), SEATS).observation["position"][seat].astype(int)
    raw = interface.act(np.full((4, 1), action), SEATS)
    game.tick = game.environment.step({"player": raw[None]})
    after = interface.observe(view_of(game), SEATS).observation["position"][seat].astype(int)
    assert (after - before).tolist() == [[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1], [0, 0]][action]


def test_rotate_turns_masks(match):
    """The mask of a turned board is that of the turned actions."""
    game = match().agent(1, 10, 3).step()
    view = view_of(game)
    masked, turned = ActMask(leaf=False), Rotate()
    for interface in (masked, turned):
        interface.bind(raw_spaces("ffa"))
    first = turned.observe(masked.observe(view, SEATS), SEATS).action_mask
    second = masked.observe(turned.observe(view, SEATS), SEATS).action_mask
    assert first.tolist() == second.tolist()
    assert not first.all()


def test_rotate_comes_first():
    """It cannot turn what other interfaces have made."""
    with pytest.raises(ContractError, match="rotate: expected to come before board-map"):
        open_interfaces(["board-map", "rotate"]).bind(raw_spaces())


@pytest.mark.parametrize("name", NAMES)
def test_other_games_are_refused(name):
    """The message names the leaf."""
    with pytest.raises(ContractError, match=f"{name}: the observation has no leaf '(board|position)', it has obs"):
        open_interfaces([name]).bind(Spaces(spaces.Discrete(3), spaces.Discrete(6)))


def test_teams_are_joint_seats():
    """With the interfaces on both parts: one seat decides for two agents [Arena §A.4]."""
    options = {"game": "pommerman", "role": "player", "options": {"variant": "team", "time_limit": 30}}

    def make(count):
        return open_game("as-team", options={"as-team": options}).make_environment(count)

    parts = [["rotate", "board-map", "attr", "act-mask"]] * 2
    role = make(1).spec.roles[0]
    bound = open_interfaces([{"name": "combine", "parts": parts}]).bind(
        Spaces(role.observation_space, role.action_space)
    )
    assert bound.observation["1.board_map"].shape == (11, 11, 18)
    assert bound.action.nvec.tolist() == [6, 6]
    check_environment(make, steps=40)
