"""Metric sinks of ludus for experiment trackers."""
