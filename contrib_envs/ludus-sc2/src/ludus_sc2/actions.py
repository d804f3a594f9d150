"""The action interfaces of Arena for the full game, by the names of the paper [Arena §A.3.2].

The environment has one label for each manager: ``production``, ``resource`` and ``combat``. The interfaces offer all of
them as one flat list, or some of the labels, and leave others to rules.
"""

from __future__ import annotations

import attrs
import numpy as np
from attrs import define, field, frozen
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.interface import Identity, Interface, SeatView, Spaces
from ludus.spaces import label_sizes

from ludus_sc2.config import DataConfig
from ludus_sc2.layout import (
    ATTACK_AREA,
    ATTACK_NEAREST,
    DEFEND,
    GAS_FIRST,
    LABEL_SIZES,
    MAX_AREAS,
    MINERAL_FIRST,
    NONE,
    RALLY_OWN,
    RALLY_RIVAL,
    RULES,
    ZONE_ATTACK,
    ZONES,
)
from ludus_sc2.names import ITEMS, LABELS

_FIRST_ITEM = 2
_ENDS = np.cumsum(LABEL_SIZES)
_STARTS = _ENDS - LABEL_SIZES
#: The flat actions: label and choice of each.
FLAT_ACTIONS = (
    *((0, choice) for choice in range(_FIRST_ITEM, _FIRST_ITEM + len(ITEMS))),
    *((1, choice) for choice in (MINERAL_FIRST, GAS_FIRST, NONE)),
    *((2, choice) for choice in range(ZONE_ATTACK, ZONE_ATTACK + len(ZONES) ** 2)),
)
_FLAT_LABEL, _FLAT_CHOICE = np.array(FLAT_ACTIONS, np.int64).T
PRODUCTION_CHOICES = (NONE, *range(_FIRST_ITEM, LABEL_SIZES[0]))
RESOURCE_CHOICES = (GAS_FIRST, MINERAL_FIRST, NONE)
COMBAT_CHOICES = (*range(ATTACK_AREA, ATTACK_AREA + MAX_AREAS), ATTACK_NEAREST, DEFEND, RALLY_OWN, RALLY_RIVAL)


def make_flat(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``zerg-flat-act``."""
    return FlatActions()


def make_data(config: DataConfig) -> Interface:
    """Make ``zerg-data``."""
    return ManagerRules(config.rules)


def make_production(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``zerg-prod-act``."""
    return LabelChoices("zerg-prod-act", 0, PRODUCTION_CHOICES)


def make_resource(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``zerg-resource-act``."""
    return LabelChoices("zerg-resource-act", 1, RESOURCE_CHOICES)


def make_combat(config: None) -> Interface:  # noqa: ARG001 - no options
    """Make ``zerg-combat-act``."""
    return LabelChoices("zerg-combat-act", 2, COMBAT_CHOICES)


def _require_labels(raw: Spaces, interface: str) -> None:
    """Check that actions are those of the environment.

    Raises:
        ContractError: They have other labels.
    """
    if label_sizes(raw.action) != LABEL_SIZES:
        raise ContractError(
            f"{interface}: expected the actions of the environment 'sc2' with labels of {LABEL_SIZES} choices, got "
            f"{raw.action}; place it before other interfaces that change actions"
        )


class FlatActions(Identity):
    """Offers one label of 165 macro actions: 62 items to produce, 3 strategies of harvesting, 100 attacks by zone.

    The managers that an action does not concern do nothing new.
    """

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with one label.

        Raises:
            ContractError: The actions are not those of ``sc2``.
        """
        _require_labels(raw, "zerg-flat-act")
        return Spaces(raw.observation, spaces.Discrete(len(FLAT_ACTIONS)))

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002 - rows are independent
        """Return the view with the mask ``[n, 165]`` of flat actions."""
        if view.action_mask is None:
            return view
        return attrs.evolve(view, action_mask=view.action_mask[:, _STARTS[_FLAT_LABEL] + _FLAT_CHOICE])

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:  # noqa: ARG002 - as above
        """Return the choices of all labels ``[n, 3]``."""
        chosen = action[:, 0]
        raw = np.full((len(action), len(LABEL_SIZES)), NONE, np.int64)
        raw[np.arange(len(action)), _FLAT_LABEL[chosen]] = _FLAT_CHOICE[chosen]
        return raw


@frozen
class ManagerRules(Identity):
    """Removes the labels of managers that rules play.

    Args:
        rules: Names of these managers.
    """

    rules: tuple[str, ...]

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with the other labels.

        Raises:
            ContractError: The actions are not those of ``sc2``.
        """
        _require_labels(raw, "zerg-data")
        return Spaces(raw.observation, spaces.MultiDiscrete([LABEL_SIZES[label] for label in self._left()]))

    def _left(self) -> list[int]:
        return [label for label, name in enumerate(LABELS) if name not in self.rules]

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002 - rows are independent
        """Return the view with the mask of the other labels."""
        if view.action_mask is None:
            return view
        parts = [view.action_mask[:, _STARTS[label] : _ENDS[label]] for label in self._left()]
        return attrs.evolve(view, action_mask=np.concatenate(parts, axis=1))

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:  # noqa: ARG002 - as above
        """Return the choices of all labels ``[n, 3]``."""
        raw = np.full((len(action), len(LABEL_SIZES)), RULES, np.int64)
        raw[:, self._left()] = action
        return raw


@define
class LabelChoices(Identity):
    """Offers some choices of one label.

    Args:
        name: Name of the interface in messages.
        label: Index of the label in the actions of the environment, which identifies it by its size.
        choices: The choices of the environment that it offers, in order.
    """

    name: str
    label: int
    choices: tuple[int, ...]
    _column: int = field(init=False, default=0)
    _kept: np.ndarray = field(init=False, factory=lambda: np.zeros(0, np.int64))

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with fewer choices of the label.

        Raises:
            ContractError: The actions do not have the label.
        """
        sizes = list(label_sizes(raw.action))
        wanted = LABEL_SIZES[self.label]
        if sizes.count(wanted) != 1:
            raise ContractError(
                f"{self.name}: expected a label {LABELS[self.label]!r} of {wanted} choices, as in the actions of the "
                f"environment 'sc2', got {raw.action}; zerg-data must not leave it to rules"
            )
        self._column = sizes.index(wanted)
        start = sum(sizes[: self._column])
        own = start + np.array(self.choices)
        self._kept = np.concatenate([np.arange(start), own, np.arange(start + wanted, sum(sizes))])
        sizes[self._column] = len(self.choices)
        return Spaces(raw.observation, spaces.MultiDiscrete(sizes))

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002 - rows are independent
        """Return the view with the mask of the offered choices."""
        if view.action_mask is None:
            return view
        return attrs.evolve(view, action_mask=view.action_mask[:, self._kept])

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:  # noqa: ARG002 - as above
        """Return the actions with the environment's choices of the label."""
        raw = action.copy()
        raw[:, self._column] = np.array(self.choices)[action[:, self._column]]
        return raw
