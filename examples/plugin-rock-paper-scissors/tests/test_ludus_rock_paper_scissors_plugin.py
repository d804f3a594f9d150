"""Tests of the plugin module: it is installed, registers its environment, and is cheap to import."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

from ludus_rock_paper_scissors import plugin

HEAVY = ("torch", "zmq", "gymnasium", "numpy")


def test_is_installed():
    """The entry point refers to the plugin module."""
    (point,) = importlib.metadata.entry_points(group="ludus", name="rock-paper-scissors")
    assert point.load() is plugin


def test_registers_the_environment():
    """The import paths of factory and configuration exist."""
    (component,) = plugin.ludus_register_environments()
    assert component.name == "rock-paper-scissors"
    assert callable(component.load_factory())
    assert component.load_config() is not None


def test_is_cheap_to_import():
    """Every ludus process imports the plugin module, so it must not import large packages."""
    code = f"import sys, ludus_rock_paper_scissors.plugin; print([name for name in {HEAVY} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
