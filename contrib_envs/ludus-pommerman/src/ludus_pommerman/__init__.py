"""Pommerman for ludus: the environment, its interfaces, and bots to train against."""
