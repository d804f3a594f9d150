"""The commands ``ludus train`` and ``ludus resume``."""
