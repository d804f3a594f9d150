"""One inference process for all samplers of a run: the runtime ``server``."""
