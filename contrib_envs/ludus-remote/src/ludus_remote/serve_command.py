"""The command ``ludus serve``."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from ludus.cli_types import FiniteRange
from ludus.errors import ConfigError
from ludus.lineup import split_place
from ludus.signals import on_signal

from ludus_remote.config import RemoteConfig

if TYPE_CHECKING:
    from ludus_remote.action_server import ActionServer

# Set before NumPy is imported: its products are small here, and further threads would wait for cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_DEFAULT_PORT = 7700
_JOIN_S = 5.0  # for a search that goes on
_TICKS = click.IntRange(0, 100_000)


def _game_options(command: Any) -> Any:
    """Add the options that replace those of the environment ``remote``."""
    for option in (
        click.option("--missing", type=click.Choice(["repeat", "no-op"]), help="What a seat does without an action."),
        click.option("--max-age", type=_TICKS, help="Ticks after which an action is dropped."),
        click.option("--delay", type=_TICKS, help="Ticks from an observation to its action."),
        click.option("--period", type=click.IntRange(1, 100_000), help="Ticks between two decisions of a seat."),
        click.option("--mode", type=click.Choice(["lock-step", "real-time"]), help="Whether the game waits."),
        click.option("--schema", metavar="FILE", help="Schema of the game; default: that of the first game."),
        click.option("--key", metavar="FILE", help="TLS key."),
        click.option("--certificate", metavar="FILE", help="TLS certificate; needed for any address but loopback."),
        click.option("--tokens", metavar="FILE", help="Tokens of games; default: the variable LUDUS_REMOTE_TOKENS."),
        click.option("--port", type=click.IntRange(0, 65_504), help=f"First of 32 ports; default: {_DEFAULT_PORT}."),
        click.option("--host", help="Address to listen on; default: loopback."),
    ):
        command = option(command)
    return command


def _address(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"expected HOST:PORT, got {text!r}")
    return host.strip("[]"), int(port)


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.argument("policies", nargs=-1, metavar="[POLICY]...")
@_game_options
@click.option(
    "--matches", default=1024, show_default=True, type=click.IntRange(1, 65_536), help="Most matches at once."
)
@click.option(
    "--batch-ms",
    default=2.0,
    show_default=True,
    type=FiniteRange(0, 1000),
    help="Milliseconds that an observation waits for others, to be evaluated together.",
)
@click.option(
    "--refresh-s",
    default=10.0,
    show_default=True,
    type=FiniteRange(0.1, 86_400),
    help="Seconds between two searches for newer models.",
)
@click.option(
    "--drain-s",
    default=60.0,
    show_default=True,
    type=FiniteRange(0, 86_400),
    help="Seconds that running matches get after SIGTERM or Ctrl-C.",
)
@click.option("--results", type=click.File("a"), help="Append the result of every match to this file, as JSON lines.")
@click.option(
    "--status",
    default="127.0.0.1:7790",
    show_default=True,
    metavar="HOST:PORT",
    callback=_address,
    help="Address of the pages /health and /metrics; port 0: any.",
)
@click.option("--deterministic", is_flag=True, help="Models take their most likely action instead of sampling.")
def serve(
    target: Path,
    policies: tuple[str, ...],
    matches: int,
    batch_ms: float,
    refresh_s: float,
    drain_s: float,
    results: Any,
    status: tuple[str, int],
    deterministic: bool,
    **options: Any,
) -> None:
    """Serve models to games that connect by the game protocol.

    TARGET is a run folder, a folder of levels, or the file of a model (runs/run/models/HASH.safetensors). A POLICY is
    PARTICIPANT or NAME=PARTICIPANT, where NAME is what games request. Participants are models (main_agent@latest,
    main_agent@7), the newest member of a pool (pool:chosen), levels (levels/2), anchors or installed agents, with
    settings behind a comma (main_agent@7,temperature=2). Without one, the newest model of every player is served.

    Options of the game replace those of the run. New matches are played by newer models as soon as these exist; running
    matches keep theirs. SIGTERM and Ctrl-C drain: no match starts, and running ones end.
    """
    from ludus_remote.action_server import ActionServer  # noqa: PLC0415 - help must be fast
    from ludus_remote.served_policies import ServedPolicies  # noqa: PLC0415
    from ludus_remote.server_status import serve_status  # noqa: PLC0415
    from ludus_remote.setup import make_options, read_schema  # noqa: PLC0415

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("ludus_remote").setLevel(logging.INFO)
    served = ServedPolicies(path=target, texts=_name_policies(policies), deterministic=deterministic)
    config = _make_config(served.options, options)
    server = ActionServer(
        options=make_options(config),
        policies=served,
        num_matches=matches,
        batch_s=batch_ms / 1000,
        results=results,
        schema=read_schema(config),
    )
    with ExitStack() as stack:
        stack.enter_context(closing(server.gateway))
        port = stack.enter_context(serve_status(server, *status))
        stack.enter_context(_refresh(server, refresh_s))
        names = ", ".join(f"{name} ({text})" if name != text else name for name, text in served.texts.items())
        click.echo(f"serving {names} at {config.host}:{server.gateway.port}, {config.mode}; status at port {port}")
        stack.enter_context(on_signal(lambda name: _drain(server, name, drain_s)))
        server.run()


def _name_policies(policies: Sequence[str]) -> dict[str, str]:
    """Return the participant of each policy by its name."""
    named: dict[str, str] = {}
    for text in policies:
        place, participant = split_place(text)
        name = place or participant
        if name in named:
            raise ConfigError(f"policy {text}: the name {name} is there twice; name policies by NAME=PARTICIPANT")
        named[name] = participant
    return named


def _make_config(trained: RemoteConfig, options: dict[str, Any]) -> RemoteConfig:
    """Return the options of the run, with those of the command line, and without game processes of ludus."""
    chosen = {key: value for key, value in options.items() if value is not None}
    try:
        config = attrs.evolve(trained, command=(), **chosen)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return config if config.port or "port" in chosen else attrs.evolve(config, port=_DEFAULT_PORT)


def _drain(server: ActionServer, signal: str, limit_s: float) -> None:
    server.drain(limit_s)
    click.echo(f"{signal}: draining; {server.num_running} matches may run for {limit_s:g} s", err=True)


@contextmanager
def _refresh(server: ActionServer, interval_s: float) -> Iterator[None]:
    """Search for newer models in a thread while the block runs."""
    is_over = threading.Event()

    def search() -> None:
        while not is_over.wait(interval_s):
            server.refresh()

    thread = threading.Thread(target=search, name="newer-models", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(_JOIN_S)
