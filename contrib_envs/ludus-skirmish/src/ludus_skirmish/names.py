"""Names of battles and of kinds of units, in the order of `ludus_skirmish.kinds.KINDS`."""

from __future__ import annotations

KINDS = ("walker", "blade", "flyer", "archer", "brute", "runner", "bomber")
BATTLES = ("5i", "3i2z", "mab")
SEATS = ("army", "unit")
