"""Options of the rules, and of the matchmakers ``tournament`` and ``gate-matches``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from attrs import frozen
from ludus.option import Presets, above, at_least, between, option, whole
from ludus_ratings.sequential import MAX_ELO

from ludus_matchmakers.config import RESULTS

_ENOUGH = "Recent matches that are required against each opponent."


@frozen(kw_only=True)
class ADAConfig:
    """Options of ``ada``; the limits are those of AET for mice and cat."""

    PRESETS: ClassVar[Presets] = {"aet": {"low": 0.5, "high": 0.8, "behind": 0.25, "ahead": 1.0}}  # [AET eq. 5-6]

    players: tuple[str, ...] = option((), help="The sides, one player each; empty: all players.")
    hard: tuple[str, ...] = option((), help="Sides whose shares follow the equation; empty: the first one.")
    low: float = option(0.5, between(0.0, 1.0), help="Minimum share of a hard side (beta).")
    high: float = option(0.8, between(0.0, 1.0), help="Maximum share of the hard sides together (alpha).")
    behind: float = option(0.25, above(0.0), help="Factor of the difference of win rates while a hard side is behind.")
    ahead: float = option(1.0, above(0.0), help="Factor while it is ahead.")
    enough_matches: float = option(
        50,
        between(1, 300),
        help="Matches of a hard side against the others below which shares do not change.",
    )
    results: str = option(
        "evaluation",
        RESULTS,
        help="Matches that win rates come from: evaluation: rating matches of frozen models against opposing pools, "
        "without scenarios, as in AET, and training while there are too few; training: recent ones of live weights.",
    )

    def __attrs_post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low: expected at most high = {self.high:g}, got {self.low:g}")


@frozen(kw_only=True)
class GenerationsConfig:
    """Options of ``generations``; the win rate is that of the Minimax Exploiter."""

    PRESETS: ClassVar[Presets] = {"minimax": {"converged": 0.85}}  # [Minimax §5.3]

    main: str = option("", help="The main agent; empty: the first player.")
    exploiters: tuple[str, ...] = option((), help="Its exploiters; empty: all other players.")
    anchors: tuple[str, ...] = option((), help="Anchors that generation 0 must beat; empty: all.")
    pools: tuple[str, ...] = option(("*",), help="Pools whose models the main agent must beat.")
    converged: float = option(0.85, between(0.0, 1.0), help="Recent win rate at which a player has converged.")
    enough_matches: float = option(100, between(1, 300), help=_ENOUGH)
    share: float = option(1.0, above(0.0), help="Share of an exploiter that trains.")
    exploiters_after: int = option(
        1,
        at_least(0),
        help="Converged models of the main agent before exploiters start, which wait with share 0; 0: at once.",
    )


@frozen(kw_only=True)
class AlphaStarConfig:
    """Options of the rule ``alphastar``; the win rate and probability are those of AlphaStar."""

    main_agents: tuple[str, ...] = option((), help="Main agents; empty: the first player.")
    main_exploiters: tuple[str, ...] = option((), help="Players that are reset once they beat the main agents.")
    league_exploiters: tuple[str, ...] = option(
        (), help="Players that are sometimes reset, once they beat the whole league."
    )
    pools: tuple[str, ...] = option(("*",), help="Pools that make up the whole league.")
    converged: float = option(0.7, between(0.0, 1.0), help="Recent win rate that is required against each opponent.")
    enough_matches: float = option(50, between(1, 300), help=_ENOUGH)
    least_decisions: int = option(
        1_000_000, at_least(0), help="Minimum decisions between two models; AlphaStar uses 2e9 steps."
    )
    most_decisions: int = option(
        2_000_000,
        at_least(0),
        help="Maximum decisions between two models; 0: no limit; AlphaStar uses 4e9 steps.",
    )
    reset: float = option(0.25, between(0.0, 1.0), help="Probability that a league exploiter is reset when it is due.")

    def __attrs_post_init__(self) -> None:
        if 0 < self.most_decisions < self.least_decisions:
            raise ValueError(
                f"least_decisions: expected at most most_decisions = {self.most_decisions}, got {self.least_decisions}"
            )


@frozen(kw_only=True)
class FreezeWhenConfig:
    """Options of ``freeze-when``."""

    players: tuple[str, ...] = option((), help="Players whose models are frozen; empty: all.")
    seconds: float = option(0.0, at_least(0.0), help="Seconds of training since the last model; 0: no limit.")
    decisions: int = option(0, at_least(0), help="Decisions since the last model; 0: no limit.")
    win_rate: float = option(
        0.7,
        between(0.0, 1.0),
        help="Recent win rate that is required against every model of the pools; 0: not by win rate.",
    )
    pools: tuple[str, ...] = option(("own",), help="Pools of those models; as the pools of pfsp.")
    enough_matches: float = option(50, between(1, 300), help=_ENOUGH)


@frozen(kw_only=True)
class RestartFromConfig:
    """Options of ``restart-from``."""

    source: str = option("", help="Player whose newest model is used; empty: the first player.")
    players: tuple[str, ...] = option(
        (), help="Players that are reset, for example policy explorers; empty: all others."
    )
    decisions: int = option(5_000_000, at_least(0), help="Decisions between two resets; 0: no limit.")
    seconds: float = option(0.0, at_least(0.0), help="Seconds of training between two resets; 0: no limit.")


@frozen(kw_only=True)
class ScreeningConfig:
    """Options of ``tournament``, and of ``superior``; the number of top models is that of DIS."""

    PRESETS: ClassVar[Presets] = {"dis": {"top": 3}}  # [DIS §3.3]

    players: tuple[str, ...] = option((), help="Players whose models are screened; empty: all.")
    candidates: int = option(
        10, at_least(2), help="Models of a player that are screened together, in the order of freezing."
    )
    top: int = option(
        3, at_least(1), help="Number of superior models per group, and of models that stay in the top pool."
    )
    enough_matches: int = option(
        20, at_least(1), help="Rating matches of every pair of candidates before they are ranked."
    )
    best: str = option("top", help="Pool in which the superior models of all players compete.")
    rank_by: str = option(
        "",
        help='Statistic "ROLE/NAME" of evaluation matches by whose mean candidates are ranked, "-ROLE/NAME" if less is '
        "better; empty: by rating.",
    )


@frozen(kw_only=True)
class SuperiorConfig(ScreeningConfig):
    """Options of ``superior``."""

    shared: Mapping[str, tuple[str, ...]] = option(
        {"methods": ()},
        help="Players by shared pool that superior models enter besides PLAYER/superior; none: all players.",
    )
    final: str = option("final", help="Pool of finalists, which wait for the judgement of a person.")
    judged: tuple[str, ...] = option(("promoted", "rejected"), help="Pools of judged models, which are no finalists.")


@frozen(kw_only=True)
class GateConfig:
    """Options of ``gate-matches`` and of ``gate``."""

    players: tuple[str, ...] = option(
        (), help="Players whose models are tested; empty: all whose models can meet each other."
    )
    elo0: float = option(
        0.0, between(-MAX_ELO, MAX_ELO), help="Normalized Elo above the reference that a refused model has."
    )
    elo1: float = option(50.0, between(-MAX_ELO, MAX_ELO), help="Normalized Elo that a model passes for.")
    alpha: float = option(0.05, between(0.001, 0.499), help="Probability that a model of strength elo0 passes.")
    beta: float = option(0.05, between(0.001, 0.499), help="Probability that a model of strength elo1 is refused.")
    max_matches: int = option(
        2000, whole(1, 10**9), help="Rating matches after which a model is refused if the test is undecided."
    )

    def __attrs_post_init__(self) -> None:
        if self.elo0 >= self.elo1:
            raise ValueError(f"elo0: expected less than elo1 = {self.elo1:g}, got {self.elo0:g}")
