"""Learning from segments."""
