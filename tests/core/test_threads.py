"""`configure_process` works before and after the import of torch; devices are checked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ludus._run.threads import find_device_problem

BEFORE, AFTER = "import torch\n{}", "{}\nassert 'torch' not in sys.modules\nimport torch"


@pytest.mark.parametrize("order", [BEFORE, AFTER], ids=["before", "after"])
def test_torch_uses_the_configured_threads(order):
    """The number overrides the environment variable, whether torch is imported before or after."""
    configure = "from ludus._run.threads import configure_process\nconfigure_process(1)"
    code = f"import sys\n{order.format(configure)}\nprint(torch.get_num_threads())"
    output = subprocess.check_output(
        [sys.executable, "-c", code], env={**os.environ, "OMP_NUM_THREADS": "2"}, text=True
    )
    assert int(output) == 1


def test_find_device_problem():
    """The CPU is always available; an unknown device is an error that lists the available ones."""
    assert find_device_problem("cpu") == ""
    assert find_device_problem("abacus").startswith("expected a device that torch computes on here (cpu")
