"""Templates: their environment and the filters for numbers and names."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from ludus.printing import printable

__all__ = ["render"]

_MAX_NAME = 120
_UNKNOWN = "\N{EN DASH}"
_MAX_JSON = 20_000


def _clip(value: object) -> str:
    """Return a name, reason or the like in one line of bounded length, with control characters escaped."""
    text = printable(str(value))
    return text if len(text) <= _MAX_NAME else f"{text[: _MAX_NAME - 1]}…"


def _number(value: float | None, digits: int = 0) -> str:
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    return f"{value:,.{digits}f}"


def _percent(value: float | None) -> str:
    return _UNKNOWN if value is None or not math.isfinite(value) else f"{value:.1%}"


def _interval(bounds: Sequence[float] | None) -> str:
    return "" if bounds is None else f"{bounds[0]:.1%} to {bounds[1]:.1%}"


def _moment(seconds: float) -> str:
    """Return a Unix time in local time."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return _UNKNOWN


def _path(value: object) -> str:
    """Return a text as one segment of an address."""
    return quote(str(value), safe="")


def _clamp(value: float, low: float, high: float) -> float:
    return round(min(max(value, low), high), 1)


def _dump(value: Mapping[str, Any]) -> str:
    """Return JSON of bounded length in several lines."""
    return json.dumps(dict(value), indent=2, sort_keys=True, default=str)[:_MAX_JSON]


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("ludus_dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "clamp": _clamp,
        "clip": _clip,
        "dump": _dump,
        "number": _number,
        "percent": _percent,
        "interval": _interval,
        "moment": _moment,
        "path": _path,
        "printable": printable,
    }
    return made


_templates = _environment()


def render(template: str, **values: Any) -> str:
    """Return a template as HTML; every value is escaped."""
    return _templates.get_template(template).render(**values)
