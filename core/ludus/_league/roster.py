"""The players, models and anchors of a league."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import attrs

from ludus._league.participants import parse
from ludus._store.store import Player
from ludus.errors import ConfigError
from ludus.matchmaker import PlayerView, PoolChange
from ludus.printing import did_you_mean
from ludus.records import Fixture, ModelRecord


class Roster:
    """Tracks which participants a league has.

    Args:
        players: Role and team by player; the team is None where a player may take any.
        anchors: The scripted participants.
        anchor_teams: Teams of the anchors that play one team only.

    Attributes:
        players: The players by name.
        models: All frozen models by participant, in the order in which they were frozen.
        anchors: The scripted participants.
        quarantined: Models that are not to play, because their files are damaged, or because they are retired.
    """

    def __init__(
        self,
        players: Mapping[str, Player],
        anchors: Sequence[str],
        anchor_teams: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.players = {
            name: PlayerView(name=name, role=role, team=team, live=f"{name}@0+", models=(), decisions=0)
            for name, (role, team) in players.items()
        }
        self.models: dict[str, ModelRecord] = {}
        self.anchors = tuple(anchors)
        self.quarantined: set[str] = set()
        self._anchor_teams = anchor_teams

    def update(self, player: str, **values: float) -> None:
        """Set a player's `decisions` or its `share`."""
        self.players[player] = attrs.evolve(self.players[player], **values)  # type: ignore[arg-type]

    def add_models(self, models: Iterable[ModelRecord]) -> list[str]:
        """Add frozen models, oldest first, and return the players that begin a new generation with them."""
        by_player: dict[str, list[ModelRecord]] = {}
        for model in models:
            self.models[model.participant] = model
            by_player.setdefault(model.player, []).append(model)
        reset = []
        for player in self.players.keys() & by_player:
            before = self.players[player]
            view = self.players[player] = _with_models(before, by_player[player])  # one new view for all models
            if view.generation > before.generation:
                reset.append(player)
        return reset

    def quarantine(self, model: str) -> None:
        """Take a frozen model out of those of its player that can play."""
        self.quarantined.add(model)
        if view := self.players.get(self.models[model].player):
            models = tuple(name for name in view.models if name != model)
            self.players[view.name] = attrs.evolve(view, models=models)

    def readmit(self, model: str) -> None:
        """End the quarantine of a model."""
        self.quarantined.discard(model)
        if view := self.players.get(self.models[model].player):
            models = (name for name, record in self.models.items() if record.player == view.name)
            self.players[view.name] = attrs.evolve(view, models=tuple(filter(self.is_playable, models)))

    def team(self, participant: str) -> int | None:
        """Return the team of a player's model, live weights or an anchor; None where it may take any."""
        view = self.players.get(parse(participant).player)
        return self._anchor_teams.get(participant) if view is None else view.team

    def is_playable(self, participant: str) -> bool:
        """Return whether a participant can play now: present live weights, a frozen model or an anchor."""
        view = self.players.get(parse(participant).player)
        if view is None:
            return participant in self.anchors
        return participant == view.live or (participant in self.models and participant not in self.quarantined)

    def pool_problem(self, change: PoolChange) -> str:
        """Return why a change of a pool is impossible; empty if it is possible."""
        if change.model not in self.models:
            return f"{change.model!r} is not a frozen model of this league"
        is_damaged = change.enters and change.model in self.quarantined
        return f"the file of {change.model!r} is damaged or deleted; restore it first" if is_damaged else ""

    def is_current(self, participant: str) -> bool:
        """Return whether a participant is not live, or its weights belong to its player's present generation."""
        name = parse(participant)
        view = self.players.get(name.player)
        return not name.live or (
            view is not None and name.number is not None and name.number >= view.generation_starts[-1]
        )

    def with_hashes(self, fixture: Fixture) -> Fixture:
        """Return a fixture with the hashes of its frozen models."""
        hashes = {name: self.models[name].hash for name in fixture.participants if name in self.models}
        return attrs.evolve(fixture, models=hashes)

    def resolve(self, name: str) -> str:
        """Return the participant that a user's text names.

        ``main_agent@latest`` is the newest frozen model (the live weights before the first freeze). ``main_agent@live``
        and ``main_agent`` are the live weights. Full names of participants name themselves.

        Raises:
            ConfigError: There is no such participant; the message suggests a similar name and lists what exists.
        """
        player, _, suffix = name.partition("@")
        if player in self.players and suffix in {"", "live", "latest"}:
            view = self.players[player]
            return view.models[-1] if suffix == "latest" and view.models else view.live
        if name in self.anchors or name in self.models or self.is_playable(name):
            return name
        names = [*self.anchors, *self.models, *self.players, *(f"{player}@latest" for player in self.players)]
        hint = did_you_mean(name, names) or ";"
        raise ConfigError(f"participant {name!r}: not in this league{hint} {self._describe()}")

    def _describe(self) -> str:
        """Return the models and anchors as text."""
        models = [
            view.models[0] if len(view.models) == 1 else f"{view.models[0]} to {view.models[-1]}"
            for view in self.players.values()
            if view.models
        ]
        return f"models are {', '.join(models) or 'none'}; anchors are {', '.join(self.anchors) or 'none'}"


def _with_models(view: PlayerView, models: Sequence[ModelRecord]) -> PlayerView:
    """Return a player's view with new models, oldest first."""
    generation_starts, start_decisions = view.generation_starts, view.generation_start_decisions
    decisions = view.frozen_decisions
    for model in models:
        decisions = max(decisions, model.decisions)  # less where a learner resumed from an older checkpoint
        if model.manifest.get("generation", 0) >= len(generation_starts):
            generation_starts, start_decisions = (*generation_starts, model.number), decisions
    return attrs.evolve(
        view,
        live=f"{models[-1].participant}+",
        models=(*view.models, *(model.participant for model in models)),
        generation_starts=generation_starts,
        generation_start_decisions=start_decisions,
        frozen_decisions=decisions,
    )
