"""What README and docs say is true: links, commands, TOML blocks, code, option tables."""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from configparser import ConfigParser
from pathlib import Path

import attrs
import click
import numpy as np
import pytest
from ludus.__main__ import cli
from ludus._config.run_config import load_config
from ludus._plugins.commands import BUILT_IN_COMMANDS
from ludus._plugins.loading import GROUP
from ludus._plugins.manager import load_plugins
from ludus._run.factories import make_matchmaker
from ludus._sampling.recorder import Recorder
from ludus._sampling.segment_layout import SegmentLayout
from ludus.environment import Role
from ludus.testing import FakeLeague, check_environment, fake_player

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
    """Return a path as the ids of the tests show it."""
    return str(path.relative_to(ROOT))


def text_of(path):
    """Return a page."""
    return path.read_text(encoding="utf-8")


def blocks(path, *languages):
    """Return the blocks of code of a page in the given languages."""
    return [code for language, code in BLOCK.findall(text_of(path)) if language in languages]


def anchors(path):
    """Return the anchors of a page's headings, as GitHub makes them."""
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
    """Yield the relative links of a page that lead nowhere."""
    for link in LINK.findall(BLOCK.sub("", text_of(path))):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("path", [*PAGES, *READMES], ids=relative)
def test_links_lead_somewhere(path):
    """Files exist, and headings that are linked to exist in them."""
    assert list(broken_links(path)) == []


def test_a_broken_link_is_seen(tmp_path):
    """The test above can fail."""
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
def test_descriptions_are_read_anywhere(path):
    """A package index shows the README alone: it links to nothing beside it."""
    links = LINK.findall(text_of(path.parent / metadata(path)["long_description"].removeprefix("file: ")))
    assert [link for link in links if not re.match(r"https://|#", link)] == []


@pytest.mark.parametrize("path", [path for path in PAGES if path.parent.name == "docs"], ids=relative)
def test_every_page_is_on_the_map(path):
    """docs/index.md names all pages beside it."""
    assert path.name == "index.md" or path.name in LINK.findall(text_of(ROOT / "docs" / "index.md"))


def test_the_layout_names_every_folder_of_tests():
    """CONTRIBUTING.md says what is in each of them."""
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    assert set(re.findall(r"^\| `tests/(\w+)/` \|", text_of(ROOT / "CONTRIBUTING.md"), re.MULTILINE)) == folders


@pytest.mark.parametrize("folder", sorted(ROOT.glob("*/ludus-*/setup.cfg")), ids=relative)
def test_the_table_of_packages_is_complete(folder):
    """docs/packages.md links to the README of every distribution."""
    assert f"(../{relative(folder.with_name('README.md'))})" in text_of(ROOT / "docs" / "packages.md")


# -- commands ------------------------------------------------------------------------------------------------------


def command_lines(path):
    """Return the ``ludus`` commands of a page: lines of shell blocks, and code in the text with arguments."""
    lines = [line for code in blocks(path, "sh", "") for line in code.splitlines()]
    spans = re.findall(r"`(ludus [^`]+)`", BLOCK.sub("", text_of(path)).replace("\n", " "))
    found = [line.strip() for line in [*lines, *spans] if re.match(r"ludus [a-z-]", line.strip())]
    return list(dict.fromkeys(found))


def misused(line):
    """Return what is wrong with a command line, None if it parses as far as words can tell."""
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
    return None if not words or isinstance(command, click.Group) else unparsed(command, words)


def unparsed(command, words):
    """Return the usage error of a command for these words; missing arguments are fine in running text."""
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
    """Every ``ludus`` command has the subcommands, options and arguments that are shown."""
    problems = {line: misused(line) for line in command_lines(path)}
    assert {line: problem for line, problem in problems.items() if problem} == {}


@pytest.mark.parametrize(
    "line",
    ["ludus trian run.toml", "ludus train --speed 3 run.toml", "ludus train a.toml b.toml", "ludus new-plugin game x"],
)
def test_a_wrong_command_is_seen(line):
    """The test above can fail."""
    assert misused(line)


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
    """Return what is installed."""
    return load_plugins()


@pytest.mark.parametrize("code", RUNS)
def test_complete_runs_load(code, plugins, tmp_path):
    """A block with an environment and players is a run without a mistake."""
    path = tmp_path / "run.toml"
    path.write_text(code, encoding="utf-8")
    assert load_config(path, plugins=plugins).players


def test_complete_runs_are_found():
    """The README, the configuration page and the environments page each show one."""
    assert len(RUNS) >= 3


@pytest.mark.parametrize("path", EXAMPLES, ids=relative)
def test_examples_load(path, plugins):
    """Every example is a run without a mistake."""
    assert load_config(path, plugins=plugins).players


@pytest.mark.parametrize("player", ["cat", "mouse"])
def test_the_weaker_side_of_the_aet_example_is_helped_as_in_the_paper(player, plugins):
    """[AET §3.3]: each of three modifiers by itself, in 45 %, 35 % and 15 % of the matches, so several in some."""
    config = load_config(ROOT / "examples" / "aet_chase.toml", plugins=plugins)
    sides = [fake_player("cat", 0, role="cat", team=0), fake_player("mouse", 0, role="mouse", team=1)]
    matchmaker, rng = make_matchmaker(plugins, config.players[player]), np.random.default_rng(0)
    for weaker, stronger, help_ in (
        ("mouse", "cat", ["mouse_level", "pushed", "mouse_boost"]),
        ("cat", "mouse", ["cat_level", "eliminated", "cat_boost"]),
    ):
        league = FakeLeague(players=sides, results={(f"{weaker}@0+", f"{stronger}@0+"): (0, 0, 100)})
        played = [matchmaker.next_fixture(league, player, rng).scenario.parameters for _ in range(5000)]
        drawn = np.array([[name in parameters for name in help_] for parameters in played])
        assert drawn.mean(axis=0) == pytest.approx([0.45, 0.35, 0.15], abs=0.03)
        assert drawn.all(axis=1).mean() == pytest.approx(0.45 * 0.35 * 0.15, abs=0.01)


def test_players_of_the_dis_example_meet_the_pools_that_they_share(plugins):
    """[DIS §3.1]: the superior models of main agent and policy explorer are no opponents of the method explorers."""
    config = load_config(ROOT / "examples" / "dis_team_game.toml", plugins=plugins)
    (shared,) = (rule.config.shared for rule in config.league.rules if rule.name == "superior")
    for name, player in config.players.items():
        met = {pool for pool in player.matchmaker.config.pools if pool in shared}
        assert met == {pool for pool, players in shared.items() if name in (players or (name,))}


@pytest.mark.parametrize("path", [*PAGES, *READMES], ids=relative)
def test_fragments_are_toml(path):
    """Blocks that are not whole runs are at least TOML."""
    assert all(tomllib.loads(code) for code in blocks(path, "toml"))


def test_the_game_of_the_environments_page_keeps_the_contract(tmp_path, monkeypatch):
    """The PettingZoo game is complete, and the adapter plays it as the page says."""
    pytest.importorskip("ludus_pettingzoo")
    page = text_of(ROOT / "docs" / "environments.md")
    code = re.search(r"<!-- code: pennies.py -->\n\n```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]
    (tmp_path / "pennies.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    component = load_plugins().get("environment", "pettingzoo")
    config = component.load_config()(id="pennies:Pennies", options={"rounds": 7})
    make = component.load_factory()
    check_environment(lambda matches: make(config, num_matches=matches), steps=30)


def test_the_example_of_segments_is_what_the_recorder_does():
    """The columns of docs/architecture.md: lengths, and what is trained on."""
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
        if recorder.end_matches(one, **zeros, terminated=~cut, truncated=cut).any():
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
    """docs/configuration.md says what the classes say; `python docs/make_configuration.py` writes it anew."""
    maker = script("make_configuration")
    page = text_of(maker.PAGE)
    assert maker.render(page, plugins) == page


def test_an_outdated_table_is_seen(plugins):
    """The test above can fail."""
    maker = script("make_configuration")
    page = text_of(maker.PAGE).replace("| `seed` | `0` |", "| `seed` | `7` |")
    assert maker.render(page, plugins) != page


@pytest.mark.parametrize("path", DISTRIBUTIONS[1:], ids=relative)
def test_components_are_in_the_readme_of_their_package(plugins, path):
    """In code, by the names that TOML files and the command line know them by."""
    page = path.with_name("README.md")
    code = "\n".join([*blocks(page, "sh", "toml"), *re.findall(r"`([^`\n]+)`", BLOCK.sub("", text_of(page)))])
    reports = [report for report in plugins.reports if report.distribution == metadata(path)["name"]]
    names = {component.name for report in reports for offered in report.offers.values() for component in offered}
    assert {name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", code)} == set()


@pytest.mark.parametrize("name", ["dqn", "mappo", "minimax-ppo", "ppo", "rnd-ppo", "sac"])
def test_options_of_an_algorithm_are_in_its_readme(plugins, name):
    """Those that it does not share, with default and line of meaning."""
    options = attrs.fields(plugins.components("algorithm")[name].load_config())
    [page] = ROOT.glob(f"*/{plugins.provider('algorithm', name).distribution}/README.md")
    default_of = script("make_configuration")._default
    for option in options:
        meaning = option.metadata["help"].replace("|", "\\|")
        row = f"| `{option.name}` | {default_of(option)} | {meaning} |"
        assert option.inherited or row in text_of(page).splitlines(), row


def core_modules():
    """Return the names of the modules and packages of the core."""
    core = ROOT / "core" / "ludus"
    return {path.stem for path in core.glob("*.py")} | {path.parent.name for path in core.glob("*/__init__.py")}


def test_modules_of_the_architecture_page_exist():
    """Every name in its table of modules is a module or package of the core, and all of them are there."""
    table = re.search(r"^\| modules \|.*?\n\n", text_of(ROOT / "docs" / "architecture.md"), re.MULTILINE | re.DOTALL)[0]
    named = {name for row in table.strip().splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == core_modules() - {"__init__", "__main__", "_version"}


def test_public_modules_are_in_the_api_reference():
    """Every module that plugins may import has its place in docs/api, once."""
    pages = [text_of(path) for path in sorted((ROOT / "docs" / "api").glob("*.md"))]
    named = [name for page in pages for name in re.findall(r"automodule:: ludus\.(\w+)$", page, re.MULTILINE)]
    assert sorted(named) == sorted(name for name in core_modules() if not name.startswith("_"))


def test_messages_of_the_architecture_page_exist():
    """Names like those of messages and classes in its code spans are in the core, the default launcher or PPO."""
    page = BLOCK.sub("", text_of(ROOT / "docs" / "architecture.md"))
    folders = [ROOT / "core", *(ROOT / "plugins" / name / "src" for name in ("ludus-local", "ludus-ppo"))]
    sources = "\n".join(text_of(path) for folder in folders for path in folder.rglob("*.py"))
    defined = set(re.findall(r"(?:class|def) (\w+)|^    (\w+):", sources, re.MULTILINE))
    defined = {name for pair in defined for name in pair if name}
    named = {name for span in re.findall(r"`([A-Z]\w+(?:\.\w+)*)`", page) for name in span.split(".")}
    outside = {"Box", "Ctrl", "LUDS", "SIGTERM"}
    assert named - defined - outside == set()


def test_hooks_of_the_hook_reference_exist():
    """And all of them are there."""
    from ludus import hookspecs

    shown = set(re.findall(r"^### `(ludus_\w+)`", text_of(ROOT / "docs" / "hooks.md"), re.MULTILINE))
    assert shown == {name for name in hookspecs.__all__ if name.startswith(f"{GROUP}_")}


@pytest.mark.parametrize("path", [*PAGES, *READMES, *EXAMPLES, *sorted((ROOT / "docs").glob("*.py"))], ids=relative)
def test_no_paths_of_one_machine(path):
    """The pages speak of no folder or registry of the machine on which they were written."""
    assert FORBIDDEN.findall(text_of(path)) == []


# -- the animation -------------------------------------------------------------------------------------------------


def test_a_match_becomes_an_animation():
    """Every stone appears once, at its move."""
    empty = ["..", ".."]
    picture = script("make_match_animation").draw([empty, ["..", "X."], ["O.", "X."]], ("a@1", "b"))
    assert picture.count("<animate ") == 2
    assert ">a@1</text>" in picture
    assert ">b</text>" in picture
