"""Check links, commands, TOML blocks, code and option tables of the documentation."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from configparser import ConfigParser
from pathlib import Path

import attrs
import click
import ludus
import numpy as np
import pytest
from ludus.__main__ import cli
from ludus._config.run_config import load_config, select_components
from ludus._plugins.loading import GROUP
from ludus._plugins.manager import BUILT_IN_COMMANDS, load_plugins
from ludus._run.factories import make_matchmaker
from ludus._sampling.recorder import Recorder
from ludus._sampling.segment_layout import SegmentLayout
from ludus.environment import Role, Scenario
from ludus.hookspecs import KINDS
from ludus.option import presets_of
from ludus.testing import FakeLeague, check_environment, fake_player
from ludus_chase.scenario import handicaps

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
READMES = [ROOT / "core" / "README.md", *sorted(ROOT.glob("*/*/README.md"))]
DISTRIBUTIONS = [ROOT / "setup.cfg", *sorted(ROOT.glob("*/*/setup.cfg"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FORBIDDEN = re.compile(r"(?<![\w.])/(?:root|home|opt|tmp)/|file://|localhost:\d+", re.ASCII)


def relative(path):
    """Return a path relative to the repository, for test ids."""
    return str(path.relative_to(ROOT))


def text_of(path):
    """Return the text of a page."""
    return path.read_text(encoding="utf-8")


def blocks(path, *languages):
    """Return the code blocks of a page in some languages."""
    return [code for language, code in BLOCK.findall(text_of(path)) if language in languages]


def anchors(path):
    """Return the anchors of a page's headings, in the format of GitHub."""
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", text_of(path)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def script(name):
    """Import a script of the folder docs."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- links ---------------------------------------------------------------------------------------------------------


def broken_links(path):
    """Yield the relative links of a page to missing files and headings."""
    for link in LINK.findall(BLOCK.sub("", text_of(path))):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("path", [*PAGES, *READMES], ids=relative)
def test_links_have_targets(path):
    """The files and headings that a page links to exist."""
    assert list(broken_links(path)) == []


def test_broken_links_are_found(tmp_path):
    """The search reports missing files and headings."""
    page = tmp_path / "page.md"
    page.write_text(
        "# A b\n[x](#a-b) [x](page.md#a-b) [x](#c) [x](none.md) [x](https://example.org)\n", encoding="utf-8"
    )
    assert list(broken_links(page)) == ["#c", "none.md"]


def metadata(path):
    """Return the metadata of a setup.cfg."""
    parser = ConfigParser()
    parser.read(path)
    return parser["metadata"]


@pytest.mark.parametrize("path", DISTRIBUTIONS, ids=relative)
def test_package_descriptions_have_no_relative_links(path):
    """A package index shows the README without the files beside it."""
    links = LINK.findall(text_of(path.parent / metadata(path)["long_description"].removeprefix("file: ")))
    assert [link for link in links if not re.match(r"https://|#", link)] == []


@pytest.mark.parametrize("path", [path for path in PAGES if path.parent.name == "docs"], ids=relative)
def test_index_lists_every_page(path):
    """docs/index.md links to all pages beside it."""
    assert path.name == "index.md" or path.name in LINK.findall(text_of(ROOT / "docs" / "index.md"))


def test_the_layout_names_every_folder_of_tests():
    """CONTRIBUTING.md describes each folder of tests."""
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    assert set(re.findall(r"^\| `tests/(\w+)/` \|", text_of(ROOT / "CONTRIBUTING.md"), re.MULTILINE)) == folders


@pytest.mark.parametrize("folder", sorted(ROOT.glob("*/ludus-*/setup.cfg")), ids=relative)
def test_the_table_of_packages_is_complete(folder):
    """docs/packages.md links to the README of every distribution."""
    assert f"(../{relative(folder.with_name('README.md'))})" in text_of(ROOT / "docs" / "packages.md")


# -- commands ------------------------------------------------------------------------------------------------------


def command_lines(path):
    """Return the ``ludus`` commands of a page, from shell blocks and code spans."""
    lines = [line for code in blocks(path, "sh", "") for line in code.splitlines()]
    spans = re.findall(r"`(ludus [^`]+)`", BLOCK.sub("", text_of(path)).replace("\n", " "))
    found = [line.strip() for line in [*lines, *spans] if re.match(r"ludus [a-z-]", line.strip())]
    return list(dict.fromkeys(found))


def command_error(line):
    """Return the usage error of a command line, or None if it parses."""
    words = shlex.split(line.replace("…", ""), comments=True)[1:]
    if words == ["plugins"] or words[0].isupper():
        return None
    context = click.Context(cli, info_name="ludus")
    while words and words[0] in ("--block-plugin", "--allow-plugin"):
        words = words[2:]
    command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        try:
            command = command.get_command(context, words[0])
        except click.UsageError as error:
            return error.message
        if command is None:
            return f"no command {words[0]}"
        words = words[1:]
    known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in known]
    if unknown:
        return f"no option {unknown[0]}"
    return None if not words or isinstance(command, click.Group) else parse_error(command, words)


def parse_error(command, words):
    """Return the usage error of a command for these words, or None; running text may omit arguments."""
    try:
        command.make_context("ludus", words, resilient_parsing=False)
    except click.MissingParameter:
        return None
    except click.BadParameter as error:
        return None if re.search(r"[A-Z]{2}", " ".join(words)) else error.message  # placeholders such as MORE
    except click.UsageError as error:
        return error.message
    return None


@pytest.mark.parametrize("path", [*PAGES, *READMES], ids=relative)
def test_commands_parse(path):
    """Every ``ludus`` command on a page has valid subcommands, options and arguments."""
    problems = {line: command_error(line) for line in command_lines(path)}
    assert {line: problem for line, problem in problems.items() if problem} == {}


@pytest.mark.parametrize(
    "line",
    ["ludus trian run.toml", "ludus train --speed 3 run.toml", "ludus train a.toml b.toml", "ludus new-plugin game x"],
)
def test_wrong_commands_are_found(line):
    """The parser reports unknown commands, options and arguments."""
    assert command_error(line)


def test_commands_are_found():
    """docs/commands.md lists every command that is installed."""
    shown = {line.split()[1] for line in command_lines(ROOT / "docs" / "commands.md")}
    assert shown == {*BUILT_IN_COMMANDS, *load_plugins().components("command")} - {"dummy-hello"}


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_make_targets_exist(path):
    """Every ``make`` command is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    used = re.findall(r"(?:^|`|PYTHON=\S+ )make ([a-z-]+)", text_of(path), re.MULTILINE)
    assert set(used) <= targets


# -- TOML and code -------------------------------------------------------------------------------------------------

EXAMPLES = sorted(ROOT.glob("examples/*.toml"))
RUNS = [
    pytest.param(code, id=f"{relative(path)}-{i}")
    for path in PAGES
    for i, code in enumerate(blocks(path, "toml"))
    if {"environment", "players"} <= tomllib.loads(code).keys()
]


@pytest.fixture(scope="module")
def plugins():
    """Return the installed plugins."""
    return load_plugins()


@pytest.mark.parametrize("code", RUNS)
def test_complete_runs_load(code, plugins, tmp_path):
    """A block with an environment and players is a valid run."""
    path = tmp_path / "run.toml"
    path.write_text(code, encoding="utf-8")
    assert load_config(path, plugins=plugins).players


def test_complete_runs_are_found():
    """The README, the configuration page and the environments page each show one."""
    assert len(RUNS) >= 3


@pytest.mark.parametrize("path", EXAMPLES, ids=relative)
def test_commands_of_examples_parse(path):
    """The comments at the top of an example are commands that work."""
    commands = re.findall(r"^#   (ludus .*)$", text_of(path), re.MULTILINE)
    assert commands
    problems = {line: command_error(line) for line in commands}
    assert {line: problem for line, problem in problems.items() if problem} == {}


@pytest.mark.parametrize("path", EXAMPLES, ids=relative)
def test_examples_load(path, plugins):
    """Every example is a valid run."""
    assert load_config(path, plugins=plugins).players


@pytest.mark.parametrize("player", ["cat", "mouse"])
def test_the_aet_example_modifies_matches_as_in_the_paper(player, plugins):
    """[AET §3.3]: three independent modifiers help the weaker side in 45 %, 35 % and 15 % of the matches.

    They begin once the sides were unbalanced for a period, and combine in one match that the game accepts.
    """
    config = load_config(ROOT / "examples" / "aet_chase.toml", plugins=plugins)
    sides = [fake_player("cat", 0, role="cat", team=0), fake_player("mouse", 0, role="mouse", team=1)]
    matchmaker, rng = make_matchmaker(plugins, config.players[player]), np.random.default_rng(0)
    for weaker, stronger, help_ in (
        ("mouse", "cat", [{"mouse_level"}, {"pushed", "cat_speed", "hit_power"}, {"mouse_boost"}]),
        ("cat", "mouse", [{"cat_level"}, {"eliminated", "health", "mouse_speed"}, {"cat_boost"}]),
    ):
        lost = {(f"{weaker}@0+", f"{stronger}@0+"): (0, 0, 100)}
        early, league = (FakeLeague(players=sides, results=lost, elapsed_s=elapsed_s) for elapsed_s in (59.0, 60.0))
        assert matchmaker.next_fixture(early, player, rng).scenario == Scenario()
        scenarios = [matchmaker.next_fixture(league, player, rng).scenario for _ in range(5000)]
        handicaps(scenarios, 5000)  # the game accepts them
        played = [scenario.parameters.keys() for scenario in scenarios]
        drawn = np.array([[bool(names & parameters) for names in help_] for parameters in played])
        assert drawn.mean(axis=0) == pytest.approx([0.45, 0.35, 0.15], abs=0.03)
        assert drawn.all(axis=1).mean() == pytest.approx(0.45 * 0.35 * 0.15, abs=0.01)


def test_players_of_the_dis_example_play_against_their_shared_pools(plugins):
    """[DIS §3.1]: superior models of main agent and policy explorer are no opponents of the method explorers."""
    config = load_config(ROOT / "examples" / "dis_team_game.toml", plugins=plugins)
    (shared,) = (rule.config.shared for rule in config.league.rules if rule.name == "superior")
    for name, player in config.players.items():
        met = {pool for pool in player.matchmaker.config.pools if pool in shared}
        assert met == {pool for pool, players in shared.items() if name in (players or (name,))}


@pytest.mark.parametrize("path", [*PAGES, *READMES], ids=relative)
def test_fragments_are_toml(path):
    """Every TOML block is valid TOML."""
    assert all(tomllib.loads(code) for code in blocks(path, "toml"))


def test_the_game_of_the_environments_page_keeps_its_contract(tmp_path, monkeypatch):
    """The PettingZoo game works with the adapter."""
    pytest.importorskip("ludus_pettingzoo")
    page = text_of(ROOT / "docs" / "environments.md")
    code = re.search(r"<!-- code: pennies.py -->\n\n```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "pennies.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    component = load_plugins().get("environment", "pettingzoo")
    config = component.load_config()(id="pennies:Pennies", options={"rounds": 7})
    make = component.load_factory()
    check_environment(lambda matches: make(config, num_matches=matches), steps=30)


def test_the_example_of_segments_equals_the_recorder():
    """docs/architecture.md shows the lengths and the trainable decisions of each column."""
    from gymnasium import spaces

    role = Role(
        name="player",
        observation_space=spaces.Box(0, 1, (1,), np.float32),
        action_space=spaces.Discrete(2),
        teams=(0,),
    )
    recorder = Recorder(SegmentLayout.for_role(role, fields=(), decisions=4), 3)
    columns = recorder.open_trajectories(3)

    def decide(column):
        one = columns[[column]]
        recorder.assign_rewards(one, reward=np.zeros(1, np.float32), elapsed_ticks=np.ones(1, np.int32))
        entry = {"observation/obs": np.zeros((1, 1), np.float32), "action": np.zeros((1, 1), np.int64)}
        recorder.add_decisions(one, entry, version=0)

    def end(column, *, truncated):
        one, cut = columns[[column]], np.array([truncated])
        zeros = {"reward": np.zeros(1, np.float32), "elapsed_ticks": np.ones(1, np.int32)}
        if recorder.end_trajectories(one, **zeros, terminated=~cut, truncated=cut).any():
            recorder.add_final_observations(one, {"observation/obs": np.ones((1, 1), np.float32)})

    for column, first, truncated, after in ((0, 2, False, 3), (1, 2, True, 1)):
        for _ in range(first):
            decide(column)
        end(column, truncated=truncated)
        for _ in range(after):
            decide(column)
    decide(2)
    decide(2)
    assert recorder.full
    batch = recorder.flush()
    table = re.search(r"^\| `length` \|(.*)\|$", text_of(ROOT / "docs" / "architecture.md"), re.MULTILINE)[1]
    assert batch.length.tolist() == [int(cell) for cell in table.split("|")]
    assert batch.trainable().sum(axis=0).tolist() == [4, 2, 1]
    assert batch.decided[:, 1].tolist() == [True, True, False, True, False]


# -- names and tables ----------------------------------------------------------------------------------------------


def test_option_tables_are_up_to_date(plugins):
    """docs/configuration.md shows the options of all classes; `python docs/make_configuration.py` updates it."""
    maker = script("make_configuration")
    page = text_of(maker.PAGE)
    assert maker.render(page, plugins) == page


def test_an_outdated_table_is_found(plugins):
    """A wrong default makes the page out of date."""
    maker = script("make_configuration")
    page = text_of(maker.PAGE).replace("| `seed` | `0` |", "| `seed` | `7` |")
    assert maker.render(page, plugins) != page


def installed_presets(plugins):
    """Yield kind, component, preset and options of every preset of this repository but those of ludus-dummy."""
    for kind in KINDS:
        for name, component in plugins.components(kind).items():
            if not name.startswith("dummy-"):
                for preset, options in presets_of(component.load_config()).items():
                    yield kind, name, preset, options


def test_presets_are_valid(plugins):
    """Every preset of every component can be selected."""
    for kind, name, preset, _ in installed_presets(plugins):
        select_components(plugins, [(kind, name)], options={name: {"preset": preset}})


def test_papers_page_lists_the_numbers_of_all_presets(plugins):
    """docs/papers.md has a row for every option of a paper's preset, in the section of the paper, and no other rows."""
    toml = script("make_configuration")._toml
    expected = {
        (preset.partition("-")[0], f"`{option}`", f"`{toml(value)}`")
        for _, _, preset, options in installed_presets(plugins)
        if preset not in ("slow-game", "small", "medium", "atari", "impala")  # of none of these papers
        for option, value in options.items()
    }
    found = set()
    for section in text_of(ROOT / "docs" / "papers.md").split("\n## ")[1:]:
        paper = section.partition(":")[0].lower()
        rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
        found |= {(paper, row[0].removeprefix("| "), row[1]) for row in rows}
    assert found == expected


@pytest.mark.parametrize("path", DISTRIBUTIONS[1:], ids=relative)
def test_components_are_in_the_readme_of_their_package(plugins, path):
    """The README has the name of every component in a code span or block."""
    page = path.with_name("README.md")
    code = "\n".join([*blocks(page, "sh", "toml"), *re.findall(r"`([^`\n]+)`", BLOCK.sub("", text_of(page)))])
    reports = [report for report in plugins.reports if report.distribution == metadata(path)["name"]]
    names = {component.name for report in reports for offered in report.offers.values() for component in offered}
    assert {name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", code)} == set()


@pytest.mark.parametrize("name", ["dqn", "mappo", "minimax-ppo", "ppo", "rnd-ppo", "sac"])
def test_options_of_an_algorithm_are_in_its_readme(plugins, name):
    """The README has a row with default and help for every option; PPO documents those that others inherit from it."""
    options = attrs.fields(plugins.components("algorithm")[name].load_config())
    [page] = ROOT.glob(f"*/{plugins.provider('algorithm', name).distribution}/README.md")
    default_of = script("make_configuration")._default
    for option in options:
        meaning = option.metadata["help"].replace("|", "\\|")
        row = f"| `{option.name}` | {default_of(option)} | {meaning} |"
        is_in_ppo = option.inherited and name not in {"dqn", "sac"}
        assert is_in_ppo or row in text_of(page).splitlines(), row


def core_modules():
    """Return the names of the modules and packages of the core."""
    core = ROOT / "core" / "ludus"
    return {path.stem for path in core.glob("*.py")} | {path.parent.name for path in core.glob("*/__init__.py")}


def test_modules_of_the_architecture_page_exist():
    """The table of modules lists all modules and packages of the core, and no others."""
    table = re.search(r"^\| modules \|.*?\n\n", text_of(ROOT / "docs" / "architecture.md"), re.MULTILINE | re.DOTALL)[0]
    named = {name for row in table.strip().splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == core_modules() - {"__init__", "__main__", "_version"}


def test_public_modules_are_in_the_api_reference():
    """docs/api has every public module exactly once."""
    pages = [text_of(path) for path in sorted((ROOT / "docs" / "api").glob("*.md"))]
    named = [name for page in pages for name in re.findall(r"automodule:: ludus\.(\w+)$", page, re.MULTILINE)]
    assert sorted(named) == sorted(name for name in core_modules() if not name.startswith("_"))


def test_messages_of_the_architecture_page_exist():
    """Names in code spans that look like messages or classes are defined in the core, ludus-local or ludus-ppo."""
    page = BLOCK.sub("", text_of(ROOT / "docs" / "architecture.md"))
    folders = [ROOT / "core", *(ROOT / "plugins" / name / "src" for name in ("ludus-local", "ludus-ppo"))]
    sources = "\n".join(text_of(path) for folder in folders for path in folder.rglob("*.py"))
    defined = set(re.findall(r"(?:class|def) (\w+)|^    (\w+):", sources, re.MULTILINE))
    defined = {name for pair in defined for name in pair if name}
    named = {name for span in re.findall(r"`([A-Z]\w+(?:\.\w+)*)`", page) for name in span.split(".")}
    outside = {"Box", "Ctrl", "LUDS", "SIGTERM"}
    assert named - defined - outside == set()


def test_hooks_of_the_hook_reference_exist():
    """The hook reference describes all hooks, and no others."""
    from ludus import hookspecs

    shown = set(re.findall(r"^### `(ludus_\w+)`", text_of(ROOT / "docs" / "hooks.md"), re.MULTILINE))
    assert shown == {name for name in hookspecs.__all__ if name.startswith(f"{GROUP}_")}


@pytest.mark.parametrize("path", [*PAGES, *READMES, *EXAMPLES, *sorted((ROOT / "docs").glob("*.py"))], ids=relative)
def test_no_paths_of_one_machine(path):
    """Pages contain no absolute paths or local registries."""
    assert FORBIDDEN.findall(text_of(path)) == []


# -- the animation -------------------------------------------------------------------------------------------------


def test_a_match_becomes_an_animation():
    """Every stone appears once, at its move."""
    empty = ["..", ".."]
    picture = script("make_match_animation").draw([empty, ["..", "X."], ["O.", "X."]], ("a@1", "b"))
    assert picture.count("<animate ") == 2
    assert ">a@1</text>" in picture
    assert ">b</text>" in picture


def test_the_animation_is_written_into_the_run_folder(tmp_path, monkeypatch, capsys):
    """No tracked file is overwritten unless --out names it."""
    tables = {
        "run": {"workers": 0, "decisions": 100},
        "environment": {"name": "connect4"},
        "sampling": {"matches": 4},
        "players": {"main": {"algorithm": "dummy-gradient", "matchmaker": "dummy-uniform"}},
        "anchors": {"random": {"agent": "random"}},
        "evaluation": {"enabled": False, "final_matches": 0},
    }
    with ludus.train(tables, run_dir=tmp_path / "run"):
        pass
    monkeypatch.setattr("sys.argv", ["make_match_animation.py", str(tmp_path / "run"), "--opponent", "random"])
    assert script("make_match_animation").main() == 0
    assert str(tmp_path / "run" / "match.svg") in capsys.readouterr().out
    assert "<animate " in (tmp_path / "run" / "match.svg").read_text(encoding="utf-8")
