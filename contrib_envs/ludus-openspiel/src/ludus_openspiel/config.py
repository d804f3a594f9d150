"""Options of the environment ``openspiel`` and of its agents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import frozen
from ludus.option import Check, above, at_least, one_of, option, whole

_GAME = Check(
    'an OpenSpiel game such as "kuhn_poker" or "leduc_poker(players=2)"',
    lambda value: isinstance(value, str) and re.fullmatch(r"[a-z0-9_]+(\(.*\))?", value) is not None,
)


@frozen(kw_only=True)
class OpenSpielConfig:
    """Options of the environment ``openspiel``."""

    game: str = option(
        "kuhn_poker",
        _GAME,
        help='name and parameters as OpenSpiel writes them: "goofspiel(num_cards=4)"; files that parameters name must '
        "be below the current folder",
        lasting=True,
        path="read",
    )
    observation: str = option(
        "auto",
        one_of("auto", "information_state", "observation"),
        help="tensor that players observe: all their information, or the present only; auto: the information state in "
        "games of imperfect information that have one, otherwise the observation",
        lasting=True,
    )
    roles: Mapping[str, Sequence[int]] = option(
        {},
        help="players of each role, by number from 0: { first = [0], second = [1] }; empty: one role, player, for all",
        lasting=True,
    )
    score: str = option(
        "auto",
        one_of("auto", "outcome", "return"),
        help="what measures participants: the outcomes or the returns of their matches; auto: returns in games whose "
        "utilities have no constant sum, or are the same for all players",
    )
    workers: int = option(0, whole(0, 1024), help="processes that share the matches; 0 plays them one after another")
    max_ticks: int = option(0, at_least(0), help="ticks after which matches are truncated; 0 leaves it to the rules")
    time_limit: str = option(
        "truncates",
        one_of("truncates", "terminates"),
        help="whether max_ticks truncates a match or terminates it as a rule of the game",
    )


@frozen(kw_only=True)
class MCTSConfig:
    """Options of the agent ``openspiel-mcts``: UCT with random rollouts, OpenSpiel's own."""

    simulations: int = option(100, whole(1, 10**6), help="simulations per decision; ≥ 1")
    rollouts: int = option(1, whole(1, 10**6), help="random matches played out from each new leaf; ≥ 1")
    uct_c: float = option(2.0, above(0), help="weight of exploration, in utilities; > 0")
    solve: bool = option(True, help="positions whose value is proven count as solved")
    max_memory_mb: int = option(256, whole(1, 10**6), help="greatest size of the tree in MiB; ≥ 1")


@frozen(kw_only=True)
class CFRConfig:
    """Options of the agent ``openspiel-cfr``: the average policy of counterfactual regret minimization."""

    iterations: int = option(100, whole(1, 10**6), help="passes over the game tree at construction; ≥ 1")
    variant: str = option("cfr+", one_of("cfr", "cfr+"), help="cfr, or cfr+, which converges faster")
