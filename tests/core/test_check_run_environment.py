"""`check_run_environment`: what random matches show about the environment of a run."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role, allocate_tick
from ludus.errors import ContractError
from ludus.testing import _run_environment
from ludus.testing._finding import Finding
from ludus.testing._match_results import MatchResults
from ludus.testing._run_environment import check_run_environment


def differ(chosen, bonus):
    """Pay seat 0 what the difference of the choices is worth, symmetrically."""
    lead = chosen[:, 0] - chosen[:, 1]
    return np.stack([lead, -lead], axis=1)


def catch(chosen, bonus):
    """Pay seat 0 if the choices are equal, else seat 1."""
    won = np.where(chosen[:, 0] == chosen[:, 1], 1.0, -1.0)
    return np.stack([won, -won], axis=1)


def draw_lots(chosen, bonus):
    """Pay a seat that the seed of the match determines, whatever they choose."""
    won = bonus
    return np.stack([won, -won], axis=1)


def favour(chosen, bonus):
    """Pay seat 0 always more, and both by luck."""
    won = 2.0 + bonus
    return np.stack([won, -won], axis=1)


def pay_nothing(chosen, bonus):
    """Pay nothing."""
    return np.zeros((len(chosen), 2))


class Bets:
    """Two seats choose 0 to 2 in three rounds; `pay(chosen [B, 2], bonus [B])` returns their rewards."""

    def __init__(self, pay=differ, teams=(0, 1), shows_seat=False, high=2.0, forgets=False, random=None, points=None):
        self.pay, self.shows_seat, self.forgets, self.random, self.points = pay, shows_seat, forgets, random, points
        box = spaces.Box(0.0, high, (9,), np.float32)
        role = Role(name="player", observation_space=box, action_space=spaces.Discrete(3), teams=teams)
        self.spec = EnvironmentSpec(name="bets", roles=(role,), turn="simultaneous", outcome_rule="the score decides")
        self.num_matches = 8
        self.tick = allocate_tick(self.spec, 8)
        self.now, self.bonus, self.total = np.full(8, 9), np.zeros(8), np.zeros((8, 2))

    def reset(self, seeds, *, indices=None, scenarios=None):
        at = np.arange(8) if indices is None else indices
        self.tick.clear(at)
        self.now[at], self.total[at] = 0, 0
        self.bonus[at] = seeds.astype(np.float64) % 7 - 3
        return self.show()

    def step(self, actions):
        self.now += 1
        running = self.now <= 3
        player, ended = self.tick.roles["player"], self.now == 3
        player.reward[:] = self.pay(actions["player"][:, :, 0], self.bonus) * running[:, None]
        self.total += player.reward
        self.tick.terminated[:] = ended
        lead = np.sign(self.total[:, 0] - self.total[:, 1])
        points = np.stack([0.5 + 0.5 * lead, 0.5 - 0.5 * lead], axis=1)
        self.tick.outcome[:] = points[:, : self.spec.num_teams] if self.points is None else self.points
        return self.show()

    def show(self):
        player = self.tick.roles["player"]
        player.acting[:] = (self.now < 3)[:, None]
        player.observation["obs"][:] = 0.5 * self.now[:, None, None].clip(max=3)
        if self.shows_seat:
            player.observation["obs"][:, 1, 0] += 0.25
        if self.forgets:
            player.observation["obs"][self.now == 3] = 0
        if self.random is not None:
            player.observation["obs"][..., 0] = self.random.random()
        return self.tick

    def close(self):
        pass


def lines(environment):
    """Return passed lines and warnings."""
    found = list(check_run_environment(environment, 1))
    return [line for line in found if isinstance(line, str)], [line.text for line in found if isinstance(line, Finding)]


def test_a_fair_game_has_no_warnings() -> None:
    """The report has the rule that decides outcomes."""
    passed, warnings = lines(Bets())
    assert warnings == []
    assert passed[0] == "simultaneous, 2 seats, 2 teams; 50 ticks, 104 matches ended"
    assert "outcome: the score decides" in passed


@pytest.mark.parametrize("where", ["own", "global"])
def test_a_game_that_ignores_its_seed(where) -> None:
    """Two resets with equal seeds differ."""
    random = np.random.default_rng(1) if where == "own" else np.random
    _, (warning,) = lines(Bets(random=random))
    assert warning.startswith(
        "the game ignores its seed: after 0 ticks of matches with equal seeds and actions, player "
    )


def test_a_game_that_declares_that_it_does_not_repeat() -> None:
    """Its matches are not compared."""
    game = Bets(random=np.random.default_rng(1))
    game.spec = evolve(game.spec, repeatable=False)
    passed, warnings = lines(game)
    assert warnings == []
    assert any(line.startswith("matches are not compared") for line in passed)


@pytest.mark.parametrize(
    ("pay", "options", "is_found"),
    [
        (differ, {}, False),
        (catch, {}, True),
        (catch, {"shows_seat": True}, False),
        (catch, {"teams": (0, 0)}, False),
        (draw_lots, {}, False),
        (favour, {}, True),
    ],
)
def test_sides_that_observations_do_not_show(pay, options, is_found) -> None:
    """Seats of two teams look equal, but an exchange of their actions does not exchange their rewards."""
    _, warnings = lines(Bets(pay, **options))
    start = "seat 0 and seat 1 of role player observe the same at their first decision, but are paid by other rules"
    assert any(warning.startswith(start) for warning in warnings) is is_found


@pytest.mark.parametrize(
    ("pay", "options", "what"),
    [
        (pay_nothing, {}, "no team won; check the rule for outcomes"),
        (favour, {"points": [1, 0]}, "team 0 (player) never lost, team 1 (player) never won; check"),
        (
            favour,
            {"points": [1, 0.5]},
            "team 0 (player) never lost, team 1 (player) never won, team 1 (player) never",
        ),
        (differ, {"teams": (0, 0), "points": [1]}, "team 0 (player) never lost; score by return"),
        (differ, {"teams": (0, 0), "points": [0.5]}, ""),
        (differ, {"teams": (0, 0), "points": [0]}, ""),
        (differ, {}, ""),
    ],
)
def test_teams_that_cannot_win_or_lose(pay, options, what) -> None:
    """The outcome of a game of one team need not be one of two, but may not always be a win."""
    _, warnings = lines(Bets(pay, shows_seat=True, **options))
    assert [warning.split(" random matches ")[1].startswith(what) for warning in warnings] == [True] * bool(what)


def test_few_matches_show_nothing() -> None:
    """A team may lose seven times by chance."""
    results = MatchResults(Bets().spec)
    environment = Bets(favour, points=[1, 0])
    results.add(environment.reset(np.arange(8, dtype=np.uint64)), np.arange(8))
    for _ in range(3):
        results.add(environment.step({"player": np.zeros((8, 2, 1), np.int64)}), None)
    assert len(results.outcomes) == 8
    assert not list(results.find_one_sided_teams())
    assert not results.differ(0, 1)


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        (
            {"high": 1.0},
            "role 'player', seat 0, match 0: observation leaf 'obs' is not in Box(0.0, 1.0, ",
        ),
        ({"forgets": True}, "role 'player': the tick that ends a match shows the start of a match or zeros in each of"),
    ],
)
def test_deviations_that_training_accepts_are_warnings(options, warning) -> None:
    """`ludus train` runs such games, so that the check passes, with one line for each."""
    _, (found,) = lines(Bets(**options))
    assert found.startswith(warning)


def test_values_outside_of_a_discrete_space_fail() -> None:
    """Networks cannot read them."""
    environment = Bets()
    (role,) = environment.spec.roles
    object.__setattr__(role, "observation_space", spaces.MultiDiscrete([2] * 9))
    environment.tick = allocate_tick(environment.spec, 8)
    environment.show = lambda: environment.tick
    environment.tick.roles["player"].acting[:] = True
    environment.tick.roles["player"].observation["obs"][:] = 5
    with pytest.raises(ContractError, match="observation leaf 'obs' is not in MultiDiscrete"):
        lines(environment)


def test_slow_resets_are_not_repeated(monkeypatch) -> None:
    """Some games need a minute for a reset."""
    monkeypatch.setattr(_run_environment, "_SLOW_RESET_S", 0.0)
    passed, warnings = lines(Bets(random=np.random.default_rng(1)))
    assert warnings == []
    assert passed[-1].startswith("seeds and sides are not compared, because 8 resets take 0 s")
