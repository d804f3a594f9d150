"""Options of the probes and their agents."""

from __future__ import annotations

import math

from attrs import frozen
from ludus.option import Check, above, at_least, between, one_of, option, whole


def _is_square(rows: tuple[tuple[float, ...], ...]) -> bool:
    return len(rows) >= 2 and all(len(row) == len(rows) and all(map(math.isfinite, row)) for row in rows)


_PAYOFF = Check("n rows of n numbers each, n ≥ 2, or an empty list", lambda value: not value or _is_square(value))
_MIXTURE = Check(
    "probabilities that sum to 1, or an empty list",
    lambda value: not value or (min(value) >= 0 and math.isclose(sum(value), 1.0, abs_tol=1e-6)),
)


@frozen(kw_only=True)
class MatrixGameConfig:
    """Options of the environment ``matrix-game``."""

    preset: str = option(
        "rock-paper-scissors",
        one_of("rock-paper-scissors", "matching-pennies", "prisoners-dilemma"),
        help="the game, unless payoff is given; matching-pennies: seat 0 wins if both show the same side",
    )
    payoff: tuple[tuple[float, ...], ...] = option(
        (), _PAYOFF, help="what seat 0 receives per round: row = own choice, column = the other's; empty: the preset's"
    )
    payoff_second: tuple[tuple[float, ...], ...] = option(
        (), _PAYOFF, help="what seat 1 receives, rows and columns as in payoff; empty: the negative of payoff"
    )
    rounds: int = option(1, whole(1, 10_000), help="rounds of a match, 1 to 10000; each shows the last choices")


@frozen(kw_only=True)
class MatrixFixedConfig:
    """Options of the agent ``matrix-fixed``."""

    mixture: tuple[float, ...] = option(
        (), _MIXTURE, help="probability of each choice; sums to 1; empty: all are equally likely"
    )


@frozen(kw_only=True)
class MemoryGameConfig:
    """Options of the environment ``memory-game``."""

    choices: int = option(4, whole(2, 64), help="different cues, 2 to 64; a guess is right once in so many")
    delay: int = option(6, whole(1, 10_000), help="ticks between the cue and the question, 1 to 10000")
    distractor: bool = option(True, help="whether a random symbol is shown on each tick of the delay")


@frozen(kw_only=True)
class CorridorConfig:
    """Options of the environment ``corridor``."""

    length: int = option(
        16, whole(2, 60), help="cells to walk, 2 to 60; random play arrives in about 1 of 2^(length - 1) matches"
    )
    distraction: float = option(
        0.1, between(0.0, 0.99), help="reward of leaving by the door beside the start; 0 to 0.99; the end is worth 1"
    )
    max_ticks: int = option(0, at_least(0), help="truncate a match after so many ticks; 0: four times the length")


@frozen(kw_only=True)
class ExitsConfig:
    """Options of the environment ``exits``."""

    seats: int = option(2, whole(1, 64), help="seats of a match, 1 to 64")
    ticks: int = option(20, whole(2, 10_000), help="ticks of a match, 2 to 10000; each pays a seat that stays 1/ticks")
    prize: float = option(0.25, between(0.0, 0.99), help="reward of leaving, 0 to 0.99; staying is worth 1")
    leaving: str = option(
        "terminated",
        one_of("terminated", "truncated"),
        help="how a seat ends that leaves; a truncated one bootstraps, so that leaving seems to be best",
    )


@frozen(kw_only=True)
class KeyRingConfig:
    """Options of the environment ``key-ring``."""

    keys: int = option(256, whole(2, 10_000), help="different keys, the actions, 2 to 10000")
    locks: int = option(16, whole(1, 1_000), help="different locks, 1 to 1000; every match shows one")
    fit: int = option(4, whole(1, 10_000), help="keys that fit each lock, 1 to keys; one of them opens it")
    masked: bool = option(
        True, help="whether keys that do not fit are masked; otherwise there is no mask and they do nothing"
    )


@frozen(kw_only=True)
class LabelsConfig:
    """Options of the environment ``labels``."""

    choices: int = option(6, whole(2, 64), help="choices of every label but the first, 2 to 64")
    labels: int = option(2, whole(2, 16), help="labels besides the first, of which it chooses one, 2 to 16")
    coupled: bool = option(
        False, help="whether all labels must be right together; otherwise the first selects which of the others counts"
    )
    shared: bool = option(
        False, help="where coupled: the reward is the share of right labels instead of all or nothing"
    )
    keyed: bool = option(
        False, help="the target of a label is the shown choice plus a key, so that the network has to combine both"
    )


@frozen(kw_only=True)
class LuckConfig:
    """Options of the environment ``luck``."""

    choices: int = option(4, whole(2, 64), help="different signs that a seat may be shown, 2 to 64")
    ticks: int = option(8, whole(1, 10_000), help="ticks of a match, 1 to 10000; each shows another sign")
    spread: float = option(
        8.0, at_least(0.0), help="luck of a match, drawn from [-spread, spread], is paid in equal parts on every tick"
    )
    told: bool = option(True, help="whether critics observe the random part of the reward")


@frozen(kw_only=True)
class TeamGameConfig:
    """Options of the environment ``team-game``."""

    teams: int = option(1, whole(1, 2), help="1: a team on its own; 2: two teams, each of which is paid its lead")
    members: int = option(3, whole(1, 32), help="seats of a team, 1 to 32")
    choices: int = option(4, whole(2, 64), help="different signs that a seat may be shown, 2 to 64")
    offset: float = option(
        8.0,
        at_least(0.0),
        help="a number drawn from [-offset, offset] is added to every reward of a match; only critics see it",
    )


@frozen(kw_only=True)
class TargetsConfig:
    """Options of the environment ``targets``."""

    kinds: int = option(
        4, whole(2, 64), help="different kinds of entities, 2 to 64; one present entity is of the wanted kind"
    )
    buttons: int = option(3, whole(1, 64), help="different buttons, 1 to 64; the observation shows which is right")


@frozen(kw_only=True)
class SteerConfig:
    """Options of the environment ``steer``."""

    steps: int = option(1, whole(1, 10_000), help="ticks of a match, 1 to 10000; each shows another observation")
    tolerance: float = option(
        0.05, above(0.0), help="a match is won with at most this squared distance, mean of its ticks; > 0"
    )


@frozen(kw_only=True)
class AimConfig:
    """Options of the environment ``aim``."""

    targets: int = option(4, whole(2, 64), help="targets to choose from, 2 to 64; the observation shows which is right")
    tolerance: float = option(0.2, above(0.0), help="a match is won with at most this distance from the place; > 0")
