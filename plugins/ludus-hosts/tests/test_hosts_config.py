"""Addresses at which other hosts join."""

from __future__ import annotations

import pytest
from ludus_hosts.config import HostsConfig, tcp_address

ACCEPTED = [
    "tcp://*:7077",
    "tcp://10.0.0.1:1",
    "tcp://[::1]:7077",
    "tcp://[fe80::1%eth0]:7077",
    "tcp://big-box.example_1.org:65535",
]
REFUSED = [
    "",
    "10.0.0.1:7077",
    "ipc:///tmp/x",
    "tcp://10.0.0.1",
    "tcp://10.0.0.1:*",
    "tcp://10.0.0.1:0",
    "tcp://10.0.0.1:65536",
    "tcp://10.0.0.1:7077 ",
    "tcp://10.0.0.1:7077;tcp://*:1",
    "tcp://10.0.0.1:7077\n",
    "tcp://10.0.0.1:\u0667\u0660",
    "tcp://:7077",
    "tcp://[::1:7077",
    "udp://*:7077",
    7077,
    None,
]


@pytest.mark.parametrize("address", ACCEPTED)
def test_addresses_of_this_and_other_machines_are_accepted(address):
    """By number, by name, or all addresses of this machine."""
    assert tcp_address().accepts(address)


@pytest.mark.parametrize("address", REFUSED)
def test_invalid_addresses_are_rejected(address):
    """The port must be valid, with nothing before or after."""
    assert not tcp_address().accepts(address)


def test_the_defaults_are_usable():
    """They name the port of the README and the file that `ludus keys` writes."""
    assert tcp_address().accepts(HostsConfig().listen)
    assert (HostsConfig().listen, HostsConfig().key) == ("tcp://*:7077", "keys/run.key")
