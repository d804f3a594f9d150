"""The studies of whole leagues: what is trained, what is compared, and which orderings the papers found.

The file ``league_ablations/NAME.toml`` of a study is its first variant; the others are settings that differ from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen


@frozen(kw_only=True)
class Claim:
    """One variant is better than another one, as a paper found.

    Args:
        better: Name of a variant.
        worse: Name of another one.
        player: Whose figure is compared.
        figure: ``"rating"``, or ``"generations"``: how often the player converged.
    """

    better: str
    worse: str
    player: str
    figure: str = "rating"


@frozen(kw_only=True)
class Study:
    """What is compared.

    Args:
        title: Above pictures and tables.
        variants: What differs from the TOML file, as ``key.path=value``, by name.
        players: Whose final models play each other; in an asymmetric game at least one of every side.
        anchors: Scripted opponents for all: anchors of the TOML file or installed agents, by the name to show.
        claims: Orderings of the paper.
    """

    title: str
    variants: Mapping[str, tuple[str, ...]]
    players: tuple[str, ...]
    anchors: Mapping[str, str]
    claims: Sequence[Claim]


_NO_RULES = "league.every_matches=1000000000"  # until then nobody asks them

_DIS = ("main_agent", "policy_explorer", "rnd_explorer", "mappo_explorer")
_POLICIES = _DIS[:2]


def _pools(*pools: str, shared: bool = False) -> tuple[str, ...]:
    """Return what leaves all players only these pools, and DPMP to the players that share it."""
    return tuple(
        f"players.{name}.msm.pools={[*pools, *(['policies'] if shared and name in _POLICIES else [])]}" for name in _DIS
    )


def _same(setting: str, players: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"players.{name}.{setting}" for name in players)


_ALONE = (
    *_same("msm.alpha=1.0", _DIS),
    *_same("share=0", _DIS[1:]),
    _NO_RULES,
    "evaluation.enabled=false",
)

_SIDES = ("cat", "mouse")


def _history(share: float) -> tuple[str, ...]:
    weights = {"latest-self-play": 1 - share, "pfsp": share}
    return tuple(
        f"players.{name}.mixture.weights.{part}={weight:g}" for name in _SIDES for part, weight in weights.items()
    )


def _shares(cat: float, mouse: float) -> tuple[str, ...]:
    return (_NO_RULES, f"players.cat.share={cat:g}", f"players.mouse.share={mouse:g}")


STUDIES: dict[str, Study] = {
    # Table 1 of the paper takes away one more pool from row to row. All players go on training in every row, so the
    # main agent always has a third of the matches; "alone" gives it all of them.
    "dis": Study(
        title="Diversity is strength: pools removed one by one",
        variants={
            "all pools": (),
            "no DMMP": _pools("own", "own/long", "own/superior", shared=True),
            "no DPMP": _pools("own", "own/long", "own/superior"),
            "no SMP": _pools("own", "own/long"),
            "no LHMP": _pools("own"),
            "self-play": _same("msm.alpha=1.0", _DIS),
            "random": _same("msm.p=0", _DIS),  # every model of a pool is as important as any other
            "alone": _ALONE,
        },
        players=("main_agent",),
        anchors={"random bot": "random", "weak bot": "weak", "strong bot": "strong"},
        claims=[
            Claim(better="all pools", worse="no DMMP", player="main_agent"),
            Claim(better="no DMMP", worse="no DPMP", player="main_agent"),
            Claim(better="no DPMP", worse="no SMP", player="main_agent"),
            Claim(better="no LHMP", worse="no SMP", player="main_agent"),  # the paper's exception
            Claim(better="no LHMP", worse="self-play", player="main_agent"),
            Claim(better="all pools", worse="self-play", player="main_agent"),
            Claim(better="all pools", worse="random", player="main_agent"),
        ],
    ),
    "minimax": Study(
        title="Leagues with a minimax and with a vanilla exploiter",
        variants={"minimax": (), "vanilla": ("players.exploiter.dqn.minimax_alpha=0",)},
        players=("main_agent",),
        anchors={"random bot": "random", "weak bot": "weak", "strong bot": "duel-bot"},
        claims=[
            Claim(better="minimax", worse="vanilla", player="main_agent", figure="generations"),
            Claim(better="minimax", worse="vanilla", player="exploiter", figure="generations"),
            Claim(better="minimax", worse="vanilla", player="main_agent"),
        ],
    ),
    "aet": Study(
        title="Asymmetric evolution: allocation, environment randomisation, history",
        variants={
            "ada": (),
            "1:1": _shares(1, 1),
            "1:4": _shares(1, 4),
            "no ER": _same("with-scenarios.play=[]", _SIDES),
            "history 0 %": _history(0.0),
            "history 50 %": _history(0.5),
        },
        players=_SIDES,
        anchors={"random bot": "random", "weak bot": "weak", "medium bot": "medium", "strong bot": "strong"},
        claims=[
            Claim(better=better, worse=worse, player=player)
            for player in ("mouse", "cat")  # the paper tells the ratings of the mice
            for better, worse in (
                ("ada", "1:1"),
                ("ada", "1:4"),
                ("1:4", "1:1"),
                ("ada", "no ER"),
                ("ada", "history 0 %"),
                ("ada", "history 50 %"),
            )
        ],
    ),
}
