"""Options of the components in this distribution."""

from __future__ import annotations

from attrs import frozen
from ludus.option import finite, one_of, option, whole

from ludus_pommerman.names import VARIANT_NAMES


@frozen(kw_only=True)
class PommermanConfig:
    """Options of the environment ``pommerman``: variant, board, and weights of reward parts."""

    variant: str = option(
        "ffa", one_of(*VARIANT_NAMES), lasting=True, help="ffa, team (2 v 2 with fog), radio, one-vs-one or collapse"
    )
    rigid: int = option(-1, whole(-1, 36), help="number of rigid walls, even; -1: as the variant")
    wood: int = option(-1, whole(-1, 60), help="number of wooden walls, even; -1: as the variant")
    items: int = option(-1, whole(-1, 36), help="number of items under wood; -1: as the variant")
    view: int = option(-1, whole(-1, 10), lasting=True, help="cells seen in each direction; 0: all; -1: as the variant")
    time_limit: int = option(800, whole(1, 10_000), help="steps of a match, after which it is a tie")
    first_collapse: int = option(500, whole(1, 10_000), help="step of the first collapse, for the variant collapse")
    privileged: bool = option(False, lasting=True, help="whether critics see the whole state")
    win: float = option(1.0, finite(), help="reward for a win, and penalty for a loss or tie")
    kill: float = option(0.0, finite(), help="reward for each enemy that dies in own flames; 0 in the rules")
    wood_reward: float = option(0.0, finite(), help="reward for each wooden wall burnt by own bombs; 0 in the rules")
    item: float = option(0.0, finite(), help="reward for each item; 0 in the rules")


@frozen(kw_only=True)
class BoardMapConfig:
    """Options of the interface ``board-map``."""

    keep: bool = option(True, help="whether the leaves that the image shows stay in the observation")


@frozen(kw_only=True)
class AttrConfig:
    """Options of the interface ``attr``."""

    keep: bool = option(True, help="whether the leaves that the vector holds stay in the observation")


@frozen(kw_only=True)
class ActMaskConfig:
    """Options of the interface ``act-mask``."""

    leaf: bool = option(True, help="whether the observation gets the leaf available")
    mask: bool = option(True, help="whether only available actions are legal")
