"""Options of the launcher ``hosts``."""

from __future__ import annotations

import re

from attrs import frozen
from ludus import option
from ludus.option import Check

_ADDRESS = re.compile(
    r"tcp://(?:[A-Za-z0-9._-]+|\*|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?\]):(?P<port>\d{1,5})", re.ASCII
)


def tcp_address() -> Check:
    """Accept ``tcp://HOST:PORT``; HOST may be ``*`` for all addresses of this machine, or ``[…]`` of IPv6."""

    def accepts(value: object) -> bool:
        found = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
        return found is not None and 0 < int(found["port"]) < 2**16

    return Check("tcp://HOST:PORT, such as tcp://10.0.0.1:7077", accepts)


@frozen(kw_only=True)
class HostsConfig:
    """Options of the launcher: the address and the key for hosts that join."""

    listen: str = option(
        "tcp://*:7077",
        tcp_address(),
        help="Address at which other machines can join; *: all addresses of this machine.",
    )
    key: str = option(
        "keys/run.key", help="Key file of the run with the keys that may join, made by `ludus keys`.", path="read"
    )
