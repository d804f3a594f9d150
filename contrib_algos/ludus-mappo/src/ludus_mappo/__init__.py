"""Multi-agent PPO: policies that see what is theirs, a critic that sees everything."""
