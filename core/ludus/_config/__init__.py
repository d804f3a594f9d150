"""Reading and checking the configuration of a run."""
