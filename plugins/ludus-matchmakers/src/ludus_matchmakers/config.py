"""Options of the matchmakers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from attrs import frozen
from ludus.option import Check, Presets, above, at_least, between, name, one_of, option, whole

#: SHMP, LHMP, SMP, DPMP and DMMP [DIS §3.1].
DIS_POOLS = ("own", "own/long", "own/superior", "policies", "methods")

_POOLS = (
    "Names of pools; own: the player's pool in a symmetric game, those of the other side otherwise; *: those of all "
    "players; own/long, */superior and so on; anchors: all anchors; empty: own."
)
_PRIOR = "Weight of the Beta prior with mean ½ of every win rate, in matches."
_RESULTS = (
    "Matches that win rates come from: evaluation: rating matches of the player's frozen models, without scenarios, as "
    "in AET, and all matches where there are none; training: all matches."
)
RESULTS = one_of("evaluation", "training")
_MAIN = "Main agents to meet; empty: itself in a symmetric game, all players of the other side otherwise."


def _shares(value: object) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    numbers = [share for share in value.values() if isinstance(share, int | float) and 0 <= share < float("inf")]
    return len(numbers) == len(value) and sum(numbers) > 0


_WEIGHTS = Check("a table of matchmaker names with numbers ≥ 0, not all of them 0", _shares)


@frozen(kw_only=True)
class MatchmakerConfig:
    """Options that all matchmakers share: pools and rating matches."""

    capacity: int = option(
        500,
        at_least(1),
        help="Capacity of the pool named after the player; the oldest models leave. A mixture uses its own value, not "
        "those of its parts. AET uses 500.",
    )
    enough_matches: int = option(
        100, at_least(1), help="Rating matches after which a pair of participants needs no more."
    )
    recent_models: int = option(5, at_least(0), help="Recent models that each new model is rated against.")
    long_s: float = option(
        0.0,
        at_least(0.0),
        help="Seconds of training between two models that enter the pool PLAYER/long for good; 0: no such pool.",
    )
    long_models: int = option(
        0,
        at_least(0),
        help="Models between two models that enter the pool PLAYER/long; 0: no such pool, unless by long_s.",
    )
    pool_matches: int = option(
        20,
        at_least(0),
        help="Rating matches that a player needs against each model of the opposing pool, for win rates of evaluation; "
        "those of its earlier models count half per newer model. 0: none.",
    )
    pool_budget: int = option(
        200, at_least(0), help="Rating matches of a new model against the opposing pool, at most; 0: none."
    )


@frozen(kw_only=True)
class AnchorsConfig(MatchmakerConfig):
    """Options of ``against-anchors``."""

    against: tuple[str, ...] = option((), help="Anchors to meet; empty: all that can fill the other teams.")


@frozen(kw_only=True)
class LatestSelfPlayConfig(MatchmakerConfig):
    """Options of ``latest-self-play``."""

    against: tuple[str, ...] = option(
        (), help="Players to meet; empty: itself in a symmetric game, all players of the other side otherwise."
    )


@frozen(kw_only=True)
class UniformHistoryConfig(MatchmakerConfig):
    """Options of ``uniform-history``."""

    pools: tuple[str, ...] = option((), help=_POOLS)


@frozen(kw_only=True)
class PFSPConfig(MatchmakerConfig):
    """Options of ``pfsp``."""

    PRESETS: ClassVar[Presets] = {"aet": {"weighting": "hard", "p": 1.0, "capacity": 500}}  # [AET eq. 4]

    pools: tuple[str, ...] = option((), help=_POOLS)
    weighting: str = option(
        "hard",
        one_of("hard", "even", "capped"),
        help="Weight of an opponent that is beaten with rate x: hard (1 - x)^p, even x (1 - x), capped min(½, 1 - x).",
    )
    p: float = option(1.0, at_least(0.0), help="Exponent of the hard weighting; AET uses 1, 0 is uniform.")
    uniform: float = option(
        0.0, between(0.0, 1.0), help="Share of fixtures in which all models have equal probability."
    )
    prior_matches: float = option(2.0, at_least(0.0), help=_PRIOR)
    results: str = option("evaluation", RESULTS, help=_RESULTS)


@frozen(kw_only=True)
class MinimaxMainConfig(MatchmakerConfig):
    """Options of ``minimax-main``."""

    PRESETS: ClassVar[Presets] = {"minimax": {"uniform": 0.1}}  # [Minimax §5.3]

    pools: tuple[str, ...] = option(("*", "anchors"), help=_POOLS)
    uniform: float = option(
        0.1, between(0.0, 1.0), help="Share of fixtures in which all models have equal probability; the paper uses 0.1."
    )
    prior_matches: float = option(2.0, at_least(0.0), help=_PRIOR)
    results: str = option("training", RESULTS, help=_RESULTS)


@frozen(kw_only=True)
class LatestFrozenConfig(MatchmakerConfig):
    """Options of ``latest-frozen``."""

    PRESETS: ClassVar[Presets] = {"minimax": {"requested": True}}  # [Minimax §5.3]

    against: tuple[str, ...] = option(
        (), help="Players whose newest models to meet; empty: all others in a symmetric game, the other side otherwise."
    )
    requested: bool = option(
        False,
        help="Meet only models that a rule requested, such as those of a converged main agent, and not the last one of "
        "an interrupted session.",
    )


@frozen(kw_only=True)
class MSMConfig(MatchmakerConfig):
    """Options of ``msm``; the defaults are those of DIS."""

    PRESETS: ClassVar[Presets] = {  # [DIS §3.1, §3.2.3, appendix E]
        "dis": {"alpha": 0.6, "p": 1.0, "temperature": 0.3, "capacity": 100, "long_s": 43_200.0, "pools": DIS_POOLS}
    }

    capacity: int = option(
        100, at_least(1), help="Capacity of the pool named after the player (SHMP); the oldest models leave."
    )
    long_s: float = option(
        43_200.0,
        at_least(0.0),
        help="Seconds of training between two models that enter the pool PLAYER/long (LHMP) for good; 0: no such pool.",
    )
    alpha: float = option(0.6, between(0.0, 1.0), help="Share of the fixtures against live weights.")
    pools: tuple[str, ...] = option(
        DIS_POOLS,
        help="Pools; the probability of each is proportional to its size: SHMP, LHMP, SMP, DPMP and DMMP.",
    )
    p: float = option(1.0, at_least(0.0), help="Exponent of the importance 1 - wins - ½ draws.")
    temperature: float = option(0.3, above(0.0), help="Temperature of the softmax over the importances within a pool.")
    prior_matches: float = option(2.0, at_least(0.0), help=_PRIOR)


@frozen(kw_only=True)
class CurriculumConfig(MatchmakerConfig):
    """Options of ``curriculum``; the defaults are those of AlphaStar's main exploiters."""

    against: tuple[str, ...] = option((), help=_MAIN)
    below: float = option(
        0.2, between(0.0, 1.0), help="Win rate against the live weights below which frozen models are chosen."
    )
    share: float = option(0.5, between(0.0, 1.0), help="Share of fixtures against frozen models in that case.")
    prior_matches: float = option(2.0, at_least(0.0), help=_PRIOR)


@frozen(kw_only=True)
class ForgottenConfig(MatchmakerConfig):
    """Options of ``forgotten``; the defaults are those of AlphaStar."""

    against: tuple[str, ...] = option((), help=_MAIN)
    exploiters: tuple[str, ...] = option((), help="Main exploiters whose models are verified first.")
    forgotten: float = option(
        0.7, between(0.0, 1.0), help="Win rate below which an old model of a main agent counts as forgotten."
    )
    exploited: float = option(0.3, between(0.0, 1.0), help="Win rate below which a model of an exploiter is chosen.")
    p: float = option(2.0, at_least(0.0), help="Exponent of the hard weighting among them.")
    prior_matches: float = option(2.0, at_least(0.0), help=_PRIOR)


@frozen(kw_only=True)
class AlphaStarMainConfig(MatchmakerConfig):
    """Options of ``alphastar-main``."""

    against: tuple[str, ...] = option((), help=_MAIN)
    exploiters: tuple[str, ...] = option((), help="Main exploiters whose models are verified.")
    pools: tuple[str, ...] = option(("*",), help="Pools of the PFSP part. " + _POOLS)
    self_play: float = option(0.35, at_least(0.0), help="Weight of matches against the live weights of main agents.")
    pfsp: float = option(0.5, at_least(0.0), help="Weight of PFSP matches, f(x) = (1 - x)², over the whole league.")
    forgotten: float = option(
        0.15,
        at_least(0.0),
        help="Weight of matches against forgotten models and exploiters; self-play if there are none.",
    )
    prior_matches: float = option(2.0, at_least(0.0), help=_PRIOR)
    results: str = option("training", RESULTS, help=_RESULTS)


@frozen(kw_only=True)
class LeagueExploiterConfig(MatchmakerConfig):
    """Options of ``alphastar-league-exploiter``."""

    pools: tuple[str, ...] = option(("*",), help=_POOLS)
    prior_matches: float = option(2.0, at_least(0.0), help=_PRIOR)
    results: str = option("training", RESULTS, help=_RESULTS)


@frozen(kw_only=True)
class NashConfig(MatchmakerConfig):
    """Options of ``nash``."""

    pools: tuple[str, ...] = option((), help=_POOLS)
    models: int = option(
        50,
        whole(1, 1000),
        help="Newest models of each side, over all pools, that the empirical game is made of, besides anchors.",
    )
    prior_matches: float = option(
        2.0, at_least(0.0), help=_PRIOR + " The win rate of a pair without rating matches is ½."
    )


@frozen(kw_only=True)
class MixtureConfig(MatchmakerConfig):
    """Options of ``mixture``."""

    PRESETS: ClassVar[Presets] = {  # [AET §3.3]
        "aet": {"weights": {"latest-self-play": 0.8, "pfsp": 0.2}, "capacity": 500}
    }

    weights: Mapping[str, float] = option(
        {"latest-self-play": 0.8, "pfsp": 0.2},
        _WEIGHTS,
        help="Relative share of the fixtures by matchmaker; AET uses 0.8 latest and 0.2 history.",
    )


_Number = int | float


def _is_range(value: object) -> bool:
    ends = value if isinstance(value, tuple) else (value, value)
    return len(ends) == 2 and ends[0] <= ends[1] and all(abs(end) < float("inf") for end in ends)


def _ranges(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_range, value.values()))


@frozen(kw_only=True)
class Modifier:
    """A scenario that is played with a probability."""

    scenario: str = option(check=name(), help="Name of a scenario that the environment offers.")
    probability: float = option(check=between(0.0, 1.0), help="Probability that a fixture draws it.")
    parameters: Mapping[str, _Number | tuple[_Number, ...]] = option(
        {},
        Check("a table of numbers and of ranges [low, high]", _ranges),
        help="Parameters of the scenario: numbers, or ranges to draw from (whole numbers if both ends are).",
    )
    cases: tuple[Mapping[str, _Number | tuple[_Number, ...]], ...] = option(
        (),
        Check("a list of tables of numbers and of ranges [low, high]", lambda value: all(map(_ranges, value))),
        help="Tables of further parameters, one of which is drawn: random difficult cases.",
    )
    weaker: str = option("", help="Player that must be the weaker side; empty: always.")


@frozen(kw_only=True)
class ScenariosConfig:
    """Options of ``with-scenarios``."""

    matchmaker: str = option("latest-self-play", name(), help="Matchmaker that chooses the opponents.")
    play: tuple[Modifier, ...] = option(
        (), help="Scenarios, drawn independently; parameters of several draws of one scenario are merged."
    )
    combine: str = option(
        "",
        Check("a name, or an empty text", lambda value: value == "" or name().accepts(value)),
        help="Scenario that is played instead, with the parameters of all that are drawn; empty: one of these is.",
    )
    period_s: float = option(
        0.0,
        at_least(0.0),
        help="Seconds of training that sides must have been unbalanced for; 0: since the newest models.",
    )
    models: int = option(
        3,
        at_least(0),
        help="Without period_s: newest models of each side that count for the balance, besides its live weights.",
    )
    balanced: float = option(
        0.1,
        between(0.0, 0.5),
        help="Sides are balanced while win rates differ from ½ by at most this; then no side counts as weaker.",
    )
    enough_matches: float = option(
        20,
        at_least(1),
        help="Matches between the sides below which no side counts as weaker; at most 370 for live weights.",
    )

    def __attrs_post_init__(self) -> None:
        if self.combine and (plain := [one for one in self.play if not (one.parameters or one.cases)]):
            raise ValueError(f"combine: expected parameters for every scenario, {plain[0].scenario!r} has none")


@frozen(kw_only=True)
class UncertainConfig(MatchmakerConfig):
    """Options of ``uncertain``."""

    pools: tuple[str, ...] = option(
        (),
        help="Pools whose models the newest ones are rated against, besides anchors; empty: own, within recent_models.",
    )
    deviation: float = option(
        0.05,
        above(0.0),
        help="Standard deviation of a win rate below which a pair needs no more matches.",
    )
    prior_matches: float = option(2.0, above(0.0), help=_PRIOR)


@frozen(kw_only=True)
class RatingMixtureConfig(MatchmakerConfig):
    """Options of ``rating-mixture``."""

    weights: Mapping[str, float] = option(
        {"tournament": 0.5, "uncertain": 0.5},
        _WEIGHTS,
        help="Relative share of the rating matches by matchmaker; one without a pair leaves its share to the others.",
    )
