"""A fake of the environment: the interface of hok_env, and a small game of its own that depends on nothing random.

An attack (button 3) at a target from 3 on takes a tenth of the enemy's crystal. Numbers that a test can foresee:
feature i is i, the hit points of the own crystal are the first global number, and rewards are those of `_rewards`.
The variable FAKE_HOK_FAULT makes it hang, crash or return other numbers.
"""

import json
import os
import time
import types
from pathlib import Path

import numpy as np

from ..calls import record  # noqa: TID252 - what tests import absolutely must be a requirement

interface_default_config = "config.dat"

FIRST_GLOBAL = 700
PLAYERS = (8, 9)


class HoK1v1:
    """One match at a time."""

    PLAYER_NUM = 2

    def __init__(
        self,
        runtime_id,
        game_launcher,
        lib_processor,
        addrs,
        eval_mode=False,
        predict_frequency=3,
        aiserver_ip="127.0.0.1",
    ):
        with Path("config.json").open() as file:
            self._factors = json.load(file)
        record("HoK1v1", addrs=addrs, frequency=predict_frequency, ip=aiserver_ip, factors=self._factors)
        self._runtime_id = runtime_id
        self._launcher = game_launcher
        self._addrs = addrs
        self._interval = predict_frequency
        self._ip = aiserver_ip
        self._fault = os.environ.get("FAKE_HOK_FAULT", "")
        self.cur_req_pb = None
        print("a line that the library prints")

    def reset(self, camp_hero_list=None, use_common_ai=None, eval=None):
        """Start a match."""
        assert not all(use_common_ai)
        servers = [
            None if bot else [self._ip, int(address.split(":")[-1])]
            for bot, address in zip(use_common_ai, self._addrs, strict=True)
        ]
        self._launcher.start_game(self._runtime_id, servers, camp_hero_list, eval_mode=eval)
        self._bots = use_common_ai
        self._frame = 0
        self._crystals = [10, 10]
        self._kills = [0, 0]
        return self._look()

    def step(self, actions):
        """Advance by a decision."""
        record("step", actions=actions)
        if self._fault == "hang":
            time.sleep(60)
        if self._fault == "crash":
            os._exit(3)
        if self._fault == "raise":
            raise AssertionError("step failed: -1")
        for camp, action in enumerate(actions):
            assert len(action) == 6
            if not self._bots[camp]:
                self._check(camp, action)
        self._frame += self._interval
        self._kills = [0, 0]
        for camp, action in enumerate(actions):
            is_hit = self._frame % 2 == 0 if self._bots[camp] else action[0] == 3 and action[5] >= 3
            if is_hit:
                self._crystals[1 - camp] -= 1
                self._kills[camp] += 1
        return self._look()

    def close_game(self):
        """End the match."""
        record("close_game", runtime_id=self._runtime_id)

    def _check(self, camp, action):
        legal = self._legal(camp)
        parts = np.split(legal, [12, 28, 44, 60, 76])
        parts[-1] = parts[-1].reshape(12, 8)[action[0]]
        for part, choice in zip(parts, action, strict=True):
            assert part[choice] == 1, f"illegal action {action} of camp {camp}"

    def _legal(self, camp):
        """Allow skill 1 on every second frame, targets from 3 on for the attack, and 1 for the skill."""
        legal = np.zeros(172)
        legal[[0, 2, 3]] = 1
        legal[4] = (self._frame + camp) % 2
        legal[12:76] = 1
        legal[12] = 0
        targets = legal[76:].reshape(12, 8)
        targets[:, 0] = 1
        targets[3] = [0, 0, 0, 1, 1, 1, 0, 1]
        targets[4] = [0, 1, 0, 0, 0, 0, 0, 0]
        return legal

    def _used(self):
        used = {button: np.array([1.0, 0, 0, 0, 0, 0]) for button in range(12)}
        used[2][1:3] = 1
        used[3][5] = 1
        used[4][[3, 4, 5]] = 1
        if self._fault == "labels":
            used[3][1] = 1
        return used

    def _rewards(self, camp):
        """Return one kill's reward without its factor, one coin, and the sum with factors."""
        values = {"kill": float(self._kills[camp]), "money": 1.0}
        names = ("dead", "ep_rate", "exp", "hp_point", "kill", "last_hit", "money", "tower_hp_point")
        parts = [values.get(name, 0.0) for name in names]
        total = sum(value * float(self._factors[f"reward_{name}"]) for name, value in values.items())
        return (*parts, total)

    def _state(self, camp, gameover):
        features = np.arange(725, dtype=np.float64)
        features[FIRST_GLOBAL] = self._crystals[camp]
        return {
            "observation": features[:453] if self._fault == "features" else features,
            "legal_action": self._legal(camp),
            "sub_action_mask": self._used(),
            "reward": self._rewards(camp),
            "done": gameover,
            "player_id": PLAYERS[camp],
            "game_id": "fake",
            "frame_no": self._frame,
        }

    def _look(self):
        gameover = min(self._crystals) <= 0 or self._frame >= self._launcher.max_frame_num
        heroes = [
            types.SimpleNamespace(
                runtime_id=PLAYERS[camp],
                camp=camp + 1,
                killCnt=10 - self._crystals[1 - camp],
                deadCnt=10 - self._crystals[camp],
                moneyCnt=self._frame,
                totalHurtToHero=100 * camp,
            )
            for camp in range(2)
        ]
        organs = [
            organ
            for camp in range(2)
            for organ in (
                types.SimpleNamespace(type=21, camp=camp + 1, hp=0),
                types.SimpleNamespace(type=24, camp=camp + 1, hp=self._crystals[camp]),
            )
        ]
        frame = types.SimpleNamespace(
            frame_no=self._frame, gameover=gameover, hero_list=heroes[::-1], organ_list=organs
        )
        self.cur_req_pb = [None if bot else frame for bot in self._bots]
        states = [None if bot else self._state(camp, gameover) for camp, bot in enumerate(self._bots)]
        done = [state is not None and state["done"] for state in states]
        return None, None, done, states
