"""What the bot makes of an observation."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from ludus_duel.actions import SIDES
from ludus_duel.moves import KINDS
from ludus_duel.view import INDEX

__all__ = ["KIND", "Sight", "among", "look"]

#: The number of each kind of animation.
KIND = {kind: number for number, kind in enumerate(KINDS)}
_SECONDS = 2.0  # what 1 stands for where a number is a time


def among(*kinds: str) -> np.ndarray:
    """Return ``[kinds] bool``: whether a kind of animation is one of these; to be indexed by numbers of `KINDS`."""
    return np.isin(np.arange(len(KINDS)), [KIND[kind] for kind in kinds])


@frozen(kw_only=True)
class Sight:
    """The situation of n fighters; all arrays are ``[n]``, times are in seconds.

    Attributes:
        kind: ``int64``: the opponent's animation as a number of `KINDS`; likewise `side`, `stance`.
        side: Of the opponent's blow or parry; 0 where there is none.
        stance: The side the opponent guards.
        guard: ``bool``: the opponent's guard is up.
        elapsed: How long the opponent's animation has lasted; likewise `remaining` and `landing`, 0 where none lands.
        recovering: ``bool``: the opponent's attack is over and still binds.
        feintable: ``bool``: the opponent may still feint.
        own_kind: As `kind`; likewise `own_cover`, the side that the own stance covers or turns to.
        stamina: The own, as a share; likewise `exhausted`.
        light_reach: ``bool``: whether a light attack reaches; likewise `heavy_reach`, `grab_reach`.
        threatened: ``bool``: a strike is coming that reaches, or nearly.
        parry_now: ``bool``: a parry begun now would meet it.
        wall: Share of the arena behind the opponent; likewise `own_wall`.
    """

    kind: np.ndarray
    side: np.ndarray
    stance: np.ndarray
    guard: np.ndarray
    elapsed: np.ndarray
    remaining: np.ndarray
    landing: np.ndarray
    recovering: np.ndarray
    feintable: np.ndarray
    own_kind: np.ndarray
    own_cover: np.ndarray
    stamina: np.ndarray
    exhausted: np.ndarray
    light_reach: np.ndarray
    heavy_reach: np.ndarray
    grab_reach: np.ndarray
    threatened: np.ndarray
    parry_now: np.ndarray
    wall: np.ndarray
    own_wall: np.ndarray


def look(seen: np.ndarray) -> Sight:
    """Return what observations ``seen [n, 160]`` show."""

    def number(name: str) -> np.ndarray:
        return seen[:, INDEX[name]]

    def flag(name: str) -> np.ndarray:
        return number(name) > 0.5

    def which(prefix: str, names: tuple[str, ...]) -> np.ndarray:
        first = INDEX[f"{prefix}-{names[0]}"]
        chosen: np.ndarray = seen[:, first : first + len(names)].argmax(axis=1)
        return chosen

    return Sight(
        kind=which("opponent-animation", KINDS),
        side=which("opponent-side", SIDES),
        stance=which("opponent-stance", SIDES),
        guard=flag("opponent-guard"),
        elapsed=number("opponent-elapsed") * _SECONDS,
        remaining=number("opponent-remaining") * _SECONDS,
        landing=number("opponent-until-landing") * _SECONDS,
        recovering=flag("opponent-phase-recovery"),
        feintable=flag("opponent-may-feint"),
        own_kind=which("own-animation", KINDS),
        own_cover=which("own-wanted", SIDES),
        stamina=number("own-stamina"),
        exhausted=flag("own-exhausted"),
        light_reach=flag("in-light-reach"),
        heavy_reach=flag("in-heavy-reach"),
        grab_reach=flag("in-grab-reach"),
        threatened=flag("threatened"),
        parry_now=flag("parry-now"),
        wall=number("opponent-room"),
        own_wall=number("own-room"),
    )
