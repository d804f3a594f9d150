"""Options of the inference runtimes."""

from __future__ import annotations

from attrs import frozen
from ludus.option import at_least, option, whole


@frozen(kw_only=True)
class CompileConfig:
    """Options of the runtime ``compile``."""

    warm_up_rows: int = option(256, whole(2, 1_000_000), help="Rows of the warm-up calls and the timed calls.")
    min_speedup: float = option(1.05, at_least(0), help="Minimal speedup at which compiled code is used; 0: always.")
