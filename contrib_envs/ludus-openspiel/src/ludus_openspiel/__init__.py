"""OpenSpiel games in ludus, OpenSpiel's bots as agents, and how exploitable a policy is."""
