"""Fuzzing of every kind of message, at the real receivers of a run: see `fuzz.__main__`."""
