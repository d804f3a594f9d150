"""PPO with random network distillation: what is new is worth something."""
