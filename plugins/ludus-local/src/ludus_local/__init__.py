"""Launcher of ludus for one machine."""
