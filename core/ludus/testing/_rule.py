"""`check_rule`: check the changes that a rule of a league returns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ludus._league.validation import checked_changes
from ludus.errors import ContractError
from ludus.rule import Change, Freeze, PoolChange, Reset, Rule
from ludus.testing._errors import require
from ludus.testing._matchmaker import FakeLeague, check_leagues

__all__ = ["check_rule"]


def check_rule(
    rule: Rule, *, leagues: Mapping[str, FakeLeague] | None = None, questions: int = 20, seed: int = 0
) -> None:
    """Check that a rule keeps its contract.

    Args:
        rule: Rule with its configuration.
        leagues: Leagues by description; None: `fake_leagues`. Pass your own if the configuration names players.
        questions: Number of calls in each league, with different generators.
        seed: Seed of the generators.

    Raises:
        ContractError: The rule breaks its contract; the message names the league.
    """

    def check_league(league: FakeLeague) -> None:
        for question in range(questions):
            first, second = (_changes(rule, league, np.random.default_rng((seed, question))) for _ in range(2))
            problem = "decide returned different changes for the same league and generator state; keep no state"
            require(first == second, problem)

    check_leagues(leagues, check_league)


def _changes(rule: Rule, league: FakeLeague, rng: np.random.Generator) -> list[Change]:
    changes = checked_changes(rule.decide(league, rng), league)
    for change in changes:
        if isinstance(change, PoolChange) and change.enters == (change.model in league.pool(change.pool)):
            raise ContractError(f"{change} changes nothing")
        if isinstance(change, Freeze | Reset) and not change.reason:
            raise ContractError(f"{change} has no reason; give one in a few words")
    return changes
