"""The league in memory, and the coordinator that runs it."""
