"""The environment of all probes: matches in which every seat acts on every tick, and agents without state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from gymnasium import Space, spaces
from ludus.environment import EnvironmentSpec, Leaves, Role, RoleTick, Scenario, Tick, allocate_tick, checked_scenarios
from ludus.errors import ContractError
from ludus.spaces import legal_actions, real_box


def highlight(text: str) -> str:
    """Return the text in yellow."""
    return f"\x1b[33m{text}\x1b[0m"


def action_name(choice_names: Sequence[Sequence[str]], action: np.ndarray) -> str:
    """Return the names of the choices of all labels, then the real numbers, separated by spaces."""
    choices = [names[int(choice)] for names, choice in zip(choice_names, action, strict=False)]
    return " ".join([*choices, *(f"{value:g}" for value in action[len(choices) :])])


def parse_action(choice_names: Sequence[Sequence[str]], space: Space[Any], text: str) -> np.ndarray:
    """Parse an action into ``[L] int64``, ``[D] float32`` or ``[L + D] float32``.

    Args:
        choice_names: Names of the choices of every label; empty for real numbers only.
        space: The action space.
        text: Text to parse.

    Raises:
        ValueError: The text names no action; the message lists what is expected.
    """
    typed, box = text.lower().split(), real_box(space)
    choices = [
        list(names).index(word) if word in names else -1 for names, word in zip(choice_names, typed, strict=False)
    ]
    numbers = _numbers(typed[len(choice_names) :])
    fits = len(choices) == len(choice_names) and -1 not in choices
    if not fits or not (numbers.size == 0 if box is None else box.contains(numbers)):
        wanted = [f"one of {' '.join(names)}" for names in choice_names]
        if box is not None:
            wanted.append(f"{box.shape[0]} numbers from {box.low.min():g} to {box.high.max():g}")
        raise ValueError(f"expected {', then '.join(wanted)}; got {text.strip()!r}")
    if box is None:
        return np.array(choices, np.int64)
    return np.concatenate([np.array(choices, np.float32), numbers])


def _numbers(typed: Sequence[str]) -> np.ndarray:
    """Return typed words as ``[D] float32``; NaN where one is no number."""
    try:
        return np.array([float(word) for word in typed], np.float32)
    except ValueError:
        return np.full(len(typed), np.nan, np.float32)


#: The one role of every probe.
ROLE = "player"
#: Match indices ``[n] int64``, or the slice of all matches, which is faster.
Indices: TypeAlias = "np.ndarray | slice"


def probe_spec(
    name: str,
    *,
    observation_space: Space[Any],
    action_space: Space[Any],
    teams: tuple[int, ...] = (0,),
    privileged_space: spaces.Dict | None = None,
    labels_used: tuple[tuple[bool, ...], ...] | None = None,
    seat_endings: bool = False,
    **properties: Any,
) -> EnvironmentSpec:
    """Return the spec of a probe: one role, and further `properties` of an `EnvironmentSpec`."""
    player = Role(
        name=ROLE,
        observation_space=observation_space,
        action_space=action_space,
        teams=teams,
        privileged_space=privileged_space,
        labels_used=labels_used,
        seat_endings=seat_endings,
    )
    return EnvironmentSpec(name=name, roles=(player,), turn="simultaneous", **properties)


class Game(Protocol):
    """The rules of a probe, for a batch of matches.

    A game writes to the arrays that it is bound to; `ProbeEnvironment` tracks acting seats and running matches. A match
    that has not terminated by tick `max_ticks` of the spec is truncated.
    """

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the spec, which has the one role `ROLE`."""

    @property
    def choice_names(self) -> Sequence[Sequence[str]]:
        """Return the names of the choices of every action label; empty for real numbers only."""

    def bind(self, player: RoleTick, outcome: np.ndarray) -> None:
        """Store the arrays to write, and allocate the game's state and its action mask, if any."""

    def start(self, at: Indices, seeds: np.ndarray) -> None:
        """Start matches with ``seeds [n] uint64``: write state, observation, mask and privileged leaves."""

    def advance(self, at: Indices, actions: np.ndarray) -> np.ndarray:
        """Apply the legal ``actions [n, S, L]`` in the given running matches.

        Write observations and rewards, ends of seats, and the outcomes of matches that end; leave other matches as they
        are. Actions of seats that have ended are arbitrary.

        Returns:
            ``[n] bool``: the matches that terminated.
        """

    def render_match(self, match: int) -> str:
        """Return the match as text."""


class ProbeEnvironment:
    """A batch of matches of a `Game`; see `ludus.environment.Environment`.

    Args:
        game: Rules of the probe.
        num_matches: B, at least 1.
    """

    def __init__(self, game: Game, *, num_matches: int) -> None:
        self._game = game
        self.spec = game.spec
        self.num_matches = num_matches
        self._role = game.spec.role(ROLE)
        self._tick = allocate_tick(game.spec, num_matches)
        self._player = self._tick.roles[ROLE]
        self._running = np.zeros(num_matches, bool)
        self._ticks = np.zeros(num_matches, np.int64)
        game.bind(self._player, self._tick.outcome)

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario or one of its parameters is unknown.
        """
        checked_scenarios(scenarios, len(seeds), known={})
        at: Indices = slice(None) if indices is None else np.asarray(indices, np.int64)
        self._game.start(at, np.asarray(seeds, np.uint64))
        self._running[at] = True
        self._ticks[at] = 0
        self._player.acting[at] = True
        self._tick.clear(at)
        return self._tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Play one tick in every running match; see `ludus.environment.Environment.step`.

        Raises:
            ContractError: An action is illegal; no match has advanced.
        """
        at: Indices = slice(None) if self._running.all() else np.flatnonzero(self._running)
        chosen = actions[ROLE][at]
        self._require_legal(at, chosen)
        self._player.clear(slice(None))
        self._tick.terminated.fill(False)
        self._ticks[at] += 1
        self._tick.terminated[at] = self._game.advance(at, chosen)
        limit = self.spec.max_ticks or np.inf
        np.greater(self._running & (self._ticks >= limit), self._tick.terminated, out=self._tick.truncated)
        self._running &= ~(self._tick.terminated | self._tick.truncated)
        if self._player.terminated is None or self._player.truncated is None:
            self._player.acting[:] = self._running[:, None]
        else:
            self._player.acting &= self._running[:, None] & ~(self._player.terminated | self._player.truncated)
        return self._tick

    def close(self) -> None:
        """Do nothing; there is nothing to free."""

    def _require_legal(self, at: Indices, chosen: np.ndarray) -> None:
        """Raise ContractError for the first illegal action."""
        mask = None if self._player.action_mask is None else self._player.action_mask[at]
        legal = legal_actions(self._role.action_space, chosen, mask)
        if self._role.seat_endings:
            legal |= ~self._player.acting[at]
        if not legal.all():
            index, seat = map(int, np.argwhere(~legal)[0])
            match = int(np.arange(self.num_matches)[at][index])
            raise ContractError(
                f"{self.spec.name}: seat {seat} of role {ROLE!r} in match {match} chose the illegal action "
                f"{chosen[index, seat].tolist()}; choose from {self._role.action_space}, among what action_mask allows"
            )

    def render(self, match: int) -> str:
        """Return the match as text."""
        return self._game.render_match(match)

    def action_name(self, role: str, action: np.ndarray) -> str:  # noqa: ARG002 - there is one role
        """Return the name of the action."""
        return action_name(self._game.choice_names, action)

    def parse_action(self, role: str, text: str) -> np.ndarray:  # noqa: ARG002 - there is one role
        """Parse a typed action; see `parse_action`.

        Raises:
            ValueError: The text is not an action; the message lists what is.
        """
        return parse_action(self._game.choice_names, self._role.action_space, text)


class StatelessAgent:
    """An agent that is a function of the observation; see `ludus.agent.EvaluatingAgent`.

    Args:
        decide: From leaves ``[n, …]`` to actions ``[n, L] int64`` or ``[n, L + D] float32``.
        value: What a seat expects to receive that plays so to the end.
    """

    def __init__(self, decide: Callable[[Leaves], np.ndarray], *, value: float) -> None:
        self._decide = decide
        self._value = value

    def act(
        self,
        observation: Leaves,
        *,
        action_mask: np.ndarray | None,  # noqa: ARG002 - the observation determines the action
        seat_ids: np.ndarray,  # noqa: ARG002 - it remembers nothing
        rng: np.random.Generator,  # noqa: ARG002 - there is one best action
    ) -> np.ndarray:
        """Decide for n rows; see `ludus.agent.Agent.act`."""
        return self._decide(observation)

    def act_and_evaluate(
        self, observation: Leaves, *, action_mask: np.ndarray | None, seat_ids: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Decide as `act` does, and return the same value ``[n] float32`` for all rows."""
        actions = self.act(observation, action_mask=action_mask, seat_ids=seat_ids, rng=rng)
        return actions, np.full(len(actions), self._value, np.float32)

    def reset(self, seat_ids: np.ndarray) -> None:
        """Do nothing; the agent has no state."""
