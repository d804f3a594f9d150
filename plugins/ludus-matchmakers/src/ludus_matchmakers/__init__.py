"""Matchmakers and rules for ludus: self-play, history, and the leagues of AET, DIS, Minimax and AlphaStar."""
