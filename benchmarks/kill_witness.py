"""What a league must be, counted anew from its log in the plainest way; `kill.py --league` compares.

The counts come from rows of the log, one fixture after the other, and share no code with the payoffs, pools and players
of the league; only the fit of ratings to the counts does. What is compared is what a start of the coordinator would
find.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from attrs import define, field
from ludus._league.league import League
from ludus._store.store import Store
from ludus_ratings.elo_table import EloTable

_DEPTH = 16  # models of a player whose matches count for its live weights

#: (a, b) → wins, draws, losses of a against b.
Counts: TypeAlias = "dict[tuple[str, str], np.ndarray]"


@define
class Witness:
    """Compares a league with its log, and with what it has seen of it before; for one run, called again and again."""

    _seen: dict[str, Any] = field(init=False, factory=dict)

    def __call__(self, store: Store) -> list[str]:
        """Return what is wrong or gone, one line each; none if all is well."""
        now = _facts(store)
        gone = [
            f"{what}: was {was}, is {now.get(what)}"
            for what, was in self._seen.items()
            if not _kept(was, now.get(what))
        ]
        self._seen = now
        return [*gone, *recount(store)]


def _facts(store: Store) -> dict[str, Any]:
    """Return what is there for good: numbers that do not fall, and lists that only grow at their end."""
    facts: dict[str, Any] = {f"counter {name}": value for name, value in store.counters().items()}
    for (kind, a, b), count in store.payoffs.totals().items():
        facts |= {f"{kind} {a} {b} {what}": int(n) for what, n in zip(("wins", "draws", "losses"), count, strict=True)}
    for record in store.fixtures.records():
        facts[f"matches of fixture {record.fixture.id}"] = record.played
    for player, saved in store.checkpoints.latest().items():
        facts |= {f"checkpoint of {player}, version": saved.version, f"{player}, decisions": saved.decisions}
    facts["fixtures"] = [record.fixture for record in store.fixtures.records()]
    facts["models"] = list(store.models.records())
    facts["pools"] = list(store.pools.records())
    return facts


def _kept(was: Any, now: Any) -> bool:
    if now is None:
        return False
    return bool(now[: len(was)] == was if isinstance(was, list) else now >= was)


def recount(store: Store) -> list[str]:
    """Return what differs between a league and its log, one line each; none if all is well."""
    league = League.of(store, EloTable)
    both, rated, trained = _count(store)
    return [
        *_payoffs(league, both),
        *_ratings(league, rated),
        *_pools(league, store),
        *_players(league, store),
        *_counters(league, store, trained),
    ]


def _count(store: Store) -> tuple[Counts, Counts, int]:
    """Return who beat whom in all matches, the same in rating matches, and the number of training matches."""
    fixtures = {
        i: (kind, json.loads(seats)) for i, kind, seats in store._db.execute("SELECT id, kind, seats FROM fixtures")
    }
    teams = [seat.team for seat in store.seats()]
    both: Counts = defaultdict(lambda: np.zeros(3))
    rated: Counts = defaultdict(lambda: np.zeros(3))
    trained = 0
    for fixture, outcome, count in store._db.execute("SELECT fixture, outcome, count(*) FROM matches GROUP BY 1, 2"):
        kind, seats = fixtures[fixture]
        mine, theirs = np.frombuffer(outcome, np.float32)
        result = np.array([mine > theirs, mine == theirs, mine < theirs]) * count
        trained += count if kind == "train" else 0
        sides = [{seat for seat, team in zip(seats, teams, strict=True) if team == side} for side in (0, 1)]
        for a, b in ((a, b) for a in sides[0] for b in sides[1] if a != b):
            for total in (both, rated) if kind == "eval" else (both,):
                total[a, b] = total[a, b] + result
                total[b, a] = total[b, a] + result[::-1]
    return both, rated, trained


def _weights(league: League, name: str) -> dict[str, float]:
    """Return whose matches count for a participant: for a live one its earlier weights since it began, by halves."""
    view = next((view for view in league.players.values() if view.live == name), None)
    if view is None:
        return {name: 1.0}
    newest, born = len(view.models), view.generation_starts[-1]
    numbers = range(max(born, newest - _DEPTH + 1), newest + 1)
    live = {f"{view.name}@{i}+": 0.5 ** (newest - i) for i in numbers}
    return live | {f"{view.name}@{i}": 0.5 ** (newest - i) for i in numbers if i > born}


def _payoffs(league: League, counts: Counts) -> Iterator[str]:
    everybody = [*league.models, *league.anchors, *(view.live for view in league.players.values())]
    weights = [_weights(league, name) for name in everybody]
    index = {name: i for i, name in enumerate({name for pair in counts for name in pair}.union(*weights))}
    weight = np.zeros((len(everybody), len(index)))
    for row, of in zip(weight, weights, strict=True):
        row[[index[name] for name in of]] = list(of.values())
    table = np.zeros((3, len(index), len(index)))
    for (a, b), count in counts.items():
        table[:, index[a], index[b]] = count
    counted = np.moveaxis(weight @ table @ weight.T, 0, -1)  # [n, n, 3]
    found = np.stack([league.payoff(name, everybody) for name in everybody])
    different = ~np.isclose(found, counted).all(axis=2)
    np.fill_diagonal(different, val=False)
    for i, j in np.argwhere(different):
        was = f"{found[i, j].tolist()}, counted {counted[i, j].tolist()}"
        yield f"payoff of {everybody[i]} against {everybody[j]}: {was}"


def _ratings(league: League, rated: Counts) -> Iterator[str]:
    table = EloTable(anchors=league.anchors)
    for (a, b), count in sorted(rated.items()):
        if not (a.endswith("+") or b.endswith("+")):
            table.add(a, b, count.astype(np.int64))
    for name in (*league.models, *league.anchors):
        found, counted = league.rating(name), table.rating(name)
        if found.matches != counted.matches or abs(found.mean - counted.mean) > 1e-3:
            yield f"rating of {name}: {found}, counted {counted}"


def _pools(league: League, store: Store) -> Iterator[str]:
    pools: dict[str, list[str]] = defaultdict(list)
    entered = set()
    for change in (record.change for record in store.pools.records()):
        if change.enters:
            entered.add((change.pool, change.model))
            pools[change.pool].append(change.model)
        elif change.model in pools[change.pool]:
            pools[change.pool].remove(change.model)
        else:
            yield f"pool {change.pool}: {change.model} leaves but is not in it"
    for name in pools.keys() | league.pools.keys():
        if league.pool(name) != tuple(pools[name]):
            yield f"pool {name}: {league.pool(name)}, the log says {pools[name]}"
    for model in store.models.records():
        if (model.player, model.participant) not in entered:
            yield f"pool {model.player}: {model.participant} never entered it"


def _players(league: League, store: Store) -> Iterator[str]:
    for name, view in league.players.items():
        mine = [model for model in store.models.records() if model.player == name]
        generations = [model.manifest.get("generation", 0) for model in mine]
        begun = [i for i, step in enumerate(np.diff([0, *generations])) if step]
        learned = np.maximum.accumulate([0, *(model.decisions for model in mine)])[1:]
        expected = {
            "models": tuple(f"{name}@{i}" for i in range(1, len(mine) + 1)),
            "live": f"{name}@{len(mine)}+",
            "generation_starts": (0, *(i + 1 for i in begun)),
            "born_decisions": int(learned[begun[-1]]) if begun else 0,
            "frozen_decisions": int(learned[-1]) if mine else 0,
            "share": store.meta("matchmaking", {}).get("shares", {}).get(name, 1.0),
        }
        for what, value in expected.items():
            if getattr(view, what) != value:
                yield f"{name}: {what} {getattr(view, what)}, the log says {value}"


def _counters(league: League, store: Store, trained: int) -> Iterator[str]:
    counters, saved = store.counters(), store.meta("matchmaking", {})
    if counters.get("matches", 0) != trained:
        yield f"counter of training matches: {counters.get('matches', 0):.0f}, the log has {trained}"
    if saved.get("asked", 0) > trained:
        yield f"the rules were asked after {saved['asked']} matches, the log has {trained}"
    for name in league.players:
        learned = [model.decisions for model in store.models.records() if model.player == name]
        if counters.get(f"decisions/{name}", 0) < max(learned, default=0):
            yield f"{name}: {counters[f'decisions/{name}']:.0f} decisions, a model has {max(learned)}"
    latest = max((model.manifest["elapsed_s"] for model in store.models.records()), default=0.0)
    if counters.get("elapsed_s", 0.0) < latest:
        yield f"{counters['elapsed_s']:.1f} s of training, a model was frozen after {latest:.1f}"
