"""The interfaces of Arena for ViZDoom, by the names of the paper [Arena §A.5]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from attrs import define, field
from gymnasium import Space, spaces
from ludus.errors import ContractError
from ludus.interface import Identity, Interface, SeatView, Spaces
from ludus.spaces import label_sizes, leaf_spaces
from ludus_interfaces.frames import SeatRows

from ludus_vizdoom.config import ActionConfig, PostRuleConfig, ScreenConfig, SegmentationConfig
from ludus_vizdoom.observations import CLASSES

#: Choices of ``discrete-action-7``. The paper names moving forward, turning and shooting.
ACTIONS = ("MOVE_FORWARD", "TURN_LEFT", "TURN_RIGHT", "ATTACK", "MOVE_LEFT", "MOVE_RIGHT", "MOVE_BACKWARD")
_TARGETS = [CLASSES.index("player"), CLASSES.index("monster")]
_BARREL = CLASSES.index("hazard")


def make_screen(config: ScreenConfig) -> Interface:
    """Make ``screen-as-obs``."""
    return ScreenAsObs(variables=config.variables)


def make_segmentation(config: SegmentationConfig) -> Interface:
    """Make ``segmentation-as-obs``."""
    return SegmentationAsObs(keep=config.keep)


def make_actions(config: ActionConfig) -> Interface:
    """Make ``discrete-action-7``."""
    return DiscreteAction7(config.buttons)


def make_post_rules(config: PostRuleConfig) -> Interface:
    """Make ``post-rule-action``."""
    return PostRuleAction(config)


def _require_leaf(raw: Spaces, name: str, interface: str, option: str) -> dict[str, Space[Any]]:
    """Return the leaves of an observation that has a leaf.

    Raises:
        ContractError: It has not.
    """
    leaves = leaf_spaces(raw.observation)
    if name not in leaves:
        found = ", ".join(leaves)
        raise ContractError(f"{interface}: the observation has no leaf {name!r}, it has {found}; {option}")
    return leaves


def _require_buttons(raw: Spaces, buttons: Sequence[str], interface: str) -> None:
    """Check that each button is a label of two choices.

    Raises:
        ContractError: It is not.
    """
    if not isinstance(raw.action, spaces.MultiDiscrete) or list(label_sizes(raw.action)) != [2] * len(buttons):
        raise ContractError(
            f"{interface}: expected an action of {len(buttons)} labels of 2 choices, one for each of its buttons, got "
            f'{raw.action}; set the environment\'s actions = "buttons", and the same buttons for both'
        )


def _refuse_mask(view: SeatView, interface: str) -> None:
    """Check that all buttons are legal: the interface changes the actions.

    Raises:
        ContractError: The observations have masks.
    """
    if view.action_mask is not None:
        raise ContractError(
            f"{interface}: expected an environment without action masks, such as those of ludus-vizdoom"
        )


@define
class ScreenAsObs(Identity):
    """Keeps the screen only.

    Args:
        variables: Whether the leaf ``variables`` stays too.
    """

    variables: bool = True
    _names: tuple[str, ...] = field(init=False, default=())

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with the leaf ``screen``, and ``variables`` where there are some.

        Raises:
            ContractError: There is no screen.
        """
        leaves = _require_leaf(raw, "screen", "screen-as-obs", "it is for environments of ludus-vizdoom")
        wanted = ("screen", "variables") if self.variables else ("screen",)
        self._names = tuple(name for name in wanted if name in leaves)
        return Spaces(spaces.Dict({name: leaves[name] for name in self._names}), raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view without the other leaves."""
        return attrs.evolve(view, observation={name: view.observation[name] for name in self._names})


@define
class SegmentationAsObs(Identity):
    """Replaces the classes of objects by an image with a channel of zeros and ones for each class.

    Args:
        keep: Whether the other leaves stay.
    """

    keep: bool = True
    _others: tuple[str, ...] = field(init=False, default=())

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with the leaf ``segmentation [H, W, classes]``.

        Raises:
            ContractError: There are no classes.
        """
        leaves = _require_leaf(raw, "labels", "segmentation-as-obs", 'set the environment\'s labels = "observation"')
        self._others = tuple(name for name in leaves if name != "labels") if self.keep else ()
        height, width = (leaves["labels"].shape or ())[:2]
        changed: dict[str, Space[Any]] = {name: leaves[name] for name in self._others}
        changed["segmentation"] = spaces.Box(0, 1, (height, width, len(CLASSES)), np.uint8)
        return Spaces(spaces.Dict(changed), raw.action)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view with ``segmentation [n, H, W, classes] uint8``."""
        changed = {name: view.observation[name] for name in self._others}
        channels = view.observation["labels"] == np.arange(len(CLASSES), dtype=np.uint8)
        return attrs.evolve(view, observation={**changed, "segmentation": channels.astype(np.uint8)})


@define
class DiscreteAction7(Identity):
    """Offers seven actions, each of which presses one button.

    Args:
        buttons: Buttons of the environment in order.
    """

    buttons: Sequence[str]

    def bind(self, raw: Spaces) -> Spaces:
        """Return the spaces with an action of seven choices, see `ACTIONS`.

        Raises:
            ContractError: The environment has other buttons.
        """
        _require_buttons(raw, self.buttons, "discrete-action-7")
        missing = [name for name in ACTIONS if name not in self.buttons]
        if missing:
            raise ContractError(f"discrete-action-7: the buttons lack {', '.join(missing)}")
        return Spaces(raw.observation, spaces.Discrete(len(ACTIONS)))

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002
        """Return the view itself: every action is legal.

        Raises:
            ContractError: The environment has masks.
        """
        _refuse_mask(view, "discrete-action-7")
        return view

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """Return the pressed buttons ``[n, L]`` of the choices ``[n, 1]``."""
        pressed = np.array([self.buttons.index(name) for name in ACTIONS])[action[:, 0]]
        one_hot: np.ndarray = (np.arange(len(self.buttons)) == pressed[:, None]).astype(np.int64)
        return one_hot


@define
class _SeatRules:
    """What the rules remember of each seat, by row.

    Attributes:
        holds_fire: ``[k] bool``: there is nothing to shoot with, or at.
        is_blocked: ``[k] bool``: a barrel is in the way.
        turned: ``[k] int64``: decisions for which the seat has turned in one direction; negative to the right.
    """

    holds_fire: np.ndarray = field(factory=lambda: np.zeros(0, bool))
    is_blocked: np.ndarray = field(factory=lambda: np.zeros(0, bool))
    turned: np.ndarray = field(factory=lambda: np.zeros(0, np.int64))

    def grow(self, count: int) -> None:
        """Add rows of zeros up to a number of rows."""
        for name in ("holds_fire", "is_blocked", "turned"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros(count - array.size, array.dtype)]))


@define
class PostRuleAction(Identity):
    """Changes the pressed buttons by rules [Arena §A.5].

    * A player that moves forward, or turns in one direction for some decisions, does it faster.
    * A shot is dropped without ammunition, and without a target in sight if the observation has the leaf ``labels``.
    * A player that would move forward into a barrel steps aside. This needs ``labels`` too.

    Args:
        config: Options.
    """

    config: PostRuleConfig
    _rows: SeatRows = field(init=False, factory=SeatRows)
    _seats: _SeatRules = field(init=False, factory=_SeatRules)
    _leaves: tuple[str, ...] = field(init=False, default=())

    def bind(self, raw: Spaces) -> Spaces:
        """Return the raw spaces.

        Raises:
            ContractError: The environment has other buttons.
        """
        _require_buttons(raw, self.config.buttons, "post-rule-action")
        self._leaves = tuple(leaf_spaces(raw.observation))
        return raw

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear what is remembered of these seats."""
        rows = self._find(seat_ids)
        for array in (self._seats.holds_fire, self._seats.is_blocked, self._seats.turned):
            array[rows] = 0

    def _find(self, seat_ids: np.ndarray) -> np.ndarray:
        rows = self._rows.rows(seat_ids)
        self._seats.grow(self._rows.count)
        return rows

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Return the view itself, and remember what the rules need of it.

        Raises:
            ContractError: The environment has masks.
        """
        _refuse_mask(view, "post-rule-action")
        rows, config = self._find(seat_ids), self.config
        held, blocked = np.zeros(rows.size, bool), np.zeros(rows.size, bool)
        if "variables" in self._leaves:
            held |= view.observation["variables"][:, config.ammo_variable] == 0
        if "labels" in self._leaves:
            classes = view.observation["labels"][..., 0]
            held |= ~has_target(classes, config.sight)
            blocked = barrel_share(classes) >= config.barrel
        self._seats.holds_fire[rows], self._seats.is_blocked[rows] = held & config.hold_fire, blocked
        return view

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        """Return the changed buttons ``[n, L]``."""
        rows, changed = self._find(seat_ids), action.copy()
        pressed = {name: changed[:, index] for index, name in enumerate(self.config.buttons)}  # views
        none = np.zeros(rows.size, np.int64)
        pressed.get("ATTACK", none)[self._seats.holds_fire[rows]] = 0
        forward = pressed.get("MOVE_FORWARD", none)
        is_fast = self._count_turns(rows, pressed.get("TURN_LEFT", none) - pressed.get("TURN_RIGHT", none))
        if self.config.run:
            is_fast |= forward == 1
        pressed.get("SPEED", none)[is_fast] = 1
        steps_aside = self._seats.is_blocked[rows] & (forward == 1)
        forward[steps_aside] = 0
        pressed.get("MOVE_RIGHT", none)[steps_aside] = 1
        pressed.get("MOVE_LEFT", none)[steps_aside] = 0
        return changed

    def _count_turns(self, rows: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Count the decisions of turns, and return which of them are fast, ``[n] bool``.

        Args:
            rows: Rows of the seats.
            direction: ``[n] int64``: 1 left, -1 right, 0 none.
        """
        turned = self._seats.turned
        goes_on = turned[rows] * direction > 0
        turned[rows] = direction + np.where(goes_on, turned[rows], 0)
        if not self.config.turn_after:
            return np.zeros(rows.size, bool)
        is_fast: np.ndarray = abs(turned[rows]) > self.config.turn_after
        return is_fast


def has_target(classes: np.ndarray, sight: float) -> np.ndarray:
    """Return whether a player or monster is within a share of the width around the centre, ``[n] bool``.

    Args:
        classes: ``[n, H, W] uint8``, numbers of `CLASSES`.
        sight: Share of the width; one column at least.
    """
    width = classes.shape[2]
    half = max(1, round(sight * width)) / 2
    low, high = int(width / 2 - half), int(np.ceil(width / 2 + half))
    return np.asarray(np.isin(classes[:, :, low:high], _TARGETS).any(axis=(1, 2)))


def barrel_share(classes: np.ndarray) -> np.ndarray:
    """Return the share of the middle third of the image that barrels cover, ``[n] float64``.

    Args:
        classes: ``[n, H, W] uint8``, numbers of `CLASSES`.
    """
    width = classes.shape[2]
    return np.asarray((classes[:, :, width // 3 : width - width // 3] == _BARREL).mean(axis=(1, 2)))
