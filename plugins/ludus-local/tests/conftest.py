"""Fixtures of the tests of shared memory."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager

import numpy as np
import pytest
from ludus_local.memory import SharedFolder


@pytest.fixture
def shapes():
    """Return shapes and dtypes of a block by name, with an empty array and a scalar."""
    return {
        "image": ((3, 2, 5), np.dtype(np.uint8)),
        "flag": ((3, 2), np.dtype(bool)),
        "empty": ((0, 4), np.dtype(np.float32)),
        "scalar": ((), np.dtype(np.int64)),
    }


@pytest.fixture
def folder(tmp_path):
    """Return a private folder as the sampler uses it."""
    path = tmp_path / "shared"
    path.mkdir(mode=0o700)
    return SharedFolder(path, "sampler-0")


@pytest.fixture
def files_run_out():
    """Return a context in which this process may open no further files of shared memory."""

    @contextmanager
    def run_out():
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 16, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    return run_out
