"""Small batched games of known optimum, each decided by one ability of an algorithm."""
