"""A package of the fake hok_env."""
