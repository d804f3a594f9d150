"""What the tests of shared memory share."""

from __future__ import annotations

import numpy as np
import pytest
from ludus_local.memory import SharedFolder


@pytest.fixture
def shapes():
    """Return names to shapes and dtypes of a block, an empty and a scalar one among them."""
    return {
        "image": ((3, 2, 5), np.dtype(np.uint8)),
        "flag": ((3, 2), np.dtype(bool)),
        "empty": ((0, 4), np.dtype(np.float32)),
        "scalar": ((), np.dtype(np.int64)),
    }


@pytest.fixture
def folder(tmp_path):
    """Return a private folder as the sampler sees it."""
    path = tmp_path / "shared"
    path.mkdir(mode=0o700)
    return SharedFolder(path, "sampler-0")
