"""Honor of Kings, one against one, through the licensed hok_env: a client for its Python interface."""
