"""The league in memory: what matchmakers ask, fast, rebuilt from the store at every start.

Participants are names (see `ludus.matchmaker`). Player ``p`` starts as the live participant ``p@0+``; freezing gives
``p@1`` and the live participant becomes ``p@1+``. Generation n of a player is ``p@n`` together with ``p@n+``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from ludus._config.structuring import did_you_mean
from ludus._league.matchmaking_state import MatchmakingState
from ludus._league.participants import inherited, parse, unnumbered
from ludus._league.payoffs import Payoffs
from ludus._store.match_log import RecordedResults
from ludus._store.store import Player, Store
from ludus._training_budget import TrainingBudget
from ludus.environment import Seat
from ludus.errors import ConfigError, StoreError
from ludus.matchmaker import PlayerView, PoolChange, Rating, RatingTable
from ludus.records import Fixture, ModelRecord


class League:
    """The league's state; implements `ludus.matchmaker.LeagueView`.

    Args:
        store: The store; its writer for everything that changes the league.
        players: Role and team by player; the team is None where a player may take any.
        anchors: The scripted participants.
        seats: The seats of a match, in the environment's order.
        ratings: Makes the table of ratings, called with ``anchors=`` and ``seats=``; None: nobody is rated.
        budget: Training budget of the run; None for no limits.

    Attributes:
        players: The players by name.
        models: All frozen models by participant, in the order in which they were frozen.
        pools: The members of every pool, oldest first.
        elapsed_s: How long the run has trained; kept up by the coordinator.
    """

    def __init__(
        self,
        store: Store,
        *,
        players: Mapping[str, Player],
        anchors: Sequence[str],
        seats: tuple[Seat, ...],
        ratings: Callable[..., RatingTable] | None = None,
        budget: TrainingBudget | None = None,
    ) -> None:
        self.store = store
        self.seats = seats
        self.anchors = tuple(anchors)
        if store.writable:
            store.declare(players, anchors=anchors, seats=seats)
        self.models: dict[str, ModelRecord] = {}
        self.players = {
            name: PlayerView(name=name, role=role, team=team, live=f"{name}@0+", models=(), decisions=0)
            for name, (role, team) in players.items()
        }
        self.pools: dict[str, list[str]] = {}
        self.elapsed_s = store.counters().get("elapsed_s", 0.0)
        self._budget = budget or TrainingBudget()
        self._payoffs = Payoffs(lambda participant: inherited(participant, self.players))
        self._ratings = None if ratings is None else ratings(anchors=self.anchors, seats=seats)
        self._load()

    @classmethod
    def of(cls, store: Store, ratings: Callable[..., RatingTable] | None = None) -> League:
        """Return the league as the store describes it, for looking at; without `ratings` nobody is rated."""
        return cls(store, players=store.players(), anchors=store.anchors(), seats=store.seats(), ratings=ratings)

    def _load(self) -> None:
        self._add_models(self.store.models.records())
        for record in self.store.pools.records():
            if parse(record.change.model).player in self.players:  # else it has left the configuration
                self._change_pool(record.change)
        for (kind, a, b), count in self.store.payoffs.totals().items():
            self._count(kind, a, b, count)
        self._replay(0)
        counters, shares = self.store.counters(), MatchmakingState.load(self.store).shares
        for name, view in self.players.items():
            # A player that has no share in the state is new or has left the configuration.
            share = shares.get(name, 0.0 if shares else view.share)
            decisions = int(counters.get(f"decisions/{name}", 0))
            self.players[name] = attrs.evolve(view, decisions=decisions, share=share)
        if self.store.writable:
            self.forget_unsaved(self.players)

    # --- what matchmakers ask -------------------------------------------------------------------------------------

    @property
    def num_teams(self) -> int:
        """Return the number of teams in a match; 0 where a run was stopped before it began."""
        return 1 + max((seat.team for seat in self.seats), default=-1)

    @property
    def decisions(self) -> int:
        """Return the decisions that all players have learned from."""
        return sum(view.decisions for view in self.players.values())

    @property
    def progress(self) -> float:
        """Return the share of the training budget that is used, in [0, 1]; 0 without a budget."""
        return self._budget.progress(decisions=self.decisions, elapsed_s=self.elapsed_s)

    def frozen_s(self, model: str) -> float:
        """Return when a model was frozen, in seconds of training."""
        return float(self.models[model].manifest.get("elapsed_s", 0.0))

    def team(self, participant: str) -> int | None:
        """Return the team that a player's model is made for; None where it may take any, as anchors may."""
        view = self.players.get(parse(participant).player)
        return None if view is None else view.team

    def pool(self, name: str) -> tuple[str, ...]:
        """Return the models of a pool, oldest first; an unknown pool is empty."""
        return tuple(self.pools.get(name, ()))

    def payoff(self, participant: str, opponents: Sequence[str]) -> np.ndarray:
        """Return ``[n, 3] float64``: wins, draws, losses of `participant` against each opponent.

        Where either side is live, its earlier weights (frozen and live), back to its last reset, are included; their
        weight halves with every model, on each side. So ``payoff(a, [b])`` always mirrors ``payoff(b, [a])``.
        """
        return self._payoffs.payoff(participant, opponents)

    def recent(self, player: str, opponents: Sequence[str]) -> np.ndarray:
        """Return ``[n, 3] float64``: wins, draws, losses of a player's live weights of late.

        The weight of a match halves with every 256 later ones of the same pair. Counted since this start of the run
        and since the last reset of either side.
        """
        return self._payoffs.recent(player, [unnumbered(name) for name in opponents])

    def rating(self, participant: str) -> Rating:
        """Return the rating from evaluation matches; an unrated participant has the prior with 0 matches."""
        return Rating(0.0, np.inf, 0) if self._ratings is None else self._ratings.rating(participant)

    # --- what the coordinator does --------------------------------------------------------------------------------

    def create_fixture(self, fixture: Fixture) -> Fixture:
        """Add a fixture to the store (durable after its next commit) and return it as samplers get it.

        Args:
            fixture: What is to be played; its id and the hashes of its models are given here.

        Raises:
            StoreError: A participant cannot play now.
        """
        for participant in fixture.participants:
            if not self.is_playable(participant):
                raise StoreError(f"participant {participant!r} cannot play now: not live, frozen, or an anchor")
        return self._with_models(self.store.fixtures.add(fixture))

    def is_playable(self, participant: str) -> bool:
        """Return whether a participant can play now: the present live weights, a frozen model, an anchor."""
        view = self.players.get(parse(participant).player)
        if view is None:
            return participant in self.anchors
        return participant == view.live or participant in self.models

    def open_fixtures(self) -> list[Fixture]:
        """Return the fixtures to hand out again after a restart.

        A fixture with live weights that have been frozen since, or with a participant who is gone, cannot be played
        any more: it is closed.
        """
        playable = []
        for fixture in self.store.fixtures.unfinished():
            if all(map(self.is_playable, fixture.participants)):
                playable.append(self._with_models(fixture))
            elif self.store.writable:
                self.store.fixtures.close(fixture.id)
        return playable

    def record(self, arrays: Mapping[str, np.ndarray]) -> RecordedResults:
        """Add results to the log and the payoffs; they may be acknowledged after the store's next commit.

        Args:
            arrays: As in `ludus._messaging.messages.Results`.

        Returns:
            What was new; ``.fixtures`` has one summary per fixture.

        Raises:
            WireError: The arrays have other shapes, dtypes or ranges.
            StoreError: The disk refused. The store has dropped what was not committed, so this object is not to be
                used any more.
        """
        recorded = self.store.matches.add_results(arrays)
        for (kind, a, b), count in recorded.payoffs.items():
            self._count(kind, a, b, count)
            if a.endswith("+") and self._is_current(a) and self._is_current(b):
                self._payoffs.add_recent(parse(a).player, unnumbered(b), count)
        if rated := [new.fixture.id for new in recorded.fixtures if new.fixture.kind == "eval"]:
            self._replay(min(rated))
        return recorded

    def freeze(self, player: str, *, hash: str, decisions: int, version: int, manifest: Mapping[str, Any]) -> str:
        """Add the next frozen model of a player, whose file is on the disk, and return its name."""
        number = 1 + len(self.players[player].models)
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
        self._add_models([model])
        self.set_decisions(player, max(decisions, self.players[player].decisions))
        return model.participant

    def apply(self, changes: Iterable[PoolChange]) -> None:
        """Let models enter and leave pools. A change that changes nothing is not logged.

        Raises:
            StoreError: A model is unknown.
        """
        for change in changes:
            if change.model not in self.models:
                raise StoreError(f"pool {change.pool}: {change.model!r} is not a frozen model of this league")
            if (change.model in self.pools.get(change.pool, ())) != change.enters:
                self.store.pools.add(change)
                self._change_pool(change)

    def set_share(self, player: str, share: float) -> None:
        """Set a player's share of the ticks of training matches."""
        self.players[player] = attrs.evolve(self.players[player], share=share)

    def set_decisions(self, player: str, decisions: int) -> None:
        """Note how many decisions a player has learned from."""
        self.store.set_counter(f"decisions/{player}", decisions)
        self.players[player] = attrs.evolve(self.players[player], decisions=decisions)

    def forget_unsaved(self, players: Iterable[str]) -> None:
        """Count no decisions that players whose learners are gone had learned from and not saved."""
        saved = self.store.checkpoints.saved_decisions()
        for name in players:
            if saved.get(name, 0) != self.players[name].decisions:
                self.set_decisions(name, saved.get(name, 0))

    def resolve(self, name: str) -> str:
        """Return the participant that a person means.

        ``main_agent@latest`` is the newest frozen model (the live one before the first freeze), ``main_agent@live``
        and ``main_agent`` the live one; exact names and anchors are themselves.

        Raises:
            ConfigError: There is no such participant; the message says which name comes close.
        """
        player, _, which = name.partition("@")
        if player in self.players and which in {"", "live", "latest"}:
            view = self.players[player]
            return view.models[-1] if which == "latest" and view.models else view.live
        if name in self.anchors or self.is_playable(name):
            return name
        names = [*self.anchors, *self.models, *self.players, *(f"{player}@latest" for player in self.players)]
        hint = did_you_mean(name, names) or f" — there are: {', '.join(names[:12])}"
        raise ConfigError(f"participant {name!r}: not in this league{hint}")

    # --- inside ---------------------------------------------------------------------------------------------------

    def _is_current(self, participant: str) -> bool:
        """Return whether the weights of a live participant belong to its player's present generation."""
        name = parse(participant)
        view = self.players.get(name.player)
        return not name.live or (
            view is not None and name.number is not None and name.number >= view.generation_starts[-1]
        )

    def _with_models(self, fixture: Fixture) -> Fixture:
        models = {name: self.models[name].hash for name in fixture.participants if name in self.models}
        return attrs.evolve(fixture, models=models)

    def _add_models(self, models: Iterable[ModelRecord]) -> None:
        """Add frozen models, oldest first; a view is made once for all models of its player."""
        added: dict[str, list[ModelRecord]] = {}
        for model in models:
            self.models[model.participant] = model
            added.setdefault(model.player, []).append(model)
        for player in self.players.keys() & added:
            view, new = self.players[player], added[player]
            generation_starts, born, decisions = (
                view.generation_starts,
                view.generation_start_decisions,
                view.frozen_decisions,
            )
            for model in new:
                decisions = max(decisions, model.decisions)  # a learner may have gone on from an older checkpoint
                if model.manifest.get("generation", 0) >= len(generation_starts):
                    generation_starts, born = (*generation_starts, model.number), decisions
                    self._payoffs.forget_recent(player)
            self.players[player] = attrs.evolve(
                view,
                live=f"{new[-1].participant}+",
                models=(*view.models, *(model.participant for model in new)),
                generation_starts=generation_starts,
                generation_start_decisions=born,
                frozen_decisions=decisions,
            )

    def _change_pool(self, change: PoolChange) -> None:
        members = self.pools.setdefault(change.pool, [])
        if change.enters:
            members.append(change.model)
        elif change.model in members:  # it is not where somebody else wrote the log
            members.remove(change.model)

    def _count(self, kind: str, a: str, b: str, count: np.ndarray) -> None:
        self._payoffs.add(a, b, count)
        if self._ratings is not None and kind == "eval" and not (a.endswith("+") or b.endswith("+")):
            self._ratings.add(a, b, count)

    def _replay(self, first: int) -> None:
        if self._ratings is not None:
            self._ratings.replay(first, self.store.matches.records(kind="eval", first=first))
