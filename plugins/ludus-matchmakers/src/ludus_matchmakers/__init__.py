"""Matchmakers for ludus: self-play, history, prioritized fictitious self-play, and mixtures of them."""
