"""What this package assumes of hok_env: names, numbers and orders of its public code of version 2.0.4.

All assumptions are here and in `ludus_hok.bridge_process`, which calls hok_env. None was tried with the real game.
"""

from __future__ import annotations

#: Number of each hero of the 1v1 mode, by the name that hok_env gives it.
HEROES = {
    "luban": 112,
    "miyue": 121,
    "lvbu": 123,
    "libai": 131,
    "makeboluo": 132,
    "direnjie": 133,
    "guanyu": 140,
    "diaochan": 141,
    "luna": 146,
    "hanxin": 150,
    "huamulan": 154,
    "buzhihuowu": 157,
    "jvyoujing": 163,
    "houyi": 169,
    "zhongkui": 175,
    "ganjiangmoye": 182,
    "kai": 193,
    "gongsunli": 199,
    "peiqinhu": 502,
    "shangguanwaner": 513,
}

#: Choices of the first label.
BUTTONS = (
    "none",
    "none2",
    "move",
    "attack",
    "skill1",
    "skill2",
    "skill3",
    "heal",
    "chosen_skill",
    "recall",
    "skill4",
    "equipment",
)
#: Choices of each action label.
LABEL_SIZES = {"button": 12, "move_x": 16, "move_z": 16, "skill_x": 16, "skill_z": 16, "target": 8}
NUM_BUTTONS, NUM_TARGETS = LABEL_SIZES["button"], LABEL_SIZES["target"]
#: Entries of a legal action: those of all labels side by side, with the targets of every button.
NUM_LEGAL = sum(LABEL_SIZES.values()) - NUM_TARGETS + NUM_BUTTONS * NUM_TARGETS

_ALONE = (True, False, False, False, False, False)
_MOVE = (True, True, True, False, False, False)
_AIMED = (True, False, False, True, True, True)
#: Labels that each button may use. Which of them a skill uses depends on the hero: one has a direction, another a
#: target. The table is the same for all heroes, so it has the labels that any skill may use.
LABELS_USED = tuple(
    {"none": _ALONE, "none2": _ALONE, "move": _MOVE, "recall": _ALONE}.get(button, _AIMED) for button in BUTTONS
)

#: Parts of the vector that a seat observes, in its order, from the network that hok_env ships. The numbers of a hero,
#: soldier or building are one row; both buildings of a camp are one row, since they are one choice of the target.
OBSERVATION = {
    "hero_own": (1, 235),
    "hero_enemy": (1, 235),
    "hero_main": (14,),
    "soldiers_own": (4, 18),
    "soldiers_enemy": (4, 18),
    "buildings_own": (1, 36),
    "buildings_enemy": (1, 36),
    "global": (25,),
}

#: Reward parts in the order of the game, which adds their sum.
REWARDS = ("dead", "ep_rate", "exp", "hp_point", "kill", "last_hit", "money", "tower_hp_point")

#: Name of the game's own player.
COMMON_AI = "common_ai"
