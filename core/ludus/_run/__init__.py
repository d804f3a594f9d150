"""Assembling and running a training run."""
