"""Installed components are used by name, without a run."""

from __future__ import annotations

from contextlib import closing

import pytest
from ludus._plugins.manager import load_plugins
from ludus.errors import ConfigError
from ludus.installed import can_make, default_agents, only_role, open_game, select_agent


def test_open_game():
    """Options of the environment and agents are given by name."""
    game = open_game("dummy-count", ["dummy-perfect"], overrides=["dummy-count.target=4"])
    with closing(game.make_environment(2)) as environment:
        assert environment.num_matches == 2
        assert game.agent("dummy-perfect", "player", environment=environment)


def test_open_game_with_tables_of_options():
    """Overrides take precedence over them."""
    tables = {"dummy-count": {"target": 4, "ticks": 0}}
    with pytest.raises(ConfigError, match=r"^dummy-count.ticks: unknown key"):
        open_game("dummy-count", options=tables)
    del tables["dummy-count"]["ticks"]
    for overrides, target in (((), 4), (("dummy-count.target=3",), 3)):
        assert open_game("dummy-count", options=tables, overrides=overrides)._environment.config.target == target


def test_open_game_with_unused_options():
    """They are errors, as unknown names are."""
    with pytest.raises(ConfigError, match="is not chosen"):
        open_game("dummy-count", overrides=["dummy-perfect.error_rate=1"])


def test_agents_of_a_game_are_its_participants():
    """They may fill seats of every role that they can play; other names are errors that list them."""
    game = open_game("dummy-count", ["dummy-perfect", "dummy-random"])
    with closing(game.make_environment(1)) as environment:
        spec = environment.spec
    assert game.participant("dummy-perfect", spec).role == ""
    assert list(game.default_participants("player", spec)) == ["dummy-perfect", "dummy-random"]
    with pytest.raises(ConfigError, match="agent 'x': expected one of dummy-perfect, dummy-random"):
        game.participant("x", spec)


def test_an_agent_of_one_role():
    """An agent that cannot be made for another role plays its own role only."""
    with closing(open_game("dummy-guess").make_environment(1)) as environment:
        spec = environment.spec
    first, second = (role.name for role in spec.roles)

    def make(role):
        if role != second:
            raise ConfigError(f"plays {second} only")
        return role

    assert only_role(spec, make) == second
    assert only_role(spec, str) == ""
    assert can_make(lambda: make(second))
    assert not can_make(lambda: make(first))


def test_default_agents_play_the_environment_and_need_no_options():
    """Random agents come first; the agent ``model`` needs a file."""
    plugins = load_plugins()
    agents = default_agents(plugins, "dummy-count")
    assert "random" in agents[0]
    assert "dummy-perfect" in agents
    assert "dummy-perfect" not in default_agents(plugins, "dummy-guess")
    assert "model" in plugins.components("agent")
    assert "model" not in agents


def test_select_agent_needs_an_installed_name():
    """The message suggests a similar name."""
    with pytest.raises(ConfigError, match="did you mean 'dummy-perfect'"):
        select_agent(load_plugins(), "dummy-prefect")
