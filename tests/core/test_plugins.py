"""Loading plugins: one that breaks, clashes or misspells a hook never takes the others down."""

from __future__ import annotations

import logging
import re
import shutil
import sys

import pytest
from ludus import API_LEVEL, PluginError, UnknownComponent
from ludus._plugins.loading import ALLOW_VARIABLE, BLOCK_VARIABLE, EVENTS
from ludus._plugins.manager import load_plugins

GOOD = """
from ludus import Component, hookimpl
@hookimpl
def ludus_register_agents():
    return [Component(name={name!r}, factory="collections:OrderedDict")]
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return an installer of distributions of one plugin module each, which hides all other distributions."""
    monkeypatch.delenv(ALLOW_VARIABLE, raising=False)
    monkeypatch.delenv(BLOCK_VARIABLE, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def install(name, code="", *, points=None, distribution=None):
        module = f"ludus_test_{tmp_path.name.replace('-', '_')}_{name}"
        distribution = distribution or f"ludus-{name}"
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        lines = "\n".join(f"{point} = {module}" for point in points or [name])
        (info / "entry_points.txt").write_text(f"[ludus]\n{lines}\n")
        names.append(distribution)
        return module

    def load(**options):
        loaded = load_plugins(**options)
        loaded.reports = tuple(report for report in loaded.reports if report.distribution in names)
        return loaded

    install.load = load
    return install


def only(loaded):
    """Return the single report."""
    (report,) = loaded.reports
    return report


def test_valid_plugin_is_reported(installed):
    """The report holds its distribution, version and components."""
    installed("good", GOOD.format(name="a"))
    report = only(installed.load())
    assert (report.name, report.distribution, report.version, report.status) == ("good", "ludus-good", "1.2", "ok")
    assert [part.name for part in report.offers["agent"]] == ["a"]
    assert report.problems == ()


def test_components_are_found_by_kind_and_name(installed):
    """`components`, `get` and `provider` return the same component."""
    installed("good", GOOD.format(name="test-a"))
    loaded = installed.load(allow=["good"])
    assert list(loaded.components("agent")) == ["test-a"]
    assert loaded.get("agent", "test-a") is loaded.components("agent")["test-a"]
    assert loaded.provider("agent", "test-a").name == "good"
    assert loaded.components("network") == {}


BROKEN = {
    "raises when imported": ("raise ZeroDivisionError('first\\nsecond')", "ZeroDivisionError: first second"),
    "exits when imported": ("raise SystemExit(3)", "SystemExit: 3"),
    "panics when imported": ("class Panic(BaseException): pass\nraise Panic('at lib.rs:3')", "Panic: at lib.rs:3"),
    "does not parse": ("def", "SyntaxError"),
    "misspells a hook": (
        "from ludus import hookimpl\n@hookimpl\ndef ludus_register_agent(): return []",
        "implements unknown hook ludus_register_agent — did you mean 'ludus_register_agents'?",
    ),
    "knows a strange hook": (
        "from ludus import hookimpl\n@hookimpl\ndef zzz(): return []",
        "implements unknown hook zzz",
    ),
    "forgets the decorator": ("def ludus_register_agents(): return []", "ludus_register_agents lacks the decorator"),
    "takes an unknown argument": (
        "from ludus import hookimpl\n@hookimpl\ndef ludus_model_frozen(player, color): pass",
        "PluginValidationError",
    ),
    "raises in a hook": (
        "from ludus import hookimpl\n@hookimpl\ndef ludus_register_agents(): return 1 / 0",
        "ludus_register_agents raised ZeroDivisionError: division by zero",
    ),
    "returns nothing": (
        "from ludus import hookimpl\n@hookimpl\ndef ludus_register_agents(): pass",
        "ludus_register_agents returned None",
    ),
    "returns a number": (
        "from ludus import hookimpl\n@hookimpl\ndef ludus_register_agents(): return 7",
        "ludus_register_agents returned 7, expected a list",
    ),
    "returns names": (
        "from ludus import hookimpl\n@hookimpl\ndef ludus_register_agents(): return ['a']",
        "returned a list with 'a'",
    ),
    "returns one component bare": (
        GOOD.format(name="a").replace("[", "").replace("]", ""),
        "expected a list of ludus.Component",
    ),
    "offers a name twice": (GOOD.format(name="a").replace("]", "] * 2"), "two components named 'a'"),
    "offers a wrong name": (
        GOOD.format(name="A b"),
        "ludus_register_agents raised ValueError: name: expected a name",
    ),
    "has a level that is a text": ("LUDUS_API = '1'", "LUDUS_API is '1', expected a whole number"),
    "has a level that is nothing": ("LUDUS_API = None", "LUDUS_API is None, expected a whole number"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_plugin_is_reported(installed, case):
    """One line holds the cause and how to disable the plugin; other plugins are loaded."""
    code, cause = BROKEN[case]
    installed("bad", code)
    installed("good", GOOD.format(name="test-good"))
    loaded = installed.load()
    bad, good = loaded.reports
    assert (bad.status, good.status) == ("broken", "ok")
    (problem,) = bad.problems
    assert cause in problem
    assert "\n" not in problem
    assert "LUDUS_BLOCK_PLUGINS=bad" in problem
    assert "test-good" in loaded.components("agent")
    assert bad.offers == {}


RAISES = {
    "when imported": ("\nraise ZeroDivisionError", 2),
    "in a hook": (GOOD.format(name="A b"), 5),
    "in a generator": (GOOD.format(name="a").replace("return [", "yield ").replace(")]", ")\n    1 / 0"), 6),
}


@pytest.mark.parametrize("case", RAISES)
def test_problem_names_the_line_of_the_plugin(installed, case):
    """It is the innermost line of the plugin's package."""
    code, number = RAISES[case]
    module = installed("bad", code)
    assert f"({module}, line {number}) — fix it" in only(installed.load()).problems[0]


@pytest.mark.parametrize("debug", ["", "1"])
def test_ludus_debug_logs_tracebacks_of_loading(installed, monkeypatch, caplog, debug):
    """LUDUS_DEBUG applies to all errors."""
    installed("bad", GOOD.format(name="A b"))
    monkeypatch.setenv("LUDUS_DEBUG", debug)
    installed.load(allow=["bad"])
    assert ("in ludus_register_agents" in caplog.text) == bool(debug)


def test_register_hook_may_be_a_generator(installed):
    """It yields components."""
    installed("good", GOOD.format(name="a").replace("return [", "yield ").replace(")]", ")"))
    assert [part.name for part in only(installed.load()).offers["agent"]] == ["a"]


def test_newer_api_level_is_refused(installed):
    """The problem names the level and suggests an upgrade."""
    installed("new", f"LUDUS_API = {API_LEVEL + 1}\n" + GOOD.format(name="a"))
    report = only(installed.load())
    assert report.status == "refused"
    assert report.offers == {}
    assert f"needs plugin API level {API_LEVEL + 1}" in report.problems[0]
    assert "upgrade ludus" in report.problems[0]


def test_current_api_level_is_accepted(installed):
    """The plugin is loaded."""
    installed("same", f"LUDUS_API = {API_LEVEL}")
    assert only(installed.load()).status == "ok"


def test_module_without_hooks_has_a_problem(installed):
    """The entry point may name the wrong module; hooks that return no components are fine."""
    module = installed("wrong", "import ludus")
    installed("zero", "from ludus import hookimpl\n@hookimpl\ndef ludus_register_agents(): return []")
    wrong, zero = installed.load().reports
    assert (wrong.status, zero.status) == ("ok", "ok")
    assert wrong.problems == (f"{module} implements no hook — let the entry point name the module that does",)
    assert zero.problems == ()


def test_entry_points_of_one_name_are_all_loaded(installed):
    """Neither shadows the other."""
    installed("one", GOOD.format(name="a"), points=["same"])
    installed("two", GOOD.format(name="b"), points=["same"])
    assert [(report.name, report.status) for report in installed.load().reports] == [("same", "ok")] * 2


def test_entry_points_of_one_module_clash(installed):
    """They are two plugins with equal components."""
    installed("one", GOOD.format(name="a"), points=["x", "y"])
    assert all("'a' is provided by" in report.problems[0] for report in installed.load().reports)


def test_duplicate_distribution_is_loaded_once(installed, tmp_path, monkeypatch):
    """Its metadata may be in two folders of sys.path."""
    installed("one", GOOD.format(name="a"))
    second = tmp_path / "second"
    shutil.copytree(tmp_path / "ludus_one-1.2.dist-info", second / "ludus_one-1.2.dist-info")
    monkeypatch.syspath_prepend(second)
    assert only(installed.load()).problems == ()


@pytest.fixture
def clashing(installed):
    """Load two distributions that both offer the agent test-a, and the second one test-b too."""
    both = GOOD.format(name="test-a").replace("]", ", Component(name='test-b', factory='collections:Counter')]")
    installed("zebra", both)
    installed("ant", GOOD.format(name="test-a"))
    return installed


def test_clash_is_a_problem_of_both_plugins(clashing):
    """Each problem names both distributions and which one to block; both stay loaded."""
    for report in clashing.load().reports:
        assert report.status == "ok"
        (problem,) = report.problems
        assert "agent 'test-a' is provided by ludus-ant (plugin ant) and ludus-zebra (plugin zebra)" in problem
        assert "LUDUS_BLOCK_PLUGINS=zebra keeps that of ludus-ant" in problem


def test_clashing_component_of_the_first_distribution_is_listed(clashing):
    """Distributions are sorted by name."""
    assert clashing.load().provider("agent", "test-a").distribution == "ludus-ant"


def test_clashing_component_is_an_error(clashing):
    """Other components of the same plugins can be used."""
    loaded = clashing.load()
    with pytest.raises(PluginError, match="LUDUS_BLOCK_PLUGINS=zebra"):
        loaded.get("agent", "test-a")
    assert loaded.get("agent", "test-b").name == "test-b"


def test_blocking_one_plugin_resolves_a_clash(clashing):
    """The component of the other plugin is used."""
    loaded = clashing.load(block=["ant"])
    assert loaded.get("agent", "test-a")
    assert loaded.provider("agent", "test-a").distribution == "ludus-zebra"


@pytest.mark.parametrize("names", [("ant", "zebra"), ("same", "same"), ("ant", "ludus_ant")])
def test_suggested_block_resolves_a_clash(installed, names):
    """It blocks one plugin only, even if entry points and distributions share names."""
    for distribution, point in zip(("ludus-ant", "ludus-zebra"), names, strict=True):
        installed(distribution[6:], GOOD.format(name="test-a"), points=[point], distribution=distribution)
    first = installed.load().reports[0]
    advice = re.search(rf"{BLOCK_VARIABLE}=(\S+) keeps that of ludus-ant", first.problems[0])
    drained = installed.load(block=[advice[1]])
    assert [report.status for report in drained.reports] == ["ok", "blocked"]
    assert drained.reports[0].problems == ()


@pytest.mark.parametrize("name", ["bad", "ludus-bad", "LUDUS_Bad"])
def test_blocked_plugins_are_not_imported(installed, name):
    """Names of entry points and distributions are normalized as by pip."""
    installed("bad", "raise AssertionError")
    assert only(installed.load(block=[name])).status == "blocked"


def test_only_allowed_plugins_are_loaded(installed):
    """If any plugin is allowed, all others are blocked."""
    installed("one", GOOD.format(name="a"))
    installed("two", "raise AssertionError")
    loaded = installed.load(allow=["ludus-one"])
    assert [report.status for report in loaded.reports] == ["ok", "blocked"]


def test_blocking_takes_precedence_over_allowing(installed):
    """A plugin that is allowed and blocked is not loaded."""
    installed("one")
    assert only(installed.load(allow=["one"], block=["one"])).status == "blocked"


def test_environment_variables_extend_the_arguments(installed, monkeypatch):
    """Spaces and empty names are ignored."""
    for name in ("one", "two", "three"):
        installed(name)
    monkeypatch.setenv(BLOCK_VARIABLE, " one ,,")
    assert [report.status for report in installed.load(block=["two"]).reports] == ["blocked", "ok", "blocked"]
    monkeypatch.setenv(ALLOW_VARIABLE, "two")
    assert [report.status for report in installed.load().reports] == ["blocked", "blocked", "ok"]


def test_unmatched_names_are_problems(installed):
    """A misspelt name suggests a similar one."""
    installed("one")
    plugins = installed.load(allow=["one"], block=["oen", "nobody"])
    assert plugins.unmatched == ("oen", "nobody")
    unknown = "is to be allowed or blocked, but no installed plugin has that name"
    assert [line.partition(" (see ")[0] for line in plugins.unmatched_names()] == [
        f"'oen' {unknown} — did you mean 'one'?",
        f"'nobody' {unknown}",
    ]


def test_unreadable_metadata_is_skipped(installed, tmp_path, caplog):
    """A warning is logged."""
    installed("good", GOOD.format(name="a"))
    info = tmp_path / "damaged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: damaged\nVersion: 1.0\n")
    (info / "entry_points.txt").write_bytes(b"[ludus]\n\xff\xfe = x\n")
    assert only(installed.load()).status == "ok"
    assert "cannot read the metadata" in caplog.text


def test_unknown_component_error(installed):
    """The message suggests a similar name, lists installed ones, and how to install more."""
    installed("good", GOOD.format(name="test-agent"))
    installed("bad", "raise AssertionError")
    loaded = installed.load(allow=["good", "bad"])
    for ask in (loaded.get, loaded.provider):
        with pytest.raises(UnknownComponent) as caught:
            ask("agent", "test-agnet")
        message = str(caught.value)
        assert "no installed plugin provides the agent 'test-agnet'" in message
        assert "did you mean 'test-agent'?" in message
        assert "installed: test-agent" in message
        assert "pip install ludus-" in message
        assert "not loaded: bad" in message


def test_unknown_component_of_an_empty_kind(installed):
    """The message states that none is installed."""
    installed("good")
    with pytest.raises(UnknownComponent, match="no network is installed"):
        installed.load(allow=["good"]).get("network", "x")


LISTENER = """
from ludus import hookimpl
heard = []
@hookimpl
def ludus_model_frozen(player, model):
    heard.append((player, model))
    {then}
"""


@pytest.mark.parametrize("error", ["ZeroDivisionError: oh", "SystemExit: 3"])
def test_events_reach_all_plugins_despite_exceptions(installed, caplog, error):
    """An exception of a plugin, or its exit, is logged once."""
    kind, _, value = error.partition(": ")
    installed("bad", LISTENER.format(then=f"raise {kind}({value!r})"))
    module = installed("good", LISTENER.format(then="pass"))
    loaded = installed.load(allow=["bad", "good"])
    with caplog.at_level(logging.ERROR, "ludus.plugins"):
        for number in range(3):
            loaded.emit("ludus_model_frozen", player="p", model=f"p@{number}", manifest={})
    assert sys.modules[module].heard == [("p", "p@0"), ("p", "p@1"), ("p", "p@2")]
    (record,) = (record for record in caplog.records if record.name == "ludus.plugins")
    assert "plugin bad" in record.getMessage()
    assert error in record.getMessage()


def test_reports_list_event_hooks(installed):
    """`listens` holds the implemented event hooks."""
    installed("one", LISTENER.format(then="pass"))
    assert only(installed.load()).listens == ("ludus_model_frozen",)


def test_unknown_event_is_an_error(installed):
    """It is an error of the caller."""
    with pytest.raises(ValueError, match="ludus_match_ended"):
        installed.load().emit("match_ended")


def test_event_hooks():
    """All other hooks register components."""
    assert EVENTS == ("ludus_match_ended", "ludus_metrics_reported", "ludus_model_frozen")
