"""The action server: plays the matches of all games of a gateway by policies."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TextIO, TypeAlias

import numpy as np
from attrs import define, evolve, field
from ludus.agent import Agent, elapse
from ludus.errors import LudusError
from ludus.scenario import Scenario

from ludus_remote.connection import Game
from ludus_remote.gateway import Gateway, GatewayOptions
from ludus_remote.matches import MatchUpdate, RemoteMatch, SeatUpdate
from ludus_remote.payload import ProtocolError
from ludus_remote.schema import GameSchema
from ludus_remote.served_policies import SeatPolicy, ServedPolicies
from ludus_remote.server_metrics import ServerMetrics

_POLL_S = 0.1
_SEED_BITS = 53

_log = logging.getLogger(__name__)

#: Actions by seat, for every match and tick of an observation.
_Answers: TypeAlias = "dict[tuple[_ServedMatch, int], dict[int, np.ndarray]]"


@define(eq=False)
class _ServedMatch:
    """A running match.

    Args:
        game: Its game.
        match: Its state.
        seed: Its seed.
        seats: What plays each seat, from the start of the match to its end.
        decided: Tick of the last decision of each seat; at first 0, the tick of the start.
    """

    game: Game
    match: RemoteMatch
    seed: int
    seats: Sequence[SeatPolicy]
    decided: list[int]

    def seat_id(self, seat: int) -> int:
        """Return the number of a seat among those of all matches."""
        return self.match.index * len(self.seats) + seat


@define(eq=False)
class _Request:
    """A seat that must decide.

    Args:
        served: Its match.
        seat: Its number.
        tick: Tick of the observation.
        update: The observation.
    """

    served: _ServedMatch
    seat: int
    tick: int
    update: SeatUpdate

    @property
    def seat_policy(self) -> SeatPolicy:
        """Return what plays the seat."""
        return self.served.seats[self.seat]


@define(eq=False, kw_only=True)
class ActionServer:
    """Decides for the seats of all matches in batches.

    A batch has the seats that report within `batch_s` after the first one, and every agent is called once for all its
    seats. A match keeps the policies with which it started.

    Args:
        options: Options of the gateway.
        policies: The policies.
        num_matches: Most matches at the same time.
        batch_s: Longest time that an observation waits for others, in seconds.
        results: File to which the result of every match is appended as a line of JSON before the game gets an
            acknowledgement; None: results are only counted.
        schema: Schema that games must have; None: that of the first game.

    Attributes:
        gateway: The gateway.
        metrics: What is counted.
        turn_s: When the server began its last turn, by the monotonic clock.
        drain_until_s: When the running matches become void, by the monotonic clock; None before `drain`.

    Raises:
        ConfigError: The gateway cannot listen, or a policy does not fit the game of `schema`.
    """

    options: GatewayOptions
    policies: ServedPolicies
    num_matches: int
    batch_s: float
    results: TextIO | None = None
    schema: GameSchema | None = None
    gateway: Gateway = field(init=False)
    metrics: ServerMetrics = field(init=False, factory=ServerMetrics)
    turn_s: float = field(init=False, factory=time.monotonic)
    drain_until_s: float | None = field(init=False, default=None)
    _candidate: GameSchema | None = field(init=False, default=None)  # of a first game that has not been accepted yet
    _misfit: tuple[GameSchema, str] | None = field(init=False, default=None)  # the last one that was not, and why
    _running: dict[RemoteMatch, _ServedMatch] = field(init=False, factory=dict)
    _free: list[int] = field(init=False)
    _rng: np.random.Generator = field(init=False, factory=np.random.default_rng)

    def __attrs_post_init__(self) -> None:
        self._free = list(reversed(range(self.num_matches)))  # low ones first, so that agents keep few states
        if self.schema is not None:
            self.policies.bind(self.schema)
        options = evolve(self.options, check_game=self._check_game, on_end=self._keep_result)
        self.gateway = Gateway(options, self.num_matches, self.schema)

    @property
    def num_running(self) -> int:
        """Return the number of running matches."""
        return len(self._running)

    @property
    def is_loading(self) -> bool:
        """Return whether the agents are being made, since a first game has connected."""
        return self._candidate is not None

    # -- calls of the gateway, in its thread --------------------------------------------------------------------------

    def _check_game(self, schema: GameSchema, policies: Sequence[str]) -> None:
        """Refuse a game that no policy can play, and the first one while the agents are made: it tries again."""
        if self._misfit is not None and not self._misfit[0].difference(schema.data):
            raise ProtocolError("schema", f"the models cannot play this game: {self._misfit[1]}")
        if not self.policies.current:
            self._candidate = self._candidate or schema
            raise ProtocolError("full", "the models are being loaded for this game; try again")
        self.policies.lineup(schema, policies)

    def _keep_result(self, match: RemoteMatch, update: MatchUpdate) -> None:
        served = self._running[match]
        for seat, (role, index) in zip(served.seats, match.schema.seats, strict=True):
            points = update.outcome[role.teams[index]]
            self.metrics.count_result(seat.policy, seat.participant, points)
        if self.results is not None:
            self.results.write(f"{json.dumps(_result_json(served, update))}\n")
            self.results.flush()

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until `drain` was called and all matches have ended, or the time for that is over."""
        while not self._is_drained():
            self.take_turn()
        for game in list(self.gateway.games.values()):
            self.gateway.drop_game(game.token, "the server stops", sends_bye=True)

    def refresh(self) -> None:
        """Let newer models play the matches that start from now on; call it in another thread than `run`."""
        try:
            swapped = self.policies.refresh()
        except LudusError as error:
            self.metrics.refresh_failures.inc()
            _log.warning("no newer models were loaded: %s", error)
            return
        for policy in swapped:
            self.metrics.swaps.inc()
            _log.info("%s is played by %s in new matches", policy.name, policy.participant)

    def drain(self, limit_s: float) -> None:
        """Accept no game and start no match from now on; may be called by a signal handler.

        Args:
            limit_s: Seconds after which `run` returns although matches run; these are void.
        """
        self.drain_until_s = time.monotonic() + limit_s

    def _is_drained(self) -> bool:
        if self.drain_until_s is None:
            return False
        with self.gateway.changed:
            return not self.gateway.games or time.monotonic() > self.drain_until_s

    def _bind_candidate(self) -> None:
        """Make the agents for the first game, without the lock of the gateway: that takes seconds."""
        if (schema := self._candidate) is None:
            return
        try:
            self.policies.bind(schema)
            self.gateway.schema = schema
        except LudusError as error:
            self._misfit = (schema, str(error))
        self._candidate = None

    def take_turn(self) -> None:
        """Process what games have reported: answer observations, end matches and start others."""
        self._bind_candidate()
        self.turn_s = time.monotonic()
        updates = self._take_updates()
        with self.gateway.changed:
            requests, answers = self._apply(updates)
        batches: dict[Agent, list[_Request]] = {}
        for request in requests:
            batches.setdefault(request.seat_policy.agent, []).append(request)
        for agent, batch in batches.items():
            for request, action in zip(batch, self._decide(agent, batch), strict=False):
                answers.setdefault((request.served, request.tick), {})[request.seat] = action
        with self.gateway.changed:
            self._send(answers)
            if self.drain_until_s is None:
                self._start_matches()
            else:
                self._dismiss_idle_games()

    def _take_updates(self) -> list[tuple[RemoteMatch, MatchUpdate]]:
        """Wait for an update, then until the batch is complete or its time is over, and return all updates."""
        gateway = self.gateway
        with gateway.changed:
            gateway.wanted = 1
            if not gateway.updates:
                gateway.changed.wait(_POLL_S)
            gateway.wanted = len(self._running)
            if gateway.updates and self.batch_s:
                gateway.changed.wait_for(lambda: len(gateway.updates) >= len(self._running), self.batch_s)
            updates, gateway.updates[:] = list(gateway.updates), []
        return updates

    def _apply(self, updates: Iterable[tuple[RemoteMatch, MatchUpdate]]) -> tuple[list[_Request], _Answers]:
        """End matches; return the seats that must decide, and an empty answer where the game waits for one."""
        requests: dict[tuple[RemoteMatch, int], _Request] = {}  # an older observation of a seat needs no answer
        answers: _Answers = {}
        void: Counter[tuple[str, str]] = Counter()
        for match, update in updates:
            served = self._running.get(match)
            if served is None:  # the server has ended it
                continue
            if update.kind == "observation":
                requests |= {(match, request.seat): request for request in _list_requests(served, update)}
                answers |= {(served, update.tick): {}} if match.waits else {}
            else:
                void[served.game.session.game, update.text] += update.kind == "void"
                self._forget(served, "finished" if update.kind == "end" else "void")
        for (game, text), count in (+void).items():
            _log.warning("void matches of %s: %d: %s", game, count, text)
        return [request for request in requests.values() if request.served.match in self._running], answers

    def _forget(self, served: _ServedMatch, end: str) -> None:
        del self._running[served.match]
        self._free.append(served.match.index)
        self.metrics.matches.labels(end).inc()

    def _decide(self, agent: Agent, batch: Sequence[_Request]) -> Iterable[np.ndarray]:
        """Return the actions of seats of one agent; none if the agent fails, which makes their matches void."""
        try:
            actions = _act(agent, batch, self._rng)
        except Exception:  # noqa: BLE001 - a defect of one policy must not end the matches of others
            _log.exception("%s failed", batch[0].seat_policy.participant)
            self._void({request.served for request in batch}, "a policy of the server failed")
            return ()
        for request in batch:
            request.served.decided[request.seat] = request.tick
        self.metrics.count_batch(batch[0].seat_policy.policy, len(batch))
        return actions

    def _void(self, matches: Iterable[_ServedMatch], reason: str) -> None:
        with self.gateway.changed:
            for served in matches:
                if served.match in self._running:
                    self.gateway.send([(served.game, served.game.session.void_match(served.match, reason))])
                    self._forget(served, "void")

    def _send(self, answers: _Answers) -> None:
        """Send the actions of all matches that have not ended meanwhile."""
        messages, now = [], time.monotonic()
        for (served, tick), actions in answers.items():
            session, match = served.game.session, served.match
            if session.matches.get(match.number) is match:
                messages.append((served.game, session.answer(match, tick, actions)))
                self.metrics.action_s.observe(now - match.observed_s)
        if messages:
            self.gateway.send(messages)

    def _start_matches(self) -> None:
        """Start matches until no game plays fewer than it can."""
        messages = []
        while self._free and (game := self.gateway.free_game()) is not None:
            session = game.session
            seats = self.policies.lineup(session.schema, session.policies)
            builtin = tuple(seat.builtin for seat in seats)
            seed, index = secrets.randbits(_SEED_BITS), self._free.pop()
            match, payload = session.start_match(
                index,
                seed,
                Scenario(builtin=builtin if any(builtin) else ()),
                policies=[seat.participant for seat in seats],
            )
            served = _ServedMatch(game, match, seed, seats, [0] * len(seats))
            self._running[match] = served
            for number, seat in enumerate(seats):
                seat.agent.reset(np.array([served.seat_id(number)]))
            messages.append((game, payload))
        if messages:
            self.gateway.send(messages)

    def _dismiss_idle_games(self) -> None:
        """Accept no more games, and send those a bye that play no match."""
        self.gateway.num_matches = 0
        for game in self.gateway.games.values():
            if not game.session.matches:
                self.gateway.drop_game(game.token, "the server drains", sends_bye=True)


def _list_requests(served: _ServedMatch, update: MatchUpdate) -> list[_Request]:
    """Return the seats that must decide on an observation."""
    return [_Request(served, seat, update.tick, seat_update) for seat, seat_update in update.seats if seat_update.acts]


def _act(agent: Agent, batch: Sequence[_Request], rng: np.random.Generator) -> np.ndarray:
    """Return the actions ``[n, L + D]`` of seats of one agent."""
    updates = [request.update for request in batch]
    seat_ids = np.array([request.served.seat_id(request.seat) for request in batch], np.int64)
    ticks = np.array([request.tick - request.served.decided[request.seat] for request in batch], np.int64)
    masks = [update.mask for update in updates if update.mask is not None]  # a role has masks or none
    leaves = {name: np.stack([update.leaves[name] for update in updates]) for name in updates[0].leaves}
    elapse(agent, ticks, seat_ids)
    return agent.act(leaves, action_mask=np.stack(masks) if masks else None, seat_ids=seat_ids, rng=rng)


def _result_json(served: _ServedMatch, update: MatchUpdate) -> dict[str, Any]:
    """Return the line of a match in the file of results."""
    return {
        "time_s": round(time.time(), 3),
        "game": served.game.session.game,
        "seed": served.seed,
        "policies": [seat.policy for seat in served.seats],
        "participants": [seat.participant for seat in served.seats],
        "outcome": list(update.outcome),
        "ending": update.ending,
        "tick": update.tick,
        "statistics": list(update.statistics),
    }
