"""Frames of matches: scenes, their JSON form, and what draws a match."""

import json
from contextlib import suppress

import numpy as np
import pytest
from ludus.errors import ContractError
from ludus.rendering import (
    Box,
    Circle,
    Label,
    Line,
    Renderable,
    Scene,
    Sprite,
    check_frame,
    draw_match,
    enable_rendering,
    is_rendering_enabled,
    scene_from_json,
    scene_to_json,
)
from ludus_dummy.config import CountConfig
from ludus_dummy.count import Count

SCENE = Scene(
    width=10,
    height=5,
    shapes=[
        Box(0, 0, 3, 2, "#ff0000"),
        Circle(np.float32(5), 2, 1),
        Line(0, 0, 10, 5, "#00ff00", width=0.5),
        Sprite("cat", 8, 3, 2, 2, angle=90),
        Label(5, 4, "1 : 0", 1),
    ],
    background="#000010",
    caption="half-time",
)


def test_scenes_survive_their_json_form():
    """A scene of all kinds of shapes is equal to itself after JSON text."""
    assert scene_from_json(json.loads(json.dumps(scene_to_json(SCENE)))) == SCENE


def test_json_names_the_kinds_of_shapes():
    """Every shape has its kind and its fields."""
    fields = scene_to_json(Scene(width=1, height=1, shapes=[Circle(1, 2, 3, "#0000ff")]))
    assert fields["shapes"] == [{"kind": "circle", "x": 1.0, "y": 2.0, "radius": 3.0, "color": "#0000ff"}]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"width": 0}, "width"),
        ({"shapes": [{"kind": "star", "x": 0}]}, "shapes"),
        ({"shapes": [{"kind": "circle", "x": 0, "y": 0, "radius": "wide"}]}, "radius"),
        ({"shapes": [{"kind": "circle", "x": 0, "y": 0}]}, "radius"),
        ({"colour": "#000000"}, "colour"),
    ],
)
def test_malformed_json_is_refused(change, expected):
    """JSON that is no scene is a ContractError that names the field."""
    with pytest.raises(ContractError, match=expected):
        scene_from_json({**scene_to_json(SCENE), **change})


@pytest.mark.parametrize(
    "make", [lambda: Circle(0, 0, 0), lambda: Circle(0, 0, 1, "red"), lambda: Sprite("", 0, 0, 1, 1)]
)
def test_shapes_check_their_fields(make):
    """Lengths are above 0, colours hexadecimal, names not empty."""
    with pytest.raises(ValueError):  # noqa: PT011 - the messages are those of attrs
        make()


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        ("text", ""),
        (SCENE, ""),
        (np.zeros((4, 6, 3), np.uint8), ""),
        (np.zeros((4, 6), np.uint8), "an array [4, 6] uint8"),
        (np.zeros((4, 6, 3)), "an array [4, 6, 3] float64"),
        (np.zeros((3, 4, 6), np.uint8), "an array [3, 4, 6] uint8"),
        (np.zeros((0, 6, 3), np.uint8), "an array [0, 6, 3] uint8"),
        ([1, 2], "list"),
    ],
)
def test_frames_are_checked(frame, problem):
    """A frame is a text, an image or a scene."""
    found = check_frame(frame)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


class Drawn(Count):
    """A game that draws a frame which tests set."""

    frame = None

    def render_frame(self, match):
        return self.frame


def make(kind, **attributes):
    """Return a started game of two matches."""
    game = kind(CountConfig(), num_matches=2)
    for name, value in attributes.items():
        setattr(game, name, value)
    game.reset(np.arange(2, dtype=np.uint64))
    return game


def test_a_match_is_drawn_by_render_frame_or_as_text():
    """`render_frame` takes precedence; a game without frames shows its text."""
    assert isinstance(make(Drawn), Renderable)
    assert draw_match(make(Drawn, frame=SCENE), 0) is SCENE
    text = make(Count).render(1)
    assert draw_match(make(Drawn), 1) == draw_match(make(Count), 1) == text


def test_a_malformed_frame_is_an_error():
    """The error names the environment and what was expected."""
    with pytest.raises(ContractError, match=r"render_frame of 'dummy-count' returned an array \[2, 2\].*expected"):
        draw_match(make(Drawn, frame=np.zeros((2, 2))), 0)


def test_rendering_is_enabled_within_a_context():
    """The context ends, also by an error."""
    with suppress(KeyError), enable_rendering():
        assert is_rendering_enabled()
        raise KeyError
    assert not is_rendering_enabled()
