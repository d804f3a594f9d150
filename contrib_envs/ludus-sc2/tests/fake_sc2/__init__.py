"""A fake of the StarCraft II program."""
