"""Several frames of a game per decision: frame skip, largest values of frames, sticky actions, random no-op starts.

A *frame* is one step of the game, a *decision* one step of the stepped game. The adapters to PettingZoo and Gymnasium
share this code: a game of one agent has one entry in each dict.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from attrs import frozen
from gymnasium import Space, spaces
from ludus.errors import ConfigError, ContractError

from ludus_copies.images import find_layout
from ludus_copies.spaces import reward_value
from ludus_copies.structure import parts_of

_RESET_PARTS, _STEP_PARTS = 2, 5


@frozen(kw_only=True)
class SteppingOptions:
    """How the frames of a game become decisions.

    Attributes:
        frame_skip: Frames for which an action is held; rewards are summed.
        max_frames: Images are the largest values of so many last frames.
        sticky_actions: Probability, per frame and agent, that the previous action is held on, in [0, 1).
        noop_max: A match starts after 1 to so many frames without actions, drawn by its seed; 0: none.
    """

    frame_skip: int = 1
    max_frames: int = 1
    sticky_actions: float = 0.0
    noop_max: int = 0

    @classmethod
    def of(cls, config: Any) -> SteppingOptions:
        """Return the options that the configuration of an adapter holds under the same names."""
        return cls(
            frame_skip=config.frame_skip,
            max_frames=config.max_frames,
            sticky_actions=config.sticky_actions,
            noop_max=config.noop_max,
        )

    @property
    def changed(self) -> list[str]:
        """Return the names of the options that differ from the default."""
        return [name for name, default in _DEFAULTS.items() if getattr(self, name) != default]

    @property
    def notes(self) -> tuple[str, ...]:
        """Return lines for `ludus.environment.EnvironmentSpec.notes`."""
        lines = {
            "frame_skip": f"frame_skip: an action is held for {self.frame_skip} frames, whose rewards are summed",
            "max_frames": f"max_frames: images hold the largest values of the last {self.max_frames} frames",
            "sticky_actions": f"sticky_actions: the previous action stays for a frame with p = {self.sticky_actions:g}",
            "noop_max": f"noop_max: a match starts after 1 to {self.noop_max} frames without actions",
        }
        return tuple(lines[name] for name in self.changed)

    def reject_masks(self, masked_roles: Collection[str], *, game: str) -> None:
        """Raise a ConfigError if actions may be illegal by the time at which they are applied.

        Args:
            masked_roles: Roles with action masks.
            game: Id of the game.
        """
        holding = [name for name in self.changed if name != "max_frames"]
        if holding and masked_roles:
            raise ConfigError(
                f"{holding[0]}: {game!r} has action masks, and an action that is held on may become illegal; remove it"
            )


_DEFAULTS = {"frame_skip": 1, "max_frames": 1, "sticky_actions": 0.0, "noop_max": 0}


class JointGame(Protocol):
    """A game with the dicts of PettingZoo's Parallel interface."""

    def reset(self, *, seed: int | None, **options: Any) -> Any:
        """Start a match and return observations and infos by agent."""

    def step(self, actions: dict[Hashable, Any]) -> Any:
        """Play a frame and return observations, rewards, terminations, truncations and infos by agent."""

    @property
    def agents(self) -> Collection[Hashable]:
        """Return the living agents."""

    def observation_space(self, agent: Hashable) -> Space[Any]:
        """Return the observation space of an agent."""

    def action_space(self, agent: Hashable) -> Space[Any]:
        """Return the action space of an agent."""


class Stepping:
    """Plays the frames of the decisions of one match after another.

    An answer of the game that is not a tuple of dicts is returned as it is: the adapter explains it.

    Args:
        game: The game.
        options: What the frames of a decision are.
        agents: All agents that a match may have.
        id: Id of the game, for error messages.

    Raises:
        ConfigError: No agent observes an image, of which the largest values are to be taken.
    """

    def __init__(self, game: JointGame, options: SteppingOptions, *, agents: Collection[Hashable], id: str) -> None:
        self._game = game
        self._options = options
        self._rng = np.random.default_rng(0)
        self._ended: set[Hashable] = set()  # some games keep dead agents
        self._held: dict[Hashable, Any] = {}
        self._maxima: dict[Hashable, _LargestValues] = {}
        if options.max_frames > 1:
            self._maxima = {
                agent: _LargestValues(game.observation_space(agent), options.max_frames) for agent in agents
            }
            if not any(maxima.has_images for maxima in self._maxima.values()):
                raise ConfigError(
                    f"max_frames: {id!r} observes no image, which is a Box of three dimensions or bytes in two; remove "
                    "the option"
                )

    def reset(self, *, seed: int | None, passive: Collection[Hashable] = (), **options: Any) -> Any:
        """Start a match, with frames without actions if the options ask for them.

        Their rewards do not count. If an agent ends in one of them, the match starts without them.

        Args:
            seed: Seed of the match, which also draws the number of these frames and the held actions; None continues.
            passive: Agents that the game plays itself.
            options: Further arguments of the game's reset.
        """
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        answer = self._start(seed, options)
        if not self._options.noop_max or not _is_answer(answer, _RESET_PARTS):
            return answer
        observations, infos = answer
        for _ in range(self._rng.integers(self._options.noop_max) + 1):
            played = self._play(self._frame_actions({}, passive))
            if not _is_answer(played, _STEP_PARTS):
                break
            observations, _, terminations, truncations, infos = played
            if any(terminations.values()) or any(truncations.values()):
                return self._start(seed, options)
        return observations, infos

    def _start(self, seed: int | None, options: Mapping[str, Any]) -> Any:
        self._ended = set()
        self._held = {}
        for maxima in self._maxima.values():
            maxima.clear()
        answer = self._game.reset(seed=seed, **options)
        if self._maxima and _is_answer(answer, _RESET_PARTS):
            return self._with_maxima(answer[0]), answer[1]
        return answer

    def step(self, actions: Mapping[Hashable, Any]) -> Any:
        """Play the frames of a decision: rewards are summed, and ends and observations of all frames are kept.

        Args:
            actions: Actions of the living agents but those that the game plays itself.
        """
        passive = [agent for agent in self._living if agent not in actions]
        decision: tuple[dict[Hashable, Any], ...] = ({}, {}, {}, {}, {})
        for _ in range(self._options.frame_skip):
            answer = self._play(self._frame_actions(actions, passive))
            if not _is_answer(answer, _STEP_PARTS):
                return answer
            _add_frame(decision, answer)
            for flags in answer[2:4]:
                self._ended.update(agent for agent, flag in flags.items() if flag)
            if not self._living:
                break
        return decision

    @property
    def _living(self) -> list[Hashable]:
        return [agent for agent in self._game.agents if agent not in self._ended]

    def _frame_actions(self, actions: Mapping[Hashable, Any], passive: Collection[Hashable]) -> dict[Hashable, Any]:
        """Return the actions of a frame; an agent that joined after the decision does nothing."""
        chosen = {}
        for agent in self._living:
            if agent in passive:
                continue
            action = actions[agent] if agent in actions else no_op(self._game.action_space(agent))
            if self._options.sticky_actions and actions:
                sticks = self._rng.random() < self._options.sticky_actions
                action = self._held[agent] = self._held.get(agent, action) if sticks else action
            chosen[agent] = action
        return chosen

    def _play(self, actions: dict[Hashable, Any]) -> Any:
        answer = self._game.step(actions)
        if self._maxima and _is_answer(answer, _STEP_PARTS):
            return (self._with_maxima(answer[0]), *answer[1:])
        return answer

    def _with_maxima(self, observations: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
        return {
            agent: self._maxima[agent].add(observation) if agent in self._maxima else observation
            for agent, observation in observations.items()
        }


def _is_answer(answer: Any, parts: int) -> bool:
    return isinstance(answer, tuple) and len(answer) == parts and all(isinstance(part, Mapping) for part in answer)


def _add_frame(decision: tuple[dict[Hashable, Any], ...], answer: tuple[Mapping[Hashable, Any], ...]) -> None:
    """Add the answer to a frame to that of the decision."""
    observations, rewards, *ends, infos = decision
    observations.update({agent: observation for agent, observation in answer[0].items() if observation is not None})
    for agent, reward in answer[1].items():
        rewards[agent] = _sum(rewards[agent], reward) if agent in rewards else reward
    for flags, given in zip(ends, answer[2:4], strict=True):
        flags.update({agent: bool(flag) or flags.get(agent, False) for agent, flag in given.items()})
    infos.update(answer[4])


def _sum(total: Any, reward: Any) -> Any:
    """Return the sum of two rewards, None for no reward; a malformed one is returned, and the adapter reports it."""
    if total is None or reward is None:
        return total if reward is None else reward
    for value in (total, reward):
        try:
            reward_value(value)
        except ContractError:
            return value
    return reward_value(total) + reward_value(reward)


def no_op(space: Space[Any]) -> Any:
    """Return the action that does nothing: the first choice of every label, which Atari games call NOOP, or zeros."""
    if isinstance(space, spaces.Discrete):
        return int(space.start)
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
    if isinstance(space, spaces.Dict):
        return {key: no_op(part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map(no_op, space.spaces))
    return np.zeros(space.shape or (), space.dtype) + np.asarray(getattr(space, "start", 0), space.dtype)


class _LargestValues:
    """The largest values of the images in the last observations of one agent; other parts are those of the last one.

    Args:
        space: Observation space.
        frames: Number of observations.
    """

    def __init__(self, space: Space[Any], frames: int) -> None:
        self._frames = {path: deque[np.ndarray]([], frames) for path in _image_paths(space)}

    @property
    def has_images(self) -> bool:
        """Return whether the observations hold images."""
        return bool(self._frames)

    def clear(self) -> None:
        """Forget the observations of a match."""
        for frames in self._frames.values():
            frames.clear()

    def add(self, observation: Any) -> Any:
        """Return an observation with the largest values."""
        for path, frames in self._frames.items():
            observation = _replace(observation, path, functools.partial(_largest, frames))
        return observation


def _largest(frames: deque[np.ndarray], image: Any) -> Any:
    frames.append(np.array(image))  # a copy: some games return a view of their screen
    if len({frame.shape for frame in frames}) > 1:
        return image  # the adapter reports its shape
    return np.maximum.reduce(list(frames))


def _image_paths(space: Space[Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the keys that lead to each image of an observation."""
    if find_layout(space, "auto") is not None:
        yield path
    for key, part in (parts_of(space) or {}).items():
        yield from _image_paths(part, (*path, key))


def _replace(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    """Return a nested value with a changed part; a value without this part is returned, and the adapter reports it."""
    if not path:
        return change(value)
    key, *rest = path
    try:
        part = _replace(value[key], tuple(rest), change)
    except (KeyError, IndexError, TypeError):
        return value
    if isinstance(value, Mapping):
        return {**value, key: part}
    return tuple(part if index == key else item for index, item in enumerate(value))
