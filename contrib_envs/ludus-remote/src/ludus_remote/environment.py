"""The environment ``remote``: matches that games play in processes of their own."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

import numpy as np
from attrs import define
from ludus.activity import STARTING_MATCHES, report_activity
from ludus.environment import Scenario, Tick, allocate_tick, checked_scenarios
from ludus.errors import WorkerError
from ludus.rendering import Scene, is_rendering_enabled

from ludus_remote.config import RemoteConfig
from ludus_remote.connection import Game
from ludus_remote.matches import MatchUpdate, RemoteMatch
from ludus_remote.schema import GameSchema
from ludus_remote.setup import open_gateway
from ludus_remote.tick_writer import TickWriter, check_actions

_POLL_S = 0.2
#: Longest wait for a decision in real-time mode, after which the environment returns a tick without one.
_IDLE_S = 0.5
_SEED_BITS = 53

_log = logging.getLogger(__name__)


@define(eq=False)
class _Place:
    """The match at a match index.

    Args:
        seed: Seed of the match.
        scenario: Its scenario.
        game: Its game; None while none is free.
        match: The match; None before its start.
        answered_s: When the game was last answered.
        frame: Last picture of the match; None: its game has sent none.
    """

    seed: int
    scenario: Scenario
    game: Game | None = None
    match: RemoteMatch | None = None
    answered_s: float = 0.0
    frame: Scene | None = None

    def start(self, game: Game, index: int, *, frames: bool) -> bytes:
        """Start the match in a game and return its message; `frames`: whether the game shall send pictures."""
        self.game, self.answered_s = game, time.monotonic()
        self.match, payload = game.session.start_match(index, self.seed, self.scenario, frames=frames)
        return payload


class RemoteEnvironment:
    """A batch of matches, see `ludus.environment.Environment`.

    In lock-step mode a step answers every game that waits, and takes until all of them have reported the next tick. In
    real-time mode it takes until a seat must decide, and other matches may have nothing to report.

    Args:
        config: Options.
        num_matches: B.

    Raises:
        ConfigError: An option is wrong, or no game has connected in time.
        WorkerError: The game processes ended.
    """

    def __init__(self, config: RemoteConfig, *, num_matches: int) -> None:
        self._config = config
        self.num_matches = num_matches
        self._is_real_time = config.mode == "real-time"
        self._wants_frames = is_rendering_enabled()
        self._gateway, self._programs = open_gateway(config, num_matches)
        try:
            self.schema = self._wait_for_schema()
        except BaseException:
            self.close()
            raise
        note = f"games connect to {config.host}:{self._gateway.port}; mode {config.mode}"
        self.spec = self.schema.spec(notes=(note,), real_time=self._is_real_time)
        self._tick = allocate_tick(
            self.spec,
            num_matches,
            masked_roles=[role.name for role in self.schema.roles if role.mask],
            reward_parts={role.name: role.reward_parts for role in self.schema.roles},
        )
        self._void = self._tick.void = np.zeros(num_matches, bool)
        self._elapsed = self._tick.elapsed_ticks = np.zeros(num_matches, np.int32)
        self._writer = TickWriter(self.schema, self._tick, count_late=self._is_real_time)
        self._places: dict[int, _Place] = {}
        self._num_void = 0

    # -- games ------------------------------------------------------------------------------------------------------

    def _wait_for_schema(self) -> GameSchema:
        """Return the schema of the file, or of the first game.

        Raises:
            WorkerError: The time is up, or the game processes ended too often.
        """
        gateway, until = self._gateway, time.monotonic() + self._config.connect_timeout_s
        with gateway.changed:
            while gateway.schema is None:
                self._watch()
                if time.monotonic() > until:
                    self._fail("no game has connected")
                gateway.changed.wait(_POLL_S)
            return gateway.schema

    def _fail(self, problem: str) -> NoReturn:
        """Raise an error about games that are missing."""
        refused = f"; the last one was refused: {self._gateway.refusal}" if self._gateway.refusal else ""
        raise WorkerError(
            f"environment 'remote': {problem} within {self._config.connect_timeout_s:g} s; games connect to "
            f"{self._config.host}:{self._gateway.port}{refused}; start the game, or raise connect_timeout_s"
        )

    def _watch(self) -> None:
        if self._programs is not None:
            self._programs.watch()

    # -- matches ----------------------------------------------------------------------------------------------------

    def reset(
        self, seeds: np.ndarray, *, indices: np.ndarray | None = None, scenarios: Sequence[Scenario] | None = None
    ) -> Tick:
        """Start new matches, see `ludus.environment.Environment.reset`.

        Raises:
            ContractError: A scenario or one of its parameters is unknown.
            WorkerError: There are not enough games, or they fail again and again.
        """
        chosen = range(self.num_matches) if indices is None else indices.tolist()
        checked = checked_scenarios(scenarios, len(chosen), known=self.schema.scenarios, builtin=self.spec.builtin)
        with self._gateway.changed:
            self._abort(chosen)
        for order, index in enumerate(chosen):
            seed = int(seeds[order]) & ((1 << _SEED_BITS) - 1)
            self._places[index] = _Place(seed, checked[order] if checked else Scenario())
            self._writer.clear(index)
        self._start([*chosen])
        return self._tick

    def _abort(self, indices: Iterable[int]) -> None:
        for index in indices:
            place = self._places.pop(index, None)
            if place is None or place.game is None or place.match is None:
                continue
            if place.match.number in place.game.session.matches:
                payload = place.game.session.void_match(place.match, "the match was reset")
                self._gateway.send([(place.game, payload)])

    def _start(self, indices: list[int]) -> None:
        """Start matches until each has its first observation; those whose game fails before it start again."""
        waiting, until = set(indices), time.monotonic() + self._config.connect_timeout_s
        while waiting:
            self._watch()
            with self._gateway.changed:
                for index in sorted(waiting):
                    self._start_one(self._places[index], index)
                started = {index for index in waiting if self._places[index].match}
                if not started:
                    self._gateway.changed.wait(_POLL_S)
            for index, update in self._take(started, _POLL_S):
                self._apply_first(index, update)
                if update.kind == "observation":
                    waiting.discard(index)
            report_activity(STARTING_MATCHES, len(indices) - len(waiting), len(indices))
            if waiting and time.monotonic() > until:
                self._fail(f"{len(waiting)} of {self.num_matches} matches found no game")
        self._elapsed[indices] = 0

    def _apply_first(self, index: int, update: MatchUpdate) -> None:
        """Write the first update of a match."""
        if update.kind == "observation":
            self._writer.observe(index, update)
            self._places[index].frame = update.frame
        else:  # a match cannot end before its first observation
            self._count_void(update.text)
            self._places[index].match = None

    def _start_one(self, place: _Place, index: int) -> None:
        """Start a match if a game is free."""
        if place.match is None and (game := self._gateway.free_game()) is not None:
            self._gateway.send([(game, place.start(game, index, frames=self._wants_frames))])

    def _take(self, wanted: set[int], timeout_s: float, *, least: int = 0) -> list[tuple[int, MatchUpdate]]:
        """Wait for updates of matches, and return them with their match indices.

        Args:
            wanted: Match indices to wait for.
            timeout_s: Longest time to wait.
            least: Number of updates that are enough; 0: one for each match.
        """
        gateway, until = self._gateway, time.monotonic() + timeout_s
        found: list[tuple[int, MatchUpdate]] = []
        with gateway.changed:
            while True:
                found += self._pop_updates(wanted)
                missing = len(wanted - {index for index, _ in found})
                left_s = until - time.monotonic()
                if not missing or 0 < least <= len(found) or left_s <= 0:
                    return found
                gateway.wanted = len(gateway.updates) + (least or missing)
                self._watch()
                gateway.changed.wait(min(left_s, _POLL_S))

    def _pop_updates(self, wanted: set[int]) -> list[tuple[int, MatchUpdate]]:
        """Return the updates of some matches; keep those of the others, and drop those of matches that are gone."""
        current = {place.match for place in self._places.values() if place.match}
        updates = [(match, update) for match, update in self._gateway.updates if match in current]
        self._gateway.updates[:] = [(match, update) for match, update in updates if match.index not in wanted]
        return [(match.index, update) for match, update in updates if match.index in wanted]

    def step(self, actions: Mapping[str, np.ndarray]) -> Tick:
        """Advance every running match, see `ludus.environment.Environment.step`.

        Raises:
            ContractError: An action is illegal; no match has advanced.
            WorkerError: Games fail again and again.
        """
        check_actions(self.schema, self._tick, actions)
        self._answer(actions)
        self._writer.start_step()
        self._elapsed[:] = 0
        self._void[:] = False
        running = {index for index, place in self._places.items() if place.match is not None}
        timeout_s = _IDLE_S if self._is_real_time else self._config.step_timeout_s
        for index, update in self._take(running, timeout_s, least=int(self._is_real_time)):
            self._apply(index, update)
        self._end_hanging(running)
        return self._tick

    def _answer(self, actions: Mapping[str, np.ndarray]) -> None:
        """Send the actions of all seats that decide."""
        messages, now = [], time.monotonic()
        with self._gateway.changed:
            for index, place in self._places.items():
                match, game = place.match, place.game
                if match is None or game is None or (match.waits and match.is_answered):
                    continue
                chosen: dict[int, dict[int, np.ndarray]] = {match.tick: {}} if match.waits else {}
                for seat, (role, position) in enumerate(self.schema.seats):
                    if self._tick.roles[role.name].acting[index, position]:  # the game may have sent a newer one
                        observed = int(self._writer.observed_ticks[index, seat])
                        chosen.setdefault(observed, {})[seat] = actions[role.name][index, position]
                messages += [(game, game.session.answer(match, tick, found)) for tick, found in chosen.items()]
                place.answered_s = now
            self._gateway.send(messages)

    def _apply(self, index: int, update: MatchUpdate) -> None:
        """Write an update of a running match."""
        place = self._places[index]
        if place.match is None:  # it has ended by an earlier update of this step
            return
        place.answered_s = time.monotonic()
        if update.kind == "void":
            self._end_void(index, update.text)
            return
        self._elapsed[index] += self._writer.observe(index, update)
        place.frame = update.frame or place.frame
        if update.kind == "end":
            self._writer.end(index, update)
            place.match = None
            self._num_void = 0
            if self._programs is not None:
                self._programs.forgive()

    def _end_void(self, index: int, text: str) -> None:
        self._count_void(text)
        self._writer.void(index)
        self._void[index], self._elapsed[index] = True, 0
        self._places[index].match = None

    def _count_void(self, text: str) -> None:
        self._num_void += 1
        _log.warning("a match is void: %s", text)
        if self._num_void > max(self._config.restarts, 1) * self.num_matches:
            raise WorkerError(f"environment 'remote': {self._num_void} matches in a row are void; the last one: {text}")

    def _end_hanging(self, running: set[int]) -> None:
        """End the matches of games that have not reported for too long."""
        limit_s, now = self._config.step_timeout_s, time.monotonic()
        for index in running:
            place = self._places[index]
            if place.match is None or place.game is None or now - place.answered_s <= limit_s:
                continue
            text = f"the game did not report within {limit_s:g} s"
            if self._programs is not None:
                self._programs.kill(place.game.token)
            self._gateway.drop_game(place.game.token, text)
            self._end_void(index, text)

    def render_frame(self, match: int) -> Scene | None:
        """Return the last picture that the game has sent, see `ludus.rendering.Renderable`."""
        return self._places[match].frame if match in self._places else None

    def close(self) -> None:
        """Close the gateway and end the game processes; closing twice is harmless."""
        self._gateway.close()
        if self._programs is not None:
            self._programs.close()
