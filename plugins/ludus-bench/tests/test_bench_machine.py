"""Cores, quotas, threads and processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from ludus.errors import ConfigError
from ludus_bench.machine import describe, limit_threads, process_tree, to_device
from threadpoolctl import threadpool_info


def test_threads_of_numpy_and_torch_are_limited_for_a_while():
    """And are as before afterwards."""
    np.ones((2, 2)) @ np.ones((2, 2))
    before = torch.get_num_threads()
    with limit_threads(1):
        assert torch.get_num_threads() == 1
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
    assert torch.get_num_threads() == before


def test_a_device_that_is_not_there_is_said_in_one_line():
    """With those that there are."""
    with pytest.raises(ConfigError) as error:
        to_device("cuda:99")
    expected = r"--device: expected a device that torch computes on here \(cpu.*\), got 'cuda:99'"
    assert re.fullmatch(expected, str(error.value))


@pytest.mark.parametrize("name", ["nonsense", "meta", "mps", ""])
def test_other_devices_are_refused(name):
    """Only cpu and cuda are measured."""
    with pytest.raises(ConfigError, match="--device: expected cpu or cuda, got"):
        to_device(name)


def test_the_cpu_is_always_there():
    """Its name is returned."""
    assert to_device("cpu") == "cpu"


def test_a_tree_of_processes_is_seen_with_its_memory():
    """Children included; a tree that has ended is empty."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        uses = {use.pid: use for use in process_tree(os.getpid())}
        assert child.pid in uses
        assert uses[os.getpid()].rss_mb > 10
        assert uses[os.getpid()].cpu_s > 0
    finally:
        child.communicate(b"\n")
    assert process_tree(child.pid) == []


def test_the_machine_is_described():
    """Cores, memory and versions, for recorded tables."""
    assert {"cores", "processor", "memory_gb", "system", "python"} <= describe().keys()
