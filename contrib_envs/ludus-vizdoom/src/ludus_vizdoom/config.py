"""Options of the environments ``vizdoom`` and ``vizdoom-deathmatch``, and of the interfaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen
from ludus.option import Check, Presets, at_least, between, finite, inherited_option, one_of, option, whole
from ludus.trust import Imports, modules_of

#: Buttons of a deathmatch, in the order of the raw actions.
BUTTONS = (
    "ATTACK",
    "SPEED",
    "MOVE_FORWARD",
    "MOVE_BACKWARD",
    "MOVE_LEFT",
    "MOVE_RIGHT",
    "TURN_LEFT",
    "TURN_RIGHT",
)

_NAMES = Check(
    'a list of ViZDoom\'s names, such as ["MOVE_LEFT", "ATTACK"]',
    lambda value: isinstance(value, tuple) and all(isinstance(one, str) and one.isidentifier() for one in value),
)
_RESOLUTION = Check(
    'a resolution of ViZDoom, such as "160x120" or "320x240"',
    lambda value: isinstance(value, str) and len(value.split("x")) == 2 and all(map(str.isdigit, value.split("x"))),
)
_SCENARIO = Check(
    'a scenario of ViZDoom, such as "basic", or "package:file.cfg" in a trusted package',
    lambda value: isinstance(value, str) and value != "" and "/" not in value,
)
_MAP = Check(
    'the name of a map, such as "map01"', lambda value: isinstance(value, str) and (value == "" or value.isalnum())
)


@frozen(kw_only=True)
class EngineConfig:
    """Options that both environments have."""

    actions: str = option(
        "single",
        one_of("single", "labels", "buttons"),
        help="single: no button or one of them; labels: one label for each group of buttons that exclude each other, "
        "such as left and right; buttons: each button is pressed or not",
        lasting=True,
    )
    buttons: tuple[str, ...] = option((), _NAMES, help="buttons; empty: those of the scenario", lasting=True)
    variables: tuple[str, ...] = option(
        (),
        _NAMES,
        help="game variables that are observed, in hundreds; empty: those of the scenario",
        lasting=True,
    )
    color: bool = option(False, help="whether the screen is observed in colours; otherwise in grey", lasting=True)
    resolution: str = option("160x120", _RESOLUTION, help="resolution in which the engine draws")
    height: int = option(60, whole(8, 1200), help="height of observed images; 8 to 1200", lasting=True)
    width: int = option(80, whole(8, 1920), help="width of observed images; 8 to 1920", lasting=True)
    depth: bool = option(False, help="whether the distance of every pixel is observed", lasting=True)
    labels: str = option(
        "none",
        one_of("none", "observation", "privileged"),
        help="the class of the object at every pixel: not computed, observed, or for critics only",
        lasting=True,
    )
    frame_skip: int = option(4, whole(1, 35), help="tics of 1/35 s for which an action is held; 1 to 35")
    skill: int = option(0, whole(0, 5), help="difficulty of the game; 1 to 5; 0: that of the scenario")
    map: str = option("", _MAP, help="map; empty: that of the scenario")
    hud: bool = option(False, help="whether the screen shows the panel with health and ammunition", lasting=True)
    start_timeout_s: float = option(30.0, between(1.0, 600.0), help="time in which an engine must start; [1, 600]")
    step_timeout_s: float = option(
        30.0, between(1.0, 600.0), help="time in which the engines of a match must advance by a tic; [1, 600]"
    )
    death: float = option(0.0, finite(), help="reward of a death of the player")
    damage: float = option(0.0, finite(), help="reward of a point of damage to others")
    damage_taken: float = option(0.0, finite(), help="reward of a point of damage to the player")
    health: float = option(0.0, finite(), help="reward of a point of health that the player picks up")
    armor: float = option(0.0, finite(), help="reward of a point of armour that the player picks up")
    ammo: float = option(0.0, finite(), help="reward of a unit of ammunition that the player picks up")
    workers: int = option(0, whole(0, 1024), help="processes that share the matches; 0 plays them one after another")


@frozen(kw_only=True)
class ScenarioConfig(EngineConfig):
    """Options of the environment ``vizdoom``."""

    scenario: str = option(
        "basic",
        _SCENARIO,
        help='a scenario of ViZDoom for one player, or "package:file.cfg", a file in a package that must be trusted',
        lasting=True,
        imports=Imports(modules=modules_of, libraries=("vizdoom",)),
    )
    reward: float = option(1.0, finite(), help="factor of the reward of the scenario")
    kill: float = option(0.0, finite(), help="reward of a kill")
    max_tics: int = option(
        0, whole(0, 1_000_000), help="tics after which a match is truncated; 0: the time limit of the scenario"
    )


@frozen(kw_only=True)
class DeathmatchConfig(EngineConfig):
    """Options of the environment ``vizdoom-deathmatch``; the paper's settings are [Arena §A.5]."""

    PRESETS: ClassVar[Presets] = {
        "arena": {"bots": 7, "color": True, "labels": "privileged"},
    }

    scenario: str = option(
        "cig",
        _SCENARIO,
        help='a scenario of ViZDoom for deathmatches, or "package:file.cfg", a file in a package that must be trusted',
        lasting=True,
        imports=Imports(modules=modules_of, libraries=("vizdoom",)),
    )
    actions: str = inherited_option(EngineConfig, "actions", "labels")
    buttons: tuple[str, ...] = inherited_option(
        EngineConfig, "buttons", BUTTONS, help="buttons; empty: those of the scenario"
    )
    variables: tuple[str, ...] = inherited_option(
        EngineConfig, "variables", ("HEALTH", "ARMOR", "SELECTED_WEAPON_AMMO")
    )
    map: str = inherited_option(EngineConfig, "map", "map01")
    players: int = option(1, whole(1, 16), help="seats; each is played by an engine of its own; 1 to 16", lasting=True)
    bots: int = option(4, whole(0, 15), help="ViZDoom's bots that play too and are no seats; 0 to 15")
    time_limit_s: float = option(120.0, between(1.0, 3600.0), help="duration of a match in game time; [1, 3600]")
    mode: str = option(
        "sync",
        one_of("sync", "async"),
        help="sync: the game waits for all actions; async: it runs at 35 tics per second, and depends on the machine",
    )
    color_of_player: int = option(0, whole(0, 7), help="colour of the first player; the next ones follow; 0 to 7")
    arguments: tuple[str, ...] = option(
        (),
        Check(
            'a list of server settings, such as ["+sv_nocrouch 1"]',
            lambda value: isinstance(value, tuple) and all(isinstance(one, str) and one[:4] == "+sv_" for one in value),
        ),
        help="further settings of the server; names start with +sv_",
    )
    frag: float = option(1.0, finite(), help="reward of a frag; a suicide is a negative one")


@frozen(kw_only=True)
class ScreenConfig:
    """Options of the interface ``screen-as-obs``."""

    variables: bool = option(True, help="whether the game variables stay, which the panel of the screen shows too")


@frozen(kw_only=True)
class SegmentationConfig:
    """Options of the interface ``segmentation-as-obs``."""

    keep: bool = option(True, help="whether the other leaves stay")


@frozen(kw_only=True)
class ActionConfig:
    """Options of the interface ``discrete-action-7``."""

    buttons: tuple[str, ...] = option(BUTTONS, _NAMES, help="buttons of the environment, in their order")


@frozen(kw_only=True)
class PostRuleConfig:
    """Options of the interface ``post-rule-action``."""

    buttons: tuple[str, ...] = option(BUTTONS, _NAMES, help="buttons of the environment, in their order")
    run: bool = option(True, help="whether a player that moves forward runs")
    turn_after: int = option(
        2, whole(0, 100), help="decisions in the same direction after which turns are fast; 0: never"
    )
    hold_fire: bool = option(True, help="whether shots without ammunition, or without a target in sight, are dropped")
    ammo_variable: int = option(2, whole(0, 100), help="position of the ammunition among the observed variables")
    sight: float = option(0.1, between(0.0, 1.0), help="share of the image's width around its centre that is in sight")
    barrel: float = option(
        0.05,
        at_least(0.0),
        help="share of the image from which a barrel blocks the way, so that the player steps aside; above 1: never",
    )


def with_tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that were sent as JSON, which has no tuples, as the classes above expect them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
