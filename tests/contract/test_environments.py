"""Every installed environment that works with default options keeps its contract."""

from __future__ import annotations

import pytest
from ludus import Component, ConfigError, PluginError
from ludus._plugins.manager import load_plugins
from ludus.testing import check_environment

#: Environments whose options have defaults, but which need a game that the options name; their own tests have one.
WITHOUT_A_GAME = {"remote"}
COMPONENTS = load_plugins().components("environment")


@pytest.fixture(params=sorted(COMPONENTS))
def component(request: pytest.FixtureRequest) -> Component:
    """Return an environment component; skip it if its game is not installed or it has required options."""
    found = COMPONENTS[request.param]
    try:
        config_class = found.load_config()
        config = None if config_class is None else config_class()
        found.load_factory()(config, num_matches=1).close()
    except PluginError as error:
        if not isinstance(error.__cause__, ImportError):
            raise
        pytest.skip(f"{request.param}: {error.__cause__}")
    except ConfigError as error:
        if request.param not in WITHOUT_A_GAME:
            raise
        pytest.skip(f"{request.param}: {error}")
    except ImportError as error:
        pytest.skip(f"{request.param}: {error}")
    except TypeError as error:
        if config_class is None or "required" not in str(error):
            raise
        pytest.skip(f"{request.param} has options without defaults: {error}")
    return found


def test_the_environment_keeps_its_contract(component):
    """The environment passes `check_environment`, in this process and another."""
    check_environment(component, steps=20)  # their own tests play longer
