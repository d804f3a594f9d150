"""The league in memory, as matchmakers read it; rebuilt from the store at every start.

Player ``p`` starts with the live participant ``p@0+``. Freezing adds the model ``p@1``, and the live participant
becomes ``p@1+`` (see `ludus.matchmaker`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ludus._league.behaviour import Behaviour
from ludus._league.matchmaking_state import MatchmakingState
from ludus._league.participants import anchors_by_side, inherited_weights, live_player, parse, player_sides
from ludus._league.payoffs import Payoffs
from ludus._league.return_outcome import ReturnOutcome
from ludus._league.roster import Roster
from ludus._store.match_log import RecordedResults
from ludus._store.payoffs import Counts
from ludus._store.store import Player, Store
from ludus._training_budget import TrainingBudget
from ludus.environment import Seat
from ludus.errors import StoreError
from ludus.matchmaker import PlayerView, PoolChange, Rating, RatingTable, rated_anchors, team_sides
from ludus.records import HUMAN, Fixture, MatchRecord, ModelRecord


class League:
    """The state of a league; implements `ludus.matchmaker.LeagueView`.

    Args:
        store: The store; open for writing if the league is to be changed.
        players: Role and team by player; the team is None where a player may take any.
        anchors: The scripted participants.
        anchor_teams: Teams of the anchors that play one team only.
        seats: The seats of a match, in the environment's order.
        ratings: Makes the rating table, called with ``anchors=`` and ``seats=``; None: no participant is rated.
        budget: The training budget; None: none.

    Attributes:
        roster: The players, models and anchors.
        players: The players by name.
        models: All frozen models by participant, in the order in which they were frozen.
        anchors: The scripted participants.
        rated_anchors: The anchors as they are rated, see `ludus.matchmaker.rated_anchors`.
        sides: Side by player, see `ludus.matchmaker.team_sides`.
        num_teams: Teams of a match; 0 where a run was stopped before its first match.
        pools: The members of every pool, oldest first.
        budget: The training budget.
        elapsed_s: Seconds that the run has trained; updated by the coordinator.
        return_outcome: How the outcomes of matches follow from returns; None where the environment gives outcomes.
        statistics: Returns the statistics of a participant in its evaluation matches.
    """

    def __init__(
        self,
        store: Store,
        *,
        players: Mapping[str, Player],
        anchors: Sequence[str],
        anchor_teams: Mapping[str, int] = MappingProxyType({}),
        seats: tuple[Seat, ...],
        ratings: Callable[..., RatingTable] | None = None,
        budget: TrainingBudget | None = None,
    ) -> None:
        self.store = store
        self.seats = seats
        if store.writable:
            store.declare(players, anchors=anchors, anchor_teams=anchor_teams, seats=seats)
        self.roster = Roster(players, anchors, anchor_teams)
        self.players: Mapping[str, PlayerView] = self.roster.players
        self.models: Mapping[str, ModelRecord] = self.roster.models
        self.anchors = self.roster.anchors
        self.rated_anchors = rated_anchors(anchors, seats, anchor_teams)
        self.num_teams = len(team_sides(seats))
        self.sides = player_sides({name: role for name, (role, _) in players.items()}, seats)
        self.pools: dict[str, list[str]] = {}
        self.elapsed_s = store.counters().get("elapsed_s", 0.0)
        self.budget = budget or TrainingBudget()
        self.return_outcome: ReturnOutcome | None = None
        self._anchors_by_side = anchors_by_side(anchors, seats)
        self._payoffs, self._evaluations = (Payoffs(self._counted, sums=self._anchors_by_side) for _ in range(2))
        self._ratings: RatingTable = _NoRatings()
        if ratings is not None:
            self._ratings = ratings(anchors=self.rated_anchors, seats=seats, sides=self.sides)
        self._behaviour = Behaviour()
        self.statistics = self._behaviour.statistics
        self._load()

    @classmethod
    def of(cls, store: Store, ratings: Callable[..., RatingTable] | None = None) -> League:
        """Return the league that a store describes; without `ratings` no participant is rated."""
        return cls(
            store,
            players=store.players(),
            anchors=store.anchors(),
            anchor_teams=store.anchor_teams(),
            seats=store.seats(),
            ratings=ratings,
        )

    def _counted(self, participant: str) -> list[tuple[str, float]]:
        """Return the participants whose matches count for one: an anchor's on all sides, or inherited ones."""
        sides = [(name, 1.0) for name in self._anchors_by_side.get(participant, ())]
        return sides or inherited_weights(participant, self.players)

    def _load(self) -> None:
        self.roster.add_models(self.store.models.records())
        for model in (self.store.retired.names() | self.store.quarantine.records().keys()) & self.models.keys():
            self.roster.quarantine(model)
        for record in self.store.pools.records():
            if parse(record.change.model).player in self.players:  # others have left the configuration
                _change_pool(self.pools, record.change)
        for (kind, a, b), count in _counted_payoffs(self.store).items():
            self._payoffs.add(a, b, count)
            if _is_rated(kind, a, b):
                self._evaluations.add(a, b, count)
                self._ratings.add(a, b, count)
        self._behaviour.add(self.store.behaviour.totals())
        self._ratings.replay(0, self.store.matches.records(kind="eval"))
        counters, shares = self.store.counters(), MatchmakingState.load(self.store).shares
        for name, view in self.players.items():
            # A player that has no share in the state is new or has left the configuration.
            share = shares.get(name, 0.0 if shares else view.share)
            self.roster.update(name, decisions=int(counters.get(f"decisions/{name}", 0)), share=share)
        if self.store.writable:
            self.forget_unsaved(self.players)

    # --- what matchmakers read ------------------------------------------------------------------------------------

    @property
    def decisions(self) -> int:
        """Return the decisions that all players have learned from."""
        return sum(view.decisions for view in self.players.values())

    @property
    def progress(self) -> float:
        """Return the share of the training budget that is used, in [0, 1]; 0 without a budget."""
        return self.budget.progress(decisions=self.decisions, elapsed_s=self.elapsed_s)

    def frozen_s(self, model: str) -> float:
        """Return when a model was frozen, in seconds of training."""
        return float(self.models[model].manifest.get("elapsed_s", 0.0))

    def freeze_reason(self, model: str) -> str:
        """Return why a rule requested a model; empty for all other models."""
        return str(self.models[model].manifest.get("reason", ""))

    def team(self, participant: str) -> int | None:
        """Return the team of a player's model or a rated anchor; None where it may take any."""
        side, _, anchor = participant.rpartition("=")
        teams = [team for team, name in enumerate(team_sides(self.seats)) if side and name == side]
        return self.roster.team(participant) if len(teams) != 1 or anchor not in self.anchors else teams[0]

    def pool(self, name: str) -> tuple[str, ...]:
        """Return the models of a pool, oldest first; an unknown pool is empty."""
        return tuple(self.pools.get(name, ()))

    def payoff(self, participant: str, opponents: Sequence[str], *, evaluated: bool = False) -> np.ndarray:
        """Return ``[n, 3] float64``: wins, draws and losses of `participant` against each opponent.

        Of a live participant the counts of its earlier weights are included, back to its player's last reset; their
        weight halves with every model. This holds for both sides: ``payoff(a, [b])`` mirrors ``payoff(b, [a])``.
        """
        return (self._evaluations if evaluated else self._payoffs).payoff(participant, opponents)

    def recent(self, player: str, opponents: Sequence[str]) -> np.ndarray:
        """Return ``[n, 3] float64``: recent wins, draws and losses of a player's live weights.

        The weight of a match halves with every 256 later matches of the same pair. Counted since this start of the run
        and since the last reset of either side.
        """
        return self._payoffs.recent(player, [live_player(name) for name in opponents])

    def rating(self, participant: str) -> Rating:
        """Return the rating from evaluation matches; an unrated participant has the prior with 0 matches."""
        return self._ratings.rating(participant)

    # --- what the coordinator changes -----------------------------------------------------------------------------

    def create_fixture(self, fixture: Fixture) -> Fixture:
        """Add a fixture to the store and return it with its id and the hashes of its models.

        Args:
            fixture: The fixture; its `id` and `models` are ignored.

        Raises:
            StoreError: A participant cannot play now.
        """
        for participant in fixture.participants:
            if not self.roster.is_playable(participant):
                raise StoreError(f"participant {participant!r} cannot play now: not live, frozen, or an anchor")
        return self.roster.with_hashes(self.store.fixtures.add(fixture))

    def open_fixtures(self) -> list[Fixture]:
        """Return the unfinished fixtures of earlier sessions, and close those that can no longer be played.

        These have live weights that were frozen since, or a participant that left the configuration.
        """
        playable = []
        for fixture in self.store.fixtures.unfinished():
            if all(map(self.roster.is_playable, fixture.participants)):
                playable.append(self.roster.with_hashes(fixture))
            elif self.store.writable:
                self.store.fixtures.close(fixture.id)
        return playable

    def record(self, arrays: Mapping[str, np.ndarray]) -> RecordedResults:
        """Add results to the log, payoffs and behaviour; they may be acknowledged after the store's next commit.

        Args:
            arrays: As in `ludus._messaging.messages.Results`.

        Returns:
            The new matches, as one summary per fixture and as payoffs.

        Raises:
            WireError: The arrays have other shapes, dtypes or ranges.
            StoreError: The disk failed. This object must not be used any more: the store has dropped changes.
        """
        recorded = self.store.matches.add_results(self.return_outcome.apply(arrays) if self.return_outcome else arrays)
        self._behaviour.add(recorded.behaviour)
        for (kind, a, b), count in recorded.payoffs.items():
            self._payoffs.add(a, b, count)
            if _is_rated(kind, a, b):
                self._evaluations.add(a, b, count)
                self._ratings.add(a, b, count)
            if a.endswith("+") and self.roster.is_current(a) and self.roster.is_current(b):
                self._payoffs.add_recent(parse(a).player, live_player(b), count)
        if rated := [new.fixture.id for new in recorded.fixtures if new.fixture.kind == "eval"]:
            self._ratings.replay(min(rated), self.store.matches.records(kind="eval", first=min(rated)))
        return recorded

    def freeze(self, player: str, *, hash: str, decisions: int, version: int, manifest: Mapping[str, Any]) -> str:
        """Add the next frozen model of a player, whose file is on the disk, and return its name."""
        number = 1 + self.players[player].num_frozen
        model = ModelRecord(
            participant=f"{player}@{number}",
            player=player,
            number=number,
            hash=hash,
            parent=manifest.get("parent"),
            decisions=decisions,
            version=version,
            created_s=time.time(),
            manifest=manifest,
        )
        self.store.models.add(model)
        for reset_player in self.roster.add_models([model]):
            self._payoffs.forget_recent(reset_player)
        self.set_decisions(player, max(decisions, self.players[player].decisions))
        return model.participant

    def apply(self, changes: Iterable[PoolChange]) -> None:
        """Apply changes of pools. A change without an effect is not logged.

        Raises:
            StoreError: A model is unknown, or enters although it is quarantined.
        """
        for change in changes:
            if problem := self.roster.pool_problem(change):
                raise StoreError(f"pool {change.pool}: {problem}")
            if (change.model in self.pools.get(change.pool, ())) != change.enters:
                self.store.pools.add(change)
                _change_pool(self.pools, change)

    def set_decisions(self, player: str, decisions: int) -> None:
        """Set the decisions that a player has learned from."""
        self.store.set_counter(f"decisions/{player}", decisions)
        self.roster.update(player, decisions=decisions)

    def forget_unsaved(self, players: Iterable[str]) -> None:
        """Reset the decisions of players to those that their checkpoints and models hold."""
        saved = self.store.checkpoints.saved_decisions()
        for name in players:
            if saved.get(name, 0) != self.players[name].decisions:
                self.set_decisions(name, saved.get(name, 0))


def _change_pool(pools: dict[str, list[str]], change: PoolChange) -> None:
    members = pools.setdefault(change.pool, [])
    if change.enters:
        members.append(change.model)
    elif change.model in members:  # another program may have written the log
        members.remove(change.model)


def _counted_payoffs(store: Store) -> Counts:
    """Return the payoffs of a store without those of human matches, which the league does not read."""
    return {key: count for key, count in store.payoffs.totals().items() if key[0] != HUMAN}


class _NoRatings:
    """The rating table of a league without ratings."""

    def add(self, a: str, b: str, count: np.ndarray) -> None:
        """Ignore the counts."""

    def replay(self, first: int, matches: Iterable[MatchRecord]) -> None:
        """Ignore the matches."""

    def rating(self, participant: str) -> Rating:  # noqa: ARG002 - the protocol's signature
        """Return the prior."""
        return Rating(0.0, math.inf, 0)


def _is_rated(kind: str, a: str, b: str) -> bool:
    """Return whether results of two participants count for ratings."""
    return kind == "eval" and not (a.endswith("+") or b.endswith("+"))
