"""A 1-v-4 asymmetric chase for ludus: the environment, and bots to train against."""
