"""How a process computes is decided whether or not it has imported torch yet."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ludus._run.threads import device_problem

BEFORE, AFTER = "import torch\n{}", "{}\nassert 'torch' not in sys.modules\nimport torch"


@pytest.mark.parametrize("order", [BEFORE, AFTER], ids=["before", "after"])
def test_torch_uses_so_many_threads(order):
    """Though the environment says otherwise, and whether it is imported before or after."""
    prepare = "from ludus._run.threads import prepare_to_compute\nprepare_to_compute(1)"
    code = f"import sys\n{order.format(prepare)}\nprint(torch.get_num_threads())"
    said = subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "OMP_NUM_THREADS": "2"}, text=True)
    assert int(said) == 1


def test_the_processor_is_always_there():
    """Another device is asked for; what is no device is told, with those that there are."""
    assert device_problem("cpu") == ""
    assert device_problem("abacus").startswith("expected a device that torch computes on here (cpu")
