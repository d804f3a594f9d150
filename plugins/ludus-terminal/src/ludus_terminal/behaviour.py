"""The behaviour of participants: the statistics of their evaluation matches, or of matches that are played for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from attrs import frozen
from ludus.lineup import Lineup, make_agents, make_lineup
from ludus.matchmaker import Statistic
from ludus.runs import Run, play_matches
from rich.console import RenderableType
from rich.markup import escape

from ludus_terminal.diversity import pool_diversity, show_diversity
from ludus_terminal.figures import new_figure, save_figure
from ludus_terminal.profiles import draw_profiles, normalise, statistic_names
from ludus_terminal.views import NEAR, Data, View, natural, table

__all__ = ["BEHAVIOUR", "PlayedAgainst", "behaviour_rows", "newest_behaviour", "statistics_json"]

_COLUMNS = 6  # statistics that fit beside each other


@frozen(kw_only=True)
class PlayedAgainst:
    """Matches that are played to measure behaviour.

    Attributes:
        opponent: The participant in all other teams.
        matches: Number of matches of each participant, rounded up to a multiple of the exchanges of teams.
        seed: Seed of the matches, which are the same for every participant.
    """

    opponent: str
    matches: int
    seed: int = 0


def statistics_json(run: Run, participant: str) -> Data:
    """Return mean, deviation, 95 % interval and matches of each statistic of a participant by ``"ROLE/NAME"``."""
    return _json(run.league.statistics(participant))


def newest_behaviour(run: Run) -> list[Data]:
    """Return the normalised rows of the newest evaluated model of every player, see `normalise`."""
    newest = (
        next(((model, found) for model in reversed(player.models) if (found := run.league.statistics(model))), None)
        for player in run.league.players.values()
    )
    return behaviour_rows(dict(model for model in newest if model is not None))


def _json(statistics: Mapping[str, Statistic]) -> Data:
    found = {}
    for name, statistic in sorted(statistics.items()):
        error = NEAR * statistic.deviation / math.sqrt(statistic.matches)
        found[name] = {
            "mean": statistic.mean,
            "deviation": statistic.deviation,
            "interval": [statistic.mean - error, statistic.mean + error],
            "matches": statistic.matches,
        }
    return found


def _behaviour(
    run: Run, *, last: int, participants: Sequence[str], played: PlayedAgainst | None, plot: Path | None
) -> Data:
    names = [_resolve(run, name) for name in participants]
    if played is None:
        rows = behaviour_rows(
            {name: run.league.statistics(name) for name in names or [*_newest_models(run, last), *run.league.anchors]}
        )
    else:
        rows = behaviour_rows(_measure(run, names or _newest_models(run, last), played))
    return {
        "behaviour": rows,
        "against": played and played.opponent,
        "diversity": pool_diversity(run) if played is None else [],
        "plot": str(plot) if plot is not None and _write_profiles(rows, plot) else None,
    }


def _newest_models(run: Run, last: int) -> list[str]:
    """Return the last models of all players."""
    return sorted((model for player in run.league.players.values() for model in player.models[-last:]), key=natural)


def _write_profiles(rows: Sequence[Data], path: Path) -> bool:
    """Draw profiles into a PNG file, and return whether there was anything to draw."""
    figure = new_figure()
    if drawn := draw_profiles(figure, rows):
        save_figure(figure, path)
    return drawn


def _resolve(run: Run, name: str) -> str:
    """Return the participant of a name; that of a player is its newest model, since live weights are not evaluated."""
    return run.resolve(f"{name}@latest" if name in run.league.players else name)


def _measure(run: Run, names: Sequence[str], played: PlayedAgainst) -> dict[str, Mapping[str, Statistic]]:
    """Play matches of every participant against one opponent, and return the participants' statistics."""
    opponent = _resolve(run, played.opponent)
    with closing(run.make_environment(min(played.matches, run.config.evaluation_matches))) as environment:
        lineups = [make_lineup(environment.spec, (name, opponent), run) for name in names]
        exchanged = [lineup.rotations() for lineup in lineups]
        flat = [lineup for rotations in exchanged for lineup in rotations]
        agents = make_agents(flat, run, environment)
        matches = -(-played.matches // len(exchanged[0])) if exchanged else 0
        results = iter(play_matches(environment, agents, matches=matches, seed=played.seed))
    return {
        name: _statistics([_own_values(lineup, next(results)) for lineup in rotations])
        for name, rotations in zip(names, exchanged, strict=True)
    }


def _own_values(lineup: Lineup, results: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return ``[n] float64`` by ``"ROLE/NAME"``: the means over the seats of the first participant of a lineup."""
    values = {}
    for key, array in results.items():
        kind, _, name = key.partition("/")
        own = _is_own(lineup, name.partition("/")[0]) if kind == "statistic" else np.zeros(0, bool)
        if own.any():
            values[name] = array[:, own].mean(axis=1, dtype=np.float64)
    return values


def _is_own(lineup: Lineup, role: str) -> np.ndarray:
    """Return ``[S] bool`` over the seats of a role: whether the first participant of a lineup has the seat."""
    return np.array(
        [index == 0 for seat, index in zip(lineup.spec.seats, lineup.seats, strict=True) if seat.role == role]
    )


def _statistics(seatings: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Statistic]:
    """Return the statistics of a participant from its values in the matches of several seatings."""
    found = {}
    for name in dict.fromkeys(name for values in seatings for name in values):
        values = np.concatenate([seating[name] for seating in seatings if name in seating])
        found[name] = Statistic(mean=float(values.mean()), deviation=float(values.std()), matches=values.size)
    return found


def behaviour_rows(statistics: Mapping[str, Mapping[str, Statistic]]) -> list[Data]:
    """Return one row per participant and role, whose statistics are normalised over the rows of the role."""
    rows = [
        {"participant": name, "role": role, "statistics": own}
        for name, found in statistics.items()
        for role, own in _by_role(_json(found)).items()
    ]
    for _, own in _each_role(rows):
        normalise(own)
    return rows


def _by_role(statistics: Data) -> Data:
    roles: Data = {}
    for key, value in statistics.items():
        role, _, name = key.partition("/")
        roles.setdefault(role, {})[name] = value
    return roles


def _each_role(rows: Sequence[Data]) -> Iterator[tuple[str, list[Data]]]:
    for role in dict.fromkeys(row["role"] for row in rows):
        yield role, [row for row in rows if row["role"] == role]


def _show(data: Data) -> Iterable[RenderableType]:
    rows = data["behaviour"]
    if not rows:
        yield "no statistics yet: the environment has none, or no evaluation match has ended"
    against = f"match against {data['against']}" if data["against"] else "evaluation match"
    for role, own in _each_role(rows):
        yield _role_table(f"Behaviour of {role} per {against}", own)
    yield from show_diversity(data["diversity"])
    if data["plot"]:
        yield escape(data["plot"])


def _role_table(title: str, rows: Sequence[Data]) -> RenderableType:
    """Return a table with one column per participant if there are more statistics than participants, else one row."""
    names = statistic_names(rows)
    if len(names) > max(len(rows), _COLUMNS):
        shown = table(escape(title), "", *(f">{escape(row['participant'])}" for row in rows))
        shown.add_row("matches", *(f"{_matches(row):,}" for row in rows))
        for name in names:
            shown.add_row(escape(name), *(_cell(row["statistics"].get(name)) for row in rows))
        return shown
    shown = table(escape(title), "participant", ">matches", *(f">{escape(name)}" for name in names))
    for row in rows:
        cells = (_cell(row["statistics"].get(name)) for name in names)
        shown.add_row(escape(row["participant"]), f"{_matches(row):,}", *cells)
    return shown


def _matches(row: Data) -> int:
    return max(int(value["matches"]) for value in row["statistics"].values())


def _cell(value: Data) -> str:
    if value is None:
        return ""
    return f"{value['mean']:.3g} ± {value['interval'][1] - value['mean']:.2g}"


BEHAVIOUR = View(_behaviour, _show)
