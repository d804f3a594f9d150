"""Battles of two armies of units: environment, scripted agents, and the interfaces of Arena for it."""
