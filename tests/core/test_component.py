"""Components: what may be registered, and what loading one can go wrong with."""

from __future__ import annotations

import sys

import pytest
from ludus import Component, PluginError


def component(**changes):
    """Return a valid component with changes."""
    return Component(**({"name": "thing", "factory": "collections:OrderedDict"} | changes))


def test_load_factory():
    """The path refers to the object."""
    from collections import OrderedDict

    assert component().load_factory() is OrderedDict


def test_attributes_may_be_nested():
    """A path may contain several attributes."""
    assert component(factory="collections:OrderedDict.fromkeys").load_factory()("a") == {"a": None}


def test_config_is_optional():
    """The configuration class of a component without options is None."""
    assert component().load_config() is None
    assert component(config="ludus:Component").load_config() is Component


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Thing"}, "a name of 1 to 64 characters"),
        ({"name": "../thing"}, "a name of 1 to 64 characters"),
        ({"factory": "collections"}, "package.module:attribute"),
        ({"factory": "os;x:y"}, "package.module:attribute"),
        ({"factory": ":y"}, "package.module:attribute"),
        ({"config": "collections:"}, "package.module:attribute"),
        ({"summary": "two\nlines"}, "one line of text"),
        ({"environments": "game"}, "environments: expected a tuple of names, got 'game'"),
        ({"environments": ["game"]}, "a tuple of names"),
        ({"environments": ("A game",)}, "a tuple of names"),
        ({"service": "collections"}, "package.module:attribute"),
    ],
)
def test_invalid_fields_are_errors(changes, message):
    """They are found when the component is registered."""
    with pytest.raises(ValueError, match=message):
        component(**changes)


@pytest.mark.parametrize("path", ["no.such.module:x", "collections:no_such_name"])
def test_failing_import_is_a_plugin_error(path):
    """The message names component, path and a fix."""
    with pytest.raises(PluginError, match=r"component 'thing': cannot import .* LUDUS_BLOCK_PLUGINS"):
        component(factory=path).load_factory()


@pytest.mark.parametrize("path", ["collections:Counter", "collections:namedtuple", "ludus.component:_NAMES"])
def test_configuration_must_be_an_attrs_class(path):
    """Other classes, functions and instances are errors."""
    with pytest.raises(PluginError, match=f"component 'thing': expected '{path}' to be a frozen attrs class"):
        component(config=path).load_config()


@pytest.mark.parametrize(
    "error", ["MemoryError()", "ImportError('libtorch_cpu.so: failed to map segment from shared object')"]
)
def test_lack_of_memory_during_an_import(tmp_path, monkeypatch, error):
    """The message does not suggest to reinstall the plugin."""
    (tmp_path / "ludus_test_large.py").write_text(f"raise {error}")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match=r"cannot import .*: \w+Error: .* — memory is short: free some"):
        component(factory="ludus_test_large:Thing").load_factory()


@pytest.mark.parametrize("error", ["ZeroDivisionError: oh", "SystemExit: 0", "BaseException: at lib.rs:3"])
def test_any_exception_of_an_import_is_caught(tmp_path, monkeypatch, error):
    """The module of a plugin may raise any exception."""
    kind, _, value = error.partition(": ")
    (tmp_path / "ludus_test_broken.py").write_text(f"raise {kind}({value!r})")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ludus_test_broken", raising=False)
    with pytest.raises(PluginError, match=error):
        component(config="ludus_test_broken:Config").load_config()
