"""A 1v1 MOBA on one lane for ludus: the environment, and bots to train against."""
