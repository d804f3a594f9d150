"""Multi-agent PPO: policies with local observations, one critic with global information."""
