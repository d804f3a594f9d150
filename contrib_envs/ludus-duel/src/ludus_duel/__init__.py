"""A melee duel for ludus: the environment, and bots to train against."""
