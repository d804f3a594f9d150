"""Launcher of ludus for a run with samplers on other machines."""
