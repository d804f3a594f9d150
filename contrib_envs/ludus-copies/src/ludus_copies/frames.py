"""Frames of games of other libraries, and frames as bytes; see `ludus.rendering`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from ludus.errors import ContractError
from ludus.rendering import Frame, Scene, check_frame, is_rendering_enabled, scene_from_json, scene_to_json

#: Render modes of PettingZoo and Gymnasium that return a frame, the best first.
RENDER_MODES = ("rgb_array", "ansi")


def make_with_rendering(make: Callable[[Mapping[str, Any]], Any], options: Mapping[str, Any]) -> Any:
    """Make an environment of PettingZoo or Gymnasium, with a render mode that returns frames if rendering is enabled.

    The mode is set only then, because some games draw every step in it.

    Args:
        make: Makes the environment of keyword arguments.
        options: Keyword arguments; a `render_mode` among them is kept.
    """
    env = make(options)
    if not is_rendering_enabled() or "render_mode" in options:
        return env
    modes = (getattr(env, "metadata", None) or {}).get("render_modes") or ()
    mode = next((mode for mode in RENDER_MODES if mode in modes), None)
    if mode is None:
        return env
    env.close()
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame would open a window
    try:
        return make({**options, "render_mode": mode})
    except TypeError:  # a factory without this argument
        return make(options)


def read_frame(env: Any, *, game: str) -> Frame | None:
    """Return the frame that an environment of PettingZoo or Gymnasium renders; None if it has no render mode for it.

    Args:
        env: The environment.
        game: Name of the game, for errors.

    Raises:
        ContractError: Rendering failed, or returned something else.
    """
    if getattr(env, "render_mode", None) not in RENDER_MODES:
        return None
    try:
        frame: Frame | None = _plain_frame(env.render())
    except Exception as error:  # libraries raise errors of any kind
        raise ContractError(f"game {game!r} cannot be drawn: {type(error).__name__}: {error}") from error
    if frame is not None and (problem := check_frame(frame)):
        raise ContractError(f"game {game!r}: render returned {problem}")
    return frame


def _plain_frame(frame: Any) -> Any:
    """Return a frame with three channels; frames with one or four channels are converted, other values are returned."""
    if not isinstance(frame, np.ndarray) or frame.dtype != np.uint8:
        return frame
    if frame.ndim == 2:
        frame = frame[:, :, None]
    if frame.ndim == 3 and frame.shape[2] in (1, 4):
        frame = np.repeat(frame, 3, axis=2) if frame.shape[2] == 1 else frame[:, :, :3]
    return np.array(frame)  # a copy: some games return a view of their screen


def frame_to_bytes(frame: Frame | None) -> bytes:
    """Return a frame as bytes: a JSON header of 4 bytes length (big endian), then the pixels of an image."""
    header: dict[str, Any] = {"text": frame}
    pixels = b""
    if isinstance(frame, np.ndarray):
        header, pixels = {"shape": frame.shape}, frame.tobytes()
    elif isinstance(frame, Scene):
        header = {"scene": scene_to_json(frame)}
    text = json.dumps(header).encode()
    return len(text).to_bytes(4, "big") + text + pixels


def frame_from_bytes(read: Callable[[int], bytes]) -> Frame | None:
    """Return the frame of bytes that `read` returns by their number, see `frame_to_bytes`."""
    header = json.loads(read(int.from_bytes(read(4), "big")))
    if "shape" in header:
        shape = header["shape"]
        return np.frombuffer(read(int(np.prod(shape))), np.uint8).reshape(shape).copy()
    return scene_from_json(header["scene"]) if "scene" in header else header["text"]
