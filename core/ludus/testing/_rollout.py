"""Play an environment with random legal actions in a way that can be repeated exactly.

Every match index plays a numbered sequence of matches. The seed of its k-th match follows from the seed of the check,
the number of the sequence and k; its actions follow from that seed, the tick and the seat. So a sequence is the same at
any match index in any batch.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from attrs import define, field, frozen

from ludus import _seeding
from ludus.component import Component
from ludus.environment import Environment, EnvironmentSpec, Role, Scenario, Tick
from ludus.errors import ContractError
from ludus.spaces import action_dtype, action_width, label_sizes, random_actions

Actions: TypeAlias = "dict[str, np.ndarray]"
#: Copies of all defined arrays of a tick: ``{"player reward": [B, S], "terminated": [B], …}``.
TickArrays: TypeAlias = "dict[str, np.ndarray]"
#: Called with each tick and the indices ``[n]`` of the matches that were reset, or None after a step.
TickCheck: TypeAlias = "Callable[[Tick, np.ndarray | None], None]"


def match_seed(seed: int, sequence: int, number: int) -> np.uint64:
    """Return the seed of match `number` of a sequence; it uses all 64 bits."""
    return np.uint64(_seeding.match_seeds(_seeding.seed_for(seed, "line", sequence), np.array([number]))[0])


@frozen(kw_only=True)
class SeededActions:
    """Random legal actions as a function of match seed, tick and seat.

    Args:
        spec: Specification of the environment.
        fill_idle: Whether seats that do not act get the highest action instead of zeros.
        seat_names: Numbers that replace the seat indices in the random generators, by role; None: the indices.
    """

    spec: EnvironmentSpec
    fill_idle: bool = False
    seat_names: Mapping[str, Sequence[int]] | None = None

    def __call__(self, tick: Tick, seeds: Sequence[np.uint64], ticks: Sequence[int]) -> Actions:
        """Return the actions of all matches.

        Args:
            tick: Current tick.
            seeds: Seed of each match.
            ticks: Number of ticks since the start of each match.
        """
        return {role.name: self._role_actions(role, tick, seeds, ticks) for role in self.spec.roles}

    def _role_actions(self, role: Role, tick: Tick, seeds: Sequence[np.uint64], ticks: Sequence[int]) -> np.ndarray:
        role_tick = tick.roles[role.name]
        actions = self._idle_actions(role, len(seeds))
        for match, seat in zip(*np.nonzero(role_tick.acting), strict=True):
            name = seat if self.seat_names is None else self.seat_names[role.name][seat]
            rng = _seeding.generator(int(seeds[match]), ticks[match], role.name, int(name))
            mask = None if role_tick.action_mask is None else role_tick.action_mask[match, seat][None]
            actions[match, seat] = random_actions(role.action_space, 1, rng, mask=mask)[0]
        return actions

    def _idle_actions(self, role: Role, num_matches: int) -> np.ndarray:
        shape = (num_matches, role.num_seats, action_width(role.action_space))
        actions = np.zeros(shape, action_dtype(role.action_space))
        if self.fill_idle:
            sizes = label_sizes(role.action_space)
            actions[..., : len(sizes)] = np.array(sizes) - 1
            actions[..., len(sizes) :] = 1e6
        return actions


@define(kw_only=True)
class Rollout:
    """A batch of matches, one sequence per match index.

    A match that has ended stays idle for (sequence modulo 3) ticks before the next one starts, so that idle matches are
    checked as well.

    Args:
        environment: Environment to play; all of its matches are reset on construction.
        seed: Seed of the check.
        sequences: Number of the sequence of each match index.
        choose: Function that returns the actions.
        check: Called with each tick; None: no check.
        scenario: Scenario of all matches; None: the default one.
    """

    environment: Environment
    seed: int
    sequences: Sequence[int]
    choose: SeededActions
    check: TickCheck | None = None
    scenario: Scenario | None = None
    tick: Tick = field(init=False)
    match_numbers: list[int] = field(init=False)
    match_ticks: list[int] = field(init=False)
    _idle_ticks: list[int] = field(init=False)
    _idle: np.ndarray = field(init=False)

    def __attrs_post_init__(self) -> None:
        count = len(self.sequences)
        self.match_numbers, self.match_ticks, self._idle_ticks = [0] * count, [0] * count, [0] * count
        self._idle = np.zeros(count, bool)
        self.tick = self.environment.reset(self.seeds(), scenarios=self._scenarios(count))
        self._check_tick(np.arange(count))

    def seeds(self) -> np.ndarray:
        """Return the seed of each match, ``[B] uint64``."""
        numbers = zip(self.sequences, self.match_numbers, strict=True)
        return np.array([match_seed(self.seed, sequence, number) for sequence, number in numbers])

    def actions(self) -> Actions:
        """Return the actions for the current tick."""
        return self.choose(self.tick, list(self.seeds()), self.match_ticks)

    def step(self, actions: Actions | None = None) -> None:
        """Step once, with the actions of `choose` unless others are given."""
        self.tick = self.environment.step(self.actions() if actions is None else actions)
        self._check_tick(None)
        self.match_ticks = [ticks + 1 for ticks in self.match_ticks]
        self._idle |= self.tick.terminated | self.tick.truncated

    def restart_ended(self) -> None:
        """Reset the ended matches that have been idle for long enough."""
        due = [m for m, sequence in enumerate(self.sequences) if self._idle[m] and self._idle_ticks[m] >= sequence % 3]
        for match in np.flatnonzero(self._idle):
            self._idle_ticks[match] += 1
        if due:
            self.restart(np.array(due, np.int64))

    def restart(self, indices: np.ndarray) -> None:
        """Start the next match of the sequences at these match indices."""
        for match in indices:
            self.match_numbers[match] += 1
            self.match_ticks[match] = self._idle_ticks[match] = 0
        self._idle[indices] = False
        scenarios = self._scenarios(len(indices))
        self.tick = self.environment.reset(self.seeds()[indices], indices=indices, scenarios=scenarios)
        self._check_tick(indices)

    def _scenarios(self, count: int) -> list[Scenario] | None:
        return None if self.scenario is None else [self.scenario] * count

    def record(self, steps: int) -> list[TickArrays]:
        """Return the current tick and that after each of `steps` steps."""
        ticks = [copy_tick(self.tick)]
        for _ in range(steps):
            self.step()
            ticks.append(copy_tick(self.tick))
            self.restart_ended()
        return ticks

    def _check_tick(self, indices: np.ndarray | None) -> None:
        if self.check is not None:
            self.check(self.tick, indices)


def copy_tick(tick: Tick) -> TickArrays:
    """Return a copy of the defined parts of a tick: masks of acting seats, outcomes of ended matches."""
    ended = tick.terminated | tick.truncated
    arrays: TickArrays = {"terminated": tick.terminated.copy(), "truncated": tick.truncated.copy()}
    arrays["outcome"] = np.where(ended[:, None], tick.outcome, 0)
    for name, role in tick.roles.items():
        arrays[f"{name} acting"] = role.acting.copy()
        arrays[f"{name} reward"] = role.reward.copy()
        if role.terminated is not None and role.truncated is not None:
            arrays |= {f"{name} terminated": role.terminated.copy(), f"{name} truncated": role.truncated.copy()}
        if role.action_mask is not None:
            arrays[f"{name} action_mask"] = role.action_mask & role.acting[:, :, None]
        groups = {"observation": role.observation, "privileged": role.privileged, "reward part": role.reward_parts}
        groups["statistic"] = {leaf: np.where(ended[:, None], array, 0) for leaf, array in role.statistics.items()}
        for group, leaves in groups.items():
            arrays |= {f"{name} {group} {leaf}": array.copy() for leaf, array in leaves.items()}
    return arrays


def first_difference(one: TickArrays, other: TickArrays, pairs: Sequence[tuple[int, int]]) -> tuple[str, int] | None:
    """Return array and match index of the first difference of two ticks in pairs of match indices; None if equal."""
    if one.keys() != other.keys():
        return f"the presence of {', '.join(sorted(one.keys() ^ other.keys()))}", pairs[0][0]
    same_indices = all(a == b for a, b in pairs)
    for name, array in one.items():
        equal_nan = array.dtype.kind == "f"
        if same_indices and np.array_equal(array, other[name], equal_nan=equal_nan):
            continue
        for a, b in pairs:
            if not np.array_equal(array[a], other[name][b], equal_nan=equal_nan):
                return name, a
    return None


def digest(array: np.ndarray) -> str:
    """Return a hash of the bytes of an array; it is the same in every process."""
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).hexdigest()


_CHILD = """
import json, sys
request = json.load(sys.stdin)
sys.path[:] = request.pop("path")
from ludus.testing._rollout import print_digests
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
