"""Interfaces [Arena §2.4]: transforms of observations, rewards and actions between an environment and a policy.

`bind` fixes the spaces, `observe` transforms observations and rewards, and `act` transforms the chosen actions back.
`stack` combines interfaces: observations pass the first interface first, actions pass the last interface first.

`observe` is called once per decision of a seat, on the tick of the decision, and for a learning player once more when
the match ends. `SeatView.reward` is the reward since the previous call, and 0 for frozen models. A stateful interface
therefore counts decisions, whether it wraps the environment or an agent; a `TimedInterface` counts ticks as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs
import numpy as np
from attrs import define, field, frozen

from ludus.agent import Agent, EvaluatingAgent, elapse
from ludus.environment import EnvironmentSpec, Leaves, Role
from ludus.errors import ContractError

if TYPE_CHECKING:
    from gymnasium import Space

__all__ = [
    "FadingGuidance",
    "Identity",
    "Interface",
    "ScheduledInterface",
    "SeatView",
    "Spaces",
    "TimedInterface",
    "bind_role",
    "bind_spec",
    "faded_parts",
    "has_own_act",
    "is_stateless",
    "keeps_actions",
    "require_distinct",
    "stack",
    "wrap_agent",
]


@frozen
class Spaces:
    """The two spaces of a seat."""

    observation: Space[Any]
    action: Space[Any]


@define(kw_only=True)
class SeatView:
    """Observations and rewards of n seats on one tick.

    Privileged observations are not part of a view: critics read them unchanged.

    Attributes:
        observation: Leaves ``[n, …]``.
        action_mask: ``[n, A] bool`` or None.
        reward: ``[n] float32``, the reward of each seat since the previous view of the seat.
        reward_parts: Named parts of `reward`, each ``[n] float32``; empty if the environment has none.
    """

    observation: Leaves
    action_mask: np.ndarray | None
    reward: np.ndarray
    reward_parts: dict[str, np.ndarray] = field(factory=dict)


class Interface(Protocol):
    """A transform of observations, masks, rewards and actions.

    Stateless interfaces are pure functions of their arguments. Stateful ones, such as a frame stack, keep one entry
    per seat id. The result for a row depends on that row and the entry of its seat id only. Random numbers are a
    function of a seed, the seat id, and how often the seat was reset.
    """

    def bind(self, raw: Spaces) -> Spaces:
        """Fix the raw spaces and return the transformed ones. Called before all other methods; may be repeated.

        Raises:
            ContractError: The interface cannot work on these spaces.
        """

    def reset(self, seat_ids: np.ndarray) -> None:
        """Clear the state of the seats ``[n] int64`` at the start of their next matches."""

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        """Return the transformed view. Must not modify `view`.

        Args:
            view: n rows.
            seat_ids: ``[n] int64``, the seat id of each row; no duplicates.
        """

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        """Return the raw action ``[n, L']`` for the chosen ``action [n, L]``.

        Interfaces that do not change actions inherit this method from `Identity`. `bind_role` keeps `Role.labels_used`
        for those interfaces, and for those with an attribute ``keeps_labels`` that is True: the meaning of their
        choices is that of the raw ones.
        """


@runtime_checkable
class ScheduledInterface(Interface, Protocol):
    """An interface whose rewards change during training; an optional part of the contract.

    Observations, masks and actions must not depend on the progress: the progress is set for learning players only, so
    a frozen model would get other observations, masks or actions than those it was trained with.
    """

    def set_progress(self, progress: float) -> None:
        """Set the share of the training budget that is used, in [0, 1].

        Called from time to time between decisions, for learning players only. The initial progress is 0.

        An interface that fades parts of `ludus.environment.Role.guidance` itself names them in an attribute
        ``faded_parts``.
        """


@runtime_checkable
class TimedInterface(Interface, Protocol):
    """An interface that reads how many ticks lie between decisions; an optional part of the contract."""

    def elapse(self, ticks: np.ndarray, seat_ids: np.ndarray) -> None:
        """Read the time of the next views. Called right before `observe`, for the same seats.

        A caller that does not know the time of its environment does not call it.

        Args:
            ticks: ``[n]`` integers: ticks since the last decision of each seat, or since the start of its match.
            seat_ids: ``[n] int64``.
        """


class Identity:
    """The interface that changes nothing. Subclass it and override the methods that your interface needs."""

    def bind(self, raw: Spaces) -> Spaces:
        """Return the raw spaces."""
        return raw

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing: the interface is stateless."""

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002 - for stateful subclasses
        """Return the view itself."""
        return view

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:  # noqa: ARG002 - as above
        """Return the action itself."""
        return action


class FadingGuidance(Identity):
    """Lets the weight of reward parts fall linearly to 0 over the training budget [AET §3.2.4].

    Args:
        parts: Names of the parts; see `ludus.environment.Role.guidance`.
    """

    def __init__(self, parts: Sequence[str]) -> None:
        self._parts = tuple(parts)
        self._weight = 1.0

    def set_progress(self, progress: float) -> None:
        """Set the share of the training budget that is used."""
        self._weight = max(0.0, 1.0 - progress)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:  # noqa: ARG002 - rows are independent
        """Return the view with faded parts."""
        if not view.reward_parts:  # before the first reward, and for frozen models
            return view
        faded = {name: view.reward_parts[name] * np.float32(self._weight) for name in self._parts}
        lost = sum(view.reward_parts[name] - values for name, values in faded.items())
        return attrs.evolve(view, reward=view.reward - lost, reward_parts={**view.reward_parts, **faded})


def stack(*interfaces: Interface) -> Interface:
    """Return an interface that applies `interfaces` in order, the first one next to the environment.

    Observations pass the first interface first, actions pass it last: ``stack(I1, I2)`` is ``I2(I1(None))`` of the
    paper [Arena §2.4.1]. A stack without interfaces changes nothing.

    Raises:
        ContractError: An object occurs twice; its two places would share one state.
    """
    require_distinct(interfaces)
    return _Stack(interfaces)


def faded_parts(interface: Interface) -> frozenset[str]:
    """Return the reward parts that an interface, or one of a stack, fades itself; see `ScheduledInterface`."""
    if isinstance(interface, _Stack):
        return frozenset().union(*map(faded_parts, interface.interfaces))
    return frozenset(getattr(interface, "faded_parts", ()))


def is_stateless(interface: Interface) -> bool:
    """Return whether an interface, or every one of a stack, inherits `Identity.reset`, so that it keeps no state."""
    if isinstance(interface, _Stack):
        return all(map(is_stateless, interface.interfaces))
    return type(interface).reset is Identity.reset


def has_own_act(interface: Interface) -> bool:
    """Return whether an interface, or one of a stack, has an `act` of its own."""
    if isinstance(interface, _Stack):
        return any(map(has_own_act, interface.interfaces))
    return type(interface).act is not Identity.act


def require_distinct(interfaces: Sequence[Interface]) -> None:
    """Check that no interface object is used twice.

    Raises:
        ContractError: An object occurs twice.
    """
    if len({id(interface) for interface in interfaces}) < len(interfaces):
        raise ContractError("an interface object is used twice; create one object for each place")


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

    def elapse(self, ticks: np.ndarray, seat_ids: np.ndarray) -> None:
        for interface in self.interfaces:
            elapse(interface, ticks, seat_ids)

    def observe(self, view: SeatView, seat_ids: np.ndarray) -> SeatView:
        for interface in self.interfaces:
            view = interface.observe(view, seat_ids)
        return view

    def act(self, action: np.ndarray, seat_ids: np.ndarray) -> np.ndarray:
        for interface in reversed(self.interfaces):
            action = interface.act(action, seat_ids)
        return action

    def set_progress(self, progress: float) -> None:
        for interface in self.interfaces:
            if isinstance(interface, ScheduledInterface):
                interface.set_progress(progress)


def bind_role(role: Role, interface: Interface) -> Role:
    """Bind `interface` to the spaces of a role and return the transformed role.

    `Role.labels_used` describes the raw actions, so it becomes None behind an interface that overrides `act` without
    ``keeps_labels``.

    Raises:
        ContractError: The interface cannot work on this role; the message names both.
    """
    try:
        bound = interface.bind(Spaces(role.observation_space, role.action_space))
    except ContractError as error:
        raise ContractError(f"role {role.name!r}: {error}") from error
    same_actions = bound.action == role.action_space and keeps_actions(interface)
    return attrs.evolve(
        role,
        observation_space=bound.observation,
        action_space=bound.action,
        labels_used=role.labels_used if same_actions else None,
    )


def keeps_actions(interface: Interface) -> bool:
    """Return whether actions keep their meaning; equal spaces do not imply it, since choices may be renumbered.

    An interface states it by an attribute ``keeps_labels`` that is True, or by inheriting `Identity.act`.
    """
    if isinstance(interface, _Stack):
        return all(map(keeps_actions, interface.interfaces))
    return type(interface).act is Identity.act or getattr(interface, "keeps_labels", False)


def bind_spec(spec: EnvironmentSpec, role: str, interface: Interface) -> EnvironmentSpec:
    """Bind `interface` to a role and return the spec with the transformed role.

    Raises:
        ContractError: The interface cannot work on this role; the message names both.
    """
    roles = tuple(bind_role(own, interface) if own.name == role else own for own in spec.roles)
    return attrs.evolve(spec, roles=roles)


def wrap_agent(agent: Agent, interface: Interface, *, raw: Spaces | None = None) -> EvaluatingAgent:
    """Return an agent for the raw environment from an agent for the transformed one [Arena §2.4.2].

    Agents with different observation and action spaces can so play in the same environment. Agents get no rewards, so
    the rewards of the interface's views are 0. The agent itself may be made for the spec of `bind_spec`.

    Args:
        agent: Agent for transformed observations and actions.
        interface: Interface that no other agent uses.
        raw: Raw spaces to bind the interface to; None if the caller binds it before the first decision.
    """
    if raw is not None:
        interface.bind(raw)
    return _WrappedAgent(agent, interface)


@frozen
class _WrappedAgent:
    agent: Agent
    interface: Interface

    def act(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        view = self._observe(observation, action_mask, seat_ids)
        action = self.agent.act(view.observation, action_mask=view.action_mask, seat_ids=seat_ids, rng=rng)
        return self.interface.act(action, seat_ids)

    def act_and_evaluate(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        view, values = self._observe(observation, action_mask, seat_ids), np.full(seat_ids.size, np.nan, np.float32)
        options: dict[str, Any] = {"action_mask": view.action_mask, "seat_ids": seat_ids, "rng": rng}
        if isinstance(self.agent, EvaluatingAgent):
            action, values = self.agent.act_and_evaluate(view.observation, **options)
        else:
            action = self.agent.act(view.observation, **options)
        return self.interface.act(action, seat_ids), values

    def elapse(self, ticks: np.ndarray, seat_ids: np.ndarray) -> None:
        elapse(self.interface, ticks, seat_ids)
        elapse(self.agent, ticks, seat_ids)

    def _observe(self, observation: Leaves, action_mask: np.ndarray | None, seat_ids: np.ndarray) -> SeatView:
        view = SeatView(observation=observation, action_mask=action_mask, reward=np.zeros(seat_ids.size, np.float32))
        return self.interface.observe(view, seat_ids)

    def reset(self, seat_ids: np.ndarray) -> None:
        self.interface.reset(seat_ids)
        self.agent.reset(seat_ids)
