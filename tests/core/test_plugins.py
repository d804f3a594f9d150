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
    """Install distributions made of one plugin module each, and nothing else."""
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


def test_a_good_plugin_is_listed(installed):
    """Its report says where it comes from and what it offers."""
    installed("good", GOOD.format(name="a"))
    report = only(installed.load())
    assert (report.name, report.distribution, report.version, report.status) == ("good", "ludus-good", "1.2", "ok")
    assert [part.name for part in report.offers["agent"]] == ["a"]
    assert report.problems == ()


def test_components_are_found_by_kind_and_name(installed):
    """`components`, `get` and `provider` agree."""
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
        "implements unknown hook ludus_register_agent — did you mean ludus_register_agents?",
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
def test_a_broken_plugin_is_one_line(installed, case):
    """It is reported in one line with the cause and how to disable it, and the good one is there all the same."""
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
def test_the_line_says_where_a_plugin_raised(installed, case):
    """It names the innermost line of the plugin, not that of ludus which refused what it registers."""
    code, number = RAISES[case]
    module = installed("bad", code)
    assert f"({module}, line {number}) — fix it" in only(installed.load()).problems[0]


@pytest.mark.parametrize("debug", ["", "1"])
def test_tracebacks_of_loading_are_shown_on_request(installed, monkeypatch, caplog, debug):
    """The variable is LUDUS_DEBUG, as for all errors."""
    installed("bad", GOOD.format(name="A b"))
    monkeypatch.setenv("LUDUS_DEBUG", debug)
    installed.load(allow=["bad"])
    assert ("in ludus_register_agents" in caplog.text) == bool(debug)


def test_generators_are_fine(installed):
    """A register hook may yield its components."""
    installed("good", GOOD.format(name="a").replace("return [", "yield ").replace(")]", ")"))
    assert [part.name for part in only(installed.load()).offers["agent"]] == ["a"]


def test_a_newer_api_level_is_refused(installed):
    """The line says which level is needed and what to upgrade."""
    installed("new", f"LUDUS_API = {API_LEVEL + 1}\n" + GOOD.format(name="a"))
    report = only(installed.load())
    assert report.status == "refused"
    assert report.offers == {}
    assert f"needs plugin API level {API_LEVEL + 1}" in report.problems[0]
    assert "upgrade ludus" in report.problems[0]


def test_the_own_api_level_is_fine(installed):
    """A plugin made for this level loads."""
    installed("same", f"LUDUS_API = {API_LEVEL}")
    assert only(installed.load()).status == "ok"


def test_a_module_without_hooks_is_told_of(installed):
    """Its entry point may name the wrong module; one that has hooks and no components today is fine."""
    module = installed("wrong", "import ludus")
    installed("zero", "from ludus import hookimpl\n@hookimpl\ndef ludus_register_agents(): return []")
    wrong, zero = installed.load().reports
    assert (wrong.status, zero.status) == ("ok", "ok")
    assert wrong.problems == (f"{module} implements no hook — let the entry point name the module that does",)
    assert zero.problems == ()


def test_two_entry_points_of_one_name_both_load(installed):
    """Neither shadows the other."""
    installed("one", GOOD.format(name="a"), points=["same"])
    installed("two", GOOD.format(name="b"), points=["same"])
    assert [(report.name, report.status) for report in installed.load().reports] == [("same", "ok")] * 2


def test_two_entry_points_of_one_module_clash_openly(installed):
    """A module named twice is two plugins that offer the same."""
    installed("one", GOOD.format(name="a"), points=["x", "y"])
    assert all("'a' is provided by" in report.problems[0] for report in installed.load().reports)


def test_a_distribution_seen_twice_counts_once(installed, tmp_path, monkeypatch):
    """As happens where its metadata lies in two folders of the path."""
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


def test_a_clash_is_a_line_in_both_reports(clashing):
    """Each names both distributions and what to block; both stay loaded."""
    for report in clashing.load().reports:
        assert report.status == "ok"
        (problem,) = report.problems
        assert "agent 'test-a' is provided by ludus-ant (plugin ant) and ludus-zebra (plugin zebra)" in problem
        assert "LUDUS_BLOCK_PLUGINS=zebra keeps that of ludus-ant" in problem


def test_of_a_clash_the_first_distribution_is_listed(clashing):
    """Sorted by name, whatever the order on disk."""
    assert clashing.load().provider("agent", "test-a").distribution == "ludus-ant"


def test_a_clash_must_be_settled_before_use(clashing):
    """Asking for it is an error; what does not clash can be had."""
    loaded = clashing.load()
    with pytest.raises(PluginError, match="LUDUS_BLOCK_PLUGINS=zebra"):
        loaded.get("agent", "test-a")
    assert loaded.get("agent", "test-b").name == "test-b"


def test_blocking_one_settles_a_clash(clashing):
    """The other one is used then."""
    loaded = clashing.load(block=["ant"])
    assert loaded.get("agent", "test-a")
    assert loaded.provider("agent", "test-a").distribution == "ludus-zebra"


@pytest.mark.parametrize("names", [("ant", "zebra"), ("same", "same"), ("ant", "ludus_ant")])
def test_the_advice_on_a_clash_settles_it(installed, names):
    """It blocks one of the two, even where the entry points share a name or one is called as the other distribution."""
    for distribution, point in zip(("ludus-ant", "ludus-zebra"), names, strict=True):
        installed(distribution[6:], GOOD.format(name="test-a"), points=[point], distribution=distribution)
    first = installed.load().reports[0]
    advice = re.search(rf"{BLOCK_VARIABLE}=(\S+) keeps that of ludus-ant", first.problems[0])
    drained = installed.load(block=[advice[1]])
    assert [report.status for report in drained.reports] == ["ok", "blocked"]
    assert drained.reports[0].problems == ()


@pytest.mark.parametrize("name", ["bad", "ludus-bad", "LUDUS_Bad"])
def test_blocked_plugins_are_not_imported(installed, name):
    """By the name of entry point or distribution, spelled as pip would accept it."""
    installed("bad", "raise AssertionError")
    assert only(installed.load(block=[name])).status == "blocked"


def test_only_allowed_plugins_are_loaded(installed):
    """Where anything is allowed, the rest is blocked."""
    installed("one", GOOD.format(name="a"))
    installed("two", "raise AssertionError")
    loaded = installed.load(allow=["ludus-one"])
    assert [report.status for report in loaded.reports] == ["ok", "blocked"]


def test_blocking_is_stronger_than_allowing(installed):
    """A plugin that is both allowed and blocked is blocked."""
    installed("one")
    assert only(installed.load(allow=["one"], block=["one"])).status == "blocked"


def test_the_environment_names_plugins_too(installed, monkeypatch):
    """The variables add to the arguments; spaces and empty names do not matter."""
    for name in ("one", "two", "three"):
        installed(name)
    monkeypatch.setenv(BLOCK_VARIABLE, " one ,,")
    assert [report.status for report in installed.load(block=["two"]).reports] == ["blocked", "ok", "blocked"]
    monkeypatch.setenv(ALLOW_VARIABLE, "two")
    assert [report.status for report in installed.load().reports] == ["blocked", "blocked", "ok"]


def test_names_that_match_nothing_are_told(installed):
    """A misspelt name to block does not go unnoticed."""
    installed("one")
    plugins = installed.load(allow=["one"], block=["oen", "nobody"])
    assert plugins.unmatched == ("oen", "nobody")
    unknown = "is to be allowed or blocked, but no installed plugin has that name"
    assert [line.partition(" (see ")[0] for line in plugins.unmatched_names()] == [
        f"'oen' {unknown} — did you mean 'one'?",
        f"'nobody' {unknown}",
    ]


def test_unreadable_metadata_is_no_obstacle(installed, tmp_path, caplog):
    """A distribution whose entry points cannot be decoded is skipped with a warning."""
    installed("good", GOOD.format(name="a"))
    info = tmp_path / "damaged-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: damaged\nVersion: 1.0\n")
    (info / "entry_points.txt").write_bytes(b"[ludus]\n\xff\xfe = x\n")
    assert only(installed.load()).status == "ok"
    assert "cannot read the metadata" in caplog.text


def test_unknown_components_are_explained(installed):
    """The error proposes a similar name, lists what there is, and says how to get more."""
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


def test_an_empty_kind_is_said_to_be_empty(installed):
    """With nothing of the kind installed there is nothing to propose."""
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
def test_events_reach_every_plugin_in_spite_of_one(installed, caplog, error):
    """An exception in one listener, or its wish to exit, is logged once; every other one hears every event."""
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


def test_reports_say_who_listens(installed):
    """The event hooks a plugin implements are in its report."""
    installed("one", LISTENER.format(then="pass"))
    assert only(installed.load()).listens == ("ludus_model_frozen",)


def test_events_that_do_not_exist_are_refused(installed):
    """A misspelt event is a mistake of the caller, not of a plugin."""
    with pytest.raises(ValueError, match="ludus_match_ended"):
        installed.load().emit("match_ended")


def test_there_are_three_events():
    """Everything that does not register is an event."""
    assert EVENTS == ("ludus_match_ended", "ludus_metrics_reported", "ludus_model_frozen")
