"""Rock paper scissors for ludus, and a matchmaker that seeks out whoever it loses to."""
