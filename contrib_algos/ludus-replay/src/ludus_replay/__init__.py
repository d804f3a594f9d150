"""Replay buffer, and base class of trainers with one, for off-policy algorithms of ludus."""
