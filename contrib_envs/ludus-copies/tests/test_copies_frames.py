"""Frames of the matches of copies, in this process and from worker processes."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import Env
from ludus.errors import ContractError, WorkerError
from ludus.rendering import Circle, Scene, draw_match, enable_rendering
from ludus_copies import Copies, make_with_rendering, read_frame

TOY = """
import numpy as np
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role
from ludus.rendering import Circle, Scene, is_rendering_enabled


class Counter:
    masked_roles = frozenset()
    role = Role(name="player", observation_space=spaces.Discrete(9), action_space=spaces.Discrete(2), teams=(0,))
    spec = EnvironmentSpec(name="counter", roles=(role,), turn="simultaneous")

    def __init__(self, kind):
        self.kind, self.enabled = kind, is_rendering_enabled()

    def bind(self, arrays):
        self.player = arrays.tick.roles["player"]

    def reset(self, seed, scenario):
        self.count = seed
        self.player.acting[:] = True

    def step(self):
        self.count += 1
        self.player.acting[:] = True

    def render_frame(self):
        if self.kind == "error":
            raise OSError("no screen")
        if self.kind == "image":
            return np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) + np.uint8(self.count)
        if self.kind == "scene":
            return Scene(width=4, height=2, shapes=[Circle(self.count, 1, 1)], caption="é")
        return f"{self.count} {self.enabled}" if self.kind == "text" else None

    def close(self):
        pass
"""


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Return a function that returns the frames of three matches after one tick."""
    (tmp_path / "toy_counter.py").write_text(TOY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def draw(kind, workers):
        env = Copies("toy_counter:Counter", {"kind": kind}, num_matches=3, workers=workers)
        made.append(env)
        env.reset(np.array([3, 5, 7], np.uint64))
        env.step({"player": np.zeros((3, 1, 1), np.int64)})
        return [draw_match(env, match) for match in range(3)]

    yield draw
    for env in made:
        env.close()


WORKERS = pytest.mark.parametrize("workers", [0, 2])


@WORKERS
def test_images_are_those_of_their_matches(play, workers):
    """Every match returns its own pixels."""
    for start, frame in zip((3, 5, 7), play("image", workers), strict=True):
        assert frame.dtype == np.uint8
        assert frame.tolist() == (np.arange(18).reshape(2, 3, 3) + start + 1).tolist()
        frame[:] = 0  # it belongs to the caller


@WORKERS
def test_scenes_are_those_of_their_matches(play, workers):
    """Every match returns its own shapes."""
    expected = [Scene(width=4, height=2, shapes=[Circle(x, 1, 1)], caption="é") for x in (4, 6, 8)]
    assert play("scene", workers) == expected


@WORKERS
def test_games_learn_whether_rendering_is_enabled(play, workers):
    """Also in worker processes."""
    assert play("text", workers) == ["4 False", "6 False", "8 False"]
    with enable_rendering():
        assert play("text", workers) == ["4 True", "6 True", "8 True"]


@WORKERS
def test_games_without_frames(play, workers):
    """A game may draw nothing."""
    assert play("nothing", workers) == [None] * 3


@WORKERS
def test_errors_of_games_are_reported(play, workers):
    """The error of a worker names what the game raised."""
    with pytest.raises(WorkerError if workers else OSError, match="no screen"):
        play("error", workers)


class Screen(Env):
    """A game that renders what a test sets."""

    metadata = {"render_modes": ["human", "ansi", "rgb_array"]}  # noqa: RUF012 - Gymnasium's form
    frame = None
    closed = False

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        if isinstance(self.frame, Exception):
            raise self.frame
        return self.frame

    def close(self):
        self.closed = True


class TextScreen(Screen):
    """A game that renders text only."""

    metadata = {"render_modes": ["human", "ansi"]}  # noqa: RUF012


class Window(Screen):
    """A game that renders in windows only."""

    metadata = {"render_modes": ["human"]}  # noqa: RUF012


def no_options():
    """Return a game that takes no render mode."""
    return Screen()


@pytest.mark.parametrize(
    ("make", "options", "mode"),
    [
        (Screen, {}, "rgb_array"),
        (TextScreen, {}, "ansi"),
        (Window, {}, None),
        (no_options, {}, None),
        (Screen, {"render_mode": "ansi"}, "ansi"),
    ],
)
def test_render_modes_are_set_for_watching_only(make, options, mode):
    """Images are preferred to text; a mode that was chosen is kept."""

    def made():
        return make_with_rendering(lambda given: make(**given), options).render_mode

    assert made() == options.get("render_mode")
    with enable_rendering():
        assert made() == mode


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (np.full((2, 2, 3), 7, np.uint8), np.full((2, 2, 3), 7)),
        (np.full((2, 2, 4), 7, np.uint8), np.full((2, 2, 3), 7)),
        (np.full((2, 2, 1), 7, np.uint8), np.full((2, 2, 3), 7)),
        (np.full((2, 2), 7, np.uint8), np.full((2, 2, 3), 7)),
    ],
)
def test_images_of_other_forms_are_converted(frame, expected):
    """Grey images and images with alpha become RGB, as a copy."""
    env = Screen("rgb_array")
    env.frame = frame
    found = read_frame(env, game="toy")
    assert found.tolist() == expected.tolist()
    assert not np.shares_memory(found, frame)


def test_text_is_read_in_its_mode_only():
    """Without a render mode that returns frames, render is not called."""
    env = Screen("ansi")
    env.frame = "x|o"
    assert read_frame(env, game="toy") == "x|o"
    env.render_mode = "human"
    assert read_frame(env, game="toy") is None


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (np.zeros((2, 2, 3)), "game 'toy': render returned an array .* float64; expected"),
        ([1], "game 'toy': render returned list; expected a str"),
        (OSError("no screen"), "game 'toy' cannot be drawn: OSError: no screen"),
    ],
)
def test_malformed_frames_are_refused(frame, expected):
    """The error names the game and what was expected."""
    env = Screen("rgb_array")
    env.frame = frame
    with pytest.raises(ContractError, match=expected):
        read_frame(env, game="toy")
