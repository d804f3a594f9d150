"""Creating fixtures: which player trains next, and which participants play training and rating matches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import numpy as np
from attrs import define, evolve, field

from ludus._league.league import League
from ludus._league.validation import checked_evaluation, checked_pairing, wrap_answer_errors
from ludus._seeding import seed_for
from ludus.environment import EnvironmentSpec
from ludus.errors import LudusError
from ludus.matchmaker import Matchmaker, Pairing
from ludus.records import Fixture

_MAX_OPEN_PER_TEAM = 2  # rating fixtures of one pair that may be assigned at the same time, times its participants
_AVERAGED_MATCHES = 256  # this many new matches weigh as much as all before in the mean length of a player's matches


@define
class ShareScheduler:
    """Chooses the player that trains next, so that players train for ticks in proportion to their shares.

    Shares are of ticks and not of matches: else players with long matches would fill all rows of the batches.

    Attributes:
        assigned: By player: ticks of its fixtures, each divided by its share at that time.
        match_ticks: By player: running mean of the ticks of a training match; a player without one gets the mean of the
            other players.
    """

    assigned: dict[str, float]
    match_ticks: dict[str, float] = field(factory=dict)

    def next_player(self, shares: Mapping[str, float], *, matches: int) -> str:
        """Return the player that is furthest behind its share, and add the ticks of its next matches.

        Args:
            shares: By player, at least one, all above 0.
            matches: Number of matches that it will play.
        """
        known = [self.match_ticks[name] for name in shares if name in self.match_ticks] or [1.0]
        mean = sum(known) / len(known)
        cost = {name: self.match_ticks.get(name, mean) / share for name, share in shares.items()}
        player = min(shares, key=lambda name: self.assigned[name] + cost[name])
        self.assigned[player] += matches * cost[player]
        return player

    def charge(self, player: str, share: float, *, matches: int) -> None:
        """Add the ticks of matches that a player plays out of turn."""
        if share:
            self.assigned[player] += matches * self.match_ticks.get(player, 1.0) / share

    def record_matches(self, player: str, *, matches: int, ticks: int) -> None:
        """Update the mean length of a player's matches.

        Args:
            player: The player.
            matches: Number of finished matches.
            ticks: Their ticks in total.
        """
        mean = ticks / matches
        before = self.match_ticks.setdefault(player, mean)
        self.match_ticks[player] = before + (mean - before) * matches / (matches + _AVERAGED_MATCHES)

    def rejoin(self, player: str, others: Iterable[str]) -> None:
        """Add a player that had no share, without catching up on the ticks that it missed.

        Args:
            player: The player.
            others: Players that have a share.
        """
        behind = self.assigned[player]
        self.assigned[player] = max(behind, min((self.assigned[name] for name in others), default=behind))


@define(kw_only=True)
class TrainingFixtures:
    """Creates training fixtures.

    Args:
        league: The league.
        spec: The environment's description.
        matchmakers: Matchmaker by player.
        scheduler: Chooses the player that trains next.
        seat_turns: Fixtures so far by player that may take any team; its team rotates with them.
        rng: The coordinator's random generator.
        run_seed: Seed of the run.
        num_matches: Matches per fixture.
    """

    league: League
    spec: EnvironmentSpec
    matchmakers: Mapping[str, Matchmaker]
    scheduler: ShareScheduler
    seat_turns: dict[str, int]
    rng: np.random.Generator
    run_seed: int
    num_matches: int

    def create(self) -> Fixture:
        """Create a fixture of the player that trains next.

        Raises:
            LudusError: Every player's share is 0, or the matchmaker's answer is invalid.
        """
        shares = {name: view.share for name, view in self.league.players.items() if view.share}
        if not shares:
            raise LudusError("every player's share of the ticks is 0; expected one that trains")
        player = self.scheduler.next_player(shares, matches=self.num_matches)
        pairing = self.pairing(player, self.rng)
        fixture = Fixture(
            id=0,
            kind="train",
            player=player,
            participants=self._participants(player, pairing),
            seed=_draw_seed(self.run_seed, "train", self.rng),
            matches=self.num_matches,
            scenario=pairing.scenario,
            reason=pairing.reason,
        )
        return self.league.create_fixture(fixture)

    def repeat(self, fixture: Fixture) -> Fixture | None:
        """Create a fixture with the participants and seeds of another one; None if one of them cannot play any more."""
        if not all(map(self.league.roster.is_playable, fixture.participants)):
            return None
        self.scheduler.charge(fixture.player, self.league.players[fixture.player].share, matches=fixture.matches)
        return self.league.create_fixture(evolve(fixture, id=0, reason="paired", paired=str(fixture.id)))

    def pairing(self, player: str, rng: np.random.Generator) -> Pairing:
        """Return the opponents that a player's matchmaker chooses.

        Raises:
            LudusError: The matchmaker failed, or its answer is invalid.
        """
        with wrap_answer_errors(f"matchmaker of player {player!r}"):
            pairing = self.matchmakers[player].next_fixture(self.league, player, rng)
            return checked_pairing(pairing, self.league, self.spec)

    def set_share(self, player: str, share: float) -> None:
        """Set a player's share; a player that had none does not catch up on the ticks that it missed."""
        if share and not self.league.players[player].share:
            self.scheduler.rejoin(player, [name for name, view in self.league.players.items() if view.share])
        self.league.roster.update(player, share=share)

    def _participants(self, player: str, pairing: Pairing) -> tuple[str, ...]:
        """Return the participant of every seat; a player that may take any team changes it with every fixture."""
        view = self.league.players[player]
        teams = sorted({seat.team for seat in self.spec.seats if seat.role == view.role})
        team = view.team
        if team is None:
            team = teams[self.seat_turns[player] % len(teams)]
            self.seat_turns[player] += 1
        other_teams = [other for other in range(self.spec.num_teams) if other != team]
        by_team = dict(zip(other_teams, pairing.opponents, strict=True)) | {team: view.live}
        return tuple(by_team[seat.team] for seat in self.spec.seats)


@define(kw_only=True)
class EvaluationFixtures:
    """Creates rating fixtures and tracks those that are not finished.

    Args:
        league: The league.
        spec: The environment's description.
        matchmaker: Chooses rating matches; None: there are none.
        rng: The coordinator's random generator.
        run_seed: Seed of the run.
        num_matches: Matches per fixture.
        budget: Rating matches per training match at most; 0: no limit.
    """

    league: League
    spec: EnvironmentSpec
    matchmaker: Matchmaker | None
    rng: np.random.Generator
    run_seed: int
    num_matches: int
    budget: float
    _assigned: dict[int, tuple[str, Fixture]] = field(init=False, factory=dict)  # by id: worker, fixture
    _unassigned: deque[Fixture] = field(init=False, factory=deque)

    def assign(self, worker: str, *, training_matches: int, rating_matches: int) -> list[Fixture]:
        """Return the next rating fixtures for a worker; empty where nothing is to be rated now.

        These are an unfinished fixture, or new ones of one pair: one per rotation of its participants over the teams.

        Args:
            worker: The worker that plays them.
            training_matches: Training matches of the run so far.
            rating_matches: Rating matches of the run so far.

        Raises:
            LudusError: The matchmaker failed, or its answer is invalid.
        """
        if self._unassigned:
            fixtures = [self._unassigned.popleft()]
        else:
            fixtures = self._create_next(training_matches, rating_matches)
        self._assigned |= {fixture.id: (worker, fixture) for fixture in fixtures}
        return fixtures

    def _create_next(self, training_matches: int, rating_matches: int) -> list[Fixture]:
        pending = sum(fixture.matches for _, fixture in self._assigned.values())
        if self.budget and rating_matches + pending >= self.budget * training_matches:
            return []
        pair = self.pair(self.rng)
        if pair is None:
            return []
        num_assigned = sum(set(fixture.participants) == set(pair) for _, fixture in self._assigned.values())
        return (
            []
            if num_assigned >= _MAX_OPEN_PER_TEAM * len(pair)
            else self.create(pair, self.num_matches, reason="rating")
        )

    def pair(self, rng: np.random.Generator) -> tuple[str, ...] | None:
        """Return the participants that the matchmaker wants rated, one per team; None where there are none.

        Raises:
            LudusError: The matchmaker failed, or its answer is invalid.
        """
        with wrap_answer_errors("matchmaker of the evaluation"):
            pair = None if self.matchmaker is None else self.matchmaker.next_evaluation(self.league, rng)
            return checked_evaluation(pair, self.league)

    def create(self, pair: tuple[str, ...], num_matches: int, *, reason: str) -> list[Fixture]:
        """Create fixtures with the same seed, one per rotation of the participants over the teams.

        Args:
            pair: One participant per team.
            num_matches: Matches per fixture.
            reason: Stored with every match.
        """
        fixtures: list[Fixture] = []
        seed = _draw_seed(self.run_seed, "eval", self.rng)
        for shift in range(len(pair) if self.rotates_teams else 1):
            by_team = pair[shift:] + pair[:shift]
            fixture = Fixture(
                id=0,
                kind="eval",
                player="",
                participants=tuple(by_team[seat.team] for seat in self.spec.seats),
                seed=seed,
                matches=num_matches,
                reason=reason,
                paired=str(fixtures[0].id) if fixtures else "",
            )
            fixtures.append(self.league.create_fixture(fixture))
        return fixtures

    @property
    def rotates_teams(self) -> bool:
        """Return whether any participant can take any team: the environment has one role."""
        return len(self.spec.roles) == 1

    def add_unfinished(self, fixture: Fixture) -> None:
        """Add a fixture of an earlier session that is to be assigned again."""
        self._unassigned.append(fixture)

    def reassign(self, worker: str) -> None:
        """Make the unfinished fixtures of a worker available to other workers."""
        for number, (assignee, fixture) in list(self._assigned.items()):
            if assignee == worker:
                del self._assigned[number]
                self._unassigned.append(fixture)

    def withdraw(self, participant: str) -> None:
        """Close the unfinished fixtures of a participant that cannot play any more."""
        assigned = [fixture for _, fixture in self._assigned.values()]
        for fixture in (*assigned, *self._unassigned):
            if participant in fixture.participants:
                self.league.store.fixtures.close(fixture.id)
                self.finish(fixture.id)

    def finish(self, fixture_id: int) -> None:
        """Remove a finished fixture, also one that was taken from the worker that has finished it."""
        self._assigned.pop(fixture_id, None)
        self._unassigned = deque(fixture for fixture in self._unassigned if fixture.id != fixture_id)


def _draw_seed(run_seed: int, kind: str, rng: np.random.Generator) -> int:
    return seed_for(run_seed, kind, int(rng.integers(2**62)))
