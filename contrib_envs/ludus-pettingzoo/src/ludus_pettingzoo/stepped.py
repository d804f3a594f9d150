"""Frame skip, largest values of frames, sticky actions and random no-op starts of a PettingZoo environment."""

from __future__ import annotations

from typing import Any

from ludus.errors import ConfigError
from ludus_copies import Stepping, SteppingOptions
from pettingzoo import ParallelEnv
from pettingzoo.utils import BaseParallelWrapper


class SteppedEnv(BaseParallelWrapper):  # type: ignore[misc]
    """An environment whose steps are decisions, each of several steps of the wrapped one.

    Args:
        env: Environment with the Parallel interface.
        options: What the steps of a decision are.
        id: Id of the environment, for error messages.

    Raises:
        ConfigError: The largest values of images are asked for, and no agent observes an image.
    """

    def __init__(self, env: ParallelEnv[Any, Any, Any], options: SteppingOptions, *, id: str) -> None:
        super().__init__(env)
        self._stepping = Stepping(env, options, agents=getattr(env, "possible_agents", ()), id=id)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start a match."""
        if options is None:
            return self._stepping.reset(seed=seed)
        return self._stepping.reset(seed=seed, passive=options.get("builtin", {}), options=options)

    def step(self, actions: dict[Any, Any]) -> Any:
        """Play the steps of a decision."""
        return self._stepping.step(actions)


def with_stepping(env: Any, options: SteppingOptions, *, id: str) -> Any:
    """Return an environment that plays several steps per decision if the options ask for it.

    Raises:
        ConfigError: The environment is played in turns, or observes no images where the largest values are asked for.
    """
    if not options.changed:
        return env
    if not isinstance(env, ParallelEnv):
        raise ConfigError(
            f"{options.changed[0]}: {id!r} is played in turns, where no action can be held on; remove the option, or "
            'choose api = "parallel" if all agents act at once'
        )
    return SteppedEnv(env, options, id=id)
