"""Options of the environment ``remote``."""

from __future__ import annotations

from attrs import frozen
from ludus.option import Check, above, between, one_of, option, text, whole

_COMMAND = Check(
    'a list of texts, the program and its arguments, such as ["./game", "--port", "{port}", "--token", "{token}"]',
    lambda value: isinstance(value, tuple | list) and all(isinstance(part, str) and part != "" for part in value),
)


@frozen(kw_only=True)
class RemoteConfig:
    """Options of the environment ``remote``."""

    schema: str = option(
        "",
        text(),
        help="file of the game's schema, written by `ludus remote-schema`; empty: that of the first game that connects",
        path="read",
    )
    mode: str = option(
        "lock-step", one_of("lock-step", "real-time"), help="whether the game waits for actions, or never waits"
    )
    command: tuple[str, ...] = option(
        (),
        _COMMAND,
        help="program and arguments of a headless game, with {port}, {token} and {number}; runs only if the user "
        "allows it on this machine; empty: attach to games that are started elsewhere",
    )
    games: int = option(1, whole(1, 256), help="game processes that ludus starts; 1 to 256")
    host: str = option("127.0.0.1", text(), help="address of the game gateway; any but loopback needs TLS")
    port: int = option(
        0,
        whole(0, 65_504),
        help="first of 32 ports, of which every sampler takes a free one; 0: any, needs command",
    )
    tokens: str = option(
        "",
        text(),
        help="file with one token per line, each for one game; empty: the variable LUDUS_REMOTE_TOKENS",
        path="read",
    )
    certificate: str = option("", text(), help="file of the TLS certificate, PEM; empty: no TLS", path="read")
    key: str = option("", text(), help="file of the TLS key, PEM; empty: in the certificate's file", path="read")
    period: int = option(6, whole(1, 100_000), help="real-time mode: ticks between two decisions of a seat")
    delay: int = option(0, whole(0, 100_000), help="real-time mode: ticks from observation to action")
    max_age: int = option(
        6, whole(0, 100_000), help="real-time mode: ticks after which an action is dropped; at least delay"
    )
    missing: str = option(
        "repeat", one_of("repeat", "no-op"), help="real-time mode: what a seat does without an action in time"
    )
    connect_timeout_s: float = option(
        60.0, between(1.0, 86_400.0), help="time in which enough games must connect, in seconds; [1, 86400]"
    )
    step_timeout_s: float = option(
        60.0, above(0.0), help="time in which a game must report its next tick, in seconds; then its match is void"
    )
    resume_timeout_s: float = option(
        10.0, between(0.0, 600.0), help="time in which a lost connection can be resumed, in seconds; [0, 600]"
    )
    memory_mb: int = option(
        4096, whole(16, 1 << 20), help="memory of one game process, its children included, above which it is restarted"
    )
    restarts: int = option(
        16, whole(0, 10_000), help="void matches, or ends of game processes, in a row without a finished match"
    )
