"""Changes of the league: the rules that decide on them, freeze requests, and new frozen models."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import define, field

from ludus._league.fixtures import TrainingFixtures
from ludus._league.league import League
from ludus._league.outbox import Outbox
from ludus._league.validation import checked_changes, checked_pool_changes, wrap_answer_errors
from ludus._messaging.messages import FreezeRequest, ModelAck, ModelFrozen
from ludus._store.model_files import load_manifest
from ludus.launcher import learner_name
from ludus.matchmaker import Matchmaker, PlayerView
from ludus.rule import Change, Freeze, PoolChange, Reset, Rule, Share


@define
class FreezeRequests:
    """Requests of rules that learners have not fulfilled yet, at most one per player.

    A request is repeated until it is fulfilled. Learners ignore repetitions.
    """

    league: League
    outbox: Outbox
    pending: dict[str, FreezeRequest] = field(init=False, factory=dict)  # by player

    def add(self, change: Freeze | Reset) -> None:
        """Request a model of a player, and a reset after it for a `Reset`; ignored while another request is pending."""
        player = change.player
        if player in self.pending:
            return
        view = self.league.players[player]
        generation, init = view.generation, ""
        if isinstance(change, Reset):
            generation, init = generation + 1, self.league.models[change.init].hash if change.init else ""
        self.pending[player] = FreezeRequest(
            player=player, model=view.num_frozen + 1, generation=generation, init=init, reason=change.reason
        )
        self.send(player)

    def send(self, player: str) -> None:
        """Queue the pending request of a player, if there is one, for its learner."""
        if request := self.pending.get(player):
            self.outbox.send(learner_name(player), request)

    def withdraw(self, init: str) -> None:
        """Remove the resets to the model of a hash."""
        for player, request in list(self.pending.items()):
            if request.init == init:
                del self.pending[player]

    def complete(self, view: PlayerView) -> None:
        """Remove the request of a player once the league has the requested model and generation."""
        request = self.pending.get(view.name)
        if request is not None and view.num_frozen >= request.model and view.generation >= request.generation:
            del self.pending[view.name]


@define
class ModelRegistry:
    """Adds frozen models to the league and to pools.

    Args:
        league: The league.
        matchmakers: By player; they choose the pools of its models.
        requests: Pending freeze requests.
        outbox: Queue of answers and events.
    """

    league: League
    matchmakers: Mapping[str, Matchmaker]
    requests: FreezeRequests
    outbox: Outbox

    def register(self, learner: str, message: ModelFrozen) -> None:
        """Add a model whose file is on the disk; a repeated message adds nothing.

        Raises:
            LudusError: The manifest cannot be read, or the matchmaker failed. The model is in the league all the same
                in the second case.
        """
        player = message.player
        is_new = self._is_new(message)
        if is_new:
            self._add(message)
        view = self.league.players[player]
        self.requests.complete(view)
        self.outbox.acknowledge(learner, ModelAck(number=message.number, models=view.num_frozen))
        if is_new:  # last, because plugin code may raise
            self.admit(player, view.models[-1])

    def _is_new(self, message: ModelFrozen) -> bool:
        # Equal weights after more decisions are another model: the learner has counted it.
        models = [model for model in self.league.models.values() if model.player == message.player]
        known = {(model.hash, model.manifest.get("generation", 0), model.decisions) for model in models}
        return (message.hash, message.generation, message.decisions) not in known

    def _add(self, message: ModelFrozen) -> None:
        parent = self.league.models.get(self.league.players[message.player].live.removesuffix("+"))
        manifest = load_manifest(self.league.store.run_dir / "models", message.hash)
        manifest |= {
            "parent": None if parent is None else parent.hash,
            "generation": message.generation,
            "init": message.init,
            "reason": message.reason,
            "elapsed_s": self.league.elapsed_s,
        }
        # The league chooses the number: a learner and its successor may have sent the same one.
        participant = self.league.freeze(
            message.player,
            hash=message.hash,
            decisions=message.decisions,
            version=message.version,
            manifest=manifest,
        )
        self.outbox.emit("ludus_model_frozen", player=message.player, model=participant, manifest=manifest)

    def admit(self, player: str, participant: str) -> None:
        """Apply the pool changes that a player's matchmaker makes for its new model.

        Raises:
            LudusError: The matchmaker failed, or its answer is invalid.
        """
        if player in self.matchmakers:
            with wrap_answer_errors(f"matchmaker of player {player!r}"):
                changes = self.matchmakers[player].on_model_frozen(self.league, player, participant)
                changes = checked_pool_changes(changes, self.league)
            self.league.apply(changes)
            self.outbox.needs_commit = True

    def admit_missed(self) -> None:
        """Admit models that were committed just before a crash and are in the log of no pool."""
        logged = {record.change.model for record in self.league.store.pools.records()}
        for participant, model in self.league.models.items():
            if participant not in logged and participant not in self.league.roster.quarantined:
                self.admit(model.player, participant)


@define(kw_only=True)
class RuleRunner:
    """Calls the rules of a league and applies the changes that they return.

    Args:
        rules: By name, in the order in which they are called.
        league: The league.
        training: Applies changes of shares.
        requests: Sends freezes and resets to learners.
        outbox: Outbox that schedules the next commit.
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

    def apply_initial_shares(self) -> None:
        """Apply the changes of shares before the first match of a run; nothing has been learned to be frozen.

        Raises:
            LudusError: A rule failed, or its answer is invalid.
        """
        for name in self.rules:
            for change in self.decide(name, self.rng):
                if isinstance(change, Share):
                    self.apply(change)

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
