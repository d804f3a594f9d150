"""Every installed inference runtime keeps its contract."""

from __future__ import annotations

import pytest
from ludus._config.section_reader import ConfigReader, SectionReader
from ludus._plugins.manager import load_plugins
from ludus.testing import check_inference

PLUGINS = load_plugins()
SLOW = {"compile"}  # compiles a network for every role
EVERY = [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
    for name, component in PLUGINS.components("inference").items()
    if component.service is None
]


@pytest.mark.parametrize("name", EVERY)
def test_inference_runtime_keeps_its_contract(name):
    """The runtime returns the outputs of torch for all rows and slots."""
    chosen = SectionReader(ConfigReader(PLUGINS), {}, ()).take("inference", name)
    factory = chosen.component.load_factory()
    check_inference(lambda module, request: factory(chosen.config, module=module, request=request))
