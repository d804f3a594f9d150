"""StarCraft II through its API: Zerg against Zerg or against the built-in AI, with the interfaces of Arena."""
