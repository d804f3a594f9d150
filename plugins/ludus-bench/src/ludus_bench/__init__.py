"""Benchmarks of ludus: rates of every part, beside the limit that the same run computed."""
