"""A league and its matches in the terminal."""
