"""ludus environments as PettingZoo environments.

Agents are called ``<role>_<seat>``. Where actions are masked, an observation is a dict of ``"observation"`` and
``"action_mask"``, as in PettingZoo's own classic games; the mask of an agent that does not act is all 0. A mask has
the form that `sample` of the action space takes: ``[A] int8``, or a tuple of such arrays, one per MultiDiscrete label.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from ludus.environment import Environment, Playable, Role, Tick
from ludus.errors import ContractError, PluginError
from ludus.rendering import Frame, Renderable, draw_match
from ludus.spaces import action_dtype, action_width, label_sizes, leaf_spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import OrderEnforcingWrapper


def to_aec(env: Environment, *, render_mode: str | None = None) -> AECEnv[str, Any, Any]:
    """Convert a ludus environment with one match to a PettingZoo AEC environment.

    Seats that act on the same tick step one after another; the environment advances after the last of them.

    Args:
        env: The environment. Some libraries draw only what was made within `ludus.rendering.enable_rendering`.
        render_mode: ``"ansi"`` for text or ``"rgb_array"`` for images ``[H, W, 3] uint8``; by default text where people
            can play the game in a terminal, else images.

    Raises:
        ContractError: The environment has more than one match, or does not have the render mode.
    """
    return OrderEnforcingWrapper(_LudusAec(env, render_mode))


def to_parallel(env: Environment, *, render_mode: str | None = None) -> ParallelEnv[str, Any, Any]:
    """Convert a ludus environment with one match to a PettingZoo Parallel environment; arguments as for `to_aec`.

    Raises:
        ContractError: The environment has more than one match, or does not have the render mode, or is turn-based.
    """
    if env.spec.turn == "turn-based":
        raise ContractError(f"environment {env.spec.name!r} is turn-based; use to_aec")
    return _LudusParallel(env, render_mode)


def _render_modes(env: Environment) -> list[str]:
    """Return the render modes of an environment whose match has begun; not every game can draw itself."""
    is_drawn = isinstance(env, Renderable) and env.render_frame(0) is not None
    modes = {"ansi": isinstance(env, Playable), "rgb_array": is_drawn}
    return [mode for mode, offered in modes.items() if offered]


def _checked_mode(env: Environment, offered: Sequence[str], wanted: str | None) -> str | None:
    """Return the render mode that is wanted, by default the first one.

    Raises:
        ContractError: The environment does not have it.
    """
    if wanted is not None and wanted not in offered:
        names = " and ".join(offered) or "none"
        raise ContractError(f"environment {env.spec.name!r} has no render mode {wanted!r}; it has {names}")
    return wanted or next(iter(offered), None)


def _as_image(frame: Frame) -> np.ndarray:
    """Return a frame as ``[H, W, 3] uint8``.

    Raises:
        PluginError: The frame is a scene or text, and ludus-terminal, which draws it, is not installed.
    """
    if isinstance(frame, np.ndarray):
        return frame
    try:
        from ludus_terminal.drawing import Drawing, load_pillow  # noqa: PLC0415 - optional
    except ImportError as error:
        raise PluginError("images of scenes need ludus-terminal; pip install 'ludus-pettingzoo[render]'") from error
    load_pillow()
    return Drawing()(frame)


class _SingleMatch:
    """One match of a ludus environment, by agent."""

    def __init__(self, env: Environment, render_mode: str | None) -> None:
        if env.num_matches != 1:
            raise ContractError(
                f"PettingZoo plays one match at a time; make the environment with num_matches=1, not {env.num_matches}"
            )
        self.env = env
        self.seats = {f"{role.name}_{i}": (role, i) for role in env.spec.roles for i in range(role.num_seats)}
        self._random = np.random.default_rng()
        self.tick = self._reset(0)
        self.render_modes = _render_modes(env)
        self.render_mode = _checked_mode(env, self.render_modes, render_mode)
        masked = {name for name, seen in self.tick.roles.items() if seen.action_mask is not None}
        self.observation_spaces = {
            agent: _exported_space(role, masked=role.name in masked) for agent, (role, _) in self.seats.items()
        }
        self.action_spaces = {agent: role.action_space for agent, (role, _) in self.seats.items()}
        self._actions: dict[str, np.ndarray] = {}

    def metadata(self, *, parallelizable: bool) -> dict[str, Any]:
        about: dict[str, Any] = {"name": self.env.spec.name, "render_modes": self.render_modes}
        if self.env.spec.tick_s:
            about["render_fps"] = 1 / self.env.spec.tick_s
        return {**about, "is_parallelizable": parallelizable}

    def reset(self, seed: int | None) -> None:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.tick = self._reset(int(self._random.integers(2**63)) if seed is None else seed)

    def _reset(self, seed: int) -> Tick:
        self._actions = {
            role.name: np.zeros((1, role.num_seats, action_width(role.action_space)), action_dtype(role.action_space))
            for role in self.env.spec.roles
        }
        return self.env.reset(np.array([seed], np.uint64))

    def act(self, agent: str, action: Any) -> None:
        role, seat = self.seats[agent]
        self._actions[role.name][0, seat] = _action_columns(role.action_space, action)

    def advance(self) -> None:
        self.tick = self.env.step(self._actions)

    @property
    def is_running(self) -> bool:
        return not (self.tick.terminated[0] or self.tick.truncated[0])

    def endings(self, agents: Iterable[str]) -> dict[str, tuple[bool, bool]]:
        """Return whether each agent is terminated and whether it is truncated on this tick."""
        return {agent: self._ending(*self.seats[agent]) for agent in agents}

    def _ending(self, role: Role, seat: int) -> tuple[bool, bool]:
        seen = self.tick.roles[role.name]
        if seen.terminated is not None and seen.truncated is not None:
            terminated, truncated = bool(seen.terminated[0, seat]), bool(seen.truncated[0, seat])
            if terminated or truncated:
                return terminated, truncated
        return bool(self.tick.terminated[0]), bool(self.tick.truncated[0])

    def acting(self) -> list[str]:
        return [agent for agent, (role, i) in self.seats.items() if self.tick.roles[role.name].acting[0, i]]

    def rewards(self, agents: Iterable[str]) -> dict[str, float]:
        seats = {agent: self.seats[agent] for agent in agents}
        return {agent: float(self.tick.roles[role.name].reward[0, i]) for agent, (role, i) in seats.items()}

    def observe(self, agent: str, *, acting: bool) -> Any:
        role, seat = self.seats[agent]
        seen = self.tick.roles[role.name]
        leaves = {name: leaf[0, seat].copy() for name, leaf in seen.observation.items()}
        observation = leaves if isinstance(role.observation_space, spaces.Dict) else leaves["obs"]
        if seen.action_mask is None:
            return observation
        mask = (seen.action_mask[0, seat] & acting).astype(np.int8)
        if isinstance(role.action_space, spaces.MultiDiscrete):
            ends = np.cumsum(label_sizes(role.action_space))
            return {"observation": observation, "action_mask": tuple(np.split(mask, ends[:-1]))}
        return {"observation": observation, "action_mask": mask}

    def render(self) -> str | np.ndarray | None:
        if self.render_mode == "ansi" and isinstance(self.env, Playable):
            return self.env.render(0)
        frame = None if self.render_mode is None else draw_match(self.env, 0)
        return None if frame is None else _as_image(frame)


def _action_columns(space: Space[Any], action: Any) -> np.ndarray:
    """Return an action of a space as an array: the labels of all parts, then their real numbers."""
    if not isinstance(space, spaces.Tuple | spaces.Dict):
        return np.ravel(action)
    entries = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    found = [(len(label_sizes(part)), _action_columns(part, action[key])) for key, part in entries]
    labels, reals = [part[:count] for count, part in found], [part[count:] for count, part in found]
    return np.concatenate([*labels, *reals])


def _exported_space(role: Role, *, masked: bool) -> Space[Any]:
    space = role.observation_space
    if isinstance(space, spaces.Dict):
        space = spaces.Dict(leaf_spaces(space))
    if not masked:
        return space
    sizes = label_sizes(role.action_space)
    if isinstance(role.action_space, spaces.MultiDiscrete):
        mask: Space[Any] = spaces.Tuple([spaces.Box(0, 1, (size,), np.int8) for size in sizes])
    else:
        mask = spaces.Box(0, 1, (sum(sizes),), np.int8)
    return spaces.Dict({"observation": space, "action_mask": mask})


class _LudusAec(AECEnv[str, Any, Any]):  # type: ignore[misc]
    """See `to_aec`."""

    agent_selection: str

    def __init__(self, env: Environment, render_mode: str | None) -> None:
        super().__init__()
        self._match = _SingleMatch(env, render_mode)
        self.metadata = self._match.metadata(parallelizable=env.spec.turn != "turn-based")
        self.render_mode = self._match.render_mode
        self.possible_agents = list(self._match.seats)
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Space[Any]:
        return self._match.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        return self._match.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002
        self._match.reset(seed)
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._skip_to_decision()

    def observe(self, agent: str) -> Any:
        return self._match.observe(agent, acting=agent == self.agent_selection and agent in self._waiting)

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self._match.act(agent, action)
        self._waiting.remove(agent)
        if self._waiting:
            self.agent_selection = self._waiting[0]
        else:
            self._advance()
            self._skip_to_decision()
        self._accumulate_rewards()

    def _skip_to_decision(self) -> None:
        """Advance to the next decision, and select its first agent, or an agent that ended before it."""
        while not (waiting := self._match.acting()) and self._match.is_running:
            self._advance()
        self._waiting = waiting
        self.agent_selection = waiting[0] if waiting else self.agents[0]
        self._deads_step_first()

    def _advance(self) -> None:
        self._match.advance()
        living = [agent for agent in self.agents if not (self.terminations[agent] or self.truncations[agent])]
        for agent, reward in self._match.rewards(living).items():
            self.rewards[agent] += reward
        for agent, (terminated, truncated) in self._match.endings(living).items():
            self.terminations[agent], self.truncations[agent] = terminated, truncated

    def render(self) -> str | np.ndarray | None:
        return self._match.render()

    def close(self) -> None:
        self._match.env.close()


class _LudusParallel(ParallelEnv[str, Any, Any]):  # type: ignore[misc]
    """See `to_parallel`."""

    def __init__(self, env: Environment, render_mode: str | None) -> None:
        self._match = _SingleMatch(env, render_mode)
        self.metadata = self._match.metadata(parallelizable=True)
        self.render_mode = self._match.render_mode
        self.possible_agents = list(self._match.seats)
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Space[Any]:
        return self._match.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        return self._match.action_spaces[agent]

    def reset(
        self,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        self._match.reset(seed)
        self.agents = self.possible_agents[:]
        return self._observe(), {agent: {} for agent in self.agents}

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        for agent, action in actions.items():
            self._match.act(agent, action)
        self._match.advance()
        played = self.agents
        endings = self._match.endings(played)
        terminations = {agent: terminated for agent, (terminated, _) in endings.items()}
        truncations = {agent: truncated for agent, (_, truncated) in endings.items()}
        infos: dict[str, Any] = {agent: {} for agent in played}
        rewards, observations = self._match.rewards(played), self._observe()
        self.agents = [agent for agent in played if not any(endings[agent])]
        return observations, rewards, terminations, truncations, infos

    def _observe(self) -> dict[str, Any]:
        acting = self._match.acting()
        return {agent: self._match.observe(agent, acting=agent in acting) for agent in self.agents}

    def render(self) -> str | np.ndarray | None:
        return self._match.render()

    def close(self) -> None:
        self._match.env.close()
