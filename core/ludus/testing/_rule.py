"""`check_rule`: what every rule of a league must answer."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np

from ludus._league.validation import checked_changes
from ludus.errors import ContractError
from ludus.rule import Change, Freeze, PoolChange, Reset, Rule
from ludus.testing._errors import wrap_errors
from ludus.testing._matchmaker import FakeLeague, fake_leagues

__all__ = ["check_rule"]


def check_rule(
    rule: Rule, *, leagues: Mapping[str, FakeLeague] | None = None, questions: int = 20, seed: int = 0
) -> None:
    """Check that a rule answers as its contract says.

    Args:
        rule: As configured.
        leagues: Leagues by description; None: `fake_leagues`. Give your own where the configuration names players.
        questions: How often it is asked, with different generators.
        seed: Seeds the generators.

    Raises:
        ContractError: An answer breaks the contract; the message names the league.
    """
    for description, league in (fake_leagues() if leagues is None else leagues).items():
        before = copy.deepcopy(league)
        with wrap_errors(f"league {description!r}"):
            for question in range(questions):
                answers = [_changes(rule, league, np.random.default_rng((seed, question))) for _ in range(2)]
                if answers[0] != answers[1]:
                    raise ContractError("two answers to the same league and generator state differ; remember nothing")
        if league != before:
            raise ContractError(f"league {description!r}: the rule changed the league; it may only read it")


def _changes(rule: Rule, league: FakeLeague, rng: np.random.Generator) -> list[Change]:
    changes = checked_changes(rule.decide(league, rng), league)
    for change in changes:
        if isinstance(change, PoolChange) and change.enters == (change.model in league.pool(change.pool)):
            raise ContractError(f"{change} changes nothing")
        if isinstance(change, Freeze | Reset) and not change.reason:
            raise ContractError(f"{change} gives no reason; say why in a few words")
    return changes
