"""The stream recorder: draws the matches that cannot be played again, and compresses their frames."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, field

from ludus._replays.frames import MAX_FRAME_BYTES, encode_frame
from ludus._replays.streams import MAX_FRAMES, MAX_TEXT_BYTES
from ludus.environment import Tick
from ludus.rendering import Frame, Scene

_GOAL_BYTES = 4 * 2**20  # compressed, after which no frame is added; the last one may exceed it
_LEVEL = 6
_log = logging.getLogger("ludus.replays")


@define(eq=False)
class _FrameWriter:
    """Compresses the frames of one match while it is played.

    Args:
        goal_bytes: Size of the compressed frames after which no more are added.

    Attributes:
        next_tick: Number of the next tick.
        is_full: No more frames are added.
    """

    goal_bytes: int
    next_tick: int = field(init=False, default=0)
    _clock: int = field(init=False, default=0)  # ticks of the game
    _packer: Any = field(init=False, factory=lambda: zlib.compressobj(_LEVEL))
    _parts: list[bytes] = field(init=False, factory=list)
    _packed_bytes: int = field(init=False, default=0)
    _pending_bytes: int = field(init=False, default=0)  # added since the packer returned something
    _text_bytes: int = field(init=False, default=0)
    _num_lines: int = field(init=False, default=0)
    _last: str = field(init=False, default="")  # JSON form of the last frame
    is_full: bool = field(init=False, default=False)

    def add(self, frame: str | Scene | None, elapsed: int) -> None:
        """Add the frame of the next tick, unless the limits are reached.

        Args:
            frame: The frame; None: the same as before.
            elapsed: Ticks of the game since the last frame.
        """
        self._clock += elapsed
        text = self._last if frame is None else encode_frame(frame)
        line = f"[{self.next_tick},{self._clock},{'null' if text == self._last else text}]\n".encode()
        self.next_tick += 1
        self.is_full = (
            len(line) > MAX_FRAME_BYTES
            or self._text_bytes + len(line) > MAX_TEXT_BYTES
            or self._num_lines == MAX_FRAMES
            or self._exceeds_goal()
        )
        if self.is_full:
            return
        self._last = text
        self._num_lines += 1
        self._text_bytes += len(line)
        self._pending_bytes += len(line)
        self._keep(self._packer.compress(line))

    def _exceeds_goal(self) -> bool:
        if self._packed_bytes + self._pending_bytes > self.goal_bytes:
            self._keep(self._packer.flush(zlib.Z_SYNC_FLUSH))
            self._pending_bytes = 0
        return self._packed_bytes > self.goal_bytes

    def _keep(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._packed_bytes += len(part)
            self._pending_bytes = 0

    def finish(self) -> bytes:
        """Return the compressed frames; empty if the match has none."""
        return b"".join([*self._parts, self._packer.flush()]) if self._last else b""


@define(eq=False)
class StreamRecorder:
    """Draws and compresses the frames of the running matches of one environment.

    Args:
        draw: Returns the current frame of the match at a match index.
        max_bytes: Size of all replays together, of which a match gets a small part.
    """

    draw: Callable[[int], Frame | None]
    max_bytes: int
    _writers: dict[int, _FrameWriter] = field(init=False, factory=dict)  # by match index
    _draws: bool = field(init=False, default=True)

    def start_matches(self, indices: np.ndarray) -> None:
        """Start matches at these match indices; the frames of matches that did not end are dropped."""
        goal_bytes = min(_GOAL_BYTES, self.max_bytes // 32)
        for index in indices.tolist():
            self._writers[index] = _FrameWriter(goal_bytes)

    def add_tick(self, tick: Tick) -> None:
        """Add the frames of running matches, before the environment is stepped."""
        for index in self._writers:
            self._add_frame(index, tick)

    def _add_frame(self, index: int, tick: Tick, *, is_last: bool = False) -> None:
        """Add a frame, unless the match did not advance on this tick."""
        writer = self._writers[index]
        if writer.is_full:
            return
        elapsed = 1 if tick.elapsed_ticks is None else int(tick.elapsed_ticks[index])
        if not writer.next_tick:
            writer.add(self._draw(index), 0)
        elif elapsed or is_last:
            writer.add(self._draw(index), elapsed)
        else:
            writer.next_tick += 1

    def _draw(self, index: int) -> str | Scene | None:
        """Return a frame; None after a failure, or if the environment draws images."""
        if not self._draws:
            return None
        try:
            frame = self.draw(index)
        except Exception as error:  # noqa: BLE001 - matches go on without frames
            self._stop(f"frames cannot be drawn ({type(error).__name__}: {error})")
            return None
        if isinstance(frame, np.ndarray):
            self._stop("images are not recorded")
            return None
        return frame

    def _stop(self, reason: str) -> None:
        self._draws = False
        for writer in self._writers.values():
            writer.is_full = True
        _log.warning("%s; replays have no more frames", reason)

    def end_matches(self, indices: np.ndarray, tick: Tick) -> list[bytes]:
        """Return the compressed frames of matches that end on this tick; its frame is the last one."""
        for index in indices.tolist():
            self._add_frame(index, tick, is_last=True)
        return [self._writers.pop(index).finish() for index in indices.tolist()]
