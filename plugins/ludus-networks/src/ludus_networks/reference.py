"""Input sizes with which numbers of parameters can be compared with those of a paper."""

from __future__ import annotations

import numpy as np
from attrs import frozen
from gymnasium import Space, spaces
from ludus.network import NetworkRequest
from ludus.option import at_least, option

__all__ = ["AETInputs"]


@frozen(kw_only=True)
class AETInputs:
    """Observations of the agents of [AET figure 2].

    The paper gives the groups, the image and the sizes of the layers. The sizes of all other groups are assumptions,
    chosen so that the numbers of parameters are close to the paper's. Teammates and opponents are encoded one by one,
    so that for both sides ten encodings of 128 units are the 1,280 inputs of the paper's Mid-MLP.
    """

    image: tuple[int, int, int] = option((72, 48, 8), help="height, width and channels of the mini-image; paper")
    active: int = option(384, at_least(1), help="features of the controlled agent")
    mates: int = option(1792, at_least(1), help="features of the observation of each of the 3 other mice; mouse only")
    last_cat: int = option(320, at_least(1), help="features of the cat when last seen; mouse only")
    last_mouse: int = option(192, at_least(1), help="features of each of the 4 mice when last seen; cat only")
    overall: int = option(256, at_least(1), help="features of the state of the match")
    objects: int = option(2048, at_least(1), help="features of the fixed entities (Entity-1)")
    things: tuple[int, int] = option((32, 64), help="maximum of variable entities, and features of each (Entity-2)")
    memory: int = option(1024, at_least(1), help="memory features")
    invisible: int = option(512, at_least(1), help="features that only the value reads")

    def request(self, side: str) -> NetworkRequest:
        """Return PPO's request for the network of ``"cat"`` or ``"mouse"``: 18 actions, 16 directions, a value."""
        last_known = (
            {"last_opponents": _box(4, self.last_mouse)}
            if side == "cat"
            else {"mates": _box(3, self.mates), "last_opponent": _box(self.last_cat)}
        )
        return NetworkRequest(
            observation={
                "image": spaces.Box(0, 255, self.image, np.uint8),
                "active": _box(self.active),
                **last_known,
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

    def concat_leaves(self, side: str) -> tuple[str, ...]:
        """Return the option `concat` of network ``aet`` for ``"cat"`` or ``"mouse"``."""
        return ("last_opponents",) if side == "cat" else ("mates",)


def _box(*shape: int) -> Space[np.ndarray]:
    return spaces.Box(-np.inf, np.inf, shape, np.float32)
