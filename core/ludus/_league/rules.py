"""Applying the rules of a league."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import define

from ludus._league.fixtures import TrainingFixtures
from ludus._league.league import League
from ludus._league.models import FreezeRequests
from ludus._league.outbox import Outbox
from ludus._league.validation import checked_changes, wrap_answer_errors
from ludus.rule import Change, Freeze, PoolChange, Reset, Rule, Share


@define(kw_only=True)
class RuleRunner:
    """Calls the rules of a league and applies the changes that they return.

    Args:
        rules: By name, in the order in which they are called.
        league: The league.
        training: Applies changes of shares.
        requests: Sends freezes and resets to learners.
        outbox: Is told that a commit is needed.
        rng: The coordinator's random generator.
        every_matches: Training matches between two calls.
        applied_at: Training matches at the last call.
    """

    rules: Mapping[str, Rule]
    league: League
    training: TrainingFixtures
    requests: FreezeRequests
    outbox: Outbox
    rng: np.random.Generator
    every_matches: int
    applied_at: int

    def apply_due(self, training_matches: int) -> None:
        """Apply all rules if `every_matches` training matches have ended since the last call.

        Raises:
            LudusError: A rule failed, or its answer is invalid.
        """
        if training_matches - self.applied_at < self.every_matches:
            return
        self.applied_at = training_matches
        for name in self.rules:
            for change in self.decide(name, self.rng):
                self.apply(change)
        self.outbox.needs_commit = True

    def decide(self, name: str, rng: np.random.Generator) -> list[Change]:
        """Return the changes of one rule without applying them.

        Raises:
            LudusError: The rule failed, or its answer is invalid.
        """
        with wrap_answer_errors(f"rule {name!r}"):
            return checked_changes(self.rules[name].decide(self.league, rng), self.league)

    def apply(self, change: Change) -> None:
        """Apply one change; freezes and resets are requested from the learner."""
        match change:
            case PoolChange():
                self.league.apply([change])
            case Share(player=player, share=share):
                self.training.set_share(player, share)
            case Freeze() | Reset():
                self.requests.add(change)
