"""Frames of matches as JSON values, which the viewer in the browser draws."""

from __future__ import annotations

import base64
import re
from typing import Any

import numpy as np
from ludus.environment import Environment
from ludus.errors import ContractError
from ludus.rendering import Frame, Scene, draw_match, scene_to_json

__all__ = ["frame_json", "frame_values", "plain_text"]

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def frame_json(environment: Environment) -> dict[str, Any]:
    """Return the present frame of the only match: a scene, an image or a text.

    Raises:
        ContractError: The environment cannot be drawn.
    """
    frame = draw_match(environment, 0)
    if frame is None:
        raise ContractError(f"environment {environment.spec.name!r} cannot be drawn: it has no frames and no text")
    return frame_values(frame)


def frame_values(frame: Frame) -> dict[str, Any]:
    """Return a frame as JSON values."""
    if isinstance(frame, Scene):
        return {"kind": "scene", **scene_to_json(frame)}
    if isinstance(frame, np.ndarray):
        height, width, _ = frame.shape
        data = base64.b64encode(np.ascontiguousarray(frame).tobytes()).decode()
        return {"kind": "image", "width": width, "height": height, "data": data}
    return {"kind": "text", "text": plain_text(frame)}


def plain_text(text: str) -> str:
    """Return a text without ANSI colors."""
    return _ANSI.sub("", text)
