"""The Minimax Exploiter: rewards made of the opponent's own evaluation, and PPO that learns from them."""
