"""States of matches of the real engine, which tests without the engine read, and environments with the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ludus.environment import Scenario
from ludus_football.config import FootballConfig
from ludus_football.game import make_environment
from ludus_football.state import State

_PER_STATE = (
    "ball",
    "ball_direction",
    "ball_rotation",
    "position",
    "direction",
    "tired",
    "active",
    "yellow",
    "role",
    "controlled",
    "sticky",
)


class Recording:
    """States by the name of the match, and what the library itself made of them.

    Recorded with gfootball 2.10.2: ``five`` has 45 moments of matches of five against five with goal kicks, free kicks,
    corners and throw-ins; ``eleven`` has 26 of eleven against eleven, with penalties and a player sent off;
    ``sequences`` has consecutive moments of five against five.
    """

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self._arrays = dict(file)

    def array(self, name: str) -> np.ndarray:
        """Return a stored array."""
        return self._arrays[name]

    def states(self, name: str) -> list[State]:
        """Return the states of a match."""

        def at(key, index):
            array = self._arrays[f"{name}_{key}"]
            return array[index].astype(np.int64) if array.dtype == np.int8 else array[index].copy()

        count = self._arrays[f"{name}_position"].shape[2]
        return [
            State(
                **{key: at(key, index) for key in _PER_STATE},
                owner_team=int(at("owner_team", index)),
                owner_player=int(at("owner_player", index)),
                num_players=(count, count),
                team=self._arrays[f"{name}_team"].astype(np.int64),
                score=tuple(at("score", index).tolist()),
                mode=int(at("mode", index)),
                steps_left=int(at("steps_left", index)),
            )
            for index in range(len(self._arrays[f"{name}_mode"]))
        ]

    def sequence(self, name: str) -> tuple[list[State], np.ndarray]:
        """Return consecutive states ``[n]``, and the actions ``[n, S] int64`` that were chosen in them."""
        names = self._arrays["sequences_names"].tolist()
        first, end = self._arrays["sequences_bounds"][names.index(name)].tolist()
        return self.states("sequences")[first:end], self._arrays["sequences_actions"][first:end].astype(np.int64)


@pytest.fixture(scope="session")
def recording() -> Recording:
    """Return the recorded states."""
    return Recording(Path(__file__).parent / "recorded_states.npz")


@pytest.fixture
def football():
    """Return a function that makes environments, which are closed after the test; skip without the engine."""
    pytest.importorskip("gfootball_engine", reason="the football engine is not installed", exc_type=ImportError)
    made = []

    def make(num_matches=1, **options):
        made.append(make_environment(FootballConfig(**options), num_matches=num_matches))
        return made[-1]

    yield make
    for environment in made:
        environment.close()


@pytest.fixture
def start():
    """Return a function that starts the matches of an environment in one scenario."""

    def start_matches(environment, *seeds, name="default", builtin=(), **parameters):
        scenario = Scenario(name=name, parameters=parameters, builtin=builtin)
        return environment.reset(np.array(seeds, np.uint64), scenarios=[scenario] * len(seeds))

    return start_matches
