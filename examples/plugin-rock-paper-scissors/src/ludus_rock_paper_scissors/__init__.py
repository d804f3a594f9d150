"""Rock paper scissors for ludus, and a matchmaker that chooses the strongest opponent."""
