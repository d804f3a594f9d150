"""Where the players of a team are in matches: histograms of the field (DIS figure 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from ludus.environment import Environment, EnvironmentSpec, Scenario, Tick

from ludus_football.features import CAPACITIES
from ludus_football.game import ROLE, STATE_LEAF
from ludus_football.representations import GLOBAL_PLAYER, GlobalEncoder
from ludus_football.state import FIELD_Y

#: Rows and columns of a histogram: cells of about 3 by 3 m.
SHAPE = (23, 36)

#: Players of a team in the state that critics read, by its size.
_CAPACITIES = {GlobalEncoder((capacity, capacity)).shape[0]: capacity for capacity in CAPACITIES}


class PositionHistogram:
    """Counts positions by cells of the field, in the view of a team, which attacks to the right.

    Attributes:
        counts: ``[rows, columns] int64``: row 0 is the edge with y = -`FIELD_Y`, column 0 the own goal line.
    """

    def __init__(self) -> None:
        self.counts = np.zeros(SHAPE, np.int64)

    def add(self, positions: np.ndarray) -> None:
        """Count positions ``[n, 2]``, x and y as in `State`; those beyond a line count in the cell next to it."""
        size = np.array([1.0, FIELD_Y])
        rows, columns = SHAPE
        cells = ((positions + size) / (2 * size) * (columns, rows)).astype(np.int64)
        column, row = np.clip(cells, 0, (columns - 1, rows - 1)).T
        np.add.at(self.counts, (row, column), 1)

    @property
    def shares(self) -> np.ndarray:
        """Return ``[rows, columns] float64`` shares of the positions, which sum to 1; zeros without positions."""
        return np.asarray(self.counts / max(1, self.counts.sum()))

    def thirds(self) -> tuple[float, float, float]:
        """Return the shares of the positions in the own third of the field, the middle third, the opponents' third."""
        own, middle, front = (float(part.sum()) for part in np.split(self.shares, 3, axis=1))
        return own, middle, front


class PositionRecorder:
    """An environment that counts where the players of the left team are, without its goalkeeper.

    Positions are those after every step, from the state that critics read.

    Args:
        environment: The environment ``football``, which this object steps.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.histogram = PositionHistogram()

    @property
    def spec(self) -> EnvironmentSpec:
        """Return the spec of the environment."""
        return self._environment.spec

    @property
    def num_matches(self) -> int:
        """Return the number of matches."""
        return self._environment.num_matches

    def reset(
        self,
        seeds: np.ndarray,
        *,
        indices: np.ndarray | None = None,
        scenarios: Sequence[Scenario] | None = None,
    ) -> Tick:
        """Start matches."""
        return self._environment.reset(seeds, indices=indices, scenarios=scenarios)

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Step all matches, and count the positions in those that go on."""
        tick = self._environment.step(actions)
        running = ~(tick.terminated | tick.truncated)
        self.histogram.add(team_positions(tick.roles[ROLE].privileged[STATE_LEAF][running, 0]))
        return tick

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()


def team_positions(states: np.ndarray) -> np.ndarray:
    """Return the positions of the players of a team that are on the field, without the goalkeeper.

    Args:
        states: ``[n, size] float32`` from `GlobalEncoder`, in the view of the team.

    Returns:
        ``[m, 2] float32`` x and y of all of them.
    """
    width = len(GLOBAL_PLAYER)
    capacity = _CAPACITIES[states.shape[1]]
    players = states[:, : capacity * width].reshape(len(states), capacity, width)[:, 1:]
    return np.asarray(players[players[..., GLOBAL_PLAYER.index("is on the field")] > 0][:, :2])
