"""Options of the rewards [DIS table 3]."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen
from ludus.option import Presets, at_least, option, whole

#: Rewards that all players of DIS use; the others are for policy explorers.
_OTHERS = {"hold": 0.0, "secondary_attack": 0.0, "slide": 0.0}


@frozen(kw_only=True)
class RewardWeights:
    """Rewards of the environment; defaults as in [DIS table 3]."""

    goal: float = option(1.0, at_least(0.0), help="reward of each goal of the team; ≥ 0; the paper: 1")
    conceded: float = option(1.0, at_least(0.0), help="penalty of each goal of the opponents; ≥ 0; the paper: 1")
    goal_clip: int = option(
        3,
        whole(0, 100),
        help="greatest goal difference whose goals count as goal and conceded, others as excess; 0: no limit; "
        "the paper: 3",
    )
    win: float = option(2.0, at_least(0.0), help="reward of a victory, and penalty of a defeat; ≥ 0; the paper: 2")
    possession: float = option(
        0.2, at_least(0.0), help="reward of getting possession, and penalty of losing it; ≥ 0; the paper: 0.2"
    )
    out: float = option(
        0.001, at_least(0.0), help="penalty of the team that puts the ball out of the field; ≥ 0; the paper: 0.001"
    )
    checkpoint: float = option(
        0.0,
        at_least(0.0),
        help="reward of each of ten checkpoints on the way to the goal that a team reaches with the ball; ≥ 0; "
        "gfootball: 0.1",
    )
    hold: float = option(
        0.0003, at_least(0.0), help="reward of a player for each step with the ball; ≥ 0; the paper: 0.0003"
    )
    secondary_attack: float = option(
        0.1, at_least(0.0), help="reward of the player who had the ball before the scorer; ≥ 0; the paper: 0.1"
    )
    slide: float = option(0.1, at_least(0.0), help="reward of a player whose slide wins the ball; ≥ 0; the paper: 0.1")


@frozen(kw_only=True)
class RewardFactorsConfig:
    """Options of the interface ``football-rewards``: factors of the environment's rewards, for one player."""

    PRESETS: ClassVar[Presets] = {  # [DIS §3.2.1, appendix D]; the paper's main rewards, and those of its explorers
        "dis-main": _OTHERS,
        "dis-possession": _OTHERS | {"hold": 1.0},
        "dis-passing": _OTHERS | {"secondary_attack": 1.0},
        "dis-goal-clipping": _OTHERS | {"excess": 0.0},
    }

    goal: float = option(1.0, at_least(0.0), help="factor of goals of the team; ≥ 0", learning=True)
    conceded: float = option(1.0, at_least(0.0), help="factor of goals of the opponents; ≥ 0", learning=True)
    excess: float = option(
        1.0, at_least(0.0), help="factor of goals beyond the environment's goal_clip; ≥ 0", learning=True
    )
    win: float = option(1.0, at_least(0.0), help="factor of victory and defeat; ≥ 0", learning=True)
    possession: float = option(1.0, at_least(0.0), help="factor of changes of possession; ≥ 0", learning=True)
    out: float = option(1.0, at_least(0.0), help="factor of putting the ball out; ≥ 0", learning=True)
    checkpoint: float = option(1.0, at_least(0.0), help="factor of checkpoints; ≥ 0", learning=True)
    hold: float = option(1.0, at_least(0.0), help="factor of holding the ball; ≥ 0", learning=True)
    secondary_attack: float = option(1.0, at_least(0.0), help="factor of secondary attacks; ≥ 0", learning=True)
    slide: float = option(1.0, at_least(0.0), help="factor of slides that win the ball; ≥ 0", learning=True)
