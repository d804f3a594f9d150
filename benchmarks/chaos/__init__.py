"""Faults at random moments of real runs, and checks that nothing committed is lost: ``python -m chaos --help``."""
