"""Agents that can play any environment."""
