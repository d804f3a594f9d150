"""A gate before a pool: a model enters only after a sequential test has found it stronger than the last one there.

The *reference* of a player is the newest model of its pool ``PLAYER/gated``; its first model enters without a test. The
*candidate* is a newer model that has neither entered nor been refused: the one with most rating matches against the
reference, which is the one under test, and the newest at the beginning. `GateMatches` chooses these matches, and the
rule `Gate` decides. In a game whose teams have different roles, models of one player never meet, so it has no gate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from attrs import define, field, frozen
from ludus.errors import ConfigError
from ludus.matchmaker import LeagueView, PlayerView, PoolChange
from ludus_ratings.sequential import SequentialTest

from ludus_matchmakers.self_play import LatestSelfPlay
from ludus_matchmakers.tools import check_players, seat_pair


@frozen
class Trial:
    """A candidate, its reference, and ``[3] float64`` wins, draws and losses of its rating matches against it."""

    candidate: str
    reference: str
    counts: np.ndarray


@define(kw_only=True)
class Trials:
    """The tests of a league.

    Args:
        players: Players whose models are tested; empty: all whose models can meet each other.
        test: The test. It takes every match as an observation of its own, since a league does not know which matches
            had one seed: where a seat is an advantage it needs more matches than on pairs.
        max_matches: Rating matches after which a candidate is refused if the test is undecided.
    """

    players: Sequence[str] = ()
    test: SequentialTest = field(factory=SequentialTest)
    max_matches: int = 2000

    def views(self, league: LeagueView) -> Iterator[PlayerView]:
        """Yield the players whose models are tested.

        Raises:
            ConfigError: A player is unknown, or its models cannot meet each other.
        """
        for name in check_players(league, self.players) or league.players:
            if league.players[name].team is None:
                yield league.players[name]
            elif self.players:
                raise ConfigError(f"gate: models of {name} play one team only and never meet; name other players")

    def trial(self, league: LeagueView, view: PlayerView) -> Trial | None:
        """Return the present test of a player; None without a reference or a candidate."""
        passed, refused = (league.pool(f"{view.name}/{pool}") for pool in ("gated", "refused"))
        references = [model for model in view.models if model in passed]
        if not references:
            return None
        newer = view.models[view.models.index(references[-1]) + 1 :]
        candidates = [model for model in reversed(newer) if model not in refused]
        if not candidates:
            return None
        counts = league.payoff(references[-1], candidates, evaluated=True)[:, ::-1]  # from the view of the candidates
        under_test = int(counts.sum(axis=1).argmax())
        return Trial(candidates[under_test], references[-1], counts[under_test])

    def verdict(self, trial: Trial) -> str:
        """Return ``"passed"``, ``"refused"`` or ``"undecided"``."""
        verdict = self.test.verdict(trial.counts[::-1])
        return "refused" if verdict == "undecided" and trial.counts.sum() >= self.max_matches else verdict


@define
class GateMatches(LatestSelfPlay):
    """Rates candidates against their references, for the rule ``gate``; otherwise the same as latest self-play.

    Args:
        trials: The tests.
    """

    trials: Trials = field(factory=Trials, kw_only=True)

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return a candidate and its reference; None if no test needs matches."""
        trials = [self.trials.trial(league, view) for view in self.trials.views(league)]
        waiting = [trial for trial in trials if trial is not None and self.trials.verdict(trial) == "undecided"]
        if not waiting:
            return None
        chosen = waiting[int(rng.integers(len(waiting)))]
        return seat_pair(league, chosen.candidate, chosen.reference)


@define(kw_only=True)
class Gate:
    """Adds candidates that pass to ``PLAYER/gated``, and the others to ``PLAYER/refused``.

    Args:
        trials: The tests.
    """

    trials: Trials = field(factory=Trials)

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[PoolChange]:  # noqa: ARG002 - the contract
        """Return the changes of pools: of a player without a reference its first model, else a decided candidate."""
        changes = []
        for view in self.trials.views(league):
            trial = self.trials.trial(league, view)
            if trial is not None:
                pool = {"passed": "gated", "refused": "refused"}.get(self.trials.verdict(trial))
                if pool is not None:
                    changes.append(PoolChange(pool=f"{view.name}/{pool}", model=trial.candidate, enters=True))
            elif view.models and not set(view.models) & set(league.pool(f"{view.name}/gated")):
                changes.append(PoolChange(pool=f"{view.name}/gated", model=view.models[0], enters=True))
        return changes
