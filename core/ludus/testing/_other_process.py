"""Playing the same matches in a new interpreter, to see what depends on the process: hash seeds, ids, import order."""

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
from ludus.testing._rollout import Chooser, Rollout, digest

__all__ = ["answer", "digests_elsewhere", "maker"]

_CHILD = """
import json, sys
asked = json.load(sys.stdin)
sys.path[:] = asked.pop("path")
from ludus.testing._other_process import answer
answer(asked)
"""


def maker(component: Component, options: Mapping[str, Any]) -> Callable[[int], Environment]:
    """Return a function of the number of matches that makes the component's environment."""
    factory, config_class = component.load_factory(), component.load_config()
    config = None if config_class is None else config_class(**options)
    return lambda num_matches: factory(config, num_matches=num_matches)


def digests_elsewhere(
    component: Component, options: Mapping[str, Any], *, seed: int, steps: int, lines: tuple[int, ...]
) -> list[dict[str, str]]:
    """Return a digest of every array on every tick, as a new interpreter with other hash seeds sees them.

    Args:
        component: Makes the environment.
        options: Of its configuration.
        seed: See `Rollout`, and so are the lines.
        steps: How many ticks are played.
        lines: One per match.

    Raises:
        ContractError: It failed there.
    """
    asked = {
        "path": sys.path,
        "component": {"name": component.name, "factory": component.factory, "config": component.config},
        "options": dict(options),
        "seed": seed,
        "steps": steps,
        "lines": lines,
    }
    child = subprocess.run(  # noqa: S603 - our own interpreter and program
        [sys.executable, "-c", _CHILD],
        input=json.dumps(asked),
        env=os.environ | {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    if child.returncode != 0:
        reason = (child.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ContractError(f"environment {component.name!r} failed in another process: {reason}")
    return json.loads(child.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def answer(asked: dict[str, Any]) -> None:
    """Play what was asked for and print the digests as one line of JSON; called in the new interpreter."""
    environment = maker(Component(**asked["component"]), asked["options"])(len(asked["lines"]))
    choose = Chooser(spec=environment.spec)
    rollout = Rollout(environment=environment, seed=asked["seed"], lines=asked["lines"], choose=choose)
    seen = [{what: digest(array) for what, array in one.items()} for one in rollout.pictures(asked["steps"])]
    environment.close()
    sys.stdout.write("\n" + json.dumps(seen) + "\n")
