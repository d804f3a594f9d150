"""What matchmakers and rules answer, checked before the league relies on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ludus._league.participants import parse
from ludus._plugins.error_wrapping import wrap_errors
from ludus.environment import EnvironmentSpec, Scenario
from ludus.errors import ContractError, LudusError, RunError
from ludus.matchmaker import LeagueView, Pairing, Rating
from ludus.rule import Change, Freeze, PoolChange, Reset, Share


@contextmanager
def wrap_answer_errors(who: str) -> Iterator[None]:
    """Name who is asked in whatever goes wrong, mistakes of the configuration that show only now included.

    Raises:
        ContractError: It raised an error of ludus, or what is done with its answer did.
        PluginError: It raised anything else.
    """
    with wrap_errors(who):
        try:
            yield
        except RunError:  # that of a store or a model is nobody's answer
            raise
        except LudusError as error:
            raise ContractError(str(error)) from error


def checked_pairing(pairing: Any, league: LeagueView, spec: EnvironmentSpec | None = None) -> Pairing:
    """Return what `next_fixture` answered.

    Args:
        pairing: The answer.
        league: Of which it is.
        spec: Of the game; None where there is none, so that nobody knows the names of its scenarios.

    Raises:
        ContractError: It is no such pairing.
    """
    if not isinstance(pairing, Pairing):
        raise ContractError(f"next_fixture answered {_shown(pairing)}; expected a ludus.matchmaker.Pairing")
    live = {view.live for view in league.players.values()}
    opponents = _names("opponents", pairing.opponents, lambda name: name in live or _is_frozen(name, league))
    others = league.num_teams - 1
    if len(opponents) != others:
        raise ContractError(
            f"named {len(opponents)} opponents; expected {others}, one for every other team — fix its next_fixture"
        )
    _check_scenario(pairing.scenario, spec)
    return pairing


def _check_scenario(scenario: Any, spec: EnvironmentSpec | None) -> None:
    if spec is None:
        if not isinstance(scenario, Scenario):
            raise ContractError(f"asked for {_shown(scenario)}; expected a ludus.environment.Scenario")
    elif not isinstance(scenario, Scenario) or scenario.name not in ("default", *spec.scenarios):
        known = ", ".join(("default", *spec.scenarios))
        raise ContractError(f"asked for {_shown(scenario)}; {spec.name} has the scenarios {known}")
    for name, value in scenario.parameters.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise ContractError(f"scenario {scenario.name}: {name} is {_shown(value)}; expected a finite Python number")


def checked_evaluation(pair: Any, league: LeagueView) -> tuple[str, ...] | None:
    """Return what `next_evaluation` answered.

    Raises:
        ContractError: It is neither None nor a frozen model or anchor for every team.
    """
    if pair is None:
        return None
    names = _names("next_evaluation", pair, lambda name: _is_frozen(name, league))
    if len(names) != league.num_teams:
        raise ContractError(f"next_evaluation named {len(names)} participants; expected {league.num_teams}")
    return names


def checked_rating(rating: Any) -> Rating:
    """Return what the `rating` of a table answered.

    Raises:
        ContractError: It is no rating, or not one of finite numbers with a deviation ≥ 0.
    """
    if not isinstance(rating, Rating):
        raise ContractError(f"rating answered {_shown(rating)}; expected a ludus.matchmaker.Rating")
    if not (math.isfinite(rating.mean) and 0 <= rating.deviation < math.inf):
        raise ContractError(f"rating answered {rating}; expected a finite mean and a finite deviation >= 0")
    return rating


def checked_pool_changes(changes: Any, league: LeagueView) -> list[PoolChange]:
    """Return what `on_model_frozen` answered.

    Raises:
        ContractError: Something of it is no possible change of a pool.
    """
    found: list[PoolChange] = _listed("on_model_frozen", changes)
    if others := [change for change in found if not isinstance(change, PoolChange)]:
        raise ContractError(f"on_model_frozen answered {_shown(others[0])}; expected a ludus.matchmaker.PoolChange")
    _check_possible(found, league, asked="on_model_frozen")
    return found


def checked_changes(changes: Any, league: LeagueView) -> list[Change]:
    """Return what a rule's `decide` answered.

    Raises:
        ContractError: Something of it is no possible change of the league, or nobody would train any more.
    """
    found: list[Change] = _listed("decide", changes)
    _check_possible(found, league, asked="decide")
    shares = {name: view.share for name, view in league.players.items()}
    ruled = {change.player: change.share for change in found if isinstance(change, Share)}
    if ruled and not any((shares | ruled).values()):
        raise ContractError("every player's share of the ticks is 0 afterwards; expected one that trains")
    return found


def _listed(asked: str, answer: Any) -> list[Any]:
    if not isinstance(answer, Iterable):
        raise ContractError(f"{asked} answered {_shown(answer)}; expected a sequence of changes")
    return list(answer)


def _check_possible(changes: Sequence[Change], league: LeagueView, *, asked: str) -> None:
    for change in changes:
        if problem := _problem(change, league):
            raise ContractError(f"{problem} in {_shown(change)} — fix its {asked}")


def _problem(change: Any, league: LeagueView) -> str:
    """Return why a change is impossible, empty where it is not."""
    if not isinstance(change, Freeze | Reset | Share | PoolChange):
        return "no change of ludus.rule"
    if isinstance(change, PoolChange):
        return "" if _is_model(change.model, league) else f"there is no frozen model {change.model!r}"
    if change.player not in league.players:
        return f"there is no player {change.player!r}"
    if isinstance(change, Reset) and change.init and not _is_model(change.init, league):
        return f"there is no frozen model {change.init!r}"
    return ""


def _is_model(participant: str, league: LeagueView) -> bool:
    """Return whether a participant is a frozen model."""
    view = league.players.get(parse(participant).player)
    return view is not None and participant in view.models


def _is_frozen(participant: str, league: LeagueView) -> bool:
    """Return whether a participant is a frozen model or an anchor."""
    return _is_model(participant, league) or participant in league.anchors


def _names(what: str, names: Any, allowed: Callable[[str], bool]) -> tuple[str, ...]:
    if not isinstance(names, tuple | list) or not all(type(name) is str for name in names):
        raise ContractError(f"{what}: expected a tuple of names, got {_shown(names)}")
    if wrong := [name for name in names if not allowed(name)]:
        raise ContractError(f"{what}: {wrong[0]!r} cannot play there now; expected an anchor or a model of this league")
    return tuple(names)


def _shown(value: object) -> str:
    return repr(value)[:200]
