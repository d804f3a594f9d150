"""Reading and checking run files."""
