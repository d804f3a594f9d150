"""Names of the heroes, in the order of `ludus_moba.heroes.HEROES`."""

from __future__ import annotations

NAMES = ("mage", "marksman", "warrior", "assassin")
