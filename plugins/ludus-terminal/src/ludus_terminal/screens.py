"""Show frames of matches while they are played: as text, as an image in the terminal, or in a window."""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from typing import Any, Protocol

import click
import numpy as np
from attrs import define, field
from ludus.environment import Environment, Playable
from ludus.errors import ConfigError
from ludus.rendering import Frame

from ludus_terminal.drawing import Drawing, as_blocks, load_pillow
from ludus_terminal.keys import has_terminal, read_terminal_key

__all__ = ["SCREENS", "Screen", "WindowClosed", "open_screen"]

SCREENS = ("auto", "text", "image", "window", "none")
_RESERVED_ROWS = 2  # lines of the terminal below an image
_POLL_S = 0.01  # between two looks at the events of a window
_WINDOW_KEYS = {"Left": "left", "Right": "right"}


class WindowClosed(Exception):  # noqa: N818 - not an error
    """The user closed the window."""


class Screen(Protocol):
    """Shows frames."""

    def show(self, frame: Frame) -> None:
        """Show a frame.

        Raises:
            WindowClosed: The user closed the window.
        """

    @property
    def has_keys(self) -> bool:
        """Return whether a user can press keys."""

    def read_key(self, timeout_s: float | None) -> str:
        """Wait for a key and return it, ``"left"`` and ``"right"`` for the arrows; empty after the timeout.

        Args:
            timeout_s: Seconds to wait; None: without a limit.

        Raises:
            WindowClosed: The user closed the window.
        """

    def close(self) -> None:
        """Close the window."""


def open_screen(
    kind: str, name: str, frame: Frame, *, drawing: Drawing, environment: Environment | None = None
) -> Screen:
    """Return a screen for the frames of an environment.

    Args:
        kind: One of `SCREENS`. ``"auto"``: text if the environment has some, else a window if there is a display, else
            the terminal.
        name: Name of the environment.
        frame: A frame of it.
        drawing: Draws frames as images.
        environment: The environment, whose text is shown if it has some; None for frames that were recorded.

    Raises:
        ConfigError: The kind does not suit the environment or this computer, or Pillow is not installed.
    """
    has_text = isinstance(frame, str) or isinstance(environment, Playable)
    if kind == "text" and not has_text:
        raise ConfigError(f"--view text: {name!r} draws images; choose window, image or none")
    if kind == "none":
        return _NoScreen()
    if has_text and kind in ("auto", "text"):
        return _TextScreen(environment)
    load_pillow()
    if kind == "window" or (kind == "auto" and _has_display()):
        return _open_window(name, drawing)
    if kind == "auto" and not sys.stdout.isatty():
        raise ConfigError("there is no display and no terminal to show images; record them with --record FILE.gif")
    return _ImageScreen(drawing)


class _NoScreen:
    """Shows nothing."""

    def show(self, frame: Frame) -> None:
        """Do nothing."""

    @property
    def has_keys(self) -> bool:
        """Return whether there is a terminal."""
        return has_terminal()

    def read_key(self, timeout_s: float | None) -> str:
        """Return the next key that is typed in the terminal; wait for the timeout if there is no terminal."""
        return read_terminal_key(timeout_s)

    def close(self) -> None:
        """Do nothing."""


def _print(text: str) -> None:
    if sys.stdout.isatty():
        click.clear()
    click.echo(text + "\n")


@define
class _TextScreen(_NoScreen):
    """Prints text.

    Args:
        environment: Its text is printed where a frame is no text.
    """

    environment: Environment | None

    def show(self, frame: Frame) -> None:
        """Print the text of the match."""
        if isinstance(frame, str) or self.environment is None or not isinstance(self.environment, Playable):
            _print(str(frame))
        else:
            _print(self.environment.render(0))


@define
class _ImageScreen(_NoScreen):
    """Prints images as coloured half blocks, scaled to the terminal.

    Args:
        drawing: Draws frames as images.
    """

    drawing: Drawing

    def show(self, frame: Frame) -> None:
        """Print the image of the match."""
        size = shutil.get_terminal_size()
        rows = max(size.lines - _RESERVED_ROWS, 1)
        _print(as_blocks(self.drawing(frame), columns=size.columns, rows=rows))


def _has_display() -> bool:
    return sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open_window(title: str, drawing: Drawing) -> Screen:
    try:
        import tkinter as tk  # noqa: PLC0415 - Python may have been built without it
    except ImportError as error:
        raise ConfigError(
            "--view window needs tkinter, which this Python lacks; install it (Debian: python3-tk), or choose image"
        ) from error
    try:
        return _WindowScreen(drawing, tk.Tk(), title)
    except tk.TclError as error:
        raise ConfigError(f"--view window: {error}; choose --view image, or --record FILE.gif") from error


@define
class _WindowScreen:
    """A window of tkinter.

    Args:
        drawing: Draws frames as images.
        root: The window.
        title: Its title.
    """

    drawing: Drawing
    root: Any
    title: str
    _label: Any = field(default=None, init=False)
    _photo: Any = field(default=None, init=False)  # tkinter keeps no reference
    _is_closed: bool = field(default=False, init=False)
    _keys: list[str] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        import tkinter as tk  # noqa: PLC0415 - see `_open_window`

        self.root.title(f"ludus: {self.title}")
        self.root.protocol("WM_DELETE_WINDOW", self._mark_closed)
        self.root.bind("<Key>", lambda event: self._keys.append(_WINDOW_KEYS.get(event.keysym, event.char)))
        self._label = tk.Label(self.root, borderwidth=0)
        self._label.pack()

    def _mark_closed(self) -> None:
        self._is_closed = True

    def show(self, frame: Frame) -> None:
        """Show a frame and handle the events of the window."""
        import tkinter as tk  # noqa: PLC0415 - see `_open_window`

        self._photo = tk.PhotoImage(master=self.root, data=_as_ppm(self.drawing(frame)), format="PPM")
        self._label.configure(image=self._photo)
        self.root.update()
        if self._is_closed:
            raise WindowClosed

    @property
    def has_keys(self) -> bool:
        """Return True."""
        return True

    def read_key(self, timeout_s: float | None) -> str:
        """Return the next key that is pressed in the window."""
        end_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self.root.update()
            if self._is_closed:
                raise WindowClosed
            if self._keys:
                return self._keys.pop(0)
            if time.monotonic() >= end_s:
                return ""
            time.sleep(_POLL_S)

    def close(self) -> None:
        """Close the window."""
        self.root.destroy()


def _as_ppm(image: np.ndarray) -> bytes:
    return b"P6 %d %d 255\n" % (image.shape[1], image.shape[0]) + np.ascontiguousarray(image).tobytes()
