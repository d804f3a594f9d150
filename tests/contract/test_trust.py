"""A run file is data: no option of an installed component executes code or writes outside of the run folder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest
from ludus import trust
from ludus._config.run_config import select_components
from ludus._config.section_reader import SelectedComponent
from ludus._config.sections import (
    AnchorConfig,
    EvaluationSection,
    LeagueSection,
    MetricsSection,
    PlayerConfig,
    RunSection,
    SamplingSection,
)
from ludus._config.structuring import StructuringError, structure_fields
from ludus._plugins.manager import load_plugins
from ludus.errors import ConfigError
from ludus.hookspecs import KINDS

ROOT = Path(__file__).parents[2]
PLUGINS = load_plugins()
SECTIONS = (AnchorConfig, EvaluationSection, LeagueSection, MetricsSection, PlayerConfig, RunSection, SamplingSection)

#: Options that accept any text and look it up among names of the run or of the game, such as players, pools, leaves and
#: roles, or among installed components. A text that is not found there is an error.
WORDS = {
    "ADAConfig": "hard players",
    "AETConfig": "concat present",
    "AgentIndicatorConfig": "game leaf roles",
    "AgentWithInterfacesConfig": "agent interfaces",
    "AlphaStarConfig": "league_exploiters main_agents main_exploiters pools",
    "AlphaStarMainConfig": "against exploiters pools",
    "AnchorConfig": "name",
    "AnchorsConfig": "against",
    "AsTeamConfig": "game role",
    "AttentionPart": "entities head",
    "BuiltinConfig": "name",
    "CurriculumConfig": "against",
    "EntityPart": "leaf present",
    "FootballConfig": "states",  # within a folder that the user names
    "ForgottenConfig": "against exploiters",
    "FrameStackConfig": "leaves",
    "FreezeWhenConfig": "players pools",
    "GateConfig": "players",
    "GenerationsConfig": "anchors exploiters main pools",
    "GreyConfig": "leaves",
    "GymnasiumConfig": "mask_key max_entities statistics",
    "HoKConfig": "present targets",
    "ImagePart": "leaf",
    "LatestFrozenConfig": "against",
    "LatestSelfPlayConfig": "against",
    "LabelChannelsConfig": "labels leaves",
    "LeagueExploiterConfig": "pools",
    "MAPPOConfig": "seat_leaf",
    "MLflowConfig": "project",
    "MSMConfig": "pools",
    "MinimaxMainConfig": "pools",
    "MixtureConfig": "weights",
    "Modifier": "parameters scenario weaker",
    "NashConfig": "pools",
    "OneHotConfig": "leaves",
    "PFSPConfig": "pools",
    "PettingZooConfig": "mask_key max_entities roles statistics teams",
    "PlayerConfig": "name role",
    "RatingMixtureConfig": "weights",
    "RemoteConfig": "command host",  # the user allows whole commands, see SECURITY.md
    "ResizeConfig": "leaves",
    "RestartFromConfig": "players source",
    "RewardPartsConfig": "fade once weights",
    "RunSection": "device launcher",
    "SamplingSection": "inference",
    "Sc2Config": "map",  # looked up among the maps of the game
    "ScaleObservationConfig": "leaves",
    "ScenariosConfig": "combine matchmaker",
    "ScreeningConfig": "best players rank_by",
    "SelectLeavesConfig": "keep",
    "SuperiorConfig": "best final judged players rank_by shared",
    "TeamAgentConfig": "agents interfaces",
    "TeamRewardConfig": "game granted roles",
    "TrackioConfig": "project",
    "UncertainConfig": "pools",
    "UniformHistoryConfig": "pools",
    "VectorPart": "leaves",
    "WandbConfig": "project",
    "WithInterfacesConfig": "game interfaces",
}
#: Options that pass a table on: to a component, which is read like a run file, or to the constructor of a game.
TABLES = {
    "AgentIndicatorConfig": "options",
    "AgentWithInterfacesConfig": "options",
    "AsTeamConfig": "options",
    "PythonConfig": "options",
    "TeamRewardConfig": "options",
    "WithInterfacesConfig": "options",
}


def with_parts(cls: type[Any]) -> Iterator[type[Any]]:
    """Yield a configuration class and the classes of its nested tables."""
    yield attrs.resolve_types(cls)
    for field in attrs.fields(cls):
        for part in _types(field.type):
            if isinstance(part, type) and attrs.has(part) and part is not SelectedComponent:
                yield from with_parts(part)


def _types(kind: Any) -> Iterator[Any]:
    yield kind
    for part in get_args(kind):
        yield from _types(part)


COMPONENTS = {(kind, name): component for kind in KINDS for name, component in PLUGINS.components(kind).items()}
CLASSES = {
    part
    for config in (*SECTIONS, *(component.load_config() for component in COMPONENTS.values()))
    if config is not None
    for part in with_parts(config)
}


def accepts(cls: type[Any], option: str, value: object) -> bool:
    """Return whether an option accepts a value."""
    try:
        structure_fields({option: value}, cls)
    except StructuringError as error:
        return not any(problem.path[0] == option for problem in error.problems)
    return True


def forms(text: str) -> tuple[object, ...]:
    """Return values of every form that an option may take, all with a text."""
    return (text, [text], {"key": [text]}, {"key": text}, {text: 1}, {text: 0.5}, [{"path": text}], [{"name": text}])


TEXTS = ("no_module:name", "/tmp/no_folder/no_file", "no_module.part")


def listed(table: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return class and option of every entry."""
    return {(cls, option) for cls, options in table.items() for option in options.split()}


def test_every_option_that_takes_a_text_is_classified() -> None:
    """The metadata of a new one states that it names modules or files; if it does not, a table above lists it."""
    found = {
        (cls.__name__, field.alias)
        for cls in CLASSES
        for field in attrs.fields(cls)
        if not field.metadata.get("imports") and not field.metadata.get("path")
        if any(accepts(cls, field.alias, value) for text in TEXTS for value in forms(text))
    }
    assert found == listed(WORDS) | listed(TABLES)


def test_options_that_write_name_a_folder_of_the_run() -> None:
    """A path cannot lead out of the run folder."""
    written = [(cls, f) for cls in CLASSES for f in attrs.fields(cls) if f.metadata.get("path") == "write"]
    assert written
    for cls, field in written:
        for text in ("/tmp/x", "../x", "a/b", "..", ".", "~", "~/x", "", "a\0b"):
            assert not accepts(cls, field.alias, text)


IMPORTING = [
    pytest.param(kind, name, field, id=f"{name}.{field.alias}")
    for (kind, name), component in COMPONENTS.items()
    for field in attrs.fields(component.load_config() or RunSection)
    if field.metadata.get("imports")
]


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """Return the name of a module on `sys.path` that creates a file when it is imported."""
    code = f"open({str(tmp_path / 'executed')!r}, 'w').close()\ndef env(**options): ...\n"
    (tmp_path / "trust_canary.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(trust.MODULES_VARIABLE, "")
    monkeypatch.setenv(trust.PATH_VARIABLE, "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    yield "trust_canary"
    assert not (tmp_path / "executed").exists()


def test_the_options_that_name_modules_are_known() -> None:
    """They are those of the adapters to other libraries."""
    assert {parameter.id for parameter in IMPORTING} >= {
        "pettingzoo.id",
        "pettingzoo.wrappers",
        "pettingzoo.outcome",
        "gymnasium.id",
        "gymnasium.wrappers",
    }


@pytest.mark.parametrize(("kind", "name", "field"), IMPORTING)
def test_modules_that_are_not_trusted_are_refused(kind, name, field, canary) -> None:
    """Before anything is imported; also in tables of components within components."""
    for module in (canary, "subprocess", "os", f"{canary}.part", "pluggy"):
        path = f"{module}:env"
        values: list[Any] = [path, [path], [{"path": path, "options": {"cmd": "true"}}]]
        accepted = [value for value in values if accepts(COMPONENTS[kind, name].load_config(), field.alias, value)]
        assert accepted
        for value in accepted:
            with pytest.raises(ConfigError, match=rf"{name}\.{field.alias}: .*{module}"):
                select_components(PLUGINS, [(kind, name)], options={name: {field.alias: value}})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gymnasium", {"options": {"xml_file": "/etc/passwd"}}),
        ("gymnasium", {"wrappers": [{"path": "gymnasium.wrappers:TimeLimit", "options": {"file": "../x"}}]}),
        ("pettingzoo", {"options": {"auto_rom_install_path": "~/roms"}}),
        ("pettingzoo", {"wrappers": [{"path": "pettingzoo.utils:BaseWrapper", "options": {"file": "/x"}}]}),
    ],
)
def test_files_elsewhere_are_refused(name, options, monkeypatch) -> None:
    """A table that a game or a wrapper gets names files below the current folder only, unless it is trusted."""
    monkeypatch.setenv(trust.MODULES_VARIABLE, "")
    with pytest.raises(ConfigError, match=rf"leads out of the current folder.*--trust-module {name}"):
        select_components(PLUGINS, [("environment", name)], options={name: options})
    monkeypatch.setenv(trust.MODULES_VARIABLE, name)
    select_components(PLUGINS, [("environment", name)], options={name: options})


@pytest.mark.parametrize("outer", ["as-team", "team-reward", "with-interfaces"])
def test_modules_of_inner_components_are_refused(outer, canary) -> None:
    """A wrapper reads the table of the game that it wraps like a run file."""
    from ludus._run.factories import make_environment

    for module in (canary, "subprocess"):
        options: dict[str, Any] = {"game": "pettingzoo", "options": {"id": f"{module}:env"}}
        options |= {"with-interfaces": {"interfaces": {}}, "as-team": {"role": "player"}}.get(outer, {})
        (selected,) = select_components(PLUGINS, [("environment", outer)], options={outer: options})
        with pytest.raises(ConfigError, match=rf"environment\.{outer}\.options\.id: .*{module}"):
            make_environment(selected, 1)


@pytest.mark.parametrize("id", ["GymV21Environment-v0", "GymV26Environment-v0", "trust_canary:GymV26Environment-v0"])
def test_environments_that_import_others_need_trust(id) -> None:
    """They take the module of an environment of old Gym among their options."""
    imports = attrs.fields_dict(COMPONENTS["environment", "gymnasium"].load_config())["id"].metadata["imports"]
    assert "shimmy" in list(imports.modules(id))
    assert "shimmy" not in imports.libraries


#: Functions that execute what a text names, as they are called.
EXECUTING = re.compile(
    r"eval|exec|__import__|(builtins\.)?compile|(importlib\.)?import_module|(pkgutil\.)?resolve_name|runpy\.\w+"
    r"|Popen|subprocess\.\w+"
    r"|os\.(system|popen|spawn\w+|exec\w+|posix_spawn\w*)|(.+\.)?(exec_module|load_module|spec_from_file_location)"
    r"|(pickle|marshal|dill|cloudpickle|joblib|shelve|torch)\.(load|loads|open)"
)
#: Modules that call them with something else than a constant.
ALLOWED = {
    "core/ludus/__init__.py": "names of its own modules",
    "contrib_envs/ludus-copies/src/ludus_copies/imports.py": "wrappers and outcomes, whose options declare Imports",
    "contrib_envs/ludus-copies/src/ludus_copies/arrays.py": "factories of adapters",
    "contrib_envs/ludus-copies/src/ludus_copies/workers.py": "starts this interpreter",
    "contrib_envs/ludus-hok/src/ludus_hok/bridge.py": "starts the interpreter that a variable of the environment names",
    "contrib_envs/ludus-vizdoom/src/ludus_vizdoom/launcher.py": "replaces itself by the engine",
    "contrib_envs/ludus-remote/src/ludus_remote/launch.py": "replaces itself by the game",
    "contrib_envs/ludus-remote/src/ludus_remote/programs.py": "commands that the user allows",
    "contrib_envs/ludus-sc2/src/ludus_sc2/game_process.py": "starts the game that a variable of the environment names",
    "contrib_envs/ludus-sc2/src/ludus_sc2/launcher.py": "replaces itself by the game",
    "contrib_envs/ludus-pettingzoo/src/ludus_pettingzoo/environment.py": "ids, whose option declares Imports",
    "core/ludus/component.py": "import paths that plugins register",
    "plugins/ludus-agents/src/ludus_agents/python.py": "agents, whose option declares Imports",
    "plugins/ludus-bench/src/ludus_bench/_setup.py": "a module of an installed adapter",
    "plugins/ludus-bench/src/ludus_bench/watched_run.py": "starts this interpreter",
    "plugins/ludus-dashboard/src/ludus_dashboard/actions.py": "starts this interpreter",
    "plugins/ludus-local/src/ludus_local/process.py": "starts this interpreter",
    "plugins/ludus-terminal/src/ludus_terminal/league.py": "names of its own modules",
    "plugins/ludus-trackers/src/ludus_trackers/sinks.py": "names of its packages",
}


def executes(path: Path) -> bool:
    """Return whether a module calls one of the functions with something else than a constant."""
    return any(
        EXECUTING.fullmatch(ast.unparse(node.func)) and not (node.args and isinstance(node.args[0], ast.Constant))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    )


def test_code_is_executed_by_name_in_a_few_places_only() -> None:
    """A module that imports or executes what a text names is added here once the option declares `Imports`."""
    folders = (ROOT / folder for folder in ("core", "plugins", "contrib_envs", "contrib_algos"))
    sources = {path.relative_to(ROOT): path for folder in folders for path in folder.rglob("*.py")}
    shipped = [path for name, path in sources.items() if not {"tests", "testing", "build"} & set(name.parts)]
    assert len(shipped) > 200
    assert {str(path.relative_to(ROOT)) for path in shipped if executes(path)} == set(ALLOWED)
