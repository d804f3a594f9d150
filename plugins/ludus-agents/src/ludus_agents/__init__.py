"""Agents that play any game."""
