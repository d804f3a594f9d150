"""Play the same matches in a new interpreter, to find environments that depend on the process.

Hash seeds, object ids and the order of imports differ between processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ludus.component import Component
from ludus.environment import Environment
from ludus.errors import ContractError
from ludus.testing._rollout import Rollout, SeededActions, digest

__all__ = ["environment_factory", "other_process_digests", "print_digests"]

_CHILD = """
import json, sys
request = json.load(sys.stdin)
sys.path[:] = request.pop("path")
from ludus.testing._other_process import print_digests
print_digests(request)
"""


def environment_factory(component: Component, options: Mapping[str, Any]) -> Callable[[int], Environment]:
    """Return a function that makes the environment of a component, given the number of matches."""
    factory, config_class = component.load_factory(), component.load_config()
    config = None if config_class is None else config_class(**options)
    return lambda num_matches: factory(config, num_matches=num_matches)


def other_process_digests(
    component: Component, options: Mapping[str, Any], *, seed: int, steps: int, sequences: tuple[int, ...]
) -> list[dict[str, str]]:
    """Return a digest of every array of every tick, played in a new interpreter with another hash seed.

    Args:
        component: Component of the environment.
        options: Fields of its configuration.
        seed: Seed of the rollout.
        steps: Number of steps.
        sequences: Number of the sequence of each match; see `Rollout`.

    Raises:
        ContractError: The environment failed in the other process.
    """
    request = {
        "path": sys.path,
        "component": {"name": component.name, "factory": component.factory, "config": component.config},
        "options": dict(options),
        "seed": seed,
        "steps": steps,
        "sequences": sequences,
    }
    child = subprocess.run(  # noqa: S603 - runs this interpreter with a constant program
        [sys.executable, "-c", _CHILD],
        input=json.dumps(request),
        env=os.environ | {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode != 0:
        reason = (child.stderr.strip().splitlines() or ["no error output"])[-1]
        raise ContractError(f"environment {component.name!r} failed in another process: {reason}")
    return json.loads(child.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def print_digests(request: dict[str, Any]) -> None:
    """Play a rollout and print its digests as one line of JSON; called in the new interpreter."""
    environment = environment_factory(Component(**request["component"]), request["options"])(len(request["sequences"]))
    choose = SeededActions(spec=environment.spec)
    rollout = Rollout(environment=environment, seed=request["seed"], sequences=request["sequences"], choose=choose)
    digests = [{name: digest(array) for name, array in tick.items()} for tick in rollout.record(request["steps"])]
    environment.close()
    sys.stdout.write("\n" + json.dumps(digests) + "\n")
