"""Every hook is documented, implemented by ludus-dummy, and called as documented."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from ludus import hookspecs
from ludus._plugins.loading import EVENTS
from ludus._plugins.manager import load_plugins
from ludus.hookspecs import KINDS
from ludus.metrics import Metric

DOCS = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")
HOOKS = [name for name in hookspecs.__all__ if name.startswith("ludus_")]
EXAMPLES = {
    "ludus_match_ended": {"fixture": "7", "participants": ("a@1", "b"), "outcome": (1.5, 0.5), "matches": 2},
    "ludus_model_frozen": {"player": "a", "model": "a@2", "manifest": {"hash": "00"}},
    "ludus_metrics_reported": {"metrics": (Metric(name="m", value=1.0, decisions=2, elapsed_s=3.0),)},
}


def signature(hook):
    """Return the definition of a hook as one line of source."""
    return f"def {hook}{inspect.signature(getattr(hookspecs, hook))}".replace("'", "")


def section(hook):
    """Return the documentation of a hook."""
    found = re.search(rf"^### `{hook}`\n(.*?)(?=^#|\Z)", DOCS, re.DOTALL | re.MULTILINE)
    assert found, f"docs/hooks.md has no section ### `{hook}`"
    return found[1]


def test_every_hook_is_exported():
    """`__all__` holds every hook that pluggy finds."""
    defined = {name for name, value in vars(hookspecs).items() if hasattr(value, "ludus_spec")}
    assert defined == set(HOOKS)


@pytest.mark.parametrize("hook", HOOKS)
def test_documented_with_its_exact_signature(hook):
    """The reference shows the signature and the version."""
    assert f"```python\n{signature(hook)}\n```" in section(hook)
    assert "Since 0." in section(hook)


@pytest.mark.parametrize("hook", HOOKS)
def test_docstring_documents_arguments_and_result(hook):
    """It also holds the version."""
    text = inspect.getdoc(getattr(hookspecs, hook))
    names = inspect.signature(getattr(hookspecs, hook)).parameters
    assert "Since 0." in text
    assert all(f"{name}:" in text for name in names)
    assert ("Returns:" in text) == hook.startswith("ludus_register_")


def test_no_removed_hook_is_documented():
    """Every section belongs to a hook."""
    assert set(re.findall(r"^### `(\w+)`", DOCS, re.MULTILINE)) == set(HOOKS)


def test_every_kind_has_a_hook():
    """Kinds are derived from the names of hooks."""
    registering = [hook for hook in HOOKS if hook not in EVENTS]
    named = [f"ludus_register_{kind.replace('-', '_')}".removesuffix("s") for kind in KINDS]
    assert sorted(hook.removesuffix("s") for hook in registering) == sorted(named)


@pytest.mark.parametrize("kind", KINDS)
def test_register_hooks_of_the_dummy_plugin(kind):
    """Its components can be imported."""
    loaded = load_plugins(allow=["ludus-dummy"])
    components = loaded.components(kind)
    assert components
    for component in components.values():
        assert callable(component.load_factory())
        assert component.config is None or component.load_config() is not None


@pytest.mark.parametrize("event", EVENTS)
def test_events_pass_their_arguments(event):
    """Every event needs an example in this test."""
    from ludus_dummy.events import received_events

    load_plugins(allow=["ludus-dummy"]).emit(event, **EXAMPLES[event])
    assert EXAMPLES[event].keys() == inspect.signature(getattr(hookspecs, event)).parameters.keys()
    name, arguments = received_events[-1]
    assert name == event.removeprefix("ludus_")
    assert arguments == tuple(EXAMPLES[event].values())
