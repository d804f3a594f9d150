"""Which modules a configuration may name: by the library, by the user, by ``PYTHONPATH``, by the running program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import frozen
from ludus import trust
from ludus.option import option
from ludus.trust import ConfigSource, Imports, child_variables, describe_refusal, modules_of, trust_module


@pytest.fixture(autouse=True)
def _nothing_trusted(monkeypatch, tmp_path) -> None:
    """Start each test without trusted modules and folders."""
    monkeypatch.setenv(trust.MODULES_VARIABLE, "")
    monkeypatch.setenv(trust.PATH_VARIABLE, "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """Return a folder on `sys.path` with a module and a package that create a file when they are imported."""
    folder = tmp_path / "games"
    (folder / "trust_canaries").mkdir(parents=True)
    code = f"open({str(tmp_path / 'executed')!r}, 'w').close()\n"
    (folder / "trust_canary.py").write_text(code)
    (folder / "trust_canaries" / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    yield folder
    assert not (tmp_path / "executed").exists()
    sys.modules.pop("trust_canary", None)


@pytest.mark.parametrize("module", ["subprocess", "os", "os.path", "builtins", "__main__", "importlib.util", "runpy"])
def test_modules_of_python_are_always_refused(module) -> None:
    """Also those that the user trusts by name, and those of a program's own tables."""
    trust_module(module)
    assert describe_refusal(module, libraries=(module,)).startswith(f"{module!r} is a module of Python itself")
    assert list(ConfigSource(is_program=True).refusals(Options(id=f"{module}:call")))


@pytest.mark.parametrize("module", ["", ".env", "env.", "a b", "a;b", "a/b", "a..b", "env:Env", "3d"])
def test_malformed_names_are_refused(module) -> None:
    """They are no modules, whatever an import would make of them."""
    assert "is not the name of a module" in describe_refusal(module)
    with pytest.raises(ValueError, match="expected the name of a module"):
        trust_module(module)


def test_other_modules_are_refused(canary) -> None:
    """The line names the module and what to do."""
    for module in ("trust_canary", "trust_canaries", "trust_canaries.arena", "pluggy", "click.testing"):
        package = module.partition(".")[0]
        assert describe_refusal(module) == (
            f"the module {module!r} is not trusted on this machine, and to import it is to execute it; if you trust "
            f"it, add --trust-module {package}, or set LUDUS_TRUST_MODULES={package}"
        )


def test_modules_that_do_not_exist_are_left_to_the_component() -> None:
    """It reports them with a hint at the missing package."""
    assert describe_refusal("no_such_module.game") == ""


def test_modules_of_libraries_and_plugins_are_accepted() -> None:
    """An option declares its libraries; the code of plugins is executed anyway."""
    assert describe_refusal("pluggy.hooks", libraries=("pluggy",)) == ""
    assert describe_refusal("ludus_dummy.plugin") == ""


@pytest.mark.usefixtures("canary")
def test_the_user_trusts_modules_by_name(monkeypatch, tmp_path) -> None:
    """Submodules of a trusted module are trusted, its parents and neighbours are not."""
    monkeypatch.setenv(trust.MODULES_VARIABLE, " trust_canaries.arena, other ")
    assert describe_refusal("trust_canaries.arena") == describe_refusal("trust_canaries.arena.deep") == ""
    assert describe_refusal("trust_canaries")
    assert describe_refusal("trust_canaries.arenas")
    trust_module("trust_canaries")
    assert describe_refusal("trust_canaries.arenas") == ""
    file = tmp_path / "config" / "ludus" / "trusted_modules.txt"
    assert trust.user_file() == file
    assert describe_refusal("trust_canary")
    file.parent.mkdir(parents=True)
    file.write_text("# my games\ntrust_canary  # of a friend\n")
    assert describe_refusal("trust_canary") == ""


def test_folders_of_pythonpath_are_the_users(canary, monkeypatch) -> None:
    """Other folders on the search path are not, such as the current one, which an empty entry stands for."""
    for entry in (str(canary), f"/nowhere{os.pathsep}{canary}/"):
        monkeypatch.setenv(trust.PATH_VARIABLE, entry)
        assert describe_refusal("trust_canary") == describe_refusal("trust_canaries.arena") == ""
    monkeypatch.chdir(canary)
    for entry in ("", os.pathsep, str(canary.parent), str(canary / "trust_canaries")):
        monkeypatch.setenv(trust.PATH_VARIABLE, entry)
        assert describe_refusal("trust_canary")
    monkeypatch.delenv(trust.PATH_VARIABLE)
    monkeypatch.setenv("PYTHONPATH", str(canary))
    assert describe_refusal("trust_canary") == ""


def test_installed_packages_are_not_the_users(canary, monkeypatch) -> None:
    """``PYTHONPATH`` may name a folder that pip has filled."""
    monkeypatch.setenv(trust.PATH_VARIABLE, str(canary))
    metadata = canary / "Canaries-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: Canaries\nVersion: 1.0\n")
    (metadata / "RECORD").write_text("trust_canaries/__init__.py,,\nCanaries-1.0.dist-info/RECORD,,\n")
    assert describe_refusal("trust_canaries")
    assert describe_refusal("trust_canary") == ""
    (metadata / "RECORD").write_text("trust_canary.py,,\n")
    assert describe_refusal("trust_canary")


def test_a_package_that_contains_the_configuration_is_refused(canary, monkeypatch) -> None:
    """A folder from elsewhere may lie in a folder of ``PYTHONPATH``, where its modules are those of a package."""
    monkeypatch.setenv(trust.PATH_VARIABLE, str(canary))
    inside = canary / "trust_canaries" / "runs" / "a"
    inside.mkdir(parents=True)
    assert describe_refusal("trust_canaries.runs.a.env", folder=inside)
    assert describe_refusal("trust_canaries", folder=canary / "trust_canaries")
    assert describe_refusal("trust_canary", folder=canary) == ""
    monkeypatch.chdir(inside)
    assert describe_refusal("trust_canaries", folder=inside.relative_to(inside))
    (canary.parent / "link").symlink_to(inside)
    assert describe_refusal("trust_canaries", folder=canary.parent / "link")


def test_namespace_packages_follow_the_same_rule(canary, monkeypatch) -> None:
    """Any folder without ``__init__.py`` is one."""
    (canary / "trust_folder" / "run").mkdir(parents=True)
    assert describe_refusal("trust_folder.env")
    monkeypatch.setenv(trust.PATH_VARIABLE, str(canary))
    assert describe_refusal("trust_folder.env") == ""
    assert describe_refusal("trust_folder.env", folder=canary / "trust_folder" / "run")


def test_modules_that_the_program_has_imported_are_trusted(canary, monkeypatch) -> None:
    """Its own, not those of its libraries."""
    (canary / "trust_canary.py").write_text("")
    assert describe_refusal("trust_canary")
    __import__("trust_canary")
    assert describe_refusal("trust_canary") == ""
    assert "pluggy" in sys.modules
    assert describe_refusal("pluggy")


@frozen(kw_only=True)
class Options:
    """Options of which two name modules."""

    id: str = option("plain", help="An id.", imports=Imports(modules=modules_of, libraries=("pluggy",)))
    wrappers: tuple[object, ...] = option((), help="Wrappers.", imports=Imports(modules=modules_of))
    word: str = option("", help="No module.")


def test_refusals_name_the_option(canary) -> None:
    """Each module once; options without `imports` are texts."""
    wrappers = ("trust_canary:A", {"path": "trust_canary:B"}, {"path": "click:C", "options": {}})
    config = Options(id="trust_canaries:Env", wrappers=wrappers, word="trust_canary:Env")
    found = [(name, text.split("'")[1]) for name, text in ConfigSource().refusals(config)]
    assert found == [("id", "trust_canaries"), ("wrappers", "trust_canary"), ("wrappers", "click")]
    assert list(ConfigSource().refusals(Options(id="pluggy:Env", word="os:system"))) == []
    assert list(ConfigSource().refusals(None)) == []


def test_tables_of_a_program_may_name_modules(canary) -> None:
    """Its worker processes, which read them from a file, then trust them too."""
    assert list(ConfigSource(is_program=True).refusals(Options(id="trust_canary:Env"))) == []
    assert os.environ[trust.MODULES_VARIABLE] == "trust_canary"
    assert describe_refusal("trust_canary") == ""


def test_child_processes_import_and_trust_the_same(monkeypatch, tmp_path) -> None:
    """They search neither their current folder nor count the folders that ludus adds."""
    monkeypatch.delenv(trust.PATH_VARIABLE)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.pathsep}/other")
    monkeypatch.setattr(sys, "path", ["/scripts", *sys.path])
    variables = child_variables()
    assert variables["PYTHONPATH"] == os.pathsep.join(["/scripts", str(tmp_path), str(Path.cwd()), "/other"])
    assert variables[trust.PATH_VARIABLE] == os.environ["PYTHONPATH"]
    monkeypatch.delenv("PYTHONPATH")
    (tmp_path / "trust_shadow.py").write_text("print('executed')")
    command = [sys.executable, "-P", "-c", "import trust_shadow"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **child_variables()}, capture_output=True, text=True, check=False
    )
    assert "No module named 'trust_shadow'" in done.stderr


@frozen(kw_only=True)
class Game:
    """Options of an adapter."""

    id: str = option("", help="id", imports=Imports(modules=modules_of, libraries=("pluggy",)))
    options: dict[str, object] = option({}, help="options", path="table")


OUTSIDE = ["/etc/passwd", "../x", "~/x", "inside/../../x", "link/x", "link"]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("table", [lambda text: {"a": text}, lambda text: {"a": [{"b": {"c": text}}]}])
def test_paths_that_lead_out_are_refused(path, table, tmp_path, monkeypatch) -> None:
    """In the table that a game gets, however deep they are."""
    (tmp_path / "current").mkdir()
    (tmp_path / "current" / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path / "current")
    config = Game(options=table(path))
    [(name, text)] = ConfigSource(folder=tmp_path).refusals(config)
    assert name == "options"
    assert text.startswith(f"{path!r} leads out of the current folder, {tmp_path / 'current'}; ")
    assert text.endswith("--trust-module pluggy")
    trust_module("pluggy")
    assert not list(ConfigSource(folder=tmp_path).refusals(config))


@pytest.mark.parametrize("path", ["x", "inside/x", "inside/../x", "rgb_array", "", "a\0b", "../x\0", "x" * 10_000])
def test_paths_below_the_current_folder_may_be_named(path, tmp_path, monkeypatch) -> None:
    """So may their absolute forms, and texts that are no paths."""
    monkeypatch.chdir(tmp_path)
    for text in (path, str(tmp_path / "inside")):
        assert not list(ConfigSource(folder=tmp_path).refusals(Game(options={"a": text, "b": 7})))


def test_a_program_may_name_any_path() -> None:
    """It is trusted, and so are the processes of its workers, which read a file."""
    config = Game(options={"a": "/etc/passwd"})
    assert not list(ConfigSource(is_program=True).refusals(config))
    assert not list(ConfigSource().refusals(config))
