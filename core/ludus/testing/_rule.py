"""`check_rule`: what every rule of a league must answer."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import numpy as np

from ludus.errors import ContractError
from ludus.rule import Change, Freeze, PoolChange, Reset, Rule, Share
from ludus.testing._matchmaker import FakeLeague, fake_leagues
from ludus.testing._trying import expect, trying

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
        with trying(f"league {description!r}"):
            for question in range(questions):
                answers = [_changes(rule, league, np.random.default_rng((seed, question))) for _ in range(2)]
                if answers[0] != answers[1]:
                    raise ContractError("two answers to the same league and generator state differ; remember nothing")
                for change in answers[0]:
                    _check(change, league)
                _check_shares(answers[0], league)
        if league != before:
            raise ContractError(f"league {description!r}: the rule changed the league; it may only read it")


def _changes(rule: Rule, league: FakeLeague, rng: np.random.Generator) -> list[Change]:
    return list(expect(Sequence, rule.decide(league, rng), "decide"))


def _check(change: Change, league: FakeLeague) -> None:
    models = {model for view in league.players.values() for model in view.models}
    if not isinstance(change, Freeze | Reset | Share | PoolChange):
        raise ContractError(f"{change!r} is no change of ludus.rule")
    if isinstance(change, PoolChange):
        if change.model not in models:
            raise ContractError(f"{change} names no frozen model")
        if change.enters == (change.model in league.pool(change.pool)):
            raise ContractError(f"{change} changes nothing")
    elif change.player not in league.players:
        raise ContractError(f"{change} names no player")
    elif isinstance(change, Reset) and change.init and change.init not in models:
        raise ContractError(f"{change} starts from no frozen model")
    elif isinstance(change, Freeze | Reset) and not change.reason:
        raise ContractError(f"{change} gives no reason; say why in a few words")


def _check_shares(changes: list[Change], league: FakeLeague) -> None:
    shares = {name: view.share for name, view in league.players.items()}
    shares |= {change.player: change.share for change in changes if isinstance(change, Share)}
    if not any(shares.values()):
        raise ContractError("every player's share is 0 afterwards; expected one that trains")
