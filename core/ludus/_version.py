"""The version of the core, readable without importing anything."""

__version__ = "0.1.0"
