"""Show the frames of a replay: play, pause, step and jump by keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from attrs import define, field
from ludus.errors import ConfigError

from ludus_terminal.replay_frames import ReplayFrames
from ludus_terminal.screens import Screen, WindowClosed

__all__ = ["ReplayControls", "play_frames"]

_JUMP = 10  # ticks


@define
class ReplayControls:
    """The position in a match, and what keys do.

    Args:
        last: Number of the last tick.
        position: Number of the tick that is shown.
        paused: Whether only keys change the position.

    Attributes:
        ended: Whether the user or the end of the match ends the display.
    """

    last: int
    position: int = 0
    paused: bool = False
    ended: bool = field(init=False, default=False)
    _used: bool = field(init=False, default=False)  # whether a key was pressed

    def press(self, key: str) -> None:
        """Handle a key; unknown keys do nothing. Any key keeps the display open at the end of the match."""
        self._used = True
        if key in ("q", "\x1b"):
            self.ended = True
        elif key == " ":
            self.paused = not self.paused
        elif key in _MOVES:
            self.paused = True
            self.position = min(max(_MOVES[key](self), 0), self.last)

    def wait(self) -> None:
        """Go on to the next tick, as time has passed."""
        if self.position < self.last:
            self.position += 1
        elif self._used:
            self.paused = True
        else:
            self.ended = True


_MOVES: Mapping[str, Callable[[ReplayControls], int]] = {
    "n": lambda controls: controls.position + 1,
    "right": lambda controls: controls.position + 1,
    "p": lambda controls: controls.position - 1,
    "left": lambda controls: controls.position - 1,
    "N": lambda controls: controls.position + _JUMP,
    "P": lambda controls: controls.position - _JUMP,
    "0": lambda _: 0,
    "$": lambda controls: controls.last,
}


def play_frames(frames: ReplayFrames, screen: Screen, *, frame_s: float, first: int, paused: bool) -> None:
    """Show frames until the match or the user ends the display.

    Args:
        frames: The frames.
        screen: Shows them.
        frame_s: Seconds between ticks.
        first: First tick to show.
        paused: Whether to start paused.

    Raises:
        ConfigError: There is neither a terminal nor a window to read keys from, but the match is to start paused.
    """
    if paused and not screen.has_keys:
        raise ConfigError("--step: there is no terminal and no window to read keys from")
    controls = ReplayControls(len(frames) - 1, first, paused)
    shown = -1
    with suppress(WindowClosed):
        while not controls.ended:
            if controls.position != shown:
                shown = controls.position
                screen.show(frames.shown(shown))
            key = screen.read_key(None if controls.paused else frame_s)
            if key:
                controls.press(key)
            else:
                controls.wait()
