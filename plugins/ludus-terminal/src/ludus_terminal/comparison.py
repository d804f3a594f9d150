"""Compare two participants of one role, from the evaluation matches in the log."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen
from ludus.errors import ConfigError
from ludus.matchmaker import team_sides
from ludus.runs import MatchRecord, Run
from ludus_ratings import Comparison, Difference, compare_pair_results
from rich.console import RenderableType
from rich.markup import escape

from ludus_terminal.rating_views import evaluation_matches, evaluations, points_against
from ludus_terminal.views import Data, View, table

__all__ = ["COMPARISON"]


@frozen
class _Contender:
    """A participant that is compared.

    Attributes:
        name: Its name.
        role: The role in which it is compared; empty in a game of one role.
        learned: Whether it is a model, which plays no other role.
    """

    name: str
    role: str = ""
    learned: bool = False

    def __str__(self) -> str:
        return self.name if self.learned or not self.role else _in_role(self.name, self.role)


def _in_role(anchor: str, role: str) -> str:
    return f"{role}={anchor}"


def _compare(run: Run, *, a: str, b: str) -> Data:
    first, second = _contender(run, a), _contender(run, b)
    if any(team_sides(run.seats)):
        first, second = _with_role(first, second), _with_role(second, first)
        if first.role != second.role:
            raise ConfigError(
                f"{first.name} plays {first.role} and {second.name} plays {second.role}: expected participants of one "
                f"role; ludus eval RUN {first.name} {second.name} plays them against each other"
            )
    if str(first) == str(second):
        raise ConfigError(f"{first} cannot be better than itself; name two different participants")
    total = evaluations(run)
    names = (str(first), str(second))
    total = total.only(list(dict.fromkeys([*total.names, *names])))
    scores, seeds = _paired_scores(run, first, second)
    comparison = compare_pair_results(total.pair_results(), *map(total.names.index, names), scores=scores, seeds=seeds)
    return {"a": names[0], "b": names[1], "role": first.role, **_comparison_json(comparison)}


def _contender(run: Run, text: str) -> _Contender:
    """Return the participant of ``NAME`` or ``ROLE=NAME``; an anchor without ``ROLE=`` has no role yet."""
    role, _, name = text.rpartition("=")
    roles = list(dict.fromkeys(seat.role for seat in run.seats))
    if role and role not in roles:
        raise ConfigError(f"{text}: there is no role {role!r}; the roles are {', '.join(roles)}")
    participant = run.resolve(name)
    if participant.endswith("+"):
        raise ConfigError(f"{name} is still learning; name a frozen model, for example {name.partition('@')[0]}@latest")
    if participant in run.league.anchors:
        return _Contender(participant, role if len(roles) > 1 else "")
    learned = run.league.players[run.models[participant].player].role
    if role not in ("", learned):
        raise ConfigError(f"{text}: {participant} learned the role {learned}, so it does not play {role}")
    return _Contender(participant, learned if len(roles) > 1 else "", learned=True)


def _with_role(own: _Contender, other: _Contender) -> _Contender:
    """Return a contender in its role, or else in the role of the other one.

    Raises:
        ConfigError: Neither has a role.
    """
    if not (own.role or other.role):
        raise ConfigError(f"{own.name} and {other.name} play every role; name one, for example ROLE={own.name}")
    return evolve(own, role=own.role or other.role)


def _paired_scores(run: Run, first: _Contender, second: _Contender) -> tuple[list[float], list[int]]:
    """Return the points of the second in every match, and a number that is equal for matches on the same seed.

    Only matches in which each has one team, in the role in which they are compared, count.
    """
    scores: list[float] = []
    seeds: dict[tuple[str, int], int] = {}
    group: list[int] = []
    for match in evaluation_matches(run):
        fixture = match.fixture
        own, other = (_teams(run, match, contender) for contender in (second, first))
        if len(own) == len(other) == 1 and own != other:
            scores.append(points_against(match, *own, *other))
            key = (fixture.paired or str(fixture.id), match.number)
            group.append(seeds.setdefault(key, len(seeds)))
    return scores, group


def _teams(run: Run, match: MatchRecord, contender: _Contender) -> set[int]:
    """Return the teams in which a contender plays its role."""
    held = zip(run.seats, match.fixture.participants, strict=True)
    return {seat.team for seat, name in held if name == contender.name and contender.role in ("", seat.role)}


def _comparison_json(comparison: Comparison) -> Data:
    direct = comparison.direct
    return {
        "verdict": comparison.verdict,
        "more_matches": comparison.more_matches,
        "contradiction": comparison.contradiction,
        "direct": {
            "matches": direct.matches,
            "seeds": direct.seeds,
            "score": direct.score if direct.matches else None,
            "interval": [direct.low, direct.high],
            "difference": _difference(direct.difference),
        },
        "indirect": _difference(comparison.indirect),
        "combined": _difference(comparison.combined),
    }


def _difference(difference: Difference | None) -> Data:
    if difference is None:
        return None
    return {"mean": difference.mean, "deviation": difference.deviation, "interval": [difference.low, difference.high]}


def _show_comparison(data: Data) -> Iterable[RenderableType]:
    direct, a, b = data["direct"], data["a"], data["b"]
    yield escape(_sentence(data))
    shown = table(f"{b} against {a}", "evidence", ">matches", ">on seeds", ">score", ">Elo", "95 % interval")
    score = f"{direct['score']:.3f}" if direct["matches"] else ""
    row = ("own matches", f"{direct['matches']:,}", f"{direct['seeds']:,}", score)
    shown.add_row(*row, *_difference_cells(direct["difference"]))
    shown.add_row("through others", "", "", "", *_difference_cells(data["indirect"]))
    shown.add_row("together", "", "", "", *_difference_cells(data["combined"]))
    yield shown
    if data["contradiction"]:
        yield "Own matches and those against others contradict each other; only their own count."


def _sentence(data: Data) -> str:
    a, b, more = data["a"], data["b"], data["more_matches"]
    if data["verdict"] != "undecided":
        return f"{b} is {data['verdict']} than {a}."
    question = f"Not decided yet whether {b} is better than {a}"
    if data["combined"] is None:
        return f"{question}: no matches connect them; ludus gate RUN {b} {a} plays as many as it takes."
    if more is None:
        return f"{question}: they look equal."
    return f"{question}: if the difference is as large as it looks, about {more:,} more matches would decide it."


def _difference_cells(difference: Data) -> tuple[str, str]:
    if difference is None:
        return "", ""
    low, high = difference["interval"]
    return f"{difference['mean']:+.0f}", f"{low:+.0f} to {high:+.0f}"


COMPARISON = View(_compare, _show_comparison)
