"""``ludus play`` and ``ludus watch``: matches in the terminal."""

from __future__ import annotations

import io
import re
import sys
from types import ModuleType

import numpy as np
import pytest
from gymnasium import spaces
from ludus import installed
from ludus.__main__ import main
from ludus._plugins.loading import LoadedPlugin, PluginReport
from ludus._plugins.manager import Plugins
from ludus.component import Component
from ludus.environment import EnvironmentSpec, Role, RoleTick, Tick
from ludus.errors import UnknownComponent
from ludus_terminal import matches, play as play_module, watch as watch_module

MODULE = "ludus_test_play_components"


@pytest.fixture(autouse=True)
def _only_dummy(monkeypatch):
    """Load only the plugins that the tests need."""
    monkeypatch.setenv("LUDUS_ALLOW_PLUGINS", "dummy,ratings,terminal")


@pytest.fixture
def ludus(monkeypatch, capsys):
    """Run a command with typed lines and return its status and everything it printed."""

    def run(*arguments, typed=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        status = main(arguments)
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


COUNT = ("--env", "dummy-count", "--seed", "1", "--set", "dummy-count.target=4")
PERFECT = ("play", *COUNT, "--opponent", "dummy-perfect")


# -- play --------------------------------------------------------------------------------------------------------


def test_play_shows_the_match_and_the_legal_moves(ludus):
    """The game is printed as text, with the legal moves."""
    _, out = ludus(*PERFECT, typed="")
    assert "you: seat 0 (player); opponent: dummy-perfect; seed 1" in out
    assert "of 4, seat 0 to move" in out
    assert "legal moves: 1 2\n" in out


def test_play_to_the_end(ludus):
    """Typed moves are played, and the result is that of the user."""
    target = ("--env", "dummy-count", "--set", "dummy-count.target=2", "--set", "dummy-count.most=2")
    results = set()
    for seed in range(8):  # matches start at a count drawn from the seed
        for move in "12":
            _, out = ludus("play", *target, "--opponent", "dummy-random", "--seed", str(seed), typed=f"{move}\n1\n1\n")
            results.add(out.strip().splitlines()[-1])
    assert "you won" in results
    assert results <= {"you won", "you lost"}


def test_play_from_another_seat(ludus):
    """The opponent moves first if the user has seat 1."""
    status, out = ludus(*PERFECT, "--seat", "1", typed="quit\n")
    assert status == 0
    assert "you: seat 1 (player)" in out
    assert "seat 1 to move" in out or "you lost" in out


def test_wrong_input_repeats_the_prompt(ludus):
    """Input that is not a move prints one line and the prompt again."""
    _, out = ludus(*PERFECT, typed="abc\nquit\n")
    assert out.count("type a number from 1 to 3") == 1
    assert out.count("your move (or quit): ") == 2


def test_an_illegal_move_repeats_the_prompt(ludus):
    """An illegal move prints the legal ones and the prompt again."""
    _, out = ludus(*PERFECT, typed="3\nquit\n")
    assert "3 is not legal now; legal: 1 2\n" in out
    assert out.count("your move (or quit): ") == 2


def test_empty_lines_are_ignored(ludus):
    """An empty line prints the prompt again."""
    _, out = ludus(*PERFECT, typed="\n\nquit\n")
    assert out.count("your move (or quit): ") == 3
    assert "type a number" not in out


@pytest.mark.parametrize("typed", ["quit\n", "QUIT\n", "exit\n", ""])
def test_quit(ludus, typed):
    """``quit`` and the end of input end the match."""
    status, out = ludus(*PERFECT, typed=typed)
    assert status == 0
    assert out.endswith("bye\n")


def test_ctrl_c(ludus, monkeypatch):
    """Ctrl-C ends the command with the usual status."""

    def interrupt(_prompt):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt)
    status, out = ludus(*PERFECT)
    assert status == 130
    assert out.endswith("interrupted\n")


def test_seat_out_of_range(ludus):
    """A seat that does not exist is wrong usage."""
    status, out = ludus(*PERFECT, "--seat", "2")
    assert status == 2
    assert "dummy-count has no role or seat '2'; its roles are player, its seats 0 to 1" in " ".join(out.split())


@pytest.mark.parametrize("command", [PERFECT, ("watch", *COUNT, "--seats", "dummy-perfect", "dummy-random")])
def test_a_seed_out_of_range(ludus, command):
    """A seed out of range is wrong usage; the largest seed works, also for several matches."""
    for seed in (-1, 2**64):
        status, out = ludus(*command, "--seed", str(seed))
        assert status == 2
        assert f"Invalid value for '--seed': {seed} is not in the range" in out
    more = () if command == PERFECT else ("--matches", "2", "--delay", "0")
    status, out = ludus(*command, "--seed", str(2**64 - 1), *more, typed="1\n1\n1\n1\n")
    assert status == 0, out


def test_opponent_is_needed_without_a_run(ludus):
    """Without a run there is no default opponent; the message lists the agents that play the game."""
    status, out = ludus("play", "--env", "dummy-count")
    assert status == 1
    assert out == "error: --opponent: missing; agents that play dummy-count: dummy-perfect, dummy-random\n"


def test_agents_of_other_games_are_not_offered(ludus):
    """The list leaves out agents of other games."""
    _, out = ludus("play", "--env", "dummy-guess")
    assert out == "error: --opponent: missing; agents that play dummy-guess: dummy-random\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("play",), "give a run folder, or --env NAME to play without one"),
        (("play", "somewhere", "--env", "dummy-count", "--opponent", "x"), "give a run folder, or --env NAME"),
        (("play", "--env", "dummy-cuont", "--opponent", "dummy-random"), "did you mean 'dummy-count'?"),
        (("play", "--env", "dummy-count", "--opponent", "dummy-prefect"), "did you mean 'dummy-perfect'?"),
        (("play", "--env", "dummy-guess", "--opponent", "dummy-random"), "cannot be played in a terminal"),
        (("play", *COUNT, "--opponent", "dummy-random", "--set", "dummy-perfect.error_rate=1"), "is not chosen"),
        (("watch", "--env", "dummy-count"), "--seats: missing; agents that play dummy-count"),
        (("play", "/nowhere"), "/nowhere is not a run folder: it has no run.toml"),
    ],
)
def test_mistakes_are_one_line(ludus, arguments, problem):
    """A mistake prints one line, without a traceback."""
    status, out = ludus(*arguments)
    assert status == 1
    assert out.startswith("error: ")
    assert out.count("\n") == 1
    assert problem in out


# -- watch -------------------------------------------------------------------------------------------------------

BOTS = ("watch", *COUNT, "--delay", "0", "--seats", "dummy-random", "dummy-perfect")


def test_watch(ludus):
    """Every tick is shown, then the result."""
    status, out = ludus(*BOTS)
    assert status == 0
    assert out.startswith("dummy-random against dummy-perfect; seed 1\n")
    assert out.count("of 4, seat") >= 2
    assert out.splitlines()[-1].startswith("match 1: dummy-random ")


def test_watch_several_matches(ludus):
    """The results of several matches are added up."""
    _, out = ludus(*BOTS, "--matches", "4")
    *_, last = out.splitlines()
    points = [float(part.split()[-1]) for part in last.removeprefix("total: ").split(",")]
    assert sum(points) == 4
    assert out.count("match ") == 4


def test_watch_matches_differ(ludus):
    """Every match has its own seed."""
    _, out = ludus("watch", *COUNT, "--delay", "0", "--seats", "dummy-perfect", "dummy-perfect", "--matches", "8")
    _, *matches = out.replace("; seed 1\n", "match").split("match")
    shown = {tuple(line for line in match.splitlines() if line.startswith("count")) for match in matches[:8]}
    assert len(shown) > 1


def test_watch_repeats_with_the_seed(ludus):
    """The same seed shows the same match."""
    assert ludus(*BOTS) == ludus(*BOTS)


def test_watch_waits(ludus, monkeypatch):
    """The delay is between ticks."""
    waits = []
    monkeypatch.setattr(watch_module.time, "sleep", waits.append)
    ludus(*BOTS[:-5], "--delay", "0.25", *BOTS[-3:])
    assert len(waits) >= 2
    assert set(waits) == {0.25}


def test_no_colors_outside_a_terminal(ludus, monkeypatch):
    """Escape sequences of a game do not reach files and pipes."""
    from ludus_dummy.count import Count

    monkeypatch.setattr(Count, "render", lambda self, match: "\x1b[31mred\x1b[0m")
    _, out = ludus(*BOTS)
    assert "red" in out
    assert "\x1b" not in out


# -- games with more than two teams and several action labels ------------------------------------------------------


class Vote:
    """Three teams vote once, at the same time, with two labels; the highest sum wins."""

    num_matches = 1

    def __init__(self, config, *, num_matches):
        role = Role(
            name="voter",
            observation_space=spaces.Box(0, 1, (1,)),
            action_space=spaces.MultiDiscrete([2, 40]),
            teams=(0, 1, 2),
        )
        self.spec = EnvironmentSpec(name="vote", roles=(role,), turn="simultaneous")
        self.closed = False

    def _tick(self, outcome, *, ended):
        mask = np.ones((1, 3, 42), bool)
        mask[:, :, 0] = False  # choice 0 of the first label
        mask[:, :, 2 + 5] = False  # choice 5 of the second label
        voter = RoleTick(
            observation={"obs": np.zeros((1, 3, 1), np.float32)},
            acting=np.full((1, 3), not ended),
            action_mask=mask,
            reward=np.zeros((1, 3), np.float32),
        )
        flag = np.array([ended])
        return Tick(roles={"voter": voter}, terminated=flag, truncated=~flag & False, outcome=outcome)

    def reset(self, seeds, *, indices=None, scenarios=None):
        return self._tick(np.zeros((1, 3), np.float32), ended=False)

    def step(self, actions):
        sums = actions["voter"][0].sum(axis=1)
        return self._tick((sums == sums.max()).astype(np.float32)[None], ended=True)

    def close(self):
        self.closed = True

    def render(self, match):
        return "vote"

    def action_name(self, role, action):
        return f"{action[0]}/{action[1]}"

    def parse_action(self, role, text):
        return np.array([int(part) for part in text.split("/")], np.int64)


class Fixed:
    """An agent that always gives the same vote."""

    value = 0
    resets = []  # noqa: RUF012 - of all instances

    def __init__(self, config, *, spec, role):
        pass

    def reset(self, seat_ids):
        self.resets.extend(seat_ids.tolist())

    def act(self, observation, *, action_mask, seat_ids, rng):
        return np.array([[1, self.value]])


class High(Fixed):
    value = 30


@pytest.fixture
def _vote(monkeypatch):
    parts = ModuleType(MODULE)
    for cls in (Vote, Fixed, High):
        setattr(parts, cls.__name__, cls)
    monkeypatch.setitem(sys.modules, MODULE, parts)
    offers = {
        "environment": (Component(name="vote", factory=f"{MODULE}:Vote"),),
        "agent": (
            Component(name="low", factory=f"{MODULE}:Fixed"),
            Component(name="high", factory=f"{MODULE}:High"),
        ),
    }
    report = PluginReport(name="vote", distribution="vote", version="1", status="ok", offers=offers)
    monkeypatch.setattr(installed, "load_plugins", lambda: Plugins([LoadedPlugin(report=report)]))


@pytest.mark.usefixtures("_vote")
def test_the_other_participants_take_the_teams_that_remain(ludus):
    """The first participant takes team 0, the second teams 1 and 2; names may be arguments."""
    _, out = ludus("watch", "--env", "vote", "--seats", "high", "low", "--delay", "0")
    assert out.splitlines()[-1] == "match 1: high 1, low 0"
    assert "seats that were not named: voter by low" in out
    assert (
        ludus("watch", "--env", "vote", "low", "high", "--delay", "0")[1].splitlines()[-1] == "match 1: low 0, high 2"
    )


@pytest.mark.usefixtures("_vote")
def test_participants_take_the_seats_that_are_named(ludus):
    """A seat is chosen by its number."""
    _, out = ludus("watch", "--env", "vote", "2=high", "low", "--delay", "0")
    assert out.splitlines()[-1] == "match 1: high 1, low 0"
    assert out.startswith("high against low; seed ")
    status, out = ludus("watch", "--env", "vote", "3=high", "--delay", "0")
    assert (status, out) == (1, "error: vote has no role or seat '3'; its roles are voter, its seats 0 to 2\n")


@pytest.mark.usefixtures("_vote")
def test_several_opponents(ludus):
    """Every opponent takes one team; the user may name the role of the seat."""
    _, out = ludus(
        "play", "--env", "vote", "--opponent", "low", "--opponent", "high", "--seat", "voter", typed="1/20\n"
    )
    assert "you: seat 0 (voter); opponent: low, high; seed " in out
    assert out.endswith("you lost\n")


@pytest.mark.usefixtures("_vote")
def test_agents_are_reset_between_matches(ludus):
    """The agent of every seat is reset at the start of every match."""
    Fixed.resets.clear()
    ludus("watch", "--env", "vote", "--seats", "low", "low", "--delay", "0", "--matches", "2")
    assert Fixed.resets == [0, 1, 2, 0, 1, 2]


@pytest.mark.usefixtures("_vote")
def test_moves_of_several_labels(ludus):
    """Legal combinations are listed up to a limit, and every label must be legal."""
    _, out = ludus("play", "--env", "vote", "--opponent", "low", typed="0/3\n1/5\n1/3\n")
    assert "legal moves: 1/0 1/1 1/2 1/3 1/4 1/6 " in out
    assert "0/3 is not legal now" in out
    assert "1/5 is not legal now" in out
    assert out.endswith("you won\n")


@pytest.mark.usefixtures("_vote")
def test_the_list_of_moves_is_cut(ludus, monkeypatch):
    """A long list of legal moves ends in an ellipsis."""
    monkeypatch.setattr(play_module, "_MAX_LISTED", 2)
    _, out = ludus("play", "--env", "vote", "--opponent", "low", typed="")
    assert "legal moves: 1/0 1/1 …\n" in out


@pytest.mark.usefixtures("_vote")
def test_move_names_with_spaces_are_separated_by_commas(ludus, monkeypatch):
    """Other move names are separated by spaces."""
    monkeypatch.setattr(play_module, "_MAX_LISTED", 2)
    monkeypatch.setattr(Vote, "action_name", lambda _self, _role, action: f"{action[0]} {action[1]}")
    _, out = ludus("play", "--env", "vote", "--opponent", "low", typed="")
    assert "legal moves: 1 0, 1 1, …\n" in out


# -- with a run --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """Train two players for a moment and return the run folder."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "count.toml").write_text(
        '[run]\nworkers = 0\ndecisions = 600\n[environment]\nname = "dummy-count"\n[sampling]\nmatches = 16\n'
        '[players.hero]\nalgorithm = "dummy-gradient"\nmatchmaker = "dummy-uniform"\nfreeze_every_decisions = 100\n'
        "[players.hero.dummy-gradient]\nbatch_decisions = 64\n"
        '[players.rival]\nalgorithm = "dummy-gradient"\nmatchmaker = "dummy-uniform"\n'
        '[anchors.rock]\nagent = "dummy-perfect"\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LUDUS_ALLOW_PLUGINS", "dummy,ratings")
        assert main(["train", str(folder / "count.toml"), "--run", str(folder / "run")]) == 0
    return folder / "run"


def test_play_against_the_newest_model(ludus, run_dir):
    """The default opponent is the first player's newest model."""
    status, out = ludus("play", str(run_dir), typed="quit\n")
    assert status == 0
    assert re.search(r"opponent: hero@[2-9]; ", out)


@pytest.mark.parametrize("name", ["hero@1", "hero@latest", "rock", "dummy-random"])
def test_play_against_any_participant(ludus, run_dir, name):
    """A model, an anchor or an installed agent plays until the match ends."""
    status, out = ludus("play", str(run_dir), "--opponent", name, typed="1\n" * 20)
    assert status == 0
    assert out.endswith(("you won\n", "you lost\n"))


def test_seats_takes_two_participants(ludus, run_dir):
    """An option in the place of the second one is refused."""
    status, out = ludus("watch", str(run_dir), "--seats", "hero@1", "--delay", "0")
    assert status == 2
    assert "expected two participants, got '--delay'; name one without --seats" in out


def test_watch_two_models(ludus, run_dir):
    """Models of the run play each other."""
    status, out = ludus("watch", str(run_dir), "--seats", "hero@1", "hero@2", "--delay", "0")
    assert status == 0
    assert out.startswith("hero@1 against hero@2; seed ")
    assert "match 1: hero@1 " in out


def test_overrides_of_a_run(ludus, run_dir):
    """Options of the run's configuration can be replaced."""
    _, out = ludus("play", str(run_dir), "--opponent", "rock", "--set", "anchors.rock.dummy-perfect.error_rate=2")
    assert "anchors.rock.dummy-perfect.error_rate: expected a number in [0, 1], got 2" in out


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("rival@live", "rival@live is no frozen model; name one, for example rival@latest, or a scripted agent"),
        ("hreo@1", "not in this league"),
        ("nobody", "not in this league"),
    ],
)
def test_opponents_that_do_not_exist(ludus, run_dir, name, problem):
    """The error for a participant that cannot play is one line."""
    status, out = ludus("play", str(run_dir), "--opponent", name)
    assert status == 1
    assert out.startswith("error: ")
    assert problem in out


def test_agents_are_listed_for_a_game():
    """Agents of other games are left out."""
    assert "dummy-perfect" in matches.agents_for("dummy-count")
    assert "dummy-perfect" not in matches.agents_for("dummy-guess")
    with pytest.raises(UnknownComponent):
        matches.agents_for("dummy-cuont")
