"""What a seat observes and may do, from a reply of hok_env."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from ludus.environment import RoleTick
from ludus.errors import PluginError

from ludus_hok.hok_api import (
    BUTTONS,
    HEROES,
    LABEL_SIZES,
    LABELS_USED,
    NUM_BUTTONS,
    NUM_LEGAL,
    NUM_TARGETS,
    OBSERVATION,
    REWARDS,
)

_log = logging.getLogger(__name__)
_SIZES = {name: int(np.prod(shape)) for name, shape in OBSERVATION.items()}
_NUM_FEATURES = sum(_SIZES.values())
_LABELS = tuple(LABEL_SIZES)
_ENDS = np.cumsum(tuple(LABEL_SIZES.values()))
_USED = np.array(LABELS_USED)
_OTHER = "another version of hok_env than this package was written for, 2.0.4"


class LegalActions:
    """The legal actions of a seat.

    The targets that hok_env allows depend on the button, and so do the labels that an action uses, while a mask in
    ludus has the choices of each label alone. So the mask allows every target that some legal button allows, and
    `choose_target` replaces one that the chosen button does not allow. A label that no legal button uses has one choice
    only.

    Args:
        legal: ``[172]``: 1 for legal choices, with the targets of each button.
        labels_used: ``[12][6]``: 1 for the labels that each button uses now.

    Raises:
        PluginError: The numbers are others.
    """

    def __init__(self, legal: list[int], labels_used: list[list[int]]) -> None:
        used = np.array(labels_used, bool)
        if len(legal) != NUM_LEGAL or used.shape != _USED.shape:
            raise PluginError(
                f"hok: expected {NUM_LEGAL} numbers of legal actions and {_USED.shape} of labels, got {len(legal)} and "
                f"{used.shape}; this is {_OTHER}"
            )
        flat = np.array(legal, bool)
        first_target = NUM_LEGAL - NUM_BUTTONS * NUM_TARGETS
        self._plain = flat[:first_target]
        self._targets = flat[first_target:].reshape(NUM_BUTTONS, NUM_TARGETS)
        self._buttons = flat[:NUM_BUTTONS]
        self._used = used & self._buttons[:, None]
        _warn_of_labels(tuple(map(tuple, np.argwhere(self._used & ~_USED).tolist())))

    def write_mask(self, mask: np.ndarray) -> None:
        """Write the mask ``[84] bool`` of all labels."""
        mask[: len(self._plain)] = self._plain
        mask[len(self._plain) :] = self._targets[self._used[:, -1]].any(axis=0)
        is_used = self._used.any(axis=0)
        for label, part in enumerate(np.split(mask, _ENDS[:-1])):
            if (label > 0 and not is_used[label]) or not part.any():
                only = int(part.argmax())
                part[:] = False
                part[only] = True

    def choose_target(self, action: np.ndarray) -> list[int]:
        """Return an action ``[6]`` with a target that its button allows, the first one unless the chosen one is."""
        chosen: list[int] = action.tolist()
        targets = self._targets[chosen[0]]
        if targets.any() and not targets[chosen[-1]]:
            chosen[-1] = int(targets.argmax())
        return chosen


@functools.cache
def _warn_of_labels(unknown: tuple[tuple[int, int], ...]) -> None:
    """Warn once of labels that a button uses in the game, and not in the table that learners read."""
    for button, label in unknown:
        _log.warning(
            "hok: the button %s uses the label %s, which is not learned from: %s",
            BUTTONS[button],
            _LABELS[label],
            _OTHER,
        )


def write_observation(player: RoleTick, seat: int, features: list[float], hero: str) -> None:
    """Write the features of a seat to the leaves of its role.

    Raises:
        PluginError: Their number is another one.
    """
    if len(features) != _NUM_FEATURES:
        raise PluginError(f"hok: expected {_NUM_FEATURES} features, got {len(features)}; this is {_OTHER}")
    vector, start = np.array(features, np.float32), 0
    for name, shape in OBSERVATION.items():
        player.observation[name][seat] = vector[start : start + _SIZES[name]].reshape(shape)
        start += _SIZES[name]
    player.observation["hero"][seat, list(HEROES).index(hero)] = 1


def write_rewards(player: RoleTick, seat: int, rewards: list[float]) -> None:
    """Write the reward of a seat, which is the sum of the game, and its parts.

    Whether the parts of the game have their factors is not documented: the part ``rest`` is what they lack of the sum.

    Raises:
        PluginError: The number of rewards is another one.
    """
    if len(rewards) != len(REWARDS) + 1:
        raise PluginError(f"hok: expected {len(REWARDS) + 1} rewards, got {len(rewards)}; this is {_OTHER}")
    *parts, total = rewards
    player.reward[seat] = total
    player.reward_parts["rest"][seat] = total - sum(parts)
    for i, name in enumerate(REWARDS):
        player.reward_parts[name][seat] = parts[i]


def write_statistics(player: RoleTick, seat: int, statistics: Mapping[str, Any], frame: int) -> None:
    """Write what a hero has done in its match."""
    for name, value in statistics.items():
        player.statistics[name][seat] = value
    player.statistics["frames"][seat] = frame
