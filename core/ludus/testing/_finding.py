"""What `check_run` reports."""

from __future__ import annotations

from typing import Literal

from attrs import frozen


@frozen
class Finding:
    """One line of the report.

    Args:
        status: Result of the check.
        subject: Part of the run.
        text: Description of the part, or the problem.
    """

    status: Literal["ok", "warn", "fail"]
    subject: str
    text: str
