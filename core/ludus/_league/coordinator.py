"""The coordinator: hands out fixtures, commits results and models, answers for the league.

Nothing leaves the coordinator before what it rests on is on the disk: `handle` queues answers, `pump` commits once and
then sends them all. A worker that gets no answer repeats itself, and everything it may repeat is idempotent.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from attrs import define, evolve, field

from ludus._config.run_config import RunConfig
from ludus._league.league import League
from ludus._league.player_shares import PlayingTime
from ludus._league.validation import (
    answering,
    checked_changes,
    checked_evaluation,
    checked_pairing,
    checked_pool_changes,
)
from ludus._messaging.messages import (
    Checkpoint,
    CheckpointAck,
    Failure,
    FixtureRequest,
    Fixtures,
    FreezeRequest,
    Heartbeat,
    Hello,
    MetricsReport,
    ModelAck,
    ModelFrozen,
    Results,
    ResultsAck,
    Stop,
    Welcome,
)
from ludus._plugins.manager import Plugins
from ludus._seeding import generator, seed_for
from ludus._store.match_log import FixtureSummary
from ludus._store.model_files import load_manifest
from ludus._store.records import reading
from ludus.environment import EnvironmentSpec
from ludus.errors import LudusError, WireError
from ludus.launcher import Link, learner_name
from ludus.matchmaker import Matchmaker, Pairing
from ludus.records import Fixture
from ludus.rule import Change, PoolChange, Reset, Rule, Share

_log = logging.getLogger(__name__)
_MOST_ASKED = 64  # fixtures that one request is answered with
_FIXTURES_AT_ONCE = 8  # in a message, whose header is bounded; with many seats and scenarios they are large
_SAME_PAIR = 2  # evaluation fixtures of one pair that may be out at once


@define
class Coordinator:
    """The single writer of a league.

    Args:
        config: The run's configuration.
        spec: The environment's.
        league: Opened for writing.
        matchmakers: One per player.
        evaluation: Chooses rating matches; None where there are none.
        rules: Of the league, by name, in the order in which they are asked.
        emitter: Tells plugins about events.
        link: Where messages go.
        clock: Seconds.
    """

    config: RunConfig
    spec: EnvironmentSpec
    league: League
    matchmakers: Mapping[str, Matchmaker]
    evaluation: Matchmaker | None
    rules: Mapping[str, Rule]
    emitter: Plugins
    link: Link
    clock: Callable[[], float]
    failure: str = field(init=False, default="")
    values: dict[str, dict[str, float]] = field(init=False, factory=dict)  # worker → its last metrics
    matches: int = field(init=False, default=0)  # training matches
    rated: int = field(init=False, default=0)  # rating matches
    trained: dict[str, int] = field(init=False, factory=dict)  # the same by player, since this start
    ticks: dict[str, int] = field(init=False, factory=dict)  # and how long they were
    errors: dict[str, str] = field(init=False, factory=dict)  # worker → why it ended
    last_seen_s: dict[str, float] = field(init=False, factory=dict)
    _learners: dict[str, str] = field(init=False)  # worker → player
    _answers: deque[tuple[str, Any]] = field(init=False, factory=deque)
    _events: deque[tuple[str, dict[str, object]]] = field(init=False, factory=deque)
    _rng: np.random.Generator = field(init=False)
    _time: PlayingTime = field(init=False)
    _turn: dict[str, int] = field(init=False)  # rotates the team a player of a symmetric role takes
    _evaluating: dict[int, tuple[str, Fixture]] = field(init=False, factory=dict)
    _again: deque[Fixture] = field(init=False, factory=deque)
    _orders: dict[str, FreezeRequest] = field(init=False, factory=dict)  # those that learners have not followed yet
    _asked: int = field(init=False)  # `matches` when the rules were asked last
    _ticked_s: float = field(init=False)
    _dirty: bool = field(init=False, default=False)
    _stopping: bool = field(init=False, default=False)
    _refused: int = field(init=False, default=0)  # reports of results

    def __attrs_post_init__(self) -> None:
        store = self.league.store
        self._learners = {learner_name(player): player for player in self.config.players}
        self._rng = generator(self.config.run.seed, "matchmaking")
        saved = store.meta("matchmaking", {})
        with reading():
            self._rng.bit_generator.state = saved.get("rng", self._rng.bit_generator.state)
            shares, dealt, configured, length = (
                {name: float(value) for name, value in saved.get(key, {}).items()}
                for key in ("shares", "dealt", "configured", "length")
            )
            self._turn = {name: int(saved.get("turn", {}).get(name, 0)) for name in self.config.players}
            self._asked = int(saved.get("asked", 0))
            rules = set(saved.get("rules", ()))
        self._time = PlayingTime(dealt={name: dealt.get(name, 0.0) for name in self.config.players}, length=length)
        # what rules have made of a share holds until one of them is gone or another share is configured
        ruled = rules <= {rule.name for rule in self.config.league.rules}
        for name, player in self.config.players.items():
            kept = ruled and configured.get(name, player.share) == player.share
            self._share(name, shares.get(name, player.share) if kept else player.share)
        self.matches, self.rated = (int(store.counters().get(name, 0)) for name in ("matches", "rated"))
        self._ticked_s = self.clock()
        for unfinished in self.league.open_fixtures():
            if unfinished.kind == "eval":
                self._again.append(unfinished)
            else:
                store.close_fixture(unfinished.id)
                self._dirty = True
        admitted = {record.change.model for record in store.pool_log()}
        for participant, model in self.league.models.items():
            if participant not in admitted:  # committed just before a crash, it has missed its pools
                self._admit(model.player, participant)

    def miss(self, alive: Collection[str]) -> None:
        """Count what learners have saved, where they are not alive: the rest is lost, and will be learned again.

        Args:
            alive: Workers that run.
        """
        if gone := [player for learner, player in self._learners.items() if learner not in alive]:
            self.league.forget_unsaved(gone)

    # -- messages ----------------------------------------------------------------------------------------------

    def handle(self, peer: str, message: Any) -> None:
        """Take one message; answers leave with the next `pump`."""
        self.last_seen_s[peer] = self.clock()
        match message:
            case Hello():
                self._greet(peer)
            case FixtureRequest():
                self._deal(peer, message)
            case Results():
                self._record(peer, message)
            case ModelFrozen():
                self._freeze(peer, message)
            case Checkpoint():
                self._checkpoint(peer, message)
            case MetricsReport():
                self._report(peer, message)
            case Heartbeat():
                self._progress(peer, message)
            case Failure():
                self.errors[peer] = message.error
                if message.fatal:
                    self.failure = self.failure or message.error

    def pump(self) -> None:
        """Commit what has been taken in, then send the answers and tell the plugins."""
        now = self.clock()
        self.league.elapsed_s += now - self._ticked_s
        self._ticked_s = now
        if self._dirty:
            self.commit()
        while self._answers:
            self.link.send(*self._answers.popleft())
        while self._events:
            event, arguments = self._events.popleft()
            self.emitter.emit(event, **arguments)

    def commit(self) -> None:
        """Commit what has been taken in, with what a resumed coordinator goes on from."""
        store = self.league.store
        store.set_meta("matchmaking", self._state)
        store.set_counter("elapsed_s", self.league.elapsed_s)
        store.set_counter("matches", self.matches)
        store.set_counter("rated", self.rated)
        store.commit()
        self._dirty = False

    @property
    def _state(self) -> dict[str, Any]:
        """Return what a resumed coordinator goes on from."""
        return {
            "rng": self._rng.bit_generator.state,
            "dealt": self._time.dealt,
            "length": self._time.length,
            "turn": self._turn,
            "asked": self._asked,
            "shares": {name: view.share for name, view in self.league.players.items()},
            "configured": {name: player.share for name, player in self.config.players.items()},
            "rules": [rule.name for rule in self.config.league.rules],
        }

    def _report(self, peer: str, message: MetricsReport) -> None:
        if message.values:
            self.values[peer] = dict(message.values)
        else:  # it is gone
            self.values.pop(peer, None)
            self._take_back(peer)

    def _answer(self, peer: str, message: Any) -> None:
        self._answers.append((peer, message))
        self._dirty = True

    def _emit(self, event: str, **arguments: object) -> None:
        self._events.append((event, arguments))

    def _greet(self, peer: str) -> None:
        """Welcome a worker, which may be a restarted one."""
        if self._stopping:  # it was not there yet when the others were told
            self.stop([peer])
        self._take_back(peer)
        answer = Welcome(elapsed_s=self.league.elapsed_s)
        if player := self._learners.get(peer):
            self.league.forget_unsaved([player])  # it goes on from its checkpoint
            view = self.league.players[player]
            others = self.decisions - view.decisions
            answer = evolve(answer, models=len(view.models), others=others, generation=view.generation)
            if view.generation:
                before = self.league.models[f"{player}@{view.generation_starts[-1]}"]
                answer = evolve(answer, init=before.manifest["init"], version=before.version)
            if saved := self.league.store.checkpoints().get(player):
                answer = evolve(answer, checkpoint=saved.path, checkpoint_hash=saved.hash)
        self._answer(peer, answer)
        self._remind(peer)

    def _take_back(self, peer: str) -> None:
        """Hand the unfinished evaluations of a worker that was restarted or is gone to the next that asks."""
        for number, (worker, fixture) in list(self._evaluating.items()):
            if worker == peer:
                del self._evaluating[number]
                self._again.append(fixture)

    def _record(self, peer: str, message: Results) -> None:
        try:
            recorded = self.league.record(message.arrays)
        except WireError as error:  # not an environment's mistake: its own sampler ends with that
            self._refuse(peer, message, str(error))
            return
        self._dirty = True
        for summary in recorded.fixtures:
            fixture = summary.fixture
            if fixture.kind == "train":
                self.matches += summary.matches
                self._trained(fixture.player, summary)
            else:
                self.rated += summary.matches
            if summary.finished:  # by whoever was taken for gone, perhaps, while it waits for another
                self._evaluating.pop(fixture.id, None)
                self._again = deque(one for one in self._again if one.id != fixture.id)
            self._emit(
                "ludus_match_ended",
                fixture=str(fixture.id),
                participants=fixture.participants,
                outcome=summary.outcome,
                matches=summary.matches,
            )
        self._answer(peer, ResultsAck(report=message.report))
        if self.matches - self._asked >= self.config.league.every_matches and not self._stopping:
            self._ask_rules()

    def _refuse(self, peer: str, message: Results, problem: str) -> None:
        """Count results that mean nothing; matches that nobody reports stay open, as those of who has left."""
        self.league.store.add_counter("reports_refused", 1)
        self._refused += 1
        if self._refused.bit_count() == 1:  # 1, 2, 4, 8 …
            _log.warning("refused report %d, of %s: %s", self._refused, peer, problem)
        self._answer(peer, ResultsAck(report=message.report))

    def _trained(self, player: str, summary: FixtureSummary) -> None:
        """Count training matches of a player."""
        self.trained[player] = self.trained.get(player, 0) + summary.matches
        self.ticks[player] = self.ticks.get(player, 0) + summary.ticks
        self._time.measure(player, matches=summary.matches, ticks=summary.ticks)

    def _freeze(self, peer: str, message: ModelFrozen) -> None:
        models = self.league.players[message.player].models
        known = [self.league.models[model] for model in models]
        # weights that have not moved since are a model of their own: the learner has counted it
        told = {(model.hash, model.manifest.get("generation", 0), model.decisions) for model in known}
        new = (message.hash, message.generation, message.decisions) not in told
        if new:
            manifest = load_manifest(self.league.store.run_dir / "models", message.hash)
            manifest["parent"] = self.league.models[models[-1]].hash if models else None
            manifest |= {name: getattr(message, name) for name in ("generation", "init", "reason")}
            manifest["elapsed_s"] = self.league.elapsed_s
            # numbered here: a learner and its successor may both have meant the same number
            said = {name: getattr(message, name) for name in ("hash", "decisions", "version")}
            participant = self.league.freeze(message.player, manifest=manifest, **said)
            self._emit("ludus_model_frozen", player=message.player, model=participant, manifest=manifest)
        view, due = self.league.players[message.player], self._orders.get(message.player)
        if due is not None and len(view.models) >= due.model and view.generation >= due.generation:
            del self._orders[message.player]
        self._answer(peer, ModelAck(number=message.number, models=len(view.models)))
        if new:  # last, as plugin code may fail: the model is there all the same
            self._admit(message.player, view.models[-1])

    def _admit(self, player: str, participant: str) -> None:
        if player in self.matchmakers:
            with answering(f"matchmaker of player {player!r}"):
                changes = self.matchmakers[player].on_model_frozen(self.league, player, participant)
                changes = checked_pool_changes(changes, self.league)
            self.league.apply(changes)
            self._dirty = True

    def _checkpoint(self, peer: str, message: Checkpoint) -> None:
        self.league.store.put_checkpoint(message)
        self._answer(peer, CheckpointAck(path=message.path))

    def _progress(self, peer: str, message: Heartbeat) -> None:
        if player := self._learners.get(peer):
            known = self.league.players[player]
            # what a killed one had learned since its checkpoint is lost: counted, it could seem due again and again
            count = max(message.count, known.frozen_decisions)
            if message.count and count != known.decisions:  # 0: it does not know yet where to go on
                self.league.set_decisions(player, count)
                self._dirty = True
            others = self.decisions - self.league.players[player].decisions
            self._answers.append((peer, Heartbeat(count=others)))
        self._remind(peer)

    # -- fixtures ----------------------------------------------------------------------------------------------

    def _deal(self, peer: str, message: FixtureRequest) -> None:
        make = self._training if message.kind == "train" else self._rating
        fixtures = [fixture for _ in range(min(message.count, _MOST_ASKED)) for fixture in make(peer)]
        for first in range(0, max(len(fixtures), 1), _FIXTURES_AT_ONCE):
            part = tuple(fixtures[first : first + _FIXTURES_AT_ONCE])
            self._answers.append((peer, Fixtures(fixtures=part)))
        self._dirty |= bool(fixtures)  # that there is no work rests on nothing

    def _training(self, peer: str) -> list[Fixture]:  # noqa: ARG002 - same signature as _rating
        shares = {name: view.share for name, view in self.league.players.items() if view.share}
        if not shares:
            raise LudusError("every player's share of the ticks is 0; expected one that trains")
        matches = self.config.sampling.matches_per_fixture
        player = self._time.deal(shares, matches=matches)
        pairing = self._pairing(player, self._rng)
        fixture = Fixture(
            id=0,
            kind="train",
            player=player,
            participants=self._arrange(player, pairing),
            seed=self._seed("train"),
            matches=matches,
            scenario=pairing.scenario,
            reason=pairing.reason,
        )
        return [self.league.create_fixture(fixture)]

    def _pairing(self, player: str, rng: np.random.Generator) -> Pairing:
        with answering(f"matchmaker of player {player!r}"):
            pairing = self.matchmakers[player].next_fixture(self.league, player, rng)
            return checked_pairing(pairing, self.league, self.spec)

    def _seed(self, kind: str) -> int:
        return seed_for(self.config.run.seed, kind, int(self._rng.integers(2**62)))

    def _arrange(self, player: str, pairing: Pairing) -> tuple[str, ...]:
        """Give each seat its participant; a player that may take any team changes it from fixture to fixture."""
        view = self.league.players[player]
        teams = sorted({seat.team for seat in self.spec.seats if seat.role == view.role})
        team = view.team
        if team is None:
            team = teams[self._turn[player] % len(teams)]
            self._turn[player] += 1
        others = [t for t in range(self.spec.num_teams) if t != team]
        sides = dict(zip(others, pairing.opponents, strict=True)) | {team: view.live}
        return tuple(sides[seat.team] for seat in self.spec.seats)

    def _rating(self, peer: str) -> list[Fixture]:
        """Return an evaluation: every assignment of the pair to the teams, with the same seeds."""
        if self._again:
            fixture = self._again.popleft()
            self._evaluating[fixture.id] = (peer, fixture)
            return [fixture]
        if not self._affords_rating:
            return []
        pair = self._evaluation_pair(self._rng)
        if pair is None:
            return []
        out = sum(sorted(set(fixture.participants)) == sorted(set(pair)) for _, fixture in self._evaluating.values())
        if out >= _SAME_PAIR * len(pair):
            return []
        fixtures = self.rating_fixtures(pair, self.config.evaluation.fixture_matches, reason="rating")
        self._evaluating |= {fixture.id: (peer, fixture) for fixture in fixtures}
        return fixtures

    def _evaluation_pair(self, rng: np.random.Generator) -> tuple[str, ...] | None:
        with answering("matchmaker of the evaluation"):
            pair = None if self.evaluation is None else self.evaluation.next_evaluation(self.league, rng)
            return checked_evaluation(pair, self.league)

    @property
    def _affords_rating(self) -> bool:
        """Return whether rating matches, those that are out included, are no more than the budget allows."""
        share = self.config.evaluation.share
        out = sum(fixture.matches for _, fixture in self._evaluating.values())
        return not share or self.rated + out < share * self.matches

    def rating_fixtures(self, pair: tuple[str, ...], matches: int, *, reason: str) -> list[Fixture]:
        """Create fixtures of a group of participants with the same seeds and rotated seats.

        Args:
            pair: One participant per team.
            matches: Of each fixture.
            reason: Stored with every match.
        """
        fixtures: list[Fixture] = []
        base = Fixture(
            id=0, kind="eval", player="", participants=(), seed=self._seed("eval"), matches=matches, reason=reason
        )
        for shift in range(len(pair) if self.rotates else 1):
            sides = pair[shift:] + pair[:shift]
            seated = tuple(sides[seat.team] for seat in self.spec.seats)
            paired = str(fixtures[0].id) if fixtures else ""
            fixtures.append(self.league.create_fixture(evolve(base, participants=seated, paired=paired)))
        self._dirty = True
        return fixtures

    @property
    def rotates(self) -> bool:
        """Return whether any participant can take any team: there is one role."""
        return len(self.spec.roles) == 1

    # -- rules -------------------------------------------------------------------------------------------------

    def _ask_rules(self) -> None:
        self._asked = self.matches
        for rule in self.rules:
            for change in self._changes(rule, self._rng):
                self._change(change)
        self._dirty = True

    def _changes(self, rule: str, rng: np.random.Generator) -> list[Change]:
        with answering(f"rule {rule!r}"):
            return checked_changes(self.rules[rule].decide(self.league, rng), self.league)

    def _change(self, change: Change) -> None:
        if isinstance(change, PoolChange):
            self.league.apply([change])
            return
        player, view = change.player, self.league.players[change.player]
        if isinstance(change, Share):
            self._share(player, change.share)
        elif player not in self._orders:
            generation, init = view.generation, ""
            if isinstance(change, Reset):
                generation, init = generation + 1, self.league.models[change.init].hash if change.init else ""
            self._orders[player] = FreezeRequest(
                player=player, model=len(view.models) + 1, generation=generation, init=init, reason=change.reason
            )
            self._remind(learner_name(player))

    def _share(self, player: str, share: float) -> None:
        """Change a player's share; one that has waited is not owed what it missed."""
        if share and not self.league.players[player].share:
            self._time.rejoin(player, [name for name, view in self.league.players.items() if view.share])
        self.league.set_share(player, share)

    def _remind(self, learner: str) -> None:
        """Send a learner the order that it has not followed yet; told twice, it follows once."""
        if order := self._orders.get(self._learners.get(learner, "")):
            self._answers.append((learner, order))

    # -- the run -----------------------------------------------------------------------------------------------

    def dry_run(self) -> None:
        """Ask every rule and matchmaker once and forget the answers, so that mistakes show now and not in the night.

        Raises:
            LudusError: One of them cannot answer, or not so.
        """
        rng = np.random.default_rng(0)
        for rule in self.rules:
            self._changes(rule, rng)
        for player, view in self.league.players.items():
            if view.share:
                self._pairing(player, rng)
        self._evaluation_pair(rng)

    @property
    def decisions(self) -> int:
        """Return the decisions all players have learned from."""
        return sum(view.decisions for view in self.league.players.values())

    @property
    def finished(self) -> str:
        """Return why the run should stop now; empty while it should go on."""
        run = self.config.run
        if self.failure:
            return self.failure
        if run.minutes and self.league.elapsed_s >= run.minutes * 60:
            return f"{run.minutes:g} minutes are over"
        if run.decisions and self.decisions >= run.decisions:
            return f"{run.decisions:,} decisions are learned"
        return ""

    def stop(self, workers: list[str]) -> None:
        """Tell workers to finish, now or when they say hello."""
        self._stopping = True
        for worker in workers:
            self._answers.append((worker, Stop(reason=self.finished)))
