"""The JSON form of recorded frames, which readers check: a file may be of another person."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import attrs

from ludus.errors import ContractError
from ludus.rendering import Frame, Label, Scene, Shape, Sprite, scene_from_json, scene_to_json

MAX_FRAME_BYTES = 2**20  #: Size of the JSON form.

_MAX_LINES = _MAX_COLUMNS = 1000  # of a text
_MAX_NUMBER, _MAX_PICTURE = 1000.0, 4.0  # positions and sizes, and those of letters and sprites; in sides of the scene
_COLOR = r"\x1b\[[0-9;]*m"
_COLORS = re.compile(_COLOR)
_CONTROLS = re.compile(_COLOR + r"|\n|([\x00-\x1f\x7f-\x9f])")


def encode_frame(frame: str | Scene) -> str:
    """Return the JSON form of a text or a scene."""
    values = scene_to_json(frame) if isinstance(frame, Scene) else frame
    return json.dumps(values, separators=(",", ":"))


def decode_frame(values: Any) -> Frame:
    """Return the frame of parsed JSON, without control characters that a terminal would execute.

    Raises:
        ContractError: It is neither a text nor a scene, or too large to be drawn.
    """
    if isinstance(values, str):
        return _clean(values)
    if not isinstance(values, dict):
        raise ContractError("a frame is neither a text nor a scene")
    scene = scene_from_json(values)
    side = max(scene.width, scene.height)
    if not math.isfinite(side):
        raise ContractError("a scene has no finite size")
    shapes = tuple(_checked_shape(shape, side) for shape in scene.shapes)
    return attrs.evolve(scene, caption=_clean(scene.caption), shapes=shapes)


def _checked_shape(shape: Shape, side: float) -> Shape:
    """Return a shape, without control characters, of a scene whose longer side is `side`."""
    numbers = {name: value for name, value in attrs.asdict(shape).items() if isinstance(value, float)}
    is_fine = math.isfinite(numbers.pop("angle", 0.0))
    is_picture = isinstance(shape, Label | Sprite)
    for name, value in numbers.items():
        is_size = is_picture and name in ("size", "width", "height")
        is_fine &= abs(value) <= (_MAX_PICTURE if is_size else _MAX_NUMBER) * side
    if not is_fine:
        raise ContractError("a shape is too large for its scene")
    return attrs.evolve(shape, text=_clean(shape.text)) if isinstance(shape, Label) else shape


def _clean(text: str) -> str:
    """Return a text without control characters, except for colours and ends of lines."""
    lines = _COLORS.sub("", text).split("\n")
    if len(lines) > _MAX_LINES or max(map(len, lines)) > _MAX_COLUMNS:
        raise ContractError(f"a text is larger than {_MAX_LINES} lines of {_MAX_COLUMNS} characters")
    return _CONTROLS.sub(lambda found: "" if found[1] else found[0], text)
