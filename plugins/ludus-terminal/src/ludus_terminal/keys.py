"""Keys that are typed in a terminal, read one by one."""

from __future__ import annotations

import os
import select
import sys
import time

__all__ = ["has_terminal", "read_terminal_key"]

_ARROWS = {"\x1b[C": "right", "\x1b[D": "left", "\x1bOC": "right", "\x1bOD": "left"}


def has_terminal() -> bool:
    """Return whether keys can be read."""
    return sys.platform != "win32" and sys.stdin.isatty() and sys.stdout.isatty()


def read_terminal_key(timeout_s: float | None) -> str:
    """Return the next key, ``"left"`` and ``"right"`` for the arrows; empty after the timeout.

    Without a terminal it only waits.

    Args:
        timeout_s: Seconds to wait; None: without a limit.
    """
    if not has_terminal():
        time.sleep(timeout_s or 0.0)
        return ""
    import termios  # noqa: PLC0415 - not on Windows
    import tty  # noqa: PLC0415 - as above

    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        tty.setcbreak(handle)
        ready, _, _ = select.select([handle], [], [], timeout_s)
        text = os.read(handle, 8).decode(errors="replace") if ready else ""
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
    return _ARROWS.get(text, text[:1])
