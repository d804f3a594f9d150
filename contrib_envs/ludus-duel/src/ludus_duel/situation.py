"""The situation of fighters, read from observations for the scripted bot."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from ludus_duel.actions import SIDES
from ludus_duel.moves import KINDS
from ludus_duel.view import INDEX

__all__ = ["KIND", "Situation", "kind_mask", "read_observation"]

#: The number of each kind of animation.
KIND = {kind: number for number, kind in enumerate(KINDS)}
_SECONDS = 2.0  # a time of 1 in observations


def kind_mask(*kinds: str) -> np.ndarray:
    """Return ``[kinds] bool``: True for the given kinds of animations; indexed by numbers of `KINDS`."""
    return np.isin(np.arange(len(KINDS)), [KIND[kind] for kind in kinds])


@frozen(kw_only=True)
class Situation:
    """The situation of n fighters; all arrays are ``[n]``, times are in seconds.

    Attributes:
        kind: ``int64``: the opponent's animation as a number of `KINDS`.
        side: ``int64``: side of the opponent's strike or parry; 0 where there is none.
        stance: ``int64``: side that the opponent guards.
        guard: ``bool``: the opponent's stance blocks.
        elapsed: Time since the opponent's animation began.
        remaining: Time until it ends.
        landing: Time until its strike may land; 0 where none comes.
        recovering: ``bool``: the opponent's attack is over and still binds.
        feintable: ``bool``: the opponent may still feint.
        own_kind: ``int64``: the own animation.
        own_cover: ``int64``: side of the own stance, or of the stance it changes to.
        stamina: Own stamina as a share.
        exhausted: ``bool``: the fighter itself is exhausted.
        light_reach: ``bool``: a light attack reaches the opponent; likewise `heavy_reach` and `grab_reach`.
        threatened: ``bool``: a strike is coming that reaches, or nearly.
        parry_now: ``bool``: a parry that begins now would meet it.
        wall: Room behind the opponent as a share of the arena.
        own_wall: Room behind the fighter itself.
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


def read_observation(seen: np.ndarray) -> Situation:
    """Return the situations shown by observations ``seen [n, 160]``."""

    def number(name: str) -> np.ndarray:
        return seen[:, INDEX[name]]

    def flag(name: str) -> np.ndarray:
        return number(name) > 0.5

    def index(prefix: str, names: tuple[str, ...]) -> np.ndarray:
        first = INDEX[f"{prefix}-{names[0]}"]
        chosen: np.ndarray = seen[:, first : first + len(names)].argmax(axis=1)
        return chosen

    return Situation(
        kind=index("opponent-animation", KINDS),
        side=index("opponent-side", SIDES),
        stance=index("opponent-stance", SIDES),
        guard=flag("opponent-guard"),
        elapsed=number("opponent-elapsed") * _SECONDS,
        remaining=number("opponent-remaining") * _SECONDS,
        landing=number("opponent-until-landing") * _SECONDS,
        recovering=flag("opponent-phase-recovery"),
        feintable=flag("opponent-may-feint"),
        own_kind=index("own-animation", KINDS),
        own_cover=index("own-wanted", SIDES),
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
