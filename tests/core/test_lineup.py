"""Participants are seated by role, in any order, and the seats that remain are filled."""

from __future__ import annotations

import pytest
from gymnasium import spaces
from ludus.environment import EnvironmentSpec, Role
from ludus.errors import ConfigError
from ludus.lineup import Participant, make_agents, make_lineup, make_lineups, parse_place, split_place, team_rotations


def spec(**teams):
    """Return the spec of a game, given the teams of the seats of every role."""
    space = {"observation_space": spaces.Box(0, 1, (1,)), "action_space": spaces.Discrete(2)}
    roles = tuple(Role(name=name, teams=row, **space) for name, row in teams.items())
    return EnvironmentSpec(name="game", roles=roles, turn="simultaneous")


DUEL = spec(player=(0, 1))
CHASE = spec(cat=(0,), mouse=(1, 1, 1, 1))
FREE_FOR_ALL = spec(player=(0, 1, 2, 3, 4))
HUNT = spec(hunter=(0,), runner=(1, 2, 3))  # every runner is a team of its own
RAID = spec(tank=(0, 1), healer=(0, 1))  # two teams with both roles
DUET = spec(speaker=(0,), listener=(0,))  # one team
TOGETHER = spec(player=(0, 0, 0))  # one team, one role


class Source:
    """Models are called ``role@number``; other names are agents, which play any role."""

    def __init__(self, defaults=None):
        self.defaults, self.made = defaults, []

    def participant(self, name, spec):
        if name == "nobody":
            raise ConfigError("participant 'nobody': not in this league")
        if name.endswith("-bot"):  # an agent of one role
            return Participant(name, name.removesuffix("-bot"))
        role, separator, _ = name.partition("@")
        return Participant(name.replace("latest", "9"), role if separator else "")

    def default_participants(self, role, spec):
        return iter([f"{role}@9", "random"] if self.defaults is None else self.defaults)

    def agent(self, name, role, *, environment, deterministic=False):
        self.made.append((name, role))
        return f"{name} as {role}"


def seated(game, *names, **options):
    """Return the participants by seat as one text."""
    return " ".join(make_lineup(game, names, Source(), **options).participants)


@pytest.mark.parametrize(
    ("game", "names", "expected"),
    [
        (DUEL, "a b", "a b"),
        (DUEL, "a player@1", "a player@1"),  # one role: the order of the teams
        (DUEL, "1=a player@1", "player@1 a"),
        (CHASE, "cat@1 mouse@2", "cat@1 mouse@2 mouse@2 mouse@2 mouse@2"),
        (CHASE, "mouse@2 cat@1", "cat@1 mouse@2 mouse@2 mouse@2 mouse@2"),
        (CHASE, "mouse@latest random", "random mouse@latest mouse@latest mouse@latest mouse@latest"),
        (CHASE, "random mouse@2", "random mouse@2 mouse@2 mouse@2 mouse@2"),
        (CHASE, "cat@1 random", "cat@1 random random random random"),
        (CHASE, "a b", "a b b b b"),
        (CHASE, "mouse=a b", "b a a a a"),
        (CHASE, "mouse-bot a", "a mouse-bot mouse-bot mouse-bot mouse-bot"),
        (CHASE, "2=a mouse@1 b", "b mouse@1 a mouse@1 mouse@1"),
        (FREE_FOR_ALL, "a b c d e", "a b c d e"),
        (FREE_FOR_ALL, "3=a b c", "b c b a c"),
        (HUNT, "a runner@1", "a runner@1 runner@1 runner@1"),
        (HUNT, "runner@1 hunter@1 runner@2", "hunter@1 runner@1 runner@2 runner@2"),
        (RAID, "a b", "a b a b"),
        (RAID, "tank@1 a", "tank@1 a healer@9 a"),
        (RAID, "tank@1 healer@2", "tank@1 tank@9 healer@9 healer@2"),
        (DUET, "listener@1 a", "a listener@1"),
        (TOGETHER, "a", "a a a"),
    ],
)
def test_participants_are_seated_by_role(game, names, expected):
    """Models take seats of their role, others the first free team; the seats that remain are filled."""
    assert seated(game, *names.split()) == expected


@pytest.mark.parametrize(
    ("game", "names", "expected"),
    [
        (DUEL, "a", "a player@9"),
        (DUEL, "player@latest", "player@latest random"),  # no match against itself
        (CHASE, "mouse@latest", "cat@9 mouse@latest mouse@latest mouse@latest mouse@latest"),
        (CHASE, "a", "a mouse@9 mouse@9 mouse@9 mouse@9"),
        (CHASE, "", "cat@9 mouse@9 mouse@9 mouse@9 mouse@9"),
        (FREE_FOR_ALL, "a b", "a b b b b"),
        (FREE_FOR_ALL, "a b c", "a b c b c"),
        (FREE_FOR_ALL, "a", "a player@9 player@9 player@9 player@9"),
        (HUNT, "hunter@1", "hunter@1 runner@9 runner@9 runner@9"),
        (HUNT, "hunter@1 a", "hunter@1 a a a"),
    ],
)
def test_seats_that_are_not_named_are_filled(game, names, expected):
    """Opponents of the role take them in turn, or else the source's default does."""
    assert seated(game, *names.split()) == expected


@pytest.mark.parametrize(
    ("game", "seat", "names", "expected"),
    [
        (CHASE, 0, "a", "you a a a a"),
        (CHASE, 2, "a", "a mouse@9 you mouse@9 mouse@9"),
        (CHASE, 2, "mouse@1 cat@1", "cat@1 mouse@1 you mouse@1 mouse@1"),
        (CHASE, 1, "", "cat@9 you mouse@9 mouse@9 mouse@9"),
        (FREE_FOR_ALL, 1, "a b", "a you b a b"),
        (spec(player=(0, 0, 1, 1)), 1, "a", "player@9 you a a"),
    ],
)
def test_the_user_takes_one_seat(game, seat, names, expected):
    """Opponents prefer other teams than the user's."""
    assert seated(game, *names.split(), user_seat=seat) == expected


@pytest.mark.parametrize(
    ("game", "names", "problem"),
    [
        (CHASE, "dog=a", "game has no role or seat 'dog'; its roles are cat, mouse, its seats 0 to 4"),
        (CHASE, "5=a", "game has no role or seat '5'"),
        (CHASE, "-1=a", "game has no role or seat '-1'"),
        (CHASE, "cat=mouse@1", "cat=mouse@1: mouse@1 plays the role mouse, so it cannot play cat"),
        (CHASE, "0=mouse@1", "0=mouse@1: mouse@1 plays the role mouse, so it cannot play cat"),
        (CHASE, "mouse@1 mouse@2", "mouse@2: no free seat of role mouse; game has 2 teams with the roles cat, mouse, "),
        (CHASE, "a b c", "c: no free seat; game has 2 teams with the roles cat, mouse, and the participants are a, b"),
        (DUEL, "0=a 0=b", "seat 0 is named for a and b"),
        (DUEL, "nobody a", "participant 'nobody': not in this league"),
    ],
)
def test_wrong_names_are_one_line(game, names, problem):
    """The message has the name and what exists."""
    with pytest.raises(ConfigError) as error:
        seated(game, *names.split())
    assert str(error.value).startswith(problem)
    assert "\n" not in str(error.value)


def test_a_role_without_participants():
    """The message has the syntax that names one."""
    with pytest.raises(ConfigError, match=r"role cat of game: name a participant, cat=NAME; there is no model"):
        make_lineup(CHASE, ["mouse@1"], Source(defaults=[]))


def test_a_participant_without_others_plays_itself():
    """It is the only one that can fill the seats."""
    assert make_lineup(DUEL, ["player@1"], Source(defaults=["player@1"])).participants == ("player@1", "player@1")


@pytest.mark.parametrize(
    ("game", "rotations"),
    [
        (DUEL, [(0, 1), (1, 0)]),
        (CHASE, [(0, 1)]),
        (TOGETHER, [(0,)]),
        (HUNT, [(0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2)]),
        (RAID, [(0, 1), (1, 0)]),
        (
            spec(cat=(0, 1), mouse=(2, 3, 4)),
            [(s % 2, (s + 1) % 2, *(2 + (s + i) % 3 for i in range(3))) for s in range(6)],
        ),
    ],
)
def test_teams_with_the_same_roles_rotate(game, rotations):
    """Every participant plays from every team that it can take, equally often."""
    assert team_rotations(game) == rotations


def test_a_lineup_rotates():
    """Participants move with their team, of any size; a named seat is kept."""
    uneven = spec(player=(0, 1, 1))
    lineup = make_lineup(uneven, ["a", "b"], Source())
    assert [rotation.participants for rotation in lineup.rotations()] == [("a", "b", "b"), ("b", "a", "a")]
    assert [rotation.seats_of(0) for rotation in lineup.rotations()] == [[0], [1, 2]]
    assert [rotation.teams_of(0) for rotation in lineup.rotations()] == [[0], [1]]
    assert make_lineup(uneven, ["0=a", "b"], Source()).rotations() == [make_lineup(uneven, ["0=a", "b"], Source())]


@pytest.mark.parametrize(
    ("game", "names", "expected"),
    [
        (CHASE, "mouse@1 mouse@2", ["cat@9 mouse@1", "cat@9 mouse@2"]),
        (CHASE, "mouse@1 a mouse@2", ["a mouse@1", "a mouse@2"]),
        (CHASE, "cat=a cat=b mouse@3", ["a mouse@3", "b mouse@3"]),
        (TOGETHER, "player@1 a", ["player@1", "a"]),
        (DUET, "speaker@1 speaker@2", ["speaker@1 listener@9", "speaker@2 listener@9"]),
        (HUNT, "runner@1 runner@2", ["hunter@9 runner@1 runner@2"]),  # they can meet in one match
        (DUEL, "player@1 player@2", ["player@1 player@2"]),
    ],
)
def test_contenders_for_one_place_meet_the_same_others(game, names, expected):
    """There is one lineup per contender, who is its first participant."""
    lineups = make_lineups(game, names.split(), Source())
    assert [" ".join(dict.fromkeys(lineup.participants)) for lineup in lineups] == expected
    assert lineups[0].names[0] == names.split()[0].removeprefix("cat=")


def test_contenders_of_one_role_only():
    """Two models of each of two roles cannot be compared at once."""
    with pytest.raises(ConfigError, match="mouse@2: no free seat of role mouse"):
        make_lineups(CHASE, ["cat@1", "cat@2", "mouse@1", "mouse@2"], Source())


def test_a_lineup_as_text():
    """The text has the first participant, its team mates and its opponents, and the participants that fill seats."""
    lineup = make_lineup(RAID, ["tank@1", "a"], Source())
    assert lineup.describe() == "tank@1 with healer@9 against a"
    assert lineup.describe_filled() == "seats that were not named: healer by healer@9"
    assert make_lineup(TOGETHER, ["a"], Source()).describe() == "a"
    assert make_lineup(DUEL, ["a", "a"], Source()).describe() == "a against a"
    assert make_lineup(DUEL, ["a", "a"], Source()).describe_filled() == ""


def test_a_participant_has_one_agent_per_role():
    """The agents of several lineups are shared; the user's agent is given."""
    source = Source()
    lineups = make_lineup(CHASE, ["a", "b"], source).rotations() * 2
    agents = make_agents(lineups, source, environment=None)
    assert agents == [["a as cat", *["b as mouse"] * 4]] * 2
    assert source.made == [("a", "cat"), ("b", "mouse")]
    (agents,) = make_agents([make_lineup(CHASE, ["a"], source, user_seat=1)], source, None, user="hands")
    assert agents == ["a as cat", "hands", *["mouse@9 as mouse"] * 3]


def test_places_are_roles_or_seats():
    """A role comes before a seat of that number."""
    assert parse_place(CHASE, "mouse") == ("mouse", None)
    assert parse_place(CHASE, "3") == ("mouse", 3)
    assert parse_place(spec(**{"1": (0,), "2": (1,)}), "1") == ("1", None)


def test_settings_of_a_participant_are_part_of_its_name():
    """They stand behind a comma and have equals signs of their own."""
    assert split_place("mouse@3,noise=0.1") == ("", "mouse@3,noise=0.1")
    assert split_place("3=mouse@3,noise=0.1,temperature=2") == ("3", "mouse@3,noise=0.1,temperature=2")
    assert split_place("cat=random") == ("cat", "random")
