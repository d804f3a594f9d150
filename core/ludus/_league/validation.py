"""Checks of the values that matchmakers, rules and rating tables return."""

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
def wrap_answer_errors(component: str) -> Iterator[None]:
    """Name a component in every error that it raises, or that a check of its return value raises.

    Raises:
        ContractError: An error of ludus was raised, such as a configuration error that shows only now.
        PluginError: Any other exception was raised.
    """
    with wrap_errors(component):
        try:
            yield
        except RunError:  # an error of the store or of a model file: not the component's
            raise
        except LudusError as error:
            raise ContractError(str(error)) from error


def checked_pairing(pairing: Any, league: LeagueView, spec: EnvironmentSpec | None = None) -> Pairing:
    """Return the return value of `next_fixture` if it is valid.

    Args:
        pairing: The value.
        league: The league.
        spec: The environment's description; None: names of scenarios are not checked.

    Raises:
        ContractError: The value is invalid.
    """
    if not isinstance(pairing, Pairing):
        raise ContractError(f"next_fixture returned {_shown(pairing)}; expected a ludus.matchmaker.Pairing")
    live = {view.live for view in league.players.values()}
    opponents = _names("opponents", pairing.opponents, lambda name: name in live or _is_frozen(name, league))
    others = league.num_teams - 1
    if len(opponents) != others:
        raise ContractError(
            f"next_fixture named {len(opponents)} opponents; expected {others}, one for every other team"
        )
    _check_scenario(pairing.scenario, spec)
    return pairing


def _check_scenario(scenario: Any, spec: EnvironmentSpec | None) -> None:
    if spec is None:
        if not isinstance(scenario, Scenario):
            raise ContractError(f"next_fixture chose {_shown(scenario)}; expected a ludus.environment.Scenario")
    elif not isinstance(scenario, Scenario) or scenario.name not in ("default", *spec.scenarios):
        known = ", ".join(("default", *spec.scenarios))
        raise ContractError(f"next_fixture chose {_shown(scenario)}; {spec.name} has the scenarios {known}")
    if scenario.builtin:
        raise ContractError(
            f"next_fixture chose a scenario with the built-in bots {_shown(scenario.builtin)}; expected none, and an "
            "anchor of the agent builtin as opponent"
        )
    for name, value in scenario.parameters.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise ContractError(f"scenario {scenario.name}: {name} is {_shown(value)}; expected a finite Python number")


def checked_evaluation(pair: Any, league: LeagueView) -> tuple[str, ...] | None:
    """Return the return value of `next_evaluation` if it is valid.

    Raises:
        ContractError: The value is neither None nor a frozen model or anchor for every team.
    """
    if pair is None:
        return None
    names = _names("next_evaluation", pair, lambda name: _is_frozen(name, league))
    if len(names) != league.num_teams:
        raise ContractError(f"next_evaluation named {len(names)} participants; expected {league.num_teams}")
    return names


def checked_rating(rating: Any) -> Rating:
    """Return the return value of a table's `rating` if it is valid.

    Raises:
        ContractError: The value is no `Rating`, or not one of finite numbers with a deviation ≥ 0.
    """
    if not isinstance(rating, Rating):
        raise ContractError(f"rating returned {_shown(rating)}; expected a ludus.matchmaker.Rating")
    if not (math.isfinite(rating.mean) and 0 <= rating.deviation < math.inf):
        raise ContractError(f"rating returned {rating}; expected a finite mean and a finite deviation >= 0")
    return rating


def checked_pool_changes(changes: Any, league: LeagueView) -> list[PoolChange]:
    """Return the changes that `on_model_frozen` returned, if they are valid.

    Raises:
        ContractError: The value is not a sequence of possible changes of pools.
    """
    found: list[PoolChange] = _listed("on_model_frozen", changes)
    if others := [change for change in found if not isinstance(change, PoolChange)]:
        raise ContractError(f"on_model_frozen returned {_shown(others[0])}; expected a ludus.matchmaker.PoolChange")
    _check_possible(found, league, method="on_model_frozen")
    return found


def checked_changes(changes: Any, league: LeagueView) -> list[Change]:
    """Return the changes that a rule's `decide` returned, if they are valid.

    Raises:
        ContractError: The value is not a sequence of possible changes, or no player would train any more.
    """
    found: list[Change] = _listed("decide", changes)
    _check_possible(found, league, method="decide")
    shares = {name: view.share for name, view in league.players.items()}
    new_shares = {change.player: change.share for change in found if isinstance(change, Share)}
    if new_shares and not any((shares | new_shares).values()):
        raise ContractError("every player's share of the ticks would be 0; leave a share to at least one player")
    return found


def _listed(method: str, answer: Any) -> list[Any]:
    if not isinstance(answer, Iterable):
        raise ContractError(f"{method} returned {_shown(answer)}; expected a sequence of changes")
    return list(answer)


def _check_possible(changes: Sequence[Change], league: LeagueView, *, method: str) -> None:
    for change in changes:
        if problem := _problem(change, league):
            raise ContractError(f"{problem} in {_shown(change)} — fix its {method}")


def _problem(change: Any, league: LeagueView) -> str:
    """Return why a change is impossible; empty if it is possible."""
    if not isinstance(change, Freeze | Reset | Share | PoolChange):
        return "not a change of ludus.rule"
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
        raise ContractError(f"{what}: {wrong[0]!r} cannot play there now; choose an anchor or a model of this league")
    return tuple(names)


def _shown(value: object) -> str:
    return repr(value)[:200]
