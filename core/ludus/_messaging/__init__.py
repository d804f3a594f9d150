"""Messages between workers, and running all workers in one process."""
