"""From options to a gateway and its game processes."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ludus.errors import ConfigError

from ludus_remote.config import RemoteConfig
from ludus_remote.gateway import Gateway, GatewayOptions
from ludus_remote.programs import Programs, check_command, make_tokens
from ludus_remote.schema import GameSchema, read_schema_file
from ludus_remote.session import Limits, Timing

#: Tokens of games, separated by commas.
TOKENS_VARIABLE = "LUDUS_REMOTE_TOKENS"
_TOKEN_LENGTH = range(16, 257)


def open_gateway(config: RemoteConfig, num_matches: int) -> tuple[Gateway, Programs | None]:
    """Open a gateway, and start the game processes of the options.

    Raises:
        ConfigError: An option is wrong, or the user has not allowed the command.
    """
    if config.command:
        check_command(config.command)
    elif not config.port:
        raise ConfigError("port: expected the port that games connect to, or a command that starts games; got 0")
    schema, tokens = read_schema(config), make_tokens(config.games) if config.command else []
    gateway = Gateway(make_options(config, tokens), num_matches, schema)
    if not config.command:
        return gateway, None
    programs = Programs(
        command=config.command,
        tokens=tokens,
        memory_bytes=config.memory_mb << 20,
        restarts=config.restarts,
        on_end=gateway.drop_game,
    )
    try:
        programs.start(gateway.port)
    except BaseException:
        gateway.close()
        programs.close()
        raise
    return gateway, programs


def make_options(config: RemoteConfig, tokens: Sequence[str] = ()) -> GatewayOptions:
    """Return the options of a gateway.

    Args:
        config: Options of the environment.
        tokens: Tokens of games; empty: those of the file or variable that the options name.

    Raises:
        ConfigError: An option is wrong.
    """
    if config.mode == "real-time" and config.max_age < config.delay:
        raise ConfigError(f"max_age: expected at least the delay of {config.delay} ticks, got {config.max_age}")
    return GatewayOptions(
        host=config.host,
        port=config.port,
        tokens=tokens or read_tokens(config.tokens),
        limits=Limits(resume_s=config.resume_timeout_s),
        make_timing=partial(make_timing, config),
        tls=_make_tls(config),
    )


def read_schema(config: RemoteConfig) -> GameSchema | None:
    """Return the schema of the file that the options name; None if they name none.

    Raises:
        ConfigError: There is no such file, or it is no schema.
    """
    return read_schema_file(Path(config.schema)) if config.schema else None


def make_timing(config: RemoteConfig, schema: GameSchema) -> tuple[Timing, ...]:
    """Return the times of all seats in real-time mode; empty in lock-step mode."""
    if config.mode == "lock-step":
        return ()
    timing = Timing(period=config.period, delay=config.delay, max_age=config.max_age, missing=config.missing)
    return (timing,) * len(schema.seats)


def read_tokens(path: str) -> list[str]:
    """Return the tokens of games.

    Args:
        path: File with a token per line; empty: the variable `TOKENS_VARIABLE`.

    Raises:
        ConfigError: There is no token, or one is too short or too long.
    """
    source = path or TOKENS_VARIABLE
    try:
        lines = Path(path).read_text("utf-8").splitlines() if path else os.environ.get(TOKENS_VARIABLE, "").split(",")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"tokens: {path}: {error}") from error
    tokens = [line.strip() for line in lines if line.strip()]
    if not tokens or any(len(token) not in _TOKEN_LENGTH for token in tokens):
        raise ConfigError(
            f"tokens: {source}: expected at least one token of 16 to 256 characters, one for each game; "
            'python -c "import secrets; print(secrets.token_urlsafe())" prints one'
        )
    return tokens


def _make_tls(config: RemoteConfig) -> ssl.SSLContext | None:
    if not config.certificate:
        if config.host != "localhost" and not _is_loopback(config.host):
            raise ConfigError(
                f"host: {config.host!r} is reached from other machines; expected a certificate and a key for TLS, or "
                "127.0.0.1"
            )
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.certificate, config.key or None)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"certificate, key: {config.certificate}: {error}") from error
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
