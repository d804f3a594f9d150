"""Final models of many runs play each other and scripted bots, in one process; what was played is kept in a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field, frozen
from ludus.agent import Agent
from ludus.environment import Environment, EnvironmentSpec
from ludus.runs import Run, Score, load_agent, open_run, score
from ludus_ratings import TeamMatch, bradley_terry, openskill_ratings
from ludus_terminal.pairs import play_pair

SEED = 0  # of all matches: every pair plays the same ones
_ROWS = 256  # matches at once at most


@frozen(kw_only=True)
class Entrant:
    """Who plays.

    Args:
        name: What it is called; unique.
        role: Its role.
        key: What it is: the hash of a model, or the name of a scripted agent.
        file: Of the model; None: it is scripted.
        variant: Of the training; empty: it is scripted.
        seed: Of the training.
        player: Whose model it is.
    """

    name: str
    role: str
    key: str
    file: Path | None = None
    variant: str = ""
    seed: int = 0
    player: str = ""


@define
class Arena:
    """Plays pairs that have not been played, and remembers the others.

    Args:
        run: Any run of the study; its environment and its anchors are those of all.
        log: File that results are appended to.
    """

    run: Run
    log: Path
    spec: EnvironmentSpec = field(init=False)
    _known: dict[str, list[int]] = field(init=False, factory=dict)
    _agents: dict[tuple[str, str], Agent] = field(init=False, factory=dict)
    _game: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        environment = self.run.make_environment(1)
        self.spec = environment.spec
        environment.close()
        same = {name: self.run.config.data.get(name) for name in ("environment", "anchors")}
        self._game = hashlib.sha256(json.dumps(same, sort_keys=True, default=str).encode()).hexdigest()[:16]
        if self.log.is_file():
            text = self.log.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]
            if whole != text:  # it was stopped while it wrote the last line
                self.log.write_text(whole, encoding="utf-8")
            entries = map(json.loads, whole.splitlines())
            self._known = {entry["pair"]: entry["found"] for entry in entries}

    @property
    def symmetric(self) -> bool:
        """Return whether anybody can play anybody."""
        return len(self.spec.roles) == 1

    def team(self, entrant: Entrant) -> int:
        """Return the team of an entrant's role, 0 where there is one role for all teams."""
        role = next(role for role in self.spec.roles if role.name == entrant.role)
        return 0 if self.symmetric else role.teams[0]

    def meet(self, a: Entrant, b: Entrant, *, matches: int) -> Score:
        """Return how a did against b, from all sides equally often; in an asymmetric game each has its own side."""
        if self.team(a) > self.team(b):
            found = self.meet(b, a, matches=matches)
            return score(found.losses, found.draws, found.wins)
        pair = f"{self._game} {a.role}:{a.key} {b.role}:{b.key} {matches}"
        if pair not in self._known:
            self._known[pair] = counts = self._play(a, b, matches)
            with self.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"pair": pair, "found": counts}) + "\n")
        return score(*self._known[pair])

    def _play(self, a: Entrant, b: Entrant, matches: int) -> list[int]:
        environment = self.run.make_environment(min(matches, _ROWS))
        try:
            sides = [{who.role: self._agent(who, environment)} for who in (a, b)]
            played = play_pair(environment, sides, matches=matches, seed=SEED)
        finally:
            environment.close()
        return [played.wins, played.draws, played.losses]

    def _agent(self, who: Entrant, environment: Environment) -> Agent:
        known = (who.role, who.key)
        if known not in self._agents or who.file is None:  # scripted agents may know the batch that they play in
            if who.file is None:
                self._agents[known] = self.run.agent(who.key, who.role, environment=environment)
            else:
                self._agents[known] = load_agent(who.file, who.role, spec=environment.spec)
        return self._agents[known]


def models(folder: Path, player: str, *, points: int) -> list[tuple[Entrant, dict[str, float]]]:
    """Return some of a run's models of a player, spread evenly over its training, the last one among them.

    Args:
        folder: Of the run.
        player: Whose.
        points: How many at most.

    Returns:
        Each as an entrant, without variant and seed, and when it was frozen: ``minutes`` and ``decisions`` of training.

    Raises:
        SystemExit: There are none.
    """
    with open_run(folder) as run:
        view = run.league.players[player]
        if not view.models:
            raise SystemExit(f"{folder}: no model of {player} was frozen; delete it and train for longer")
        times = np.array([run.league.frozen_s(model) for model in view.models])
        wanted = np.linspace(times[0], times[-1], points) if points > 1 else times[-1:]
        chosen = {int(np.abs(times - time).argmin()) for time in wanted} | {len(times) - 1}
        found = []
        for i in sorted(chosen):
            record = run.models[view.models[i]]
            file = folder / "models" / f"{record.hash}.safetensors"
            entrant = Entrant(name=record.participant, role=view.role, key=record.hash, file=file, player=player)
            found.append((entrant, {"minutes": float(times[i]) / 60, "decisions": float(record.decisions)}))
    return found


def progress(folder: Path) -> dict[str, Any]:
    """Return for every player of a run its ``decisions`` and ``converged``: after how many minutes a rule said so."""
    with open_run(folder) as run:
        return {
            name: {
                "decisions": view.decisions,
                "models": len(view.models),
                "converged": [
                    run.league.frozen_s(model) / 60
                    for model in view.models
                    if str(run.models[model].manifest.get("reason", "")).startswith("converged")
                ],
            }
            for name, view in run.league.players.items()
        }


def pairs(arena: Arena, entrants: Sequence[Entrant]) -> Iterator[tuple[int, int]]:
    """Yield the indices of who can play each other, but for scripted ones among themselves."""
    for i, j in combinations(range(len(entrants)), 2):
        a, b = entrants[i], entrants[j]
        if (a.variant or b.variant) and (arena.symmetric or arena.team(a) != arena.team(b)):
            yield i, j


def rate(num: int, results: Mapping[tuple[int, int], Score]) -> list[dict[str, float]]:
    """Rate entrants by all matches: ``elo`` (Bradley-Terry) with its interval, ``mu`` and ``sigma`` of openskill.

    Args:
        num: How many entrants there are.
        results: By the indices of two of them.
    """
    points, draws = np.zeros((num, num)), np.zeros((num, num))
    listed: list[TeamMatch] = []
    for (i, j), found in results.items():
        points[i, j] += found.wins + found.draws / 2
        points[j, i] += found.losses + found.draws / 2
        draws[i, j] = draws[j, i] = draws[i, j] + found.draws
        for outcome, times in (((1, 0), found.wins), ((0, 0), found.draws), ((0, 1), found.losses)):
            listed += [TeamMatch([[str(i)], [str(j)]], outcome)] * times
    fit = bradley_terry(points, draws=draws)
    order = np.random.default_rng(SEED).permutation(len(listed))  # the model rates one match after the other
    skills = openskill_ratings(listed[k] for k in order)
    return [
        {
            "elo": float(fit.mean[i]),
            "low": float(fit.interval[i, 0]),
            "high": float(fit.interval[i, 1]),
            "mu": skills[str(i)].mu,
            "sigma": skills[str(i)].sigma,
        }
        for i in range(num)
    ]
