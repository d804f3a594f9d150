"""The Minimax Exploiter: a reward that includes the opponent's own evaluation, and PPO that learns from it."""
