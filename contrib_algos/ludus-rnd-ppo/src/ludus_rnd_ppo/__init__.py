"""PPO with random network distillation: an intrinsic reward for novel observations."""
