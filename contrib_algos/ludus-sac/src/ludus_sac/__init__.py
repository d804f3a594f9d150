"""Soft actor-critic for continuous and discrete actions."""
