"""The fake 1v1 mode."""

from .env1v1 import HoK1v1

__all__ = ["HoK1v1"]
