"""Frames as images, and images as coloured characters."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ludus.rendering import Box, Circle, Label, Line, Scene, Sprite
from ludus_terminal.drawing import Drawing, as_blocks
from PIL import Image

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def draw(*shapes, drawing=None, **fields):
    """Return the image of a scene of 4 by 2 units with 120 pixels per unit."""
    scene = Scene(width=4, height=2, shapes=shapes, background="#000000", **fields)
    return (drawing or Drawing())(scene)


def color_at(image, x, y):
    """Return the colour at a point of a scene, see `draw`."""
    return tuple(image[int(y * 120), int(x * 120)].tolist())


def test_scenes_have_their_proportions():
    """The longer side has 480 pixels at scale 1."""
    assert draw().shape == (240, 480, 3)
    assert draw(drawing=Drawing(scale=0.5)).shape == (120, 240, 3)
    assert draw().dtype == np.uint8
    assert not draw().any()


def test_boxes_have_their_edges():
    """A box covers its rectangle and nothing else."""
    image = draw(Box(1, 0.5, 2, 1, "#ff0000"))
    covered = (image == RED).all(axis=2)
    assert covered[60:180, 120:360].all()
    assert covered.sum() == 120 * 240


def test_circles_have_their_radius():
    """Inside of the radius, not outside."""
    image = draw(Circle(2, 1, 0.5, "#00ff00"))
    for angle in np.linspace(0, 6.28, 16):
        inside = (2 + 0.47 * np.cos(angle), 1 + 0.47 * np.sin(angle))
        outside = (2 + 0.53 * np.cos(angle), 1 + 0.53 * np.sin(angle))
        assert color_at(image, *inside) == GREEN
        assert color_at(image, *outside) == (0, 0, 0)


def test_lines_have_their_width():
    """A line of no width has one pixel."""
    image = draw(Line(0, 1, 4, 1, "#0000ff", width=0.25))
    assert (image[:, 240] == BLUE).all(axis=1).sum() == pytest.approx(30, abs=1)
    assert (draw(Line(0, 1, 4, 1, "#0000ff"))[:, 240] > 0).any(axis=1).sum() in (1, 2)


def test_later_shapes_cover_earlier_ones():
    """Shapes are drawn in their order, and cut off at the edges."""
    image = draw(Box(0, 0, 9, 9, "#ff0000"), Circle(4, 2, 1, "#0000ff"))
    assert color_at(image, 0.1, 0.1) == RED
    assert color_at(image, 3.9, 1.9) == BLUE


def test_labels_and_captions_are_drawn():
    """A label has its colour near its place; a caption makes the image higher."""
    image = draw(Label(2, 1, "goal", 0.5, "#00ff00"))
    rows, columns, _ = np.nonzero(image)
    assert 200 < columns.mean() < 280
    assert 100 < rows.mean() < 140
    assert image[:, :, 1].any()
    assert not image[:, :, 0].any()
    assert draw(caption="one").shape[0] < draw(caption="one\ntwo").shape[0]
    assert len(np.unique(draw(caption="one")[:25])) > 2


def test_sprites_are_pictures_by_name(tmp_path):
    """A picture is scaled and rotated clockwise; its transparent parts show what is behind."""
    picture = np.zeros((10, 20, 4), np.uint8)
    picture[:, :10] = (255, 0, 0, 255)
    picture[:5, 10:] = (0, 0, 255, 255)
    Image.fromarray(picture).save(tmp_path / "cat.png")
    image = draw(Sprite("cat", 1, 1, 2, 1), drawing=Drawing(sprites=tmp_path))
    assert [color_at(image, x, y) for x, y in ((0.5, 1), (1.5, 0.75), (1.5, 1.25))] == [RED, BLUE, (0, 0, 0)]
    image = draw(Sprite("cat", 1, 1, 2, 1, angle=90), drawing=Drawing(sprites=tmp_path))
    assert [color_at(image, x, y) for x, y in ((1, 0.5), (1.25, 1.5), (0.75, 1.5))] == [RED, BLUE, (0, 0, 0)]


@pytest.mark.parametrize("name", ["dog", "../cat"])
def test_sprites_without_a_picture_are_boxes_with_names(tmp_path, name):
    """Names are no paths."""
    (tmp_path / "inner").mkdir()
    Image.new("RGBA", (4, 4), (255, 0, 0, 255)).save(tmp_path / "cat.png")
    image = draw(Sprite(name, 1, 1, 2, 1, color="#0000ff"), drawing=Drawing(sprites=tmp_path / "inner"))
    assert color_at(image, 0.05, 0.55) == BLUE
    assert (image == 255).all(axis=2).any()


def test_images_are_scaled_sharply():
    """Every pixel of a larger image has a colour of the original."""
    image = np.array([[RED, GREEN], [BLUE, RED]], np.uint8)
    assert Drawing()(image) is image
    assert Drawing(scale=2)(image).tolist() == image.repeat(2, axis=0).repeat(2, axis=1).tolist()
    assert Drawing(scale=0.5)(image).shape == (1, 1, 3)


def test_text_is_drawn_in_its_colours():
    """Every character has a cell; block characters fill theirs."""
    image = Drawing(scale=2)("ab\n\x1b[38;2;255;0;0m█\x1b[0m \x1b[38;2;0;0;255m▄\x1b[0m")
    red, blue = ((image == color).all(axis=2).nonzero() for color in (RED, BLUE))
    assert red[1].max() < blue[1].min()
    assert len(blue[0]) == pytest.approx(len(red[0]) / 2, rel=0.1)
    assert red[0].min() > image.shape[0] / 3
    assert "\x1b" not in "".join(map(str, image.shape))


def test_blocks_are_two_pixels():
    """The upper pixel is the foreground, the lower one the background; equal neighbours share an escape sequence."""
    image = np.array([[RED, RED], [GREEN, GREEN], [BLUE, RED], [RED, RED]], np.uint8)
    first, second = as_blocks(image, columns=10, rows=10).splitlines()
    assert first == "\x1b[38;2;255;0;0;48;2;0;255;0m▀▀\x1b[0m"
    assert second == "\x1b[38;2;0;0;255;48;2;255;0;0m▀\x1b[38;2;255;0;0;48;2;255;0;0m▀\x1b[0m"


@pytest.mark.parametrize(("shape", "expected"), [((300, 400), (30, 80)), ((400, 100), (40, 20)), ((3, 5), (2, 5))])
def test_blocks_fit_the_terminal(shape, expected):
    """Images keep their proportions; small ones are not enlarged."""
    image = np.zeros((*shape, 3), np.uint8)
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in as_blocks(image, columns=80, rows=40).splitlines()]
    assert (len(lines), len(lines[0])) == expected
