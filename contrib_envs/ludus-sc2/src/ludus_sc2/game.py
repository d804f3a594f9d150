"""One match of StarCraft II."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from attrs import define, field
from ludus.environment import EnvironmentSpec, Role, RoleTick, Scenario
from ludus_copies import MatchArrays, fold_seed

from ludus_sc2.config import Sc2Config
from ludus_sc2.encoding import write_observation
from ludus_sc2.game_data import GameData
from ludus_sc2.installation import Installation
from ludus_sc2.layout import action_space, observation_space
from ludus_sc2.managers import Managers, write_mask
from ludus_sc2.names import BOTS, TOWN_HALLS
from ludus_sc2.session import Session
from ludus_sc2.situation import Situation, nearest, positions
from ludus_sc2.terrain import Terrain

ROLE = "player"
NUM_SEATS = 2
PARTS = ("win", "killed")
STATISTICS = ("killed_value", "collected", "workers", "army_food")
LOOPS_PER_S = 22.4
_VALUE_UNIT = 1000.0


def make_spec(config: Sc2Config) -> EnvironmentSpec:
    """Return the spec of the game."""
    role = Role(
        name=ROLE,
        observation_space=observation_space(config.max_units),
        action_space=action_space(),
        teams=(0, 1),
        statistics=STATISTICS,
        guidance=("killed",),
        builtin=BOTS,
    )
    return EnvironmentSpec(
        name="sc2",
        roles=(role,),
        turn="simultaneous",
        tick_s=config.step_loops / LOOPS_PER_S,
        max_ticks=-(-config.max_loops // config.step_loops),
        constant_sum=True,
        sparse_rewards=config.killed == 0,
        outcome_rule="the result that the game reports; a match without one at the time limit is a draw",
    )


@define
class SeatState:
    """What is known of a seat during a match.

    Args:
        terrain: The map from the side of the seat.
        managers: Turn its actions into commands.
        situation: What it sees.
    """

    terrain: Terrain
    situation: Situation
    managers: Managers = field(factory=Managers)
    killed: float = 0.0

    @classmethod
    def start(cls, data: GameData, info: Any, observation: Any) -> SeatState:
        """Return the state at the first observation of a match."""
        flat = Terrain.read(info, np.zeros(2), np.zeros((0, 2)), np.zeros(0, bool))
        seen = Situation.read(data, flat, observation)
        halls = seen.of(*TOWN_HALLS)
        start = nearest(halls, positions(halls).mean(axis=0)).position if halls else positions(seen.own).mean(axis=0)
        fields = [*seen.minerals, *seen.geysers]
        is_gas = np.arange(len(fields)) >= len(seen.minerals)
        terrain = Terrain.read(info, start, positions(fields), is_gas)
        return cls(terrain, Situation.read(data, terrain, observation))


class Sc2Game:
    """One match, see `ludus_copies.ScalarGame`.

    Both seats play Zerg. A seat that the built-in AI plays has no process, and gets the reward of the outcome only.

    Args:
        config: Options of the environment.

    Raises:
        PluginError: The game or a package is not installed.
        ConfigError: There is no such map.
    """

    masked_roles: ClassVar[frozenset[str]] = frozenset({ROLE})
    reward_parts: ClassVar[dict[str, tuple[str, ...]]] = {ROLE: PARTS}

    def __init__(self, config: Sc2Config) -> None:
        self._config = config
        self.spec = make_spec(config)
        self.session = Session(config, Installation.find())
        self._seats: dict[int, SeatState] = {}
        self._bots = [""] * NUM_SEATS
        self._loops = 0

    def bind(self, arrays: MatchArrays) -> None:
        """Store the arrays of the match."""
        self._tick = arrays.tick
        self._player: RoleTick = arrays.tick.roles[ROLE]
        self._actions = arrays.actions[ROLE]

    def prepare(self, seed: int, scenario: Scenario) -> None:  # noqa: ARG002 - processes have no seed
        """Start the processes of a match, so that those of several matches start at the same time.

        Raises:
            WorkerError: The game cannot be started.
        """
        self.session.launch(scenario.builtin or ("",) * NUM_SEATS)

    def reset(self, seed: int, scenario: Scenario) -> None:
        """Start a match.

        Raises:
            WorkerError: The game failed, or did not start in time.
        """
        self._bots = list(scenario.builtin) or [""] * NUM_SEATS
        self._loops = 0
        infos = self.session.start(fold_seed(seed) & 0x7FFFFFFF, self._bots)
        seen = self.session.observe()
        self._seats = {
            seat: SeatState.start(self.session.data, infos[seat], one.observation)
            for seat, one in seen.items()
            if seat >= 0
        }
        for seat in self._seats:
            self._write(seat)
            self._player.acting[seat] = True

    def step(self) -> None:
        """Advance by one decision of both seats.

        Raises:
            WorkerError: The game failed, or did not reply in time.
        """
        self.session.act(
            {seat: state.managers.decide(state.situation, self._actions[seat]) for seat, state in self._seats.items()}
        )
        loops = min(self._config.step_loops, self._config.max_loops - self._loops)
        self.session.step(loops)
        self._loops += loops
        seen = self.session.observe()
        for seat, state in self._seats.items():
            if seen[seat].observation.raw_data.units:  # after an end the game may show nothing more
                state.situation = Situation.read(self.session.data, state.terrain, seen[seat].observation)
            self._write(seat)
            self._reward_kills(seat)
            self._player.acting[seat] = True
        outcome = self.session.outcome(seen)
        if outcome is not None:
            self._end(outcome, is_over=True)
        elif self._loops >= self._config.max_loops:
            self._end([0.5, 0.5], is_over=False)

    def _write(self, seat: int) -> None:
        situation = self._seats[seat].situation
        leaves = {name: leaf[seat] for name, leaf in self._player.observation.items()}
        write_observation(leaves, situation, time=self._loops / self._config.max_loops)
        assert self._player.action_mask is not None
        write_mask(self._player.action_mask[seat], situation)
        player, details = situation.raw.player_common, situation.raw.score.score_details
        values = (
            details.killed_value_units + details.killed_value_structures,
            details.collected_minerals + details.collected_vespene,
            player.food_workers,
            player.food_army,
        )
        for name, value in zip(STATISTICS, values, strict=True):
            self._player.statistics[name][seat] = value

    def _reward_kills(self, seat: int) -> None:
        state, value = self._seats[seat], float(self._player.statistics["killed_value"][seat])
        reward = self._config.killed * (value - state.killed) / _VALUE_UNIT
        state.killed = value
        self._player.reward_parts["killed"][seat] += reward
        self._player.reward[seat] += reward

    def _end(self, outcome: list[float], *, is_over: bool) -> None:
        self._tick.terminated[...], self._tick.truncated[...] = is_over, not is_over
        self._tick.outcome[:] = outcome
        rewards = self._config.win * (2 * np.array(outcome, np.float32) - 1)
        self._player.reward_parts["win"][:] += rewards
        self._player.reward[:] += rewards

    def close(self) -> None:
        """End the processes of the game."""
        self.session.close()
