"""Settings of the process that games change: NumPy's handling of errors, and defaults of torch."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import frozen


@frozen
class ProcessSettings:
    """Settings that hold for a whole process.

    Args:
        numpy_errors: What NumPy does on each kind of floating-point error.
        dtype: Default dtype of torch; None while torch is not imported, as in the following.
        num_threads: Number of threads of torch.
        computes_gradients: Whether torch records operations for gradients.
    """

    numpy_errors: Mapping[str, Any]
    dtype: Any = None
    num_threads: int | None = None
    computes_gradients: bool | None = None

    @classmethod
    def read(cls) -> ProcessSettings:
        """Return the current settings."""
        torch = sys.modules.get("torch")
        if torch is None:
            return cls(np.geterr())
        return cls(np.geterr(), torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled())

    def apply(self) -> None:
        """Set these settings; torch gets its own defaults if it was not imported when they were read."""
        np.seterr(**self.numpy_errors)
        torch = sys.modules.get("torch")
        if torch is None:
            return
        torch.set_default_dtype(self.dtype or torch.float32)
        torch.set_grad_enabled(self.computes_gradients is not False)
        if self.num_threads is not None and self.num_threads != torch.get_num_threads():
            torch.set_num_threads(self.num_threads)


class IsolatedSettings:
    """Context manager around calls of games: settings that they change hold within these calls only."""

    def __init__(self) -> None:
        self._before: ProcessSettings | None = None
        self._of_games: ProcessSettings | None = None  # None: as before

    def __enter__(self) -> None:
        self._before = ProcessSettings.read()
        if self._of_games is not None:
            self._of_games.apply()

    def __exit__(self, *exception: object) -> None:
        before, now = self._before, ProcessSettings.read()
        assert before is not None
        self._of_games = None
        if now != before:
            self._of_games = now
            before.apply()
