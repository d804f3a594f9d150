"""Tic-Tac-Toe and Connect Four, batched in numpy, with scripted opponents."""
