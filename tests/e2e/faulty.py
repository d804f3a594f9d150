"""A plugin with an environment that fails on purpose; tests install it as a separate distribution.

``faulty`` is the counting game of the dummy plugin. After a number of ticks the configured fault occurs.
"""

import os
import time

import numpy as np
from attrs import evolve, frozen
from ludus import Component, hookimpl
from ludus.option import at_least, option

LUDUS_API = 1


@hookimpl
def ludus_register_environments():
    """Register the environment."""
    return [Component(name="faulty", factory="faulty:Faulty", config="faulty:FaultyConfig", summary="fails")]


@frozen(kw_only=True)
class FaultyConfig:
    """Options of ``faulty``."""

    fault: str = option(help="fault that occurs")
    after_ticks: int = option(20, at_least(0), help="ticks before the fault")


class Faulty:
    """Counting game with a fault."""

    def __init__(self, config, *, num_matches):
        from ludus_dummy.config import CountConfig
        from ludus_dummy.count import Count

        if config.fault == "init":
            raise FileNotFoundError("no game here")
        self._game = Count(CountConfig(), num_matches=num_matches)
        self.spec = evolve(self._game.spec, name="faulty")
        self.num_matches, self.close = num_matches, self._game.close
        self._config, self._ticks, self._held = config, 0, []

    def _broken(self, fault):
        return self._config.fault == fault and self._ticks >= self._config.after_ticks

    def reset(self, seeds, *, indices=None, scenarios=None):
        """Reset matches, or raise."""
        if self._broken("reset"):
            raise ZeroDivisionError("no board")
        return self._spoiled(self._game.reset(seeds, indices=indices, scenarios=scenarios))

    def step(self, actions):
        """Step matches, or raise."""
        self._ticks += 1
        if self._broken("step"):
            raise ZeroDivisionError("no board")
        while self._broken("hang"):
            time.sleep(0.01)
        while self._broken("allocate"):
            self._held.append(bytearray(2**20))
        while self._broken("fork"):
            if not os.fork():
                time.sleep(60)
        if self._broken("print"):
            os.write(1, b"x" * 2**17)
        return self._spoiled(self._game.step(actions))

    def _spoiled(self, tick):
        player = tick.roles["player"]
        if self._broken("reward"):
            player.reward[0, 1] = np.nan
        if self._broken("observation"):
            player.observation["obs"][1, 0, 0] = np.nan
        if self._broken("mask"):
            player.action_mask[:] = False
        if self._broken("outcome"):
            tick.outcome[:] = 2.0
        return tick
