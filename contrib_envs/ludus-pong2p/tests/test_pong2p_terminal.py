"""Fields and actions as text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ludus import Playable, Scenario
from ludus.rendering import Box, Label
from ludus_pong2p.config import Pong2pConfig
from ludus_pong2p.environment import Pong2p


def make(**options) -> Pong2p:
    """Return the environment with two matches."""
    return Pong2p(Pong2pConfig(**options), num_matches=2)


def plain(text: str) -> list[str]:
    """Return lines without colours."""
    return re.sub(r"\x1b\[\d+m", "", text).split("\n")


def show(environment: Pong2p, **numbers: float) -> list[str]:
    """Return the rendered first match with ball and paddles at the given positions."""
    scenario = Scenario(name="custom", parameters={"score_0": 2, "score_1": 3})
    environment.reset(np.zeros(2, np.uint64), scenarios=[scenario, Scenario()])
    court = environment._court
    court.x[0], court.y[0] = numbers["x"], numbers["y"]
    court.paddle[:, 0] = numbers["left"], numbers["right"]
    return plain(environment.render(0))


def test_the_field_is_shown_with_its_scores():
    """22 lines of 44 characters between the edges, the score of seat 0 first."""
    lines = show(make(), x=0.0, y=0.0, left=0.0, right=0.0)
    assert lines[0] == "  2 : 3"
    assert lines[1] == lines[-1] == "  +" + "-" * 42 + "+"
    assert len(lines) == 23
    assert {len(line) for line in lines[1:]} == {46}


def test_ball_and_paddles_stand_where_they_are():
    """A ball of 2 by 2 units and paddles of 8; a character is two units high."""
    lines = show(make(), x=0.0, y=2.0, left=-16.0, right=16.0)
    field = [line[3:-1] for line in lines[2:-1]]
    assert field[:4] == ["█" + " " * 41] * 4
    assert field[-4:] == [" " * 41 + "█"] * 4
    assert field[10] == " " * 20 + "▄▄" + " " * 20
    assert field[11] == " " * 20 + "▀▀" + " " * 20


@pytest.mark.parametrize(("x", "y"), [(-19, -19), (19, 19), (-19, 19), (18.6, -18.6)])
def test_a_ball_in_a_corner_is_shown(x, y):
    """Whole, and inside the field."""
    lines = show(make(), x=x, y=y, left=0.0, right=0.0)
    field = [line[4:-2] for line in lines[2:-1]]
    line, column = (0 if y < 0 else 19), (0 if x < 0 else 38)
    assert field[line][column : column + 2] == "██"


def test_something_thin_is_still_shown():
    """A paddle shorter than a unit."""
    environment = make(paddle_length=1.0)
    scenario = Scenario(name="custom", parameters={"paddle_0": 0.1, "paddle_1": 0.1})
    environment.reset(np.zeros(2, np.uint64), scenarios=[scenario] * 2)
    assert sum(line.count("▀") + line.count("▄") for line in plain(environment.render(0))) >= 2


def test_the_field_is_drawn_as_a_scene():
    """Ball and paddles are where the court has them, with the scores; y points down."""
    environment = make()
    show(environment, x=5.0, y=-7.0, left=3.0, right=-4.0)
    scene = environment.render_frame(0)
    left, right, ball = (shape for shape in scene.shapes if isinstance(shape, Box))
    half = environment._court.half[:, 0]
    assert (scene.width, scene.height) == (43, 40)
    assert (ball.x + 1, ball.y + 1, ball.width, ball.height) == (21.5 + 5, 20 - 7, 2, 2)
    assert (left.x + left.width, left.y, left.height) == (1.5, 23 - half[0], 2 * half[0])
    assert (right.x, right.y, right.height) == (41.5, 16 - half[1], 2 * half[1])
    scores = [(shape.text, shape.x < 21.5) for shape in scene.shapes if isinstance(shape, Label)]
    assert scores == [("2", True), ("3", False)]


def test_the_environment_is_playable():
    """As the terminal wants it."""
    assert isinstance(make(), Playable)


@pytest.mark.parametrize("action", [0, 1, 2])
def test_actions_have_names_that_can_be_typed(action):
    """By word, first letter or number, in any case."""
    environment = make()
    name = environment.action_name("player", np.array([action]))
    assert name == ("stay", "up", "down")[action]
    for typed in (name, name[0], str(action), f" {name.upper()} "):
        assert environment.parse_action("player", typed).tolist() == [action]


@pytest.mark.parametrize("typed", ["", "left", "3", "-1"])
def test_other_words_raise(typed):
    """The message lists the choices."""
    with pytest.raises(ValueError, match=r"expected stay, up or down \(s, u, d\), got"):
        make().parse_action("player", typed)
