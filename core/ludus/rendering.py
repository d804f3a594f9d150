"""How environments draw their matches: as text, as an image, or as a scene of shapes.

An environment that can be watched has the method `Renderable.render_frame`. It returns a *frame*: text (ANSI colours
are allowed), an image ``[H, W, 3] uint8``, or a `Scene`, which one shared viewer draws. A scene holds no pixels, so an
environment needs no graphics library, and has a JSON form for viewers in other programs.

Some libraries can draw only what was made for it, and run more slowly then. Programs that show matches therefore make
environments within `enable_rendering`, and adapters read `is_rendering_enabled` where they make the game::

    with enable_rendering():
        environment = run.make_environment(1)
    frame = draw_match(environment, 0)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias, runtime_checkable

import cattrs
import numpy as np
from attrs import field, frozen
from attrs.validators import gt, matches_re, min_len
from cattrs.strategies import configure_tagged_union

from ludus.environment import Environment, Playable
from ludus.errors import ContractError

__all__ = [
    "Box",
    "Circle",
    "Frame",
    "Label",
    "Line",
    "Renderable",
    "Scene",
    "Shape",
    "Sprite",
    "check_frame",
    "draw_match",
    "enable_rendering",
    "is_rendering_enabled",
    "scene_from_json",
    "scene_to_json",
]


_POSITIVE = gt(0)


def _color(default: str) -> Any:
    return field(default=default, validator=matches_re("#[0-9a-fA-F]{6}"))


@frozen
class Circle:
    """A filled circle.

    Args:
        x: Centre; likewise `y`.
        y: See `x`.
        radius: Above 0.
        color: ``"#rrggbb"``.
    """

    x: float = field(converter=float)
    y: float = field(converter=float)
    radius: float = field(converter=float, validator=_POSITIVE)
    color: str = _color("#ffffff")


@frozen
class Box:
    """A filled rectangle with sides along the axes.

    Args:
        x: Left edge.
        y: Upper edge.
        width: Above 0; likewise `height`.
        height: See `width`.
        color: ``"#rrggbb"``.
    """

    x: float = field(converter=float)
    y: float = field(converter=float)
    width: float = field(converter=float, validator=_POSITIVE)
    height: float = field(converter=float, validator=_POSITIVE)
    color: str = _color("#ffffff")


@frozen
class Line:
    """A straight line.

    Args:
        x1: First end; likewise `y1`.
        y1: See `x1`.
        x2: Other end; likewise `y2`.
        y2: See `x2`.
        color: ``"#rrggbb"``.
        width: Thickness in the units of the scene; 0: one pixel.
    """

    x1: float = field(converter=float)
    y1: float = field(converter=float)
    x2: float = field(converter=float)
    y2: float = field(converter=float)
    color: str = _color("#ffffff")
    width: float = field(default=0.0, converter=float)


@frozen
class Sprite:
    """A picture that the viewer finds by its name; a viewer without it draws a box with the name.

    Args:
        name: Such as ``"cat"``.
        x: Centre; likewise `y`.
        y: See `x`.
        width: Above 0; likewise `height`.
        height: See `width`.
        color: ``"#rrggbb"`` of the box.
        angle: Clockwise rotation of the picture in degrees.
    """

    name: str = field(validator=min_len(1))
    x: float = field(converter=float)
    y: float = field(converter=float)
    width: float = field(converter=float, validator=_POSITIVE)
    height: float = field(converter=float, validator=_POSITIVE)
    color: str = _color("#808080")
    angle: float = field(default=0.0, converter=float)


@frozen
class Label:
    """One line of text.

    Args:
        x: Centre; likewise `y`.
        y: See `x`.
        text: The text.
        size: Height of the letters.
        color: ``"#rrggbb"``.
    """

    x: float = field(converter=float)
    y: float = field(converter=float)
    text: str
    size: float = field(converter=float, validator=_POSITIVE)
    color: str = _color("#ffffff")


Shape: TypeAlias = Circle | Box | Line | Sprite | Label


def _as_tuple(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    return tuple(shapes)


@frozen(kw_only=True)
class Scene:
    """A picture of a match: shapes in a rectangle, drawn in their order.

    The unit is that of the game, such as a cell or a centimetre. The origin is the upper left corner, x points right
    and y points down.

    Args:
        width: Width of the rectangle; likewise `height`.
        height: See `width`.
        shapes: The shapes; parts outside of the rectangle are cut off.
        background: ``"#rrggbb"``.
        caption: Lines of text that viewers show above the picture.
    """

    width: float = field(converter=float, validator=_POSITIVE)
    height: float = field(converter=float, validator=_POSITIVE)
    shapes: tuple[Shape, ...] = field(default=(), converter=_as_tuple)
    background: str = _color("#14181d")
    caption: str = ""


#: What an environment draws: text, an image ``[H, W, 3] uint8``, or a scene.
Frame: TypeAlias = str | np.ndarray | Scene


@runtime_checkable
class Renderable(Protocol):
    """Optional method of an environment that can be watched."""

    def render_frame(self, match: int) -> Frame | None:
        """Return the current frame of the match at match index `match`; None if the game cannot draw itself.

        Called after a reset of that match index and after steps, also on the tick that ends the match. It changes
        nothing that a match depends on. An image belongs to the caller.
        """


def draw_match(environment: Environment, match: int) -> Frame | None:
    """Return the current frame of a match: by `Renderable`, else by `ludus.environment.Playable`; None without both.

    Raises:
        ContractError: The frame is malformed.
    """
    frame = environment.render_frame(match) if isinstance(environment, Renderable) else None
    if frame is None and isinstance(environment, Playable):
        frame = environment.render(match)
    if frame is not None and (problem := check_frame(frame)):
        raise ContractError(f"render_frame of {environment.spec.name!r} returned {problem}")
    return frame


def check_frame(frame: object) -> str:
    """Return what is wrong with a frame, in words; empty if nothing."""
    if isinstance(frame, str | Scene):
        return ""
    if not isinstance(frame, np.ndarray):
        return f"{type(frame).__name__}; expected a str, an array [H, W, 3] uint8, or a Scene"
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or not frame.size:
        return f"an array {list(frame.shape)} {frame.dtype}; expected [H, W, 3] uint8"
    return ""


_ENABLED: ContextVar[bool] = ContextVar("rendering_enabled", default=False)


@contextmanager
def enable_rendering() -> Iterator[None]:
    """Return a context in which environments are made such that they can draw their matches."""
    token = _ENABLED.set(True)
    try:
        yield
    finally:
        _ENABLED.reset(token)


def is_rendering_enabled() -> bool:
    """Return whether an environment that is made now will be asked for frames."""
    return _ENABLED.get()


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    configure_tagged_union(Shape, converter, tag_name="kind", tag_generator=lambda shape: shape.__name__.lower())
    return converter


_CONVERTER = _make_converter()


def _describe(error: BaseException, _: type | None) -> str:
    return f"missing or unknown {error}" if isinstance(error, KeyError) else str(error)


def scene_to_json(scene: Scene) -> dict[str, Any]:
    """Return the scene as JSON values; every shape has a key ``"kind"``, such as ``"circle"``."""
    fields: dict[str, Any] = _CONVERTER.unstructure(scene)
    return {**fields, "shapes": list(fields["shapes"])}


def scene_from_json(fields: dict[str, Any]) -> Scene:
    """Return the scene of JSON values, see `scene_to_json`.

    Raises:
        ContractError: They are not the JSON form of a scene.
    """
    try:
        return _CONVERTER.structure(fields, Scene)
    except Exception as error:  # cattrs raises errors of several kinds
        problems = "; ".join(cattrs.transform_error(error, format_exception=_describe))
        raise ContractError(f"malformed scene: {problems}") from error
