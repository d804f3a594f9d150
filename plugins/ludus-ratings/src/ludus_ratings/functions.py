"""The public functions of `ludus_ratings`, imported at the first access."""
# ruff: noqa: F403 - the list of names is that of each module

from __future__ import annotations

from ludus_ratings.alpha import *
from ludus_ratings.comparison import *
from ludus_ratings.elo import *
from ludus_ratings.nash import *
from ludus_ratings.payoff import *
from ludus_ratings.sequential import *
from ludus_ratings.skill import *
from ludus_ratings.strengths import *
