"""Playing matches and recording decisions."""
