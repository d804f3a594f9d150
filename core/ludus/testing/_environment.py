"""`check_environment`: check that an environment keeps the contract of `ludus.environment`."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from ludus.component import Component
from ludus.controls import Controls, find_controls
from ludus.environment import Environment, EnvironmentSpec, Playable, Role, RoleTick
from ludus.errors import ContractError
from ludus.rendering import Renderable, Scene, check_frame, draw_match, scene_from_json, scene_to_json
from ludus.spaces import label_sizes, real_box
from ludus.testing._errors import fail_environment, rejects
from ludus.testing._rollout import Actions, Rollout, copy_tick, environment_factory
from ludus.testing._rollout_checks import SEQUENCES, EnvironmentFactory, RolloutChecks, same_indices
from ludus.testing._spec_checks import check_spec

_PLACES = (-0.5, 0.0, 0.1, 0.5, 0.9, 1.0, 1.5)  # in shares of a scene, from which a person may drag out


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
    matches end: the ends of matches are not checked otherwise. Matches are compared with their repetition, unless the
    spec is not `repeatable`.

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
        _check_playable(spec, environment, environment)
    if isinstance(environment, Renderable):
        _check_frames(spec, environment)
    _check_close(spec, environment)
    checks.check_determinism(ticks)
    checks.check_batch_size(ticks)
    checks.check_partial_reset()
    checks.check_scenarios()
    checks.check_builtin_bots()
    check_illegal_action(checks)
    if spec.symmetric:
        checks.check_symmetry(ticks)
    if _global_random_state() != random_state:
        problem = "it changed the global random state of Python or NumPy; use only the seeds passed to reset"
        fail_environment(spec, problem)
    if isinstance(make, Component):
        checks.check_other_process(ticks, make, options or {})


def _check_playable(spec: EnvironmentSpec, environment: Environment, game: Playable) -> None:
    """Check the text of every match, and that names of actions can be parsed."""
    for match in range(len(SEQUENCES)):
        if not isinstance(game.render(match), str):
            fail_environment(spec, "render did not return a str", match=match)
    for role in spec.roles:
        _check_action_names(spec, game, role)
        for seat in range(role.num_seats):
            controls = find_controls(environment, role.name, seat)
            if controls is not None:
                _check_controls(environment, game, role.name, controls)


def _check_controls(environment: Environment, game: Playable, role: str, controls: Controls) -> None:
    """Check that keys and places stand for actions."""
    texts = [*controls.keys.values(), controls.idle]
    if controls.point is not None:
        frame = draw_match(environment, 0)
        width, height = (frame.width, frame.height) if isinstance(frame, Scene) else (1.0, 1.0)
        texts += [controls.point(0, x * width, y * height) for x in _PLACES for y in _PLACES]
    for text in filter(None, texts):
        if rejects(ValueError, game.parse_action, role, text):
            fail_environment(environment.spec, f"controls name {text!r}, which parse_action does not parse", role=role)


def _check_frames(spec: EnvironmentSpec, environment: Renderable) -> None:
    """Check the frame of every match, and the JSON form of scenes."""
    for match in range(len(SEQUENCES)):
        frame = environment.render_frame(match)
        if frame is not None and (problem := check_frame(frame)):
            fail_environment(spec, f"render_frame returned {problem}", match=match)
        if isinstance(frame, Scene) and scene_from_json(json.loads(json.dumps(scene_to_json(frame)))) != frame:
            fail_environment(spec, "render_frame returned a scene that differs from its JSON form", match=match)


def _check_action_names(spec: EnvironmentSpec, environment: Playable, role: Role) -> None:
    sizes, box = label_sizes(role.action_space), real_box(role.action_space)
    reals = [] if box is None else np.clip(0.0, box.low, box.high).tolist()
    for number in range(max(sizes, default=0)):
        action = [*(number % size for size in sizes), *reals]
        text = environment.action_name(role.name, np.array(action))
        if environment.parse_action(role.name, text).tolist() != action:
            problem = f"parse_action does not parse {text!r}, the name of action {action}"
            fail_environment(spec, problem, role=role.name)
    if not rejects(ValueError, environment.parse_action, role.name, "\x00 not an action"):
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


def check_illegal_action(checks: RolloutChecks) -> None:
    """Check that a masked action raises ContractError or affects its own match only.

    Without masks, a choice out of range must raise: no rules can be about it.
    """
    with closing(checks.make(len(SEQUENCES))) as one, closing(checks.make(len(SEQUENCES))) as other:
        rollout, reference = checks.start(one), checks.start(other)
        masked = [role for role in checks.spec.roles if rollout.tick.roles[role.name].action_mask is not None]
        for tick in range(checks.steps):
            actions = rollout.actions()
            if _make_illegal(masked or checks.spec.roles, rollout, actions):
                rejected = _check_step(checks, rollout, reference, actions, tick)
                if not (rejected or masked):
                    checks.fail("a choice out of range was accepted; expected ContractError", match=0, tick=tick)
                return
            for each in (rollout, reference):
                each.step()
                each.restart_ended()


def _make_illegal(roles: Sequence[Role], rollout: Rollout, actions: Actions) -> bool:
    """Make one action of match 0 illegal and return whether that was possible."""
    return any(_make_role_illegal(role, rollout.tick.roles[role.name], actions[role.name]) for role in roles)


def _make_role_illegal(role: Role, role_tick: RoleTick, actions: np.ndarray) -> bool:
    start = 0
    for label, size in enumerate(label_sizes(role.action_space)):
        for seat in np.flatnonzero(role_tick.acting[0]):
            mask = role_tick.action_mask
            illegal = [size] if mask is None else np.flatnonzero(~mask[0, seat, start : start + size])
            if len(illegal):
                actions[0, seat, label] = illegal[0]
                return True
        start += size
    return False


def _check_step(checks: RolloutChecks, rollout: Rollout, reference: Rollout, actions: Actions, tick: int) -> bool:
    """Step with an illegal action in match 0 and return whether it was rejected."""
    pairs, rejected = [(1, 1), (2, 2)], False
    try:
        rollout.step(actions)
    except ContractError:
        pairs, rejected = list(same_indices(SEQUENCES)), True
        _step_after_rejection(checks, rollout, tick)
    except Exception as error:  # noqa: BLE001 - any other exception breaks the contract
        problem = f"an illegal action raised {type(error).__name__}: {error}"
        checks.fail(f"{problem}; expected ContractError or a result of the rules", match=0, tick=tick)
    reference.step()
    problem = "an illegal action in match 0 disturbed a match"
    checks.require_repeated(copy_tick(rollout.tick), copy_tick(reference.tick), problem, tick=tick, pairs=pairs)
    return rejected


def _step_after_rejection(checks: RolloutChecks, rollout: Rollout, tick: int) -> None:
    try:
        rollout.step()
    except Exception as error:  # noqa: BLE001 - legal actions must not fail
        problem = f"after an illegal action was rejected, legal ones raised {type(error).__name__}: {error}"
        checks.fail(f"{problem}; a rejected step must not advance any match", tick=tick)
