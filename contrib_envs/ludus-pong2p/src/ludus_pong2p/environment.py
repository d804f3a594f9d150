"""The batch of matches: actions, scoring, observations and rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium import Space, spaces
from ludus.controls import Controls
from ludus.environment import EnvironmentSpec, Role, RoleTick, Scenario, Tick, allocate_tick
from ludus.errors import ContractError
from ludus.rendering import Scene

from ludus_pong2p import scene, terminal
from ludus_pong2p.config import Pong2pConfig
from ludus_pong2p.court import Court, first_receiver
from ludus_pong2p.scenario import SCENARIOS, start_states
from ludus_pong2p.view import NAMES, SHAPE, ImageView, VectorView

FRAMES_PER_SECOND = 30.0
_DIRECTIONS = np.array([0.0, -1.0, 1.0])  # of the actions


def _spec(config: Pong2pConfig) -> EnvironmentSpec:
    most = min(config.frame_skip, config.points)  # points in a tick
    player = Role(
        name="player",
        observation_space=_observation_space(config.observation),
        action_space=spaces.Discrete(len(_DIRECTIONS)),
        teams=(0, 1),
        statistics=("hits", "points", "moving"),
    )
    return EnvironmentSpec(
        name="pong2p",
        roles=(player,),
        turn="simultaneous",
        tick_s=config.frame_skip / FRAMES_PER_SECOND,
        max_ticks=config.max_ticks,
        scenarios=tuple(SCENARIOS),
        zero_sum=config.hit == 0,
        constant_sum=True,
        perfect_information=config.observation != "image",
        reward_range=(-float(most), most + config.hit * config.frame_skip),
    )


def _observation_space(observation: str) -> Space[np.ndarray]:
    leaves: dict[str, Space[np.ndarray]] = {
        "vector": spaces.Box(-1.0, 1.0, (len(NAMES),), np.float32),
        "image": spaces.Box(0, 255, SHAPE, np.uint8),
    }
    return spaces.Dict(leaves) if observation == "both" else leaves[observation]  # type: ignore[return-value]


def _make_views(config: Pong2pConfig, player: RoleTick) -> list[VectorView | ImageView]:
    """Return the views that write the leaves of the observation."""
    leaves, views = player.observation, list[VectorView | ImageView]()
    if config.observation != "image":
        leaf = leaves["vector" if len(leaves) == 2 else "obs"]
        views.append(VectorView(leaf, speed=config.ball_speed_max, points=config.points))
    if config.observation != "vector":
        views.append(ImageView(leaves["image" if len(leaves) == 2 else "obs"], points=config.points))
    return views


class Pong2p:
    """Two seats, one per team. Each observes the field from its own side, itself on the left.

    The seats differ only in the direction of the first serve, which the seed decides: a match with the seed 2k is the
    mirror image of the match with 2k + 1 and exchanged actions. No single seed gives a symmetric match, so the spec
    does not declare symmetry.

    Args:
        config: Options of the game.
        num_matches: B, at least 1.
    """

    def __init__(self, config: Pong2pConfig, *, num_matches: int) -> None:
        self._config = config
        self.spec = _spec(config)
        self.num_matches = num_matches
        self._all_matches = np.arange(num_matches)
        self._court = Court(config, num_matches)
        self._scores = np.zeros((2, num_matches), np.int64)
        self._ticks = np.zeros(num_matches, np.int64)
        self._running_factor = np.zeros(num_matches)  # 1 while the match is running, for use as a factor
        parts = ("point", "hit") if config.hit else ()
        self._tick = allocate_tick(self.spec, num_matches, reward_parts={"player": parts})
        self._player = self._tick.roles["player"]
        if not config.hit:
            self._player.reward_parts = {"point": self._player.reward}
        self._views = _make_views(config, self._player)

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches; see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario or one of its parameters is unknown or out of range.
        """
        indices = self._all_matches if indices is None else np.asarray(indices, np.int64)
        seeds = np.asarray(seeds, np.uint64)
        start = start_states(scenarios, len(indices), points=self._config.points)
        self._court.prepare(indices, seeds, ball_speed=start.ball_speed, paddles=start.paddles)
        self._court.serve(indices, np.where(start.receivers >= 0, start.receivers, first_receiver(seeds)))
        self._scores[:, indices] = start.scores
        self._ticks[indices] = 0
        self._running_factor[indices] = 1.0
        self._player.acting[indices] = True
        self._tick.clear(indices)
        for array in self._player.statistics.values():
            array[indices] = 0
        for view in self._views:
            view.start(self._court, self._scores, indices)
        return self._tick

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match by one tick; see `ludus.environment.Environment.step`.

        Raises:
            ContractError: An action is unknown; no match has been advanced.
        """
        directions = self._directions(actions["player"])
        for array in (self._player.reward, *self._player.reward_parts.values()):
            array.fill(0)
        self._tick.terminated.fill(False)
        self._tick.truncated.fill(False)
        self._ticks += self._running_factor.astype(np.int64)
        self._player.statistics["moving"] += ((directions != 0) & (self._running_factor > 0)).T
        for _ in range(self._config.frame_skip):
            self._court.advance(directions * self._running_factor, self._running_factor)
            self._score()
        self._truncate()
        for view in self._views:
            view.show(self._court, self._scores)
        return self._tick

    def close(self) -> None:
        """Do nothing; there is nothing to free."""

    def _directions(self, actions: np.ndarray) -> np.ndarray:
        """Return directions of paddles ``[2, B] float64`` for actions ``[B, 2, 1] int64``; undefined in idle matches.

        Raises:
            ContractError: The action of an acting seat is unknown.
        """
        chosen = np.asarray(actions).reshape(self.num_matches, 2)
        wrong = self._player.acting & ((chosen < 0) | (chosen >= len(_DIRECTIONS)))
        if wrong.any():
            match, seat = np.argwhere(wrong)[0]
            raise ContractError(
                f"pong2p: seat {seat} of role 'player' in match {match} chose the action {chosen[match, seat]}; "
                f"expected {terminal.CHOICES}"
            )
        return _DIRECTIONS.take(chosen.T, mode="clip")

    def _score(self) -> None:
        """Score a frame, and serve again or end the match."""
        self._player.statistics["hits"] += self._court.hits.T
        if self._config.hit:
            self._pay("hit", self._court.hits.T * np.float32(self._config.hit))
        seats, indices = self._court.conceded.nonzero()
        if not indices.size:
            return
        points = np.zeros((self.num_matches, 2), np.float32)
        points[indices, seats], points[indices, 1 - seats] = -1.0, 1.0
        self._pay("point", points)
        self._scores[1 - seats, indices] += 1
        won = self._scores[1 - seats, indices] == self._config.points
        self._court.serve(indices[~won], seats[~won])
        self._tick.terminated[indices[won]] = True
        self._finish(indices[won])

    def _pay(self, part: str, amount: np.ndarray) -> None:
        """Add ``amount [B, 2] float32`` to a part of the rewards and to their sum."""
        self._player.reward += amount
        if self._player.reward_parts[part] is not self._player.reward:
            self._player.reward_parts[part] += amount

    def _truncate(self) -> None:
        """Truncate the matches that reached `max_ticks`."""
        indices = ((self._ticks >= self._config.max_ticks) & (self._running_factor > 0)).nonzero()[0]
        if indices.size:
            self._tick.truncated[indices] = True
            self._finish(indices)

    def _finish(self, indices: np.ndarray) -> None:
        """End matches; the seat with more points wins."""
        self._running_factor[indices] = 0.0
        self._player.acting[indices] = False
        self._player.statistics["points"][indices] = self._scores[:, indices].T
        self._player.statistics["moving"][indices] /= self._ticks[indices, None]
        left, right = self._scores[:, indices]
        self._tick.outcome[indices] = 0.5 + 0.5 * np.sign([left - right, right - left]).T

    def render(self, match: int) -> str:
        """Return the field of a match as text with ANSI colours."""
        return terminal.render(self._court, self._scores, match)

    def render_frame(self, match: int) -> Scene:
        """Return the field of a match, see `ludus.rendering.Renderable`."""
        return scene.draw_scene(self._court, self._scores, match)

    def controls(self, role: str, seat: int) -> Controls:  # noqa: ARG002 - there is one role
        """Return the controls of a seat, see `ludus.controls.Controllable`."""
        return terminal.make_controls(self._court, seat)

    def action_name(self, role: str, action: np.ndarray) -> str:  # noqa: ARG002 - there is one role
        """Return the name of the action."""
        return terminal.action_name(int(action[0]))

    def parse_action(self, role: str, text: str) -> np.ndarray:  # noqa: ARG002 - there is one role
        """Parse a typed action into ``[1] int64``.

        Raises:
            ValueError: The text is not an action; the message lists what is.
        """
        return np.array([terminal.parse_action(text)], np.int64)
