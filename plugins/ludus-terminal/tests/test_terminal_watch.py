"""``ludus watch``: views, recordings and their speed."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from ludus.__main__ import main
from ludus.rendering import Circle, Scene, is_rendering_enabled
from ludus_dummy import count
from ludus_dummy.count import Count
from ludus_terminal import screens, watch as watch_module
from ludus_terminal.recording import open_recorder
from PIL import Image

BOTS = ("watch", "--env", "dummy-count", "dummy-perfect", "dummy-perfect", "--seed", "1")
SHORT = (*BOTS, "--set", "dummy-count.target=4")


@pytest.fixture(autouse=True)
def _only_dummy(monkeypatch):
    """Load only the plugins that the tests need; there is no display."""
    monkeypatch.setenv("LUDUS_ALLOW_PLUGINS", "dummy,ratings,terminal")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def waits(monkeypatch):
    """Return the seconds that the command waited for."""
    found = []
    monkeypatch.setattr(watch_module.time, "sleep", found.append)
    return found


@pytest.fixture
def ludus(capsys, waits):
    """Run a command and return its status and everything it printed."""

    def run(*arguments):
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


class Terminal(io.StringIO):
    """A terminal that keeps what is printed."""

    def isatty(self):
        return True


class Silent(Count):
    """Draws nothing: the methods of `Playable` are removed."""

    render = action_name = parse_action = None


class Picture(Silent):
    """Draws the count as brightness."""

    def render_frame(self, match):
        return np.full((6, 8, 3), 20 * self._count[match], np.uint8)


class Moving(Count):
    """Draws the count as the place of a circle."""

    def render_frame(self, match):
        return Scene(width=8, height=2, shapes=[Circle(self._count[match], 1, 0.5, "#ff0000")])


@pytest.fixture
def _image(monkeypatch):
    """Make the game one that draws images and has no text."""
    monkeypatch.setattr(count, "Count", Picture)


def frames(path):
    """Return the frames of a GIF ``[n, H, W, 3]`` and their durations in ms."""
    images, durations = [], []
    with Image.open(path) as gif:
        for index in range(gif.n_frames):
            gif.seek(index)
            images.append(np.asarray(gif.convert("RGB")))
            durations.append(gif.info["duration"])
    return np.stack(images), durations


@pytest.mark.usefixtures("_image")
def test_recordings_hold_every_tick(ludus, tmp_path, waits):
    """Each frame is that of its tick; the last one stays; nothing is waited for."""
    status, out = ludus(*SHORT, "--record", str(tmp_path / "a.gif"), "--fps", "5")
    assert (status, "a.gif: 0.00 MB" in out) == (0, True)
    images, durations = frames(tmp_path / "a.gif")
    brightness = images.max(axis=(1, 2, 3))
    assert images.shape[1:] == (6, 8, 3)
    assert brightness[-1] == 80  # the count of the end
    assert (np.diff(brightness.astype(int)) > 0).all()
    assert set(durations[:-1]) <= {200}
    assert durations[-1] == 200 + 1000
    assert set(waits) == {0.0}


@pytest.mark.usefixtures("_image")
def test_recordings_hold_all_matches(ludus, tmp_path):
    """One after another in one file, scaled."""
    ludus(*SHORT, "--matches", "3", "--record", str(tmp_path / "a.gif"), "--scale", "2")
    images, durations = frames(tmp_path / "a.gif")
    assert images.shape[1:] == (12, 16, 3)
    assert sum(duration > 1000 for duration in durations) == 3


def test_text_is_recorded(ludus, tmp_path):
    """A game without images is recorded as text."""
    ludus(*SHORT, "--record", str(tmp_path / "a.gif"))
    images, durations = frames(tmp_path / "a.gif")
    assert len(np.unique(images.reshape(len(images), -1), axis=0)) == len(images) > 1
    assert durations[0] == 500  # turn-based


def test_scenes_are_recorded(ludus, tmp_path, monkeypatch):
    """A scene moves its circle."""
    monkeypatch.setattr(count, "Count", Moving)
    ludus(*SHORT, "--record", str(tmp_path / "a.gif"))
    images, _ = frames(tmp_path / "a.gif")
    where = [np.nonzero(image[:, :, 0] > 200)[1].mean() for image in images]
    assert where[-1] == pytest.approx(4 * 60, abs=1)
    assert (np.diff(where) > 20).all()


@pytest.mark.usefixtures("_image")
def test_fast_matches_are_recorded_with_fewer_frames(ludus, tmp_path):
    """GIFs have at most 50 frames per second: of 200 ticks per second every fourth is kept."""
    arguments = (*BOTS, "--set", "dummy-count.target=12", "--set", "dummy-count.most=1")
    ludus(*arguments, "--record", str(tmp_path / "all.gif"), "--fps", "50")
    ludus(*arguments, "--record", str(tmp_path / "some.gif"), "--fps", "200")
    every, some = (frames(tmp_path / f"{name}.gif")[0].max(axis=(1, 2, 3)).tolist() for name in ("all", "some"))
    rest = [every[-1]] if len(every) % 4 != 1 else []
    assert some == [*every[::4], *rest]


def test_videos_are_recorded(tmp_path):
    """Odd sizes are padded; the last frame stays for a second."""
    av = pytest.importorskip("av")
    recorder = open_recorder(tmp_path / "a.mp4", frame_s=0.1)
    for number in range(5):
        recorder.add(np.full((31, 33, 3), 50 * number, np.uint8))
    recorder.end_match()
    recorder.close()
    with av.open(str(tmp_path / "a.mp4")) as video:
        stream = video.streams.video[0]
        images = [frame.to_ndarray(format="rgb24") for frame in video.decode(stream)]
        assert stream.average_rate == 10
    assert len(images) == 15
    assert images[0].shape == (32, 34, 3)
    assert [image[:30, :30].mean() for image in images[:5]] == pytest.approx([0, 50, 100, 150, 200], abs=6)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--record", "a.avi"), "--record: expected a file NAME.gif or NAME.mp4, got a.avi"),
        (("--record", "nowhere/a.gif"), "--record: there is no folder"),
        (("--fps", "5", "--delay", "1"), "--delay and --fps: give one of them"),
        (("--view", "window"), "--view window: "),
    ],
)
def test_wrong_options_are_one_line(ludus, arguments, expected):
    """No traceback, no match."""
    status, out = ludus(*SHORT, *arguments)
    assert status != 0
    assert expected in out
    assert len(out.strip().splitlines()) == 1


@pytest.mark.parametrize(("module", "file"), [("PIL", "a.gif"), ("av", "a.mp4")])
def test_missing_libraries_are_one_line(ludus, monkeypatch, tmp_path, module, file):
    """The message holds the command that installs them."""
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    status, out = ludus(*SHORT, "--record", str(tmp_path / file))
    assert status != 0
    assert "pip install 'ludus-terminal[" in out
    assert "Traceback" not in out


@pytest.mark.usefixtures("_image")
def test_images_are_shown_in_the_terminal(monkeypatch):
    """As coloured characters, if there is no display."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main([*SHORT, "--delay", "0"]) == 0
    assert "\x1b[38;2;80;80;80;48;2;80;80;80m▀▀▀▀▀▀▀▀\x1b[0m" in terminal.getvalue()


@pytest.mark.usefixtures("_image")
def test_images_need_a_place_to_be_shown(ludus):
    """A pipe gets none, unless it is asked for."""
    _, out = ludus(*SHORT)
    assert "there is no display and no terminal to show images; record them with --record FILE.gif" in out
    _, out = ludus(*SHORT, "--view", "text")
    assert "'dummy-count' draws images; choose window, image or none" in out
    status, out = ludus(*SHORT, "--view", "none")
    assert (status, "▀" in out) == (0, False)
    assert "▀" in ludus(*SHORT, "--view", "image")[1]


class Window:
    """Stands for the window of a display: keeps frames, and is closed after some."""

    def __init__(self, name, drawing):
        self.drawing, self.shown = drawing, []
        WINDOWS.append(self)

    def show(self, frame):
        self.shown.append(self.drawing(frame))
        if len(self.shown) == 2:
            raise screens.WindowClosed

    def close(self):
        self.shown.append("closed")


WINDOWS: list[Window] = []


@pytest.mark.usefixtures("_image")
def test_closing_the_window_ends_the_command(ludus, monkeypatch):
    """With a display, images are shown in a window."""
    monkeypatch.setattr(screens, "_open_window", Window)
    monkeypatch.setenv("DISPLAY", ":0")
    WINDOWS.clear()
    status, out = ludus(*SHORT)
    assert (status, "match 1" in out) == (0, False)
    (window,) = WINDOWS
    assert [type(shown).__name__ for shown in window.shown] == ["ndarray", "ndarray", "str"]


def test_an_environment_without_frames_and_text_is_refused(ludus, monkeypatch):
    """The message names what is missing."""
    monkeypatch.setattr(count, "Count", Silent)
    status, out = ludus(*SHORT)
    assert status != 0
    assert "environment 'dummy-count' cannot be watched: it has no frames (render_frame) and no text (render)" in out


def test_environments_are_made_to_be_drawn(ludus, monkeypatch):
    """Rendering is enabled while the environment is made, and not afterwards."""
    seen = []
    monkeypatch.setattr(Count, "__init__", _noting(Count.__init__, seen))
    ludus(*SHORT)
    assert seen[0] is True
    assert not is_rendering_enabled()


def _noting(make, seen):
    def noted(self, *arguments, **options):
        seen.append(is_rendering_enabled())
        make(self, *arguments, **options)

    return noted


@pytest.mark.parametrize(
    ("arguments", "expected"), [((), 0.5), (("--delay", "0.2"), 0.2), (("--fps", "4"), 0.25), (("--view", "none"), 0.0)]
)
def test_the_speed_is_that_of_the_game_or_an_option(ludus, waits, arguments, expected):
    """Turn-based games wait for half a second."""
    ludus(*SHORT, *arguments)
    assert set(waits) == {expected}
