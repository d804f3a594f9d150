"""`check_environment`: check that an environment keeps the contract of `ludus.environment`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from ludus.component import Component
from ludus.environment import Environment, EnvironmentSpec, Playable, Role
from ludus.spaces import label_sizes
from ludus.testing._errors import fail_environment
from ludus.testing._illegal_actions import check_illegal_action
from ludus.testing._other_process import environment_factory
from ludus.testing._rollout_checks import SEQUENCES, EnvironmentFactory, RolloutChecks
from ludus.testing._spec_checks import check_spec

__all__ = ["check_environment"]


def check_environment(
    make: EnvironmentFactory | Component,
    *,
    seed: int = 0,
    steps: int = 200,
    options: Mapping[str, Any] | None = None,
    max_idle_ticks: int = 100,
) -> None:
    """Play an environment with random legal actions and check its contract.

    Makes a few environments of at most three matches and plays each for `steps` ticks. Choose `steps` so that some
    matches end: the ends of matches are not checked otherwise.

    Args:
        make: Function that makes the environment, given the number of matches; or the registered `ludus.Component`, for
            which it is also checked that another process plays the same matches.
        seed: Seed of the match seeds and actions.
        steps: Number of ticks to play.
        options: For a component: fields of its configuration that differ from the defaults.
        max_idle_ticks: Consecutive ticks without an acting seat that an asynchronous match may have.

    Raises:
        ContractError: The contract is broken. The message names environment, role, seat, match index and tick where
            known, and what was expected.
    """
    factory = environment_factory(make, options or {}) if isinstance(make, Component) else make
    environment = factory(len(SEQUENCES))
    spec = environment.spec
    random_state = _global_random_state()
    check_spec(spec)
    if environment.num_matches != len(SEQUENCES):
        fail_environment(spec, f"num_matches is {environment.num_matches}, expected {len(SEQUENCES)}")
    checks = RolloutChecks(make=factory, spec=spec, seed=seed, steps=steps, max_idle_ticks=max_idle_ticks)
    ticks = checks.check_ticks(environment)
    checks.check_full_reset(environment, ticks)
    if isinstance(environment, Playable):
        _check_playable(spec, environment)
    _check_close(spec, environment)
    checks.check_determinism(ticks)
    checks.check_batch_size(ticks)
    checks.check_partial_reset()
    checks.check_scenarios()
    check_illegal_action(checks)
    if spec.symmetric:
        checks.check_symmetry(ticks)
    if _global_random_state() != random_state:
        problem = "it changed the global random state of Python or NumPy; use only the seeds passed to reset"
        fail_environment(spec, problem)
    if isinstance(make, Component):
        checks.check_other_process(ticks, make, options or {})


def _check_playable(spec: EnvironmentSpec, environment: Playable) -> None:
    """Check the text of every match, and that names of actions can be parsed."""
    for match in range(len(SEQUENCES)):
        if not isinstance(environment.render(match), str):
            fail_environment(spec, "render did not return a str", match=match)
    for role in spec.roles:
        _check_action_names(spec, environment, role)


def _check_action_names(spec: EnvironmentSpec, environment: Playable, role: Role) -> None:
    sizes = label_sizes(role.action_space)
    for number in range(max(sizes, default=0)):
        action = [number % size for size in sizes]
        text = environment.action_name(role.name, np.array(action))
        if environment.parse_action(role.name, text).tolist() != action:
            problem = f"parse_action does not parse {text!r}, the name of action {action}"
            fail_environment(spec, problem, role=role.name)
    try:
        environment.parse_action(role.name, "\x00 not an action")
    except ValueError:
        return
    fail_environment(spec, "parse_action accepted a text that is no action; expected ValueError", role=role.name)


def _check_close(spec: EnvironmentSpec, environment: Environment) -> None:
    """Check that an environment can be closed twice."""
    environment.close()
    try:
        environment.close()
    except Exception as error:  # noqa: BLE001 - any failure breaks the contract
        fail_environment(spec, f"closing twice raised {type(error).__name__}: {error}")


def _global_random_state() -> tuple[object, ...]:
    """Return the state of the global random generators in a form that can be compared."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - code that uses it breaks the contract
    return random.getstate(), kind, np.asarray(keys).tobytes(), *rest
