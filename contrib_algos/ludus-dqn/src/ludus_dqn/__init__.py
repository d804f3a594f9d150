"""Deep Q-learning and the Minimax Exploiter for ludus."""
