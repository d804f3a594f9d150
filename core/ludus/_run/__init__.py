"""Making the workers of a run, and running them."""
