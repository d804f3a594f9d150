"""Options of the inference runtimes."""

from __future__ import annotations

from attrs import frozen
from ludus.option import at_least, option

__all__ = ["CompileConfig"]


@frozen(kw_only=True)
class CompileConfig:
    """When compiled code is worth it."""

    warm_up_rows: int = option(256, at_least(2), help="rows of the calls that warm up and are timed; ≥ 2")
    min_speedup: float = option(
        1.05, at_least(0), help="compiled code is used if it is so many times faster; 0: always"
    )
