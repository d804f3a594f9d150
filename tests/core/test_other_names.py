"""Names of other libraries lead to the option of ludus."""

from __future__ import annotations

import attrs
import pytest
from ludus._config.other_names import _OPTIONS, _SECTION_OPTIONS, hint_for_key, translate
from ludus._config.sections import EvaluationSection, PlayerConfig, RunSection, SamplingSection
from ludus._plugins.manager import load_plugins

PPO = ("learning_rate", "gamma", "gae_lambda", "segment_decisions", "batch_decisions", "num_minibatches", "epochs")
DQN = ("learning_rate", "gamma", "batch_decisions", "minibatch_size", "replay_capacity", "n_step")


@pytest.mark.parametrize(
    ("key", "options", "expected"),
    [
        ("lr", PPO, "learning_rate"),
        ("LR", PPO, "learning_rate"),
        ("lambda_", PPO, "gae_lambda"),
        ("n_steps", PPO, "segment_decisions"),
        ("batch_size", PPO, "batch_decisions"),
        ("sgd-minibatch-size", PPO, "num_minibatches"),
        ("sgd_minibatch_size", DQN, "minibatch_size"),
        ("buffer_size", DQN, "replay_capacity"),
        ("buffer_size", PPO, ""),
        ("gamma", PPO, ""),  # its own name
    ],
)
def test_names_are_translated_to_options_of_the_component(key, options, expected):
    """Only to options that it has."""
    assert translate(key, options) == expected


def test_a_number_of_minibatches_is_no_size():
    """The hint states the difference."""
    hint = hint_for_key("minibatch_size", PPO)
    assert hint == " — it is called 'num_minibatches' here, the number of minibatches in a batch"


def test_every_name_leads_to_an_option_that_exists():
    """An option that is renamed must be renamed in the table too."""
    components = (load_plugins().components(kind).values() for kind in ("algorithm", "network", "environment"))
    configs = [component.load_config() for group in components for component in group]
    known = {name for config in configs if config is not None for name in attrs.fields_dict(config)}
    assert _OPTIONS.keys() <= known | {"name"}
    sections = {
        "run": RunSection,
        "sampling": SamplingSection,
        "evaluation": EvaluationSection,
        "players.NAME": PlayerConfig,
    }
    for path in _SECTION_OPTIONS.keys() - {"environment.name"}:
        section, _, name = path.rpartition(".")
        assert name in attrs.fields_dict(sections[section])
