"""Inputs of the size that a paper's network had, to compare numbers of parameters with the paper's."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from gymnasium import Space, spaces
from ludus.network import NetworkRequest
from ludus.option import at_least, option

__all__ = ["AETInputs"]


@frozen(kw_only=True)
class AETInputs:
    """What the agents of [AET figure 2] see.

    The paper gives the groups, the image and the size of the layers, and not the size of any other group: those are
    assumptions, chosen so that the numbers of parameters come out near the paper's. Teammates and opponents are
    encoded one by one: then ten encodings of 128 are the 1,280 that enter the paper's Mid-MLP, for both sides.
    """

    image: tuple[int, int, int] = option((72, 48, 8), help="height, width and channels of the mini-image; paper")
    active: int = option(384, at_least(1), help="features of the controlled agent")
    mates: int = option(1792, at_least(1), help="features of what each of the 3 other mice observes; mouse only")
    last_cat: int = option(320, at_least(1), help="features of the cat where it was last seen; mouse only")
    last_mouse: int = option(192, at_least(1), help="features of each of the 4 mice where last seen; cat only")
    overall: int = option(256, at_least(1), help="features of the state of the match")
    objects: int = option(2048, at_least(1), help="features of the fixed entities (Entity-1)")
    things: tuple[int, int] = option((32, 64), help="most entities of variable number, and features each (Entity-2)")
    memory: int = option(1024, at_least(1), help="memory features")
    invisible: int = option(512, at_least(1), help="features that only the value reads")

    def request(self, side: str) -> NetworkRequest:
        """Return what PPO asks of the network of ``"cat"`` or ``"mouse"``: 18 actions, 16 directions, a value."""
        seen = (
            {"last_opponents": _box(4, self.last_mouse)}
            if side == "cat"
            else {
                "mates": _box(3, self.mates),
                "last_opponent": _box(self.last_cat),
            }
        )
        return NetworkRequest(
            observation={
                "image": spaces.Box(0, 255, self.image, np.uint8),
                "active": _box(self.active),
                **seen,
                "overall": _box(self.overall),
                "objects": _box(self.objects),
                "things": _box(*self.things),
                "things_present": spaces.MultiBinary(self.things[0]),
                "memory": _box(self.memory),
            },
            privileged={"invisible": _box(self.invisible)},
            heads={"policy": 18 + 16},
            critic_heads={"value": 1},
            head_gain={"policy": 0.01},
            labels={"policy": (18, 16)},
        )

    def one_by_one(self, side: str) -> tuple[str, ...]:
        """Return the option `concat` of network ``aet`` for ``"cat"`` or ``"mouse"``."""
        return ("last_opponents",) if side == "cat" else ("mates",)


def _box(*shape: int) -> Space[np.ndarray]:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)
