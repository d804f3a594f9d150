"""The league, its models and its checkpoints on disk."""
