"""Record frames of matches as GIF (by Pillow) or MP4 (by PyAV)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from attrs import define, field
from ludus.environment import EnvironmentSpec
from ludus.errors import ConfigError
from ludus.replays import StreamedGame

from ludus_terminal.drawing import load_pillow

__all__ = ["Recorder", "frame_seconds", "frames_between", "open_recorder", "write_recording"]

_FASTEST_S = 0.02  # seconds between frames at least: programs show faster GIFs slowly
_HOLD_S = 1.0  # how long the last frame of a match is shown
_TURN_S = 0.5  # seconds between the ticks of a turn-based game
_TICK_S = 0.1  # likewise, of other games whose ticks have no duration


class Recorder(Protocol):
    """A file of frames."""

    def add(self, image: np.ndarray) -> None:
        """Add a frame ``[H, W, 3] uint8``."""

    def end_match(self) -> None:
        """Show the last frame for a second more."""

    def close(self) -> None:
        """Finish the file; nothing is written without a frame."""


def open_recorder(path: Path, *, frame_s: float) -> Recorder:
    """Return a recorder for a file.

    Args:
        path: ``NAME.gif`` or ``NAME.mp4``, in a folder that exists.
        frame_s: Seconds between frames; at least 0.02.

    Raises:
        ConfigError: The file has another suffix, its folder does not exist, or a library is not installed.
    """
    kinds: dict[str, Callable[[Path, float], Recorder]] = {".gif": _GifRecorder, ".mp4": _Mp4Recorder}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise ConfigError(f"--record: expected a file {' or '.join(f'NAME{suffix}' for suffix in kinds)}, got {path}")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"--record: there is no folder {path.absolute().parent}; create it")
    load_pillow()
    return kind(path, max(frame_s, _FASTEST_S))


def frame_seconds(
    spec: EnvironmentSpec | StreamedGame, *, delay: float | None, fps: float | None, ticks: float = 1.0
) -> float:
    """Return the seconds between frames.

    Args:
        spec: Specification of the environment, or the game of a stream.
        delay: Seconds that the user asks for; None: the duration of a tick in the game, or a default.
        fps: Ticks per second that the user asks for, instead of `delay`.
        ticks: Ticks of the game between two frames.

    Raises:
        ConfigError: Both options are given.
    """
    if delay is not None and fps is not None:
        raise ConfigError("--delay and --fps: give one of them")
    if delay is not None:
        return delay
    if fps is not None:
        return 1 / fps
    return _TURN_S if spec.turn == "turn-based" else (spec.tick_s or _TICK_S) * ticks


def frames_between(frame_s: float) -> int:
    """Return of how many frames one is recorded, at `frame_s` seconds between frames."""
    return max(1, math.ceil(_FASTEST_S / frame_s - 1e-9)) if frame_s else 1


def write_recording(path: Path, images: Sequence[np.ndarray], *, frame_s: float) -> None:
    """Write the images ``[H, W, 3] uint8`` of one match into a file; arguments and errors as for `open_recorder`."""
    every = frames_between(frame_s)
    with closing(open_recorder(path, frame_s=frame_s * every)) as recorder:
        for image in images[:-1:every]:
            recorder.add(image)
        recorder.add(images[-1])
        recorder.end_match()


@define
class _GifRecorder:
    """Keeps all frames with 256 colours each until the file is closed.

    Args:
        path: The file.
        frame_s: Seconds between frames.
    """

    path: Path
    frame_s: float
    _images: list[Any] = field(factory=list, init=False)
    _durations_ms: list[int] = field(factory=list, init=False)

    def add(self, image: np.ndarray) -> None:
        """Add a frame."""
        from PIL import Image  # noqa: PLC0415 - optional

        self._images.append(Image.fromarray(image).quantize(256))
        self._durations_ms.append(10 * round(100 * self.frame_s))  # the unit of GIF is 10 ms

    def end_match(self) -> None:
        """Show the last frame for a second more."""
        if self._durations_ms:
            self._durations_ms[-1] += round(1000 * _HOLD_S)

    def close(self) -> None:
        """Write the file; frames of other sizes than the largest get a margin."""
        if not self._images:
            return
        width, height = (max(image.size[axis] for image in self._images) for axis in range(2))
        images = [_on_canvas(image, width, height) for image in self._images]
        images[0].save(self.path, save_all=True, append_images=images[1:], duration=self._durations_ms, loop=0)
        self._images = []


def _on_canvas(image: Any, width: int, height: int) -> Any:
    from PIL import Image  # noqa: PLC0415 - optional

    if image.size == (width, height):
        return image
    canvas = Image.new("RGB", (width, height))
    canvas.paste(image.convert("RGB"), (0, 0))
    return canvas.quantize(256)


@define
class _Mp4Recorder:
    """Encodes frames as H.264 while they are added.

    Args:
        path: The file.
        frame_s: Seconds between frames.
    """

    path: Path
    frame_s: float
    _library: Any = field(init=False)
    _file: Any = field(default=None, init=False)
    _stream: Any = field(default=None, init=False)
    _last: np.ndarray | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        try:
            import av  # noqa: PLC0415 - optional
        except ImportError as error:
            raise ConfigError(
                "--record: MP4 needs PyAV; pip install 'ludus-terminal[video]', or record a GIF"
            ) from error
        self._library = av

    def add(self, image: np.ndarray) -> None:
        """Add a frame; it is cut or padded to the size of the first one, in even numbers of pixels."""
        if self._stream is None:
            self._file = self._library.open(str(self.path), "w")
            self._stream = self._file.add_stream("libx264", rate=Fraction(1 / self.frame_s).limit_denominator(1000))
            self._stream.height, self._stream.width = (side + side % 2 for side in image.shape[:2])
            self._stream.pix_fmt = "yuv420p"
        frame = np.zeros((self._stream.height, self._stream.width, 3), np.uint8)
        height, width = (min(pair) for pair in zip(image.shape[:2], frame.shape[:2], strict=True))
        frame[:height, :width] = image[:height, :width]
        self._encode(self._library.VideoFrame.from_ndarray(frame, format="rgb24"))
        self._last = image

    def _encode(self, frame: Any) -> None:
        for packet in self._stream.encode(frame):
            self._file.mux(packet)

    def end_match(self) -> None:
        """Show the last frame for a second more."""
        for _ in range(round(_HOLD_S / self.frame_s) if self._last is not None else 0):
            assert self._last is not None
            self.add(self._last)

    def close(self) -> None:
        """Finish the file."""
        if self._file is not None:
            self._encode(None)
            self._file.close()
            self._file = None
