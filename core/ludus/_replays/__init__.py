"""Replays: records of matches from which they can be played again."""
