"""Every option of every matchmaker and rule reaches what is built of it."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from ludus._league.payoffs import Payoffs
from ludus_matchmakers.ada import ADA
from ludus_matchmakers.alphastar import AlphaStar, Curriculum, Forgotten
from ludus_matchmakers.config import Modifier
from ludus_matchmakers.gate import Gate, GateMatches, Trials
from ludus_matchmakers.generations import Generations
from ludus_matchmakers.history import PFSP, UniformHistory
from ludus_matchmakers.mixture import Mixture
from ludus_matchmakers.msm import MSM
from ludus_matchmakers.nash import Nash
from ludus_matchmakers.plugin import ludus_register_matchmakers, ludus_register_rules
from ludus_matchmakers.rating import RatingMixture, Uncertain
from ludus_matchmakers.scenarios import Scenarios
from ludus_matchmakers.screening import Screening, Superior, Tournament
from ludus_matchmakers.self_play import Anchors, LatestFrozen, LatestSelfPlay
from ludus_matchmakers.timing import FreezeWhen, RestartFrom
from ludus_ratings import SequentialTest

MATCHMAKERS = {component.name: component for component in ludus_register_matchmakers()}
RULES = {component.name: component for component in ludus_register_rules()}

# -- as written in TOML, and as it reaches the objects ---------------------------------------------------------------

KEEPING = {
    "capacity": 7,
    "enough_matches": 8,
    "recent_models": 9,
    "long_s": 10.0,
    "long_models": 11,
    "pool_matches": 12,
    "pool_budget": 13,
}

SCREENING = {
    "players": ("a",),
    "candidates": 4,
    "top": 2,
    "enough_matches": 5,
    "best": "crown",
    "rank_by": "player/kicks",
}
SCREENED = Screening(players=("a",), candidates=4, top=2, enough_matches=5, best="crown", rank_by="player/kicks")
GATE = {"players": ("a",), "elo0": 5.0, "elo1": 15.0, "alpha": 0.1, "beta": 0.2, "max_matches": 9}
GATED = Trials(players=("a",), test=SequentialTest(elo0=5.0, elo1=15.0, alpha=0.1, beta=0.2), max_matches=9)
PLAY = (Modifier(scenario="night", probability=0.5, parameters={"moon": 1}),)


def alphastar_main():
    """Return its three parts; limits and exponents are those of the league of AlphaStar, not options."""
    parts = {
        "self-play": Curriculum(("a",), below=0.3, share=1.0, prior_matches=6.0, **KEEPING),
        "pfsp": PFSP(("best",), p=2.0, prior_matches=6.0, results="evaluation", **KEEPING),
        "forgotten": Forgotten(("a",), exploiters=("b",), prior_matches=6.0, **KEEPING),
    }
    return Mixture(parts=parts, weights={"self-play": 0.1, "pfsp": 0.2, "forgotten": 0.3}, **KEEPING)


BUILT_MATCHMAKERS = {
    "against-anchors": ({"against": ("bot",), **KEEPING}, Anchors(("bot",), **KEEPING)),
    "alphastar-league-exploiter": (
        {"pools": ("best",), "prior_matches": 6.0, "results": "evaluation", **KEEPING},
        PFSP(
            ("best",),
            weighting="capped",
            prior_matches=6.0,
            results="evaluation",
            label="alphastar-league-exploiter",
            **KEEPING,
        ),
    ),
    "alphastar-main": (
        {
            "against": ("a",),
            "exploiters": ("b",),
            "pools": ("best",),
            "self_play": 0.1,
            "pfsp": 0.2,
            "forgotten": 0.3,
            "prior_matches": 6.0,
            "results": "evaluation",
            **KEEPING,
        },
        alphastar_main(),
    ),
    "curriculum": (
        {"against": ("a",), "below": 0.1, "share": 0.2, "prior_matches": 6.0, **KEEPING},
        Curriculum(("a",), below=0.1, share=0.2, prior_matches=6.0, **KEEPING),
    ),
    "forgotten": (
        {
            "against": ("a",),
            "exploiters": ("b",),
            "forgotten": 0.1,
            "exploited": 0.2,
            "p": 3.0,
            "prior_matches": 6.0,
            **KEEPING,
        },
        Forgotten(("a",), exploiters=("b",), forgotten=0.1, exploited=0.2, p=3.0, prior_matches=6.0, **KEEPING),
    ),
    "gate-matches": (GATE, GateMatches(trials=GATED)),
    "latest-frozen": (
        {"against": ("a",), "requested": True, **KEEPING},
        LatestFrozen(("a",), requested=True, **KEEPING),
    ),
    "latest-self-play": ({"against": ("a",), **KEEPING}, LatestSelfPlay(("a",), **KEEPING)),
    "minimax-main": (
        {"pools": ("best",), "uniform": 0.3, "prior_matches": 6.0, "results": "evaluation", **KEEPING},
        PFSP(("best",), uniform=0.3, prior_matches=6.0, results="evaluation", label="minimax-main", **KEEPING),
    ),
    "mixture": (
        {"weights": {"pfsp": 1.0, "nash": 2.0}, **KEEPING},
        Mixture(parts={"pfsp": PFSP(()), "nash": Nash(())}, weights={"pfsp": 1.0, "nash": 2.0}, **KEEPING),
    ),
    "msm": (
        {"pools": ("best",), "alpha": 0.1, "p": 3.0, "temperature": 0.2, "prior_matches": 6.0, **KEEPING},
        MSM(("best",), alpha=0.1, p=3.0, temperature=0.2, prior_matches=6.0, **KEEPING),
    ),
    "nash": (
        {"pools": ("best",), "models": 4, "prior_matches": 6.0, **KEEPING},
        Nash(("best",), models=4, prior_matches=6.0, **KEEPING),
    ),
    "pfsp": (
        {
            "pools": ("best",),
            "weighting": "even",
            "p": 3.0,
            "uniform": 0.3,
            "prior_matches": 6.0,
            "results": "training",
            **KEEPING,
        },
        PFSP(("best",), weighting="even", p=3.0, uniform=0.3, prior_matches=6.0, results="training", **KEEPING),
    ),
    "rating-mixture": (
        {"weights": {"uncertain": 1.0, "nash": 2.0}, **KEEPING},
        RatingMixture(
            parts={"uncertain": Uncertain(()), "nash": Nash(())}, weights={"uncertain": 1.0, "nash": 2.0}, **KEEPING
        ),
    ),
    "tournament": (SCREENING, Tournament(screening=SCREENED)),
    "uncertain": (
        {"pools": ("best",), "deviation": 0.2, "prior_matches": 6.0, **KEEPING},
        Uncertain(pools=("best",), deviation=0.2, prior_matches=6.0, **KEEPING),
    ),
    "uniform-history": ({"pools": ("best",), **KEEPING}, UniformHistory(("best",), **KEEPING)),
    "with-scenarios": (
        {
            "matchmaker": "pfsp",
            "play": PLAY,
            "combine": "all",
            "period_s": 6.0,
            "models": 4,
            "balanced": 0.2,
            "enough_matches": 5,
        },
        Scenarios(inner=PFSP(()), play=PLAY, combine="all", period_s=6.0, models=4, balanced=0.2, enough_matches=5),
    ),
}

BUILT_RULES = {
    "ada": (
        {
            "players": ("a", "b"),
            "hard": ("b",),
            "low": 0.1,
            "high": 0.2,
            "behind": 0.3,
            "ahead": 0.4,
            "enough_matches": 5,
            "results": "training",
        },
        ADA(
            players=("a", "b"),
            hard=("b",),
            low=0.1,
            high=0.2,
            behind=0.3,
            ahead=0.4,
            enough_matches=5,
            results="training",
        ),
    ),
    "alphastar": (
        {
            "main_agents": ("a",),
            "main_exploiters": ("b",),
            "league_exploiters": ("c",),
            "pools": ("best",),
            "converged": 0.1,
            "enough_matches": 5,
            "least_decisions": 6,
            "most_decisions": 7,
            "reset": 0.2,
        },
        AlphaStar(
            main_agents=("a",),
            main_exploiters=("b",),
            league_exploiters=("c",),
            pools=("best",),
            converged=0.1,
            enough_matches=5,
            least_decisions=6,
            most_decisions=7,
            reset=0.2,
        ),
    ),
    "freeze-when": (
        {
            "players": ("a",),
            "seconds": 1.0,
            "decisions": 2,
            "win_rate": 0.1,
            "pools": ("best",),
            "enough_matches": 5,
        },
        FreezeWhen(players=("a",), seconds=1.0, decisions=2, win_rate=0.1, pools=("best",), enough_matches=5),
    ),
    "gate": (GATE, Gate(trials=GATED)),
    "generations": (
        {
            "main": "a",
            "exploiters": ("b",),
            "anchors": ("bot",),
            "pools": ("best",),
            "converged": 0.1,
            "enough_matches": 5,
            "share": 2.0,
            "exploiters_after": 3,
        },
        Generations(
            main="a",
            exploiters=("b",),
            anchors=("bot",),
            pools=("best",),
            converged=0.1,
            enough_matches=5,
            share=2.0,
            exploiters_after=3,
        ),
    ),
    "restart-from": (
        {"source": "a", "players": ("b",), "decisions": 2, "seconds": 1.0},
        RestartFrom(source="a", players=("b",), decisions=2, seconds=1.0),
    ),
    "superior": (
        {**SCREENING, "shared": {"methods": ("a",)}, "final": "last", "judged": ("kept",)},
        Superior(screening=SCREENED, shared={"methods": ("a",)}, final="last", judged=("kept",)),
    ),
}
BUILT = {**BUILT_MATCHMAKERS, **BUILT_RULES}
COMPONENTS = {**MATCHMAKERS, **RULES}


def build(name):
    """Make a matchmaker with its default options, as the coordinator does for the parts of others."""
    component = MATCHMAKERS[name]
    return component.load_factory()(component.load_config()(), build=build)


def test_matchmakers_and_rules_have_different_names():
    """The other tests look both up by name."""
    assert MATCHMAKERS.keys().isdisjoint(RULES)


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_option_has_a_test_value_other_than_its_default(name):
    """Otherwise an option that is not passed on would not be noticed."""
    config = COMPONENTS[name].load_config()
    given, _ = BUILT[name]
    default = config()
    fields = [field.name for field in attrs.fields(config)]
    assert sorted(given) == sorted(fields)
    assert [field for field in fields if given[field] == getattr(default, field)] == []


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_option_is_passed_to_the_object(name):
    """All values of the configuration are those of the object, and what is no option has its own value."""
    component = COMPONENTS[name]
    given, expected = BUILT[name]
    parts = {"build": build} if name in MATCHMAKERS else {}
    assert component.load_factory()(component.load_config()(**given), **parts) == expected


@pytest.mark.parametrize("name", sorted(COMPONENTS.keys() - {"alphastar-league-exploiter", "minimax-main"}))
def test_defaults_of_options_are_those_of_the_objects(name):
    """Objects made in Python equal those made from a file; those left out are a PFSP of another kind."""
    component = COMPONENTS[name]
    made = component.load_factory()(component.load_config()(), **({"build": build} if name in MATCHMAKERS else {}))
    for part in (made, getattr(made, "screening", None)):
        for field in attrs.fields(type(part)) if part is not None else ():
            factory = getattr(field.default, "factory", None)
            default = field.default if factory is None else factory()
            assert default in (attrs.NOTHING, getattr(part, field.name)), field.name


@pytest.mark.parametrize("name", ["ada", "alphastar", "freeze-when", "generations"])
def test_more_recent_matches_than_possible_raise(name):
    """The weight of a match halves with every 256 later ones, so a pair never has 370 and the rule would not act."""
    payoffs, config = Payoffs(lambda participant: [(participant, 1.0)]), COMPONENTS[name].load_config()
    for _ in range(100):
        payoffs.add_recent("main", "other", np.array([100, 0, 0]))
    assert config(enough_matches=300).enough_matches < payoffs.recent("main", ["other"]).sum() < 370
    with pytest.raises(ValueError, match=r"expected a number in \[1, 300\], got 370"):
        config(enough_matches=370)
