"""Interfaces for ludus: transforms of observations, rewards and actions that most games can use."""
