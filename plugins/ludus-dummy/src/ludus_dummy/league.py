"""Components of a league: the matchmaker ``dummy-uniform``, the rating ``dummy-share`` and the rule ``dummy-reset``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from ludus.environment import Seat
from ludus.matchmaker import LeagueView, Matchmaker, Pairing, PoolChange, Rating
from ludus.rule import Reset
from ludus.runs import MatchRecord

from ludus_dummy.config import ResetConfig, ShareConfig, UniformConfig

_POOL = "dummy"


class Uniform:
    """Chooses uniformly among live players, or among the models of the pool ``dummy``."""

    def __init__(self, config: UniformConfig, *, build: Callable[[str], Matchmaker]) -> None:
        del build  # for mixtures only
        self._config = config

    def next_fixture(self, league: LeagueView, player: str, rng: np.random.Generator) -> Pairing:
        """Return an opponent for every other team; see `ludus.matchmaker.Matchmaker`."""
        own = league.players[player].team
        teams = [team for team in range(league.num_teams) if team != (0 if own is None else own)]
        live = rng.random() < self._config.self_play
        opponents = tuple(self._opponent(league, player, team=team, live=live, rng=rng) for team in teams)
        return Pairing(opponents=opponents, reason="uniform: live" if live else "uniform: pool")

    def next_evaluation(self, league: LeagueView, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return one participant per team, drawn from all models and anchors; None without a choice."""
        participants = [*league.pool(_POOL), *league.anchors]
        seats = [_select_team(league, participants, team) for team in range(league.num_teams)]
        if not all(seats) or len(participants) < 2:
            return None
        return tuple(str(rng.choice(names)) for names in seats)

    def on_model_frozen(self, league: LeagueView, player: str, model: str) -> Sequence[PoolChange]:
        """Add the model to the pool, and remove the player's oldest models beyond `keep`."""
        own = [name for name in league.pool(_POOL) if name in league.players[player].models and name != model]
        leaving = own[: max(0, len(own) + 1 - self._config.keep)]
        return [
            PoolChange(pool=_POOL, model=model, enters=True),
            *(PoolChange(pool=_POOL, model=name, enters=False) for name in leaving),
        ]

    @staticmethod
    def _opponent(league: LeagueView, player: str, *, team: int, live: bool, rng: np.random.Generator) -> str:
        frozen = _select_team(league, league.pool(_POOL), team)
        players = _select_team(league, [view.live for view in league.players.values()], team)
        anchors = _select_team(league, league.anchors, team)
        choices = (players or frozen or anchors) if live else (frozen or players or anchors)
        return str(rng.choice(choices)) if choices else league.players[player].live


def _select_team(league: LeagueView, participants: Sequence[str], team: int) -> list[str]:
    """Return the participants that can play for a team."""
    return [name for name in participants if league.team(name) in {None, team}]


class ShareTable:
    """Rates by the share of points in percent, regardless of the opponents."""

    def __init__(
        self,
        config: ShareConfig,
        *,
        anchors: Sequence[str],  # noqa: ARG002
        seats: Sequence[Seat],  # noqa: ARG002
        sides: Mapping[str, str],  # noqa: ARG002
    ) -> None:
        self._prior = config.prior_matches
        self._counts: dict[str, np.ndarray] = {}

    def add(self, a: str, b: str, count: np.ndarray) -> None:  # noqa: ARG002 - opponents do not matter
        """Add wins, draws and losses of a."""
        self._counts[a] = self._counts.get(a, np.zeros(3, np.int64)) + count

    def replay(self, first: int, matches: Iterable[MatchRecord]) -> None:
        """Do nothing: the rating depends on sums only."""

    def rating(self, participant: str) -> Rating:
        """Return the share of points in percent."""
        wins, draws, losses = (int(n) for n in self._counts.get(participant, (0, 0, 0)))
        weight = wins + draws + losses + self._prior
        mean = 100 * (wins + (draws + self._prior) / 2) / weight
        return Rating(mean, 50 / math.sqrt(weight), wins + draws + losses)


class ResetRule:
    """Resets every player whose generation has frozen a number of models."""

    def __init__(self, config: ResetConfig) -> None:
        self._models = config.models

    def decide(self, league: LeagueView, rng: np.random.Generator) -> list[Reset]:  # noqa: ARG002 - signature of rules
        """Return a reset for every player whose generation is old enough."""
        return [
            Reset(player=player.name, reason=f"generation {player.generation} has {self._models} models")
            for player in league.players.values()
            if player.num_frozen - player.generation_starts[-1] >= self._models
        ]
