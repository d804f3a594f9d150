"""Google Research Football as a ludus environment, with the observations and rewards of DIS [DIS §3.2]."""
