"""The action interfaces of Arena for battles, by the names of the paper [Arena §A.2.2].

A unit has eight moves and attacks the nearest enemy, or in the mixed battle the nearest one on the ground or in the
air first. An army acts by a map: one label per cell, which all of its units in the cell follow. Units in the air have
a map of their own in the mixed battle, since they share cells with units on the ground.
"""

from __future__ import annotations

import attrs
import numpy as np
from attrs import define, field
from gymnasium import spaces
from ludus.errors import ContractError
from ludus.interface import Interface, SeatView, Spaces
from ludus.spaces import label_sizes
from ludus_interfaces.frames import SeatRows

from ludus_skirmish.actions import AIR_FIRST, GROUND_FIRST, MOVE, NEAREST, choices
from ludus_skirmish.config import ActionMapConfig
from ludus_skirmish.interfaces import cells_of, require_tables
from ludus_skirmish.layout import COLUMN

_MOVES = tuple(range(MOVE, NEAREST))


def make_act(config: ActionMapConfig) -> Interface:
    """Make ``img-act``: eight moves and the nearest enemy; a map of 8 x 8 cells."""
    return ActionMap("img-act", raw_choices=(*_MOVES, NEAREST), cells=8, layers=1, mapped=config.map)


def make_mab_act(config: ActionMapConfig) -> Interface:
    """Make ``img-mab-act``: eight moves, the nearest enemy on the ground or in the air first; two maps of 16 x 16."""
    raw_choices = (*_MOVES, GROUND_FIRST, AIR_FIRST)
    return ActionMap("img-mab-act", raw_choices=raw_choices, cells=16, layers=2, mapped=config.map)


@define
class ActionMap:
    """Lets units choose among few actions, and armies by a map.

    A choice that is illegal for a unit, as for one of several units in a cell, becomes its first legal raw choice,
    which is to stop.

    Args:
        name: Name of the interface in messages.
        raw_choices: The raw choice of each choice.
        cells: Rows and columns of the map.
        layers: 1: one map for all units; 2: the second map is for units in the air.
        mapped: Whether armies act by a map, else by one label per unit.
    """

    name: str
    raw_choices: tuple[int, ...]
    cells: int
    layers: int
    mapped: bool
    _units: int = field(init=False, default=0)  # labels of a raw action
    _size: int = field(init=False, default=0)  # choices of a raw label
    _labels: int = field(init=False, default=0)
    _seats: SeatRows = field(init=False, factory=SeatRows)
    _legal: np.ndarray = field(init=False, factory=lambda: np.zeros((0, 0, 0), bool))  # [seats, units, size]
    _label: np.ndarray = field(init=False, factory=lambda: np.zeros((0, 0), np.int64))  # [seats, units]

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with the few choices.

        Raises:
            ContractError: Observations or actions are not those of ``skirmish``.
        """
        slots, sizes = require_tables(raw, self.name), label_sizes(raw.action)
        if sizes not in ((choices(slots),), (choices(slots),) * slots):
            raise ContractError(
                f"{self.name}: expected the actions of a unit or of an army of {slots} units with {choices(slots)} "
                f"choices each, as in the environment 'skirmish', got {raw.action}"
            )
        self._units, self._size = len(sizes), sizes[0]
        is_map = self.mapped and self._units > 1
        self._labels = self.layers * self.cells**2 if is_map else self._units
        self._seats = SeatRows()
        self._legal = np.zeros((0, self._units, self._size), bool)
        self._label = np.zeros((0, self._units), np.int64)
        count = len(self.raw_choices)
        action = spaces.Discrete(count) if self._labels == 1 else spaces.MultiDiscrete([count] * self._labels)
        return Spaces(raw.observation, action)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing: every decision observes first."""

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Return the view with the mask of the few choices; remember what is legal, and the label of each unit."""
        count, rows = len(seat_ids), np.arange(len(seat_ids))[:, None]
        legal = np.ones((count, self._units, self._size), bool)
        if view.action_mask is not None:
            legal[:] = view.action_mask.reshape(legal.shape)
        label = self._labels_of_units(view)
        few = legal[..., self.raw_choices]
        mask = np.zeros((count, self._labels, len(self.raw_choices)), bool)
        np.logical_or.at(mask, (rows, label), few)
        mask[..., 0] |= ~mask.any(axis=2)  # cells without units, and units that can only stop
        self._remember(seat_ids, legal, label)
        return attrs.evolve(view, action_mask=mask.reshape(count, -1))

    def _labels_of_units(self, view: SeatView) -> np.ndarray:
        """Return ``[n, units] int64``: the label that each unit follows."""
        count = len(view.reward)
        if self._labels == self._units:
            return np.tile(np.arange(self._units), (count, 1))
        table = view.observation["own"]
        cell = cells_of(table, self.cells)
        if self.layers > 1:
            cell += self.cells**2 * (table[..., COLUMN["air"]] > 0)
        return cell

    def _remember(self, seat_ids: np.ndarray, legal: np.ndarray, label: np.ndarray) -> None:
        rows = self._seats.rows(seat_ids)
        missing = self._seats.count - len(self._legal)
        if missing > 0:
            self._legal = np.concatenate([self._legal, np.zeros((missing, *self._legal.shape[1:]), bool)])
            self._label = np.concatenate([self._label, np.zeros((missing, self._units), np.int64)])
        self._legal[rows], self._label[rows] = legal, label

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        """Return the raw choices ``[n, units] int64`` of all units."""
        rows = self._seats.rows(seat_ids)
        legal = self._legal[rows]
        raw = np.array(self.raw_choices)[np.take_along_axis(action, self._label[rows], axis=1)]
        is_legal = np.take_along_axis(legal, raw[..., None], axis=2)[..., 0]
        return np.asarray(np.where(is_legal, raw, legal.argmax(axis=2)))
