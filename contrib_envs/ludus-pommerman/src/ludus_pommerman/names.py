"""Names of the variants, for configurations, which do not import numpy."""

from __future__ import annotations

VARIANT_NAMES = ("ffa", "team", "radio", "one-vs-one", "collapse")
