"""Threads, devices, processes and the description of the machine."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from ludus.errors import ConfigError
from ludus_bench.machine import check_device, describe_machine, limit_threads
from threadpoolctl import threadpool_info


def test_threads_of_numpy_and_torch_are_limited_for_a_while():
    """The old numbers are restored."""
    np.ones((2, 2)) @ np.ones((2, 2))
    before = torch.get_num_threads()
    with limit_threads(1):
        assert torch.get_num_threads() == 1
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
    assert torch.get_num_threads() == before


def test_a_missing_device_is_an_error():
    """The message lists the available devices."""
    with pytest.raises(ConfigError) as error:
        check_device("cuda:99")
    expected = r"--device: expected a device that torch computes on here \(cpu.*\), got 'cuda:99'"
    assert re.fullmatch(expected, str(error.value))


@pytest.mark.parametrize("name", ["nonsense", "meta", "mps", ""])
def test_other_devices_are_refused(name):
    """Only cpu and cuda are measured."""
    with pytest.raises(ConfigError, match="--device: expected cpu or cuda, got"):
        check_device(name)


def test_the_cpu_is_always_available():
    """Its name is returned."""
    assert check_device("cpu") == "cpu"


def test_the_machine_is_described():
    """Cores, memory and versions."""
    assert {"cores", "processor", "memory_gb", "system", "python"} <= describe_machine().keys()
