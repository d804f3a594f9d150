"""Interfaces [Arena §2.4]: reversible transforms of what a seat sees and does, and how they are put together.

One interface serves every place, always through the same row-wise calls::

    stack(first, second)       observations pass first, then second; actions second, then first
    bind, observe, act         a sampler around a learned policy (`bind_role` gives the role it learns)

When an interface looks. `observe` is called once for every decision of a seat, on the tick on which it decides, and
where its player is learning, once more when its match ends. `View.reward` is what the seat received since the last of
these calls; frozen models see 0. A stateful interface thus counts in decisions, whether it sits on the environment or
on the agent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs
import numpy as np
from attrs import define, field, frozen

from ludus.environment import Leaves, Role
from ludus.errors import ContractError

if TYPE_CHECKING:
    from gymnasium import Space

__all__ = [
    "Identity",
    "Interface",
    "ScheduledInterface",
    "Spaces",
    "View",
    "bind_role",
    "require_distinct",
    "stack",
]


@frozen
class Spaces:
    """The two spaces of a seat."""

    observation: Space[Any]
    action: Space[Any]


@define(kw_only=True)
class View:
    """What n seats see on one tick; privileged observations are no part of it and reach critics untouched.

    Attributes:
        observation: Leaves ``[n, …]``.
        action_mask: ``[n, A] bool`` or None.
        reward: ``[n] float32``: what each seat received since it was last observed.
        reward_parts: The named parts of it, each ``[n] float32``, where the environment gives any.
    """

    observation: Leaves
    action_mask: np.ndarray | None
    reward: np.ndarray
    reward_parts: dict[str, np.ndarray] = field(factory=dict)


class Interface(Protocol):
    """A transform of observations (raw → seen), masks, rewards and actions (chosen → raw).

    Stateless interfaces are pure functions of their arguments; stateful ones (frame stack) keep one entry
    per stream. What comes out for a row depends on that row and its stream alone.
    """

    def bind(self, raw: Spaces) -> Spaces:
        """Fix the raw spaces and return the transformed ones. Called before anything else; may be repeated.

        Raises:
            ContractError: The interface cannot work on these spaces.
        """

    def reset(self, seat_ids: np.ndarray) -> None:
        """Forget everything about these streams (``[n] int64``): a new match starts there."""

    def observe(self, view: View, seat_ids: np.ndarray) -> View:
        """Return what the seats see; must not modify `view`.

        Args:
            view: n rows.
            seat_ids: ``[n] int64``: which (match row, seat) each row belongs to; no duplicates.
        """

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        """Return the raw action ``[n, L']`` for the chosen ``action [n, L]``.

        Interfaces that leave actions as they are inherit this from `Identity`: only then is what the game says of its
        action labels (`Role.labels_used`) passed on to the player.
        """


@runtime_checkable
class ScheduledInterface(Interface, Protocol):
    """An interface whose rewards change in the course of training; an optional part of the contract.

    Only rewards may: frozen models, evaluation and play see no rewards and never hear of the progress, so that a model
    would meet other observations, masks or actions there than those it learned with.
    """

    def advance(self, progress: float) -> None:
        """Hear how much of the training budget is used, in [0, 1]; called now and then, between decisions.

        Only where its player is learning; without a call it is 0.
        """


class Identity:
    """The interface that changes nothing. Subclass it and override what your interface changes."""

    def bind(self, raw: Spaces) -> Spaces:
        """Return the raw spaces."""
        return raw

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing: there is no memory."""

    def observe(self, view: View, seat_ids: np.ndarray) -> View:  # noqa: ARG002 - for subclasses with memory
        """Return the view itself."""
        return view

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:  # noqa: ARG002 - as above
        """Return the action itself."""
        return action


def stack(*interfaces: Interface) -> Interface:
    """Put interfaces on top of each other: the first is next to the game.

    Observations pass the first one first, actions pass it last: ``stack(I1, I2)`` is the paper's ``I2(I1(None))``
    [Arena §2.4.1]. Without interfaces it changes nothing.

    Raises:
        ContractError: The same object is given twice; its memory would be shared.
    """
    require_distinct(interfaces)
    return _Stack(interfaces)


def require_distinct(interfaces: Sequence[Interface]) -> None:
    """Check that no interface object is used twice.

    Raises:
        ContractError: One is.
    """
    if len({id(interface) for interface in interfaces}) < len(interfaces):
        raise ContractError("the same interface object is used twice; make one object for each place")


@frozen
class _Stack:
    interfaces: tuple[Interface, ...]

    def bind(self, raw: Spaces) -> Spaces:
        for interface in self.interfaces:
            raw = interface.bind(raw)
        return raw

    def reset(self, seat_ids: np.ndarray) -> None:
        for interface in self.interfaces:
            interface.reset(seat_ids)

    def observe(self, view: View, seat_ids: np.ndarray) -> View:
        for interface in self.interfaces:
            view = interface.observe(view, seat_ids)
        return view

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        for interface in reversed(self.interfaces):
            action = interface.act(action, seat_ids)
        return action

    def advance(self, progress: float) -> None:
        for interface in self.interfaces:
            if isinstance(interface, ScheduledInterface):
                interface.advance(progress)


def bind_role(role: Role, interface: Interface) -> Role:
    """Bind `interface` to a role's spaces and return the role as its player sees it.

    `labels_used` speaks of the game's actions: it is None behind an interface with an `act` of its own.

    Raises:
        ContractError: The interface cannot work on this role; the message names both.
    """
    try:
        seen = interface.bind(Spaces(role.observation_space, role.action_space))
    except ContractError as error:
        raise ContractError(f"role {role.name!r}: {error}") from error
    same_actions = seen.action == role.action_space and _leaves_actions(interface)
    return attrs.evolve(
        role,
        observation_space=seen.observation,
        action_space=seen.action,
        labels_used=role.labels_used if same_actions else None,
    )


def _leaves_actions(interface: Interface) -> bool:
    """Return whether actions keep their meaning, which their space does not show: choices may be renumbered."""
    if isinstance(interface, _Stack):
        return all(map(_leaves_actions, interface.interfaces))
    return type(interface).act is Identity.act
