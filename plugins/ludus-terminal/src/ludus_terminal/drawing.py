"""Draw frames of matches as images with Pillow, and images as text for the terminal."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import field, frozen
from ludus.errors import ConfigError
from ludus.rendering import Box, Circle, Frame, Label, Line, Scene, Sprite
from rich.color import Color
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

__all__ = ["Drawing", "as_blocks", "load_pillow"]

_SCENE_PIXELS = 480  # longer side of a scene at scale 1
_FONT_PIXELS = 14  # height of captions and of text frames at scale 1
_LINE = 1.35  # height of a line of text, in font sizes
_COLUMN = 0.6  # width of a character of a text frame, in font sizes
_SMOOTHING = 2  # scenes are drawn larger by this factor, and then reduced
_TEXT, _BACKGROUND = "#e0e0e0", "#14181d"
_MONOSPACED = ("DejaVuSansMono.ttf", "LiberationMono-Regular.ttf", "Menlo.ttc", "consola.ttf")
_SMALLEST = 4  # pixels: smaller letters cannot be read

#: Block characters, drawn as rectangles: left, top, right and bottom edge as shares of the cell.
_BLOCKS = {"█": (0, 0, 1, 1), "▀": (0, 0, 1, 0.5), "▄": (0, 0.5, 1, 1), "─": (0, 0.45, 1, 0.55), "│": (0.4, 0, 0.6, 1)}


def load_pillow() -> None:
    """Import Pillow.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import PIL.Image  # noqa: F401, PLC0415 - optional
    except ImportError as error:
        raise ConfigError("images of matches need Pillow; pip install 'ludus-terminal[watch]'") from error


@frozen
class Drawing:
    """Draws frames as images.

    Args:
        scale: Factor on the size: of scenes, whose longer side has 480 pixels at 1, of images, and of text.
        sprites: Folder of pictures ``NAME.png`` for sprites; None draws boxes with their names.
    """

    scale: float = 1.0
    sprites: Path | None = None
    _loaded: dict[str, Any] = field(factory=dict, init=False)

    def __call__(self, frame: Frame) -> np.ndarray:
        """Return a frame as ``[H, W, 3] uint8``."""
        if isinstance(frame, Scene):
            return self._draw_scene(frame)
        if isinstance(frame, str):
            return self._draw_text(frame)
        return frame if self.scale == 1.0 else _resize(frame, self.scale)

    def _draw_scene(self, scene: Scene) -> np.ndarray:
        from PIL import Image, ImageDraw  # noqa: PLC0415 - optional

        unit = self.scale * _SCENE_PIXELS * _SMOOTHING / max(scene.width, scene.height)
        lines = scene.caption.splitlines()
        size = self.scale * _FONT_PIXELS * _SMOOTHING
        top = round(size * (_LINE * len(lines) + 0.5 * bool(lines)))
        picture = Image.new("RGB", (max(1, round(scene.width * unit)), max(1, round(scene.height * unit))))
        pen = ImageDraw.Draw(picture)
        pen.rectangle((0, 0, *picture.size), fill=scene.background)
        for shape in scene.shapes:
            _SHAPES[type(shape)](self, picture, pen, shape, unit)
        whole = Image.new("RGB", (picture.width, picture.height + top), _BACKGROUND)
        whole.paste(picture, (0, top))
        pen = ImageDraw.Draw(whole)
        for number, line in enumerate(lines):
            pen.text((size / 2, size * (0.25 + _LINE * number)), line, fill=_TEXT, font=_font(size))
        return np.asarray(whole.reduce(_SMOOTHING))

    def _draw_sprite(self, picture: Any, pen: Any, sprite: Sprite, unit: float) -> None:
        image = self._load_sprite(sprite.name)
        width, height = sprite.width * unit, sprite.height * unit
        if image is None:
            box = Box(sprite.x - sprite.width / 2, sprite.y - sprite.height / 2, sprite.width, sprite.height)
            _draw_box(pen, box, sprite.color, unit)
            longest = max(len(sprite.name), 1)
            size = min(sprite.height * 0.8, 1.6 * sprite.width / longest)
            _draw_label(pen, Label(sprite.x, sprite.y, sprite.name, size), unit)
            return
        image = image.resize((max(1, round(width)), max(1, round(height)))).rotate(-sprite.angle, expand=True)
        corner = (round(sprite.x * unit - image.width / 2), round(sprite.y * unit - image.height / 2))
        picture.paste(image, corner, image)

    def _load_sprite(self, name: str) -> Any:
        """Return the picture of a sprite with transparency, or None without one."""
        from PIL import Image  # noqa: PLC0415 - optional

        if name not in self._loaded:
            path = None if self.sprites is None or Path(name).name != name else self.sprites / f"{name}.png"
            self._loaded[name] = Image.open(path).convert("RGBA") if path is not None and path.is_file() else None
        return self._loaded[name]

    def _draw_text(self, text: str) -> np.ndarray:
        from PIL import Image, ImageDraw  # noqa: PLC0415 - optional

        lines = Text.from_ansi(text.expandtabs()).split()
        size = self.scale * _FONT_PIXELS
        width, height = size * _COLUMN, size * _LINE
        columns, rows = max((line.cell_len for line in lines), default=0), len(lines)
        image = Image.new("RGB", (round(width * (columns + 2)), round(height * (rows + 1))), _BACKGROUND)
        pen, font = ImageDraw.Draw(image), _font(size)
        for row, line in enumerate(lines):
            left, top = width, height * (row + 0.5)
            for part, style, _ in line.render(Console(width=max(columns, 1)), end=""):
                ink = _hex(style.color if style else None, faint=bool(style and style.dim))
                for character in part:
                    _draw_character(pen, character, (left, top, left + width, top + height), ink=ink, font=font)
                    left += width
        return np.asarray(image)


def _draw_character(pen: Any, character: str, cell: Sequence[float], *, ink: str, font: Any) -> None:
    left, top, right, bottom = cell
    block = _BLOCKS.get(character)
    if block is not None:
        width, height = right - left, bottom - top
        x1, y1, x2, y2 = block
        pen.rectangle((left + x1 * width, top + y1 * height, left + x2 * width, top + y2 * height), fill=ink)
    elif character != " ":
        pen.text(((left + right) / 2, (top + bottom) / 2), character, fill=ink, font=font, anchor="mm")


def _draw_circle(pen: Any, circle: Circle, unit: float) -> None:
    x, y, radius = (value * unit for value in (circle.x, circle.y, circle.radius))
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=circle.color)


def _draw_box(pen: Any, box: Box, color: str, unit: float) -> None:
    left, top = box.x * unit, box.y * unit
    # Pillow's rectangles contain their last row and column
    right, bottom = left + box.width * unit - 1, top + box.height * unit - 1
    pen.rectangle((left, top, max(left, right), max(top, bottom)), fill=color)


def _draw_line(pen: Any, line: Line, unit: float) -> None:
    ends = [value * unit for value in (line.x1, line.y1, line.x2, line.y2)]
    pen.line(ends, fill=line.color, width=max(_SMOOTHING, round(line.width * unit)))


def _draw_label(pen: Any, label: Label, unit: float) -> None:
    size = max(label.size * unit, _SMALLEST)
    pen.text((label.x * unit, label.y * unit), label.text, fill=label.color, font=_font(size), anchor="mm")


#: Kind of shape → function of the drawing, the picture, Pillow's pen, the shape, and the pixels per unit.
_SHAPES: Mapping[type, Callable[[Drawing, Any, Any, Any, float], None]] = {
    Circle: lambda _, __, pen, shape, unit: _draw_circle(pen, shape, unit),
    Box: lambda _, __, pen, shape, unit: _draw_box(pen, shape, shape.color, unit),
    Line: lambda _, __, pen, shape, unit: _draw_line(pen, shape, unit),
    Label: lambda _, __, pen, shape, unit: _draw_label(pen, shape, unit),
    Sprite: Drawing._draw_sprite,
}


def _hex(color: Color | None, *, faint: bool) -> str:
    """Return a colour of the terminal as ``"#rrggbb"``."""
    rgb = (224, 224, 224) if color is None or color.is_default else tuple(color.get_truecolor(MONOKAI))
    return "#" + "".join(f"{value // 2 if faint else value:02x}" for value in rgb)


@functools.lru_cache(maxsize=32)
def _font(size: float) -> Any:
    from PIL import ImageFont  # noqa: PLC0415 - optional

    for name in _MONOSPACED:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            continue
    return ImageFont.load_default(size)


def _resize(image: np.ndarray, scale: float) -> np.ndarray:
    """Return an image of another size; sharp if it is larger, smooth if it is smaller."""
    from PIL import Image  # noqa: PLC0415 - optional

    height, width = (max(1, round(side * scale)) for side in image.shape[:2])
    method = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BOX
    return np.asarray(Image.fromarray(image).resize((width, height), method))


def as_blocks(image: np.ndarray, *, columns: int, rows: int) -> str:
    """Return an image as text in 24-bit colours: every character is two pixels, one above the other.

    Args:
        image: ``[H, W, 3] uint8``; it is scaled down to fit.
        columns: Largest number of characters in a line.
        rows: Largest number of lines.
    """
    scale = min(1.0, columns / image.shape[1], 2 * rows / image.shape[0])
    pixels = image if scale == 1.0 else _resize(image, scale)
    pixels = pixels[: 2 * rows, :columns]  # rounding
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[:1])])
    lines = []
    for upper, lower in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True):
        line, before = [], None
        for pair in zip(upper, lower, strict=True):
            if pair != before:
                line.append("\x1b[38;2;{};{};{};48;2;{};{};{}m".format(*pair[0], *pair[1]))
            line.append("▀")
            before = pair
        lines.append("".join(line) + "\x1b[0m")
    return "\n".join(lines)
