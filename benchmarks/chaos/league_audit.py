"""Recompute the state of a league from its log, to compare it with the league after every fault.

The counts come from the rows of the log and share no code with payoffs, pools and players of the league; only the
ratings are fitted by the same code. The compared league is the one that a start of the coordinator would load.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from attrs import define, field, frozen
from ludus._league.league import League
from ludus._store.store import Store
from ludus.matchmaker import rated_names
from ludus.records import ModelRecord
from ludus_ratings.elo_table import EloTable

_DEPTH = 16  # models of a player from which its live weights inherit results

#: (a, b) → wins, draws, losses of a against b.
Counts: TypeAlias = "dict[tuple[str, str], np.ndarray]"


@define
class LeagueAudit:
    """Compares the league of one run with its log, and with the state at the call before."""

    _last: dict[str, Any] = field(init=False, factory=dict)

    def __call__(self, store: Store) -> list[str]:
        """Return one line for every difference; empty if there is none."""
        state = _durable_state(store)
        lost = [
            f"{name}: was {value}, is {state.get(name)}"
            for name, value in self._last.items()
            if not _is_kept(value, state.get(name))
        ]
        self._last = state
        return [*lost, *_audit(store)]


def _durable_state(store: Store) -> dict[str, Any]:
    """Return numbers that must not decrease, and lists that may only grow at their end.

    Decisions are those of the checkpoints: what was learned since the last one is lost with its learner.
    """
    counters = {name: value for name, value in store.counters().items() if not name.startswith("decisions/")}
    state: dict[str, Any] = {f"counter {name}": value for name, value in counters.items()}
    for (kind, a, b), count in store.payoffs.totals().items():
        results = zip(("wins", "draws", "losses"), count, strict=True)
        state |= {f"{kind} {a} {b} {name}": int(number) for name, number in results}
    for record in store.fixtures.records():
        state[f"matches of fixture {record.fixture.id}"] = record.played
    for player, saved in store.checkpoints.latest().items():
        state |= {f"checkpoint of {player}, version": saved.version, f"{player}, decisions": saved.decisions}
    state["fixtures"] = [record.fixture for record in store.fixtures.records()]
    state["models"] = list(store.models.records())
    state["pools"] = list(store.pools.records())
    return state


def _is_kept(old: Any, new: Any) -> bool:
    if new is None:
        return False
    return bool(new[: len(old)] == old if isinstance(old, list) else new >= old)


def _audit(store: Store) -> list[str]:
    league, log = League.of(store, EloTable), _MatchCounts.read(store)
    return [
        *_audit_payoffs(league, log.all),
        *_audit_ratings(league, log.rated),
        *_audit_pools(league, store),
        *_audit_players(league, store),
        *_audit_counters(league, store, log.trained),
    ]


@frozen(kw_only=True)
class _MatchCounts:
    """Results in the match log.

    Attributes:
        all: Results of all matches, by pair of participants.
        rated: Results of rating matches.
        trained: Number of training matches.
    """

    all: Counts
    rated: Counts
    trained: int

    @classmethod
    def read(cls, store: Store) -> _MatchCounts:
        seats = store.seats()
        teams = [seat.team for seat in seats]
        rows = store.execute("SELECT id, kind, seats FROM fixtures")
        fixtures = {
            number: (kind, _pairs(rated_names(json.loads(names), seats), teams)) for number, kind, names in rows
        }
        counts = cls(all=defaultdict(lambda: np.zeros(3)), rated=defaultdict(lambda: np.zeros(3)), trained=0)
        trained = 0
        for fixture, played, outcomes in store.execute("SELECT fixture, played, outcomes FROM matches"):
            kind, pairs = fixtures[fixture]
            result = _results(outcomes, played)
            _add(counts.all, pairs, result)
            if kind == "eval":
                _add(counts.rated, pairs, result)
            trained += played if kind == "train" else 0
        return cls(all=counts.all, rated=counts.rated, trained=trained)


def _results(outcomes: bytes, played: int) -> np.ndarray:
    """Return wins, draws and losses of team 0 in the matches of one row, see `ludus._store.match_arrays`."""
    count = 1 + outcomes[0]
    points = np.frombuffer(outcomes[1 : 1 + 8 * count], np.float32).reshape(count, 2)
    bits, codes = (count - 1).bit_length(), int.from_bytes(outcomes[1 + 8 * count :], "little")
    lead = [points[codes >> i * bits & (1 << bits) - 1] @ (1, -1) for i in range(played)]
    return np.array([sum(x > 0 for x in lead), sum(x == 0 for x in lead), sum(x < 0 for x in lead)])


def _pairs(participants: Sequence[str], teams: Sequence[int]) -> set[tuple[str, str]]:
    """Return the pairs of different participants of team 0 and team 1."""
    first, second = ({name for name, team in zip(participants, teams, strict=True) if team == side} for side in (0, 1))
    return {(a, b) for a in first for b in second if a != b}


def _add(counts: Counts, pairs: set[tuple[str, str]], result: np.ndarray) -> None:
    for a, b in pairs:
        counts[a, b] = counts[a, b] + result
        counts[b, a] = counts[b, a] + result[::-1]


def _inherited_weights(league: League, name: str) -> dict[str, float]:
    """Return the participants whose results count for a participant, with their weights.

    A live participant inherits from its earlier weights since the last reset; the weight halves with every model.
    """
    view = next((view for view in league.players.values() if view.live == name), None)
    if view is None:
        return {name: 1.0}
    newest, first = int(view.live.removeprefix(f"{view.name}@").removesuffix("+")), view.generation_starts[-1]
    numbers = range(max(first, newest - _DEPTH + 1), newest + 1)
    live = {f"{view.name}@{number}+": 0.5 ** (newest - number) for number in numbers}
    return live | {f"{view.name}@{number}": 0.5 ** (newest - number) for number in numbers if number > first}


def _audit_payoffs(league: League, counts: Counts) -> Iterator[str]:
    participants = [*league.models, *league.rated_anchors, *(view.live for view in league.players.values())]
    expected = _weighted_payoffs([_inherited_weights(league, name) for name in participants], counts)
    payoffs = np.stack([league.payoff(name, participants) for name in participants])
    different = ~np.isclose(payoffs, expected).all(axis=2)
    np.fill_diagonal(different, val=False)
    for i, j in np.argwhere(different):
        got = f"{payoffs[i, j].tolist()}, counted {expected[i, j].tolist()}"
        yield f"payoff of {participants[i]} against {participants[j]}: {got}"


def _weighted_payoffs(weights: Sequence[dict[str, float]], counts: Counts) -> np.ndarray:
    """Return wins, draws and losses of n participants against each other, ``[n, n, 3]``."""
    index = {name: i for i, name in enumerate({name for pair in counts for name in pair}.union(*weights))}
    weight = np.zeros((len(weights), len(index)))
    for row, inherited in zip(weight, weights, strict=True):
        row[[index[name] for name in inherited]] = list(inherited.values())
    table = np.zeros((3, len(index), len(index)))
    for (a, b), count in counts.items():
        table[:, index[a], index[b]] = count
    return np.moveaxis(weight @ table @ weight.T, 0, -1)


def _audit_ratings(league: League, rated: Counts) -> Iterator[str]:
    table = EloTable(anchors=league.rated_anchors, seats=league.seats, sides=league.sides)
    for (a, b), count in sorted(rated.items()):
        if not (a.endswith("+") or b.endswith("+")):
            table.add(a, b, count.astype(np.int64))
    for name in (*league.models, *league.rated_anchors):
        got, expected = league.rating(name), table.rating(name)
        if got.matches != expected.matches or abs(got.mean - expected.mean) > 1e-3:
            yield f"rating of {name}: {got}, counted {expected}"


def _audit_pools(league: League, store: Store) -> Iterator[str]:
    pools: dict[str, list[str]] = defaultdict(list)
    entered = set()
    for change in (record.change for record in store.pools.records()):
        if change.enters:
            entered.add((change.pool, change.model))
            pools[change.pool].append(change.model)
        elif change.model in pools[change.pool]:
            pools[change.pool].remove(change.model)
        else:
            yield f"pool {change.pool}: {change.model} leaves, but is not in the pool"
    for name in pools.keys() | league.pools.keys():
        if league.pool(name) != tuple(pools[name]):
            yield f"pool {name}: {league.pool(name)}, the log has {pools[name]}"
    for model in store.models.records():
        if model.player in pools and (model.player, model.participant) not in entered:
            yield f"pool {model.player}: {model.participant} never entered"


def _audit_players(league: League, store: Store) -> Iterator[str]:
    shares, quarantined = store.meta("matchmaking", {}).get("shares", {}), store.quarantine.records().keys()
    for view in league.players.values():
        models = [model for model in store.models.records() if model.player == view.name]
        expected_view = _expected_view(view.name, models, quarantined=quarantined, share=shares.get(view.name, 1.0))
        for name, expected in expected_view.items():
            if getattr(view, name) != expected:
                yield f"{view.name}: {name} {getattr(view, name)}, the log has {expected}"


def _expected_view(
    name: str, models: Sequence[ModelRecord], *, quarantined: Collection[str], share: float
) -> dict[str, Any]:
    """Return the expected fields of a player view, given the models of the player."""
    generations = [0, *(model.manifest.get("generation", 0) for model in models)]
    resets = [i for i, step in enumerate(np.diff(generations)) if step]
    decisions = np.maximum.accumulate([0, *(model.decisions for model in models)])[1:]
    return {
        "models": tuple(
            x for x in (f"{name}@{number}" for number in range(1, len(models) + 1)) if x not in quarantined
        ),
        "live": f"{name}@{len(models)}+",
        "generation_starts": (0, *(i + 1 for i in resets)),
        "generation_start_decisions": int(decisions[resets[-1]]) if resets else 0,
        "frozen_decisions": int(decisions[-1]) if models else 0,
        "share": share,
    }


def _audit_counters(league: League, store: Store, trained: int) -> Iterator[str]:
    counters, matchmaking = store.counters(), store.meta("matchmaking", {})
    if counters.get("matches", 0) != trained:
        yield f"counter of training matches: {counters.get('matches', 0):.0f}, the log has {trained}"
    if store.matches.count(kind="train") != trained:
        yield f"number of training matches: {store.matches.count(kind='train')}, the log has {trained}"
    if matchmaking.get("rules_applied_at", 0) > trained:
        yield f"rules were applied after {matchmaking['rules_applied_at']} matches, the log has {trained}"
    for name in league.players:
        frozen_decisions = [model.decisions for model in store.models.records() if model.player == name]
        if counters.get(f"decisions/{name}", 0) < max(frozen_decisions, default=0):
            yield f"{name}: {counters[f'decisions/{name}']:.0f} decisions, a model has {max(frozen_decisions)}"
    latest = max((model.manifest["elapsed_s"] for model in store.models.records()), default=0.0)
    if counters.get("elapsed_s", 0.0) < latest:
        yield f"{counters['elapsed_s']:.1f} s of training, a model was frozen after {latest:.1f}"
