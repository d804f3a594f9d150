"""Synthetic leagues: strategies replace networks and matches, to test matchmakers and rules in seconds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import attrs
import numpy as np
from attrs import define, field, frozen

from ludus._league.fixtures import ShareScheduler
from ludus._league.participants import inherited_weights, live_player, parse
from ludus._league.payoffs import Payoffs
from ludus.matchmaker import Matchmaker, PlayerView, PoolChange, Rating, RatingTable, Statistic
from ludus.rule import Change, Freeze, Reset, Rule, Share


@frozen(kw_only=True)
class SyntheticPlayer:
    """A player of a synthetic league.

    Args:
        matchmaker: Matchmaker that chooses its opponents.
        team: Team of its role; None if it can play in any team.
        share: Share of the training ticks.
        rate: Factor of the step of training.
        start: Strategy at the start and after resets; None: that of the world.
        freeze_every: Steps of training between two models; 0: only rules freeze models.
    """

    matchmaker: Matchmaker
    team: int | None = None
    share: float = 1.0
    rate: float = 1.0
    start: np.ndarray | None = None
    freeze_every: int = 10


@define(kw_only=True, eq=False)
class SyntheticLeague:
    """A `LeagueView` whose players play and learn by formulas.

    A step draws `fixtures` opponents for one player, plays `matches` matches against each, and trains the player
    against all of them. It counts as `fixtures` · `matches` decisions and as one second.

    Args:
        world: World that defines strategies and win rates.
        players: Players by name.
        rules: Rules of the league.
        evaluation: Matchmaker of rating matches; None: no rating matches.
        ratings: Rating table; None: no ratings.
        rated_pairs: Pairs that play rating matches after every step.
        anchors: Constant strategies by name.
        seed: Seed of everything random.
        fixtures: Opponents of a step.
        matches: Matches against each opponent, and of a rated pair.
        rules_every: Steps between two calls of the rules.

    Attributes:
        strategies: Strategy by participant.
        elapsed_s: Number of steps.
        fixture_counts: Number of fixtures by player and opponent.
        num_matches: Number of training matches.
        reasons: Models that rules have frozen, with the reasons, in order.
    """

    world: World
    players: Mapping[str, PlayerView] = field(init=False, factory=dict)
    setup: Mapping[str, SyntheticPlayer] = field(alias="players")
    rules: Sequence[Rule] = ()
    evaluation: Matchmaker | None = None
    ratings: RatingTable | None = None
    rated_pairs: int = 4
    anchor_strategies: Mapping[str, np.ndarray] = field(factory=dict, alias="anchors")
    seed: int = 0
    fixtures: int = 16
    matches: int = 8
    rules_every: int = 1
    num_teams: int = field(init=False, default=2)
    anchors: tuple[str, ...] = field(init=False)
    rated_anchors: tuple[str, ...] = field(init=False)
    strategies: dict[str, np.ndarray] = field(init=False, factory=dict)
    pools: dict[str, list[str]] = field(init=False, factory=dict)
    elapsed_s: float = field(init=False, default=0.0)
    progress: float = field(init=False, default=0.0)
    fixture_counts: Counter[tuple[str, str]] = field(init=False, factory=Counter)
    num_matches: int = field(init=False, default=0)
    reasons: list[str] = field(init=False, factory=list)
    _views: dict[str, PlayerView] = field(init=False, factory=dict)
    _payoffs: Payoffs = field(init=False)
    _evaluations: Payoffs = field(init=False)
    _rng: np.random.Generator = field(init=False)
    _frozen_s: dict[str, float] = field(init=False, factory=dict)
    _freeze_reasons: dict[str, str] = field(init=False, factory=dict)
    _scheduler: ShareScheduler = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._scheduler, self.players = ShareScheduler(assigned=dict.fromkeys(self.setup, 0.0)), self._views
        self._payoffs, self._evaluations = (Payoffs(lambda name: inherited_weights(name, self._views)) for _ in "12")
        self.anchors = self.rated_anchors = tuple(self.anchor_strategies)
        self.strategies |= self.anchor_strategies
        for name, player in self.setup.items():
            view = PlayerView(
                name=name,
                role="player" if player.team is None else name,
                team=player.team,
                live=f"{name}@0+",
                models=(),
                decisions=0,
                share=player.share,
            )
            self._views[name] = view
            self.strategies[view.live] = self._start_strategy(name)

    # -- the league view -----------------------------------------------------------------------------------------

    def frozen_s(self, model: str) -> float:
        """Return the step at which a model was frozen."""
        return self._frozen_s[model]

    def freeze_reason(self, model: str) -> str:
        """Return why a rule requested a model; empty for all other models."""
        return self._freeze_reasons.get(model, "")

    def team(self, participant: str) -> int | None:
        """Return the team of a player or model; None for anchors, which can play in any team."""
        view = self._views.get(parse(participant).player)
        return None if view is None else view.team

    def pool(self, name: str) -> tuple[str, ...]:
        """Return the models of a pool, oldest first."""
        return tuple(self.pools.get(name, ()))

    def payoff(self, participant: str, opponents: Sequence[str], *, evaluated: bool = False) -> np.ndarray:
        """Return ``[n, 3] float64``: wins, draws and losses, inherited as in a real league."""
        return (self._evaluations if evaluated else self._payoffs).payoff(participant, opponents)

    def recent(self, player: str, opponents: Sequence[str]) -> np.ndarray:
        """Return ``[n, 3] float64``: recent wins, draws and losses."""
        return self._payoffs.recent(player, [live_player(name) for name in opponents])

    def rating(self, participant: str) -> Rating:
        """Return the rating by the rating matches."""
        return Rating(0.0, math.inf, 0) if self.ratings is None else self.ratings.rating(participant)

    def statistics(self, participant: str) -> Mapping[str, Statistic]:  # noqa: ARG002 - its matches have none
        """Return no statistics."""
        return {}

    # -- training ------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Make several steps."""
        for _ in range(steps):
            self.step()

    def step(self) -> str:
        """Train one player, play rating matches, apply the rules, and return the name of the player."""
        shares = {name: view.share for name, view in self._views.items() if view.share}
        name = self._scheduler.next_player(shares, matches=1)
        self.elapsed_s += 1
        self._train(name)
        self._freeze_if_due(name)
        if self.evaluation is not None:
            self._play_rating_matches(self.evaluation)
        if self.rules and self.elapsed_s % self.rules_every == 0:
            self._apply([change for rule in self.rules for change in rule.decide(self, self._rng)])
        return name

    def freeze(
        self, player: str, strategy: np.ndarray | None = None, *, reset_from: str | None = None, reason: str = ""
    ) -> str:
        """Freeze a model of a player and return its name.

        Args:
            player: Player to freeze.
            strategy: Strategy of the model; None: the one that the player has learned.
            reset_from: For a player reset: the model to start from, or empty for the start strategy.
            reason: Why a rule requested it.
        """
        view = self._views[player]
        model, learned = f"{player}@{len(view.models) + 1}", self.strategies.pop(view.live)
        self.strategies[model] = learned if strategy is None else np.asarray(strategy, np.float64)
        self._frozen_s[model], self._freeze_reasons[model] = self.elapsed_s, reason
        view = attrs.evolve(view, live=f"{model}+", models=(*view.models, model), frozen_decisions=view.decisions)
        if reset_from is not None:
            learned = self.strategies[reset_from].copy() if reset_from else self._start_strategy(player)
            view = attrs.evolve(
                view,
                generation_starts=(*view.generation_starts, len(view.models)),
                generation_start_decisions=view.decisions,
            )
            self._payoffs.forget_recent(player)
        self.strategies[view.live] = learned
        self._views[player] = view
        self._change_pools(self.setup[player].matchmaker.on_model_frozen(self, player, model))
        return model

    def win_rates(self, participant: str, opponents: Sequence[str]) -> np.ndarray:
        """Return ``[n]``: the true win rates, which matchmakers and rules cannot read."""
        others = np.array([self.strategies[name] for name in opponents])
        return self.world.win_rate(self.strategies[participant], others)

    def _start_strategy(self, player: str) -> np.ndarray:
        start = self.setup[player].start
        return self.world.start(self._rng) if start is None else np.asarray(start, np.float64)

    def _train(self, name: str) -> None:
        view, setup = self._views[name], self.setup[name]
        opponents = []
        for _ in range(self.fixtures):
            pairing = setup.matchmaker.next_fixture(self, name, self._rng)
            opponents.append(pairing.opponents[0])
            self.fixture_counts[name, pairing.opponents[0]] += 1
            self._play(view.live, pairing.opponents[0])
        others = np.array([self.strategies[opponent] for opponent in opponents])
        self.strategies[view.live] = self.world.trained(self.strategies[view.live], others, rate=setup.rate)
        count = self.fixtures * self.matches
        self.num_matches += count
        self._views[name] = attrs.evolve(view, decisions=view.decisions + count)

    def _freeze_if_due(self, name: str) -> None:
        every, view = self.setup[name].freeze_every, self._views[name]
        if every and view.decisions - view.frozen_decisions >= every * self.fixtures * self.matches:
            self.freeze(name)

    def _play_rating_matches(self, evaluation: Matchmaker) -> None:
        for _ in range(self.rated_pairs):
            pair = evaluation.next_evaluation(self, self._rng)
            if pair is not None:
                self._play(*pair, rated=True)

    def _play(self, one: str, other: str, *, rated: bool = False) -> None:
        if one == other:
            return
        wins = int(self._rng.binomial(self.matches, self.win_rates(one, [other])[0]))
        count = np.array([wins, 0, self.matches - wins])
        for a, b, result in ((one, other, count), (other, one, count[::-1])):
            self._payoffs.add(a, b, result)
            if rated:
                self._evaluations.add(a, b, result)
            if a.endswith("+"):
                self._payoffs.add_recent(live_player(a), live_player(b), result)
            if self.ratings is not None and rated and not (a.endswith("+") or b.endswith("+")):
                self.ratings.add(a, b, result)

    def _apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            match change:
                case Share(player=player, share=share):
                    if share and not self._views[player].share:
                        self._scheduler.rejoin(player, [name for name, view in self._views.items() if view.share])
                    self._views[player] = attrs.evolve(self._views[player], share=share)
                case Freeze(player=player, reason=reason):
                    self.reasons.append(f"{self.freeze(player, reason=reason)}: {reason}")
                case Reset(player=player, reason=reason, init=init):
                    self.reasons.append(f"{self.freeze(player, reset_from=init, reason=reason)}: {reason}")
                case PoolChange():
                    self._change_pools([change])

    def _change_pools(self, changes: Iterable[PoolChange]) -> None:
        for change in changes:
            members = self.pools.setdefault(change.pool, [])
            (members.append if change.enters else members.remove)(change.model)


class World(Protocol):
    """A game in which strategies are vectors ``[d] float64``."""

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return an untrained strategy ``[d]``."""

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the win probabilities ``[n]`` of strategy ``[d]`` against each of ``[n, d]``; there are no draws."""

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return strategy ``[d]`` after one step of training against ``[n, d]``.

        Args:
            one: Strategy to train.
            others: Opponents, one row for each match.
            rate: Factor of the step.
        """


@frozen(kw_only=True)
class EloWorld:
    """A transitive world: a strategy is a strength.

    A strategy is ``[1]``, a strength in log-odds: 1 is 174 Elo points. Even opponents have the largest effect.

    Args:
        step: Increase of the strength by a step against even opponents.
    """

    step: float = 0.02

    def start(self, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG002 - see the protocol
        """Return strength 0."""
        return np.zeros(1)

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ``[n]``: 1 / (1 + exp(strength of the other - own strength))."""
        return _sigmoid(one[0] - others[:, 0])

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return the strength increased by step · mean of 4 P (1 - P)."""
        p = self.win_rate(one, others)
        return one + rate * self.step * float(np.mean(4 * p * (1 - p)))


@frozen(kw_only=True)
class RockPaperScissors:
    """A cyclic world without differences in strength.

    A strategy is ``[3]``, the logits of rock, paper and scissors. Training is a gradient step with an entropy bonus.
    The step is so long that pure self-play cycles; against the average of the past a strategy converges to equal
    probabilities.

    Args:
        step: Factor of the gradient.
        entropy: Weight of the entropy bonus.
    """

    step: float = 1.2
    entropy: float = 0.15

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return logits of size about 1."""
        logits = rng.normal(size=3)
        return np.asarray(logits - logits.mean())

    def probabilities(self, strategies: np.ndarray) -> np.ndarray:
        """Return the probabilities ``[…, 3]`` of rock, paper and scissors."""
        weights = np.exp(strategies - strategies.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ``[n]``: the probability of a win plus half that of a tie."""
        return np.asarray(0.5 + 0.5 * self.probabilities(one) @ _BEATS @ self.probabilities(others).T)

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return logits + step (payoff of each choice - entropy · logits)."""
        gradient = _BEATS @ self.probabilities(others).mean(axis=0) - self.entropy * one
        moved = one + rate * self.step * gradient
        return np.asarray(moved - moved.mean())


#: ``[3, 3]``: payoff of rock, paper and scissors (rows) against rock, paper and scissors.
_BEATS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


@frozen(kw_only=True)
class SpinningTop:
    """A world with strength and cyclic styles, which matter less the stronger a strategy is.

    A strategy is ``[3]``: a strength s and a style (u, v) of length at most exp(-s / `height`). The log-odds of a win
    are s - s' + `spin` (u v' - v u'): each style beats those a quarter of a turn ahead of it. A step of training has
    the length `step` in the direction of the gradient of the win rate, in which strength is divided by `effort`:
    style changes faster than strength.

    Args:
        step: Length of a step.
        spin: Weight of the style.
        effort: Divisor of the gradient of the strength.
        height: Strength at which the maximum length of a style is 1/e.
    """

    step: float = 0.05
    spin: float = 6.0
    effort: float = 4.0
    height: float = 6.0

    def start(self, rng: np.random.Generator) -> np.ndarray:
        """Return strength 0 and a style of length 0.1."""
        angle = rng.uniform(0, 2 * np.pi)
        return np.array([0.0, 0.1 * np.cos(angle), 0.1 * np.sin(angle)])

    def win_rate(self, one: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return ``[n]``: 1 / (1 + exp(-log-odds))."""
        return _sigmoid(one[0] - others[:, 0] + self.spin * (one[1] * others[:, 2] - one[2] * others[:, 1]))

    def trained(self, one: np.ndarray, others: np.ndarray, *, rate: float = 1.0) -> np.ndarray:
        """Return the strategy after one step, with the style clipped to its maximum length."""
        p = self.win_rate(one, others)
        slope = p * (1 - p)
        style = self.spin * np.stack([others[:, 2], -others[:, 1]], axis=1)
        gradient = np.array([slope.mean() / self.effort, *(slope[:, None] * style).mean(axis=0)])
        moved = one + rate * self.step * gradient / max(float(np.linalg.norm(gradient)), 1e-12)
        width, length = np.exp(-moved[0] / self.height), float(np.hypot(moved[1], moved[2]))
        moved[1:] *= min(1.0, width / max(length, 1e-12))
        return np.asarray(moved)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))
