"""``ludus keys``, ``ludus join`` and ``ludus release``."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click
from ludus.cli_types import FiniteRange
from ludus.errors import ConfigError
from ludus.option import name as valid_name
from ludus.signals import on_signal

from ludus_hosts.config import HostsConfig, tcp_address

_MARK = ".ludus-join"  # in folders given by --folder


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("keys"))
@click.option("--name", default="join", help="Name of the key; one key may serve many machines.")
def keys(folder: Path, *, name: str) -> None:
    """Make the keys by which a run and the machines that join it authenticate each other.

    Run it again with another --name to add a key. To revoke a key, delete its name from the key file of the run.
    """
    from ludus_hosts.keys import RUN_KEY, make_keys  # noqa: PLC0415 - only here: help must be fast

    join_file = make_keys(folder, name)
    run_file = folder / RUN_KEY
    default = "" if str(run_file) == HostsConfig().key else f" --set run.hosts.key={run_file}"
    click.echo(f"wrote {run_file}: stays on the machine of the run")
    click.echo(f"wrote {join_file}: copy it to machines that join, and keep it secret; next:")
    click.echo(f"  here:  ludus train RUN.TOML --set run.launcher=hosts{default}")
    click.echo(f"  there: ludus join tcp://HERE:7077 --key {join_file.name}")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("machine", required=False)
def release(folder: Path, machine: str | None) -> None:
    """Show the machines that a run has quarantined; with the name of one, let it join again.

    A run that goes on releases it within a second, a stopped one when it is resumed.
    """
    from ludus.runs import open_run, request_release  # noqa: PLC0415 - only here: help must be fast

    with open_run(folder) as run:
        quarantined = dict(run.meta("quarantined_hosts") or {})
    if machine is None:
        for line in quarantined.values() or ["no machine is quarantined"]:
            click.echo(line)
    elif machine not in quarantined:
        known = ", ".join(quarantined) or "none"
        raise ConfigError(f"{folder}: machine {machine!r} is not quarantined; quarantined are: {known}")
    else:
        request_release(folder, machine)
        click.echo(f"{machine} may join again as soon as the run has read this")


@click.command()
@click.argument("address", metavar="tcp://HOST:PORT")
@click.option(
    "--key", type=click.Path(path_type=Path, dir_okay=False), default=Path("join.key"), help="Made by `ludus keys`."
)
@click.option("--samplers", type=click.IntRange(1, 4096), help="Number of samplers; one per core by default.")
@click.option("--name", help="Name of this machine in the run; its host name by default.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for logs and frozen models; a temporary one by default.",
)
@click.option(
    "--cache-gb",
    type=FiniteRange(0),
    default=8.0,
    help="Size limit of frozen models; 8 GB by default.",
)
@click.option("--any-versions", is_flag=True, help="Join with other versions of plugins than those of the run.")
@click.option("--stay", is_flag=True, help="When the run is over, wait for the next one.")
@click.pass_context
def join(
    context: click.Context,
    *,
    address: str,
    key: Path,
    samplers: int | None,
    name: str | None,
    folder: Path | None,
    cache_gb: float,
    any_versions: bool,
    stay: bool,
) -> None:
    """Run samplers for a run of another machine.

    The run is started there by `ludus train` with launcher "hosts", before or after this command. The same plugins must
    be installed on this machine, in the same versions. Ctrl-C leaves the run, which goes on.
    """
    from ludus_hosts.host_agent import JoinOptions  # noqa: PLC0415
    from ludus_hosts.keys import JoinKey  # noqa: PLC0415 - only here: help must be fast
    from ludus_hosts.relay import Relay  # noqa: PLC0415

    host = name or _host_name()
    for label, value, check in (("address", address, tcp_address()), ("--name", host, valid_name())):
        if not check.accepts(value):
            raise ConfigError(f"{label} {value!r}: expected {check.expected}")
    secret = JoinKey.read(key)
    while True:
        with _prepared(folder) as path:
            options = JoinOptions(
                address=address,
                key=secret,
                host=host,
                samplers=samplers or 0,
                folder=path,
                cache_bytes=int(cache_gb * 1e9),
                any_versions=any_versions,
            )
            relay = Relay(options, _print_line)
            with on_signal(relay.interrupt):
                reason = relay.run()
        click.echo(f"left the run: {reason}")
        if relay.interrupted or not stay:
            context.exit(130 if relay.interrupted else 0)


def _print_line(line: str) -> None:
    """Print a line; a closed terminal or pipe is ignored."""
    with suppress(OSError):
        click.echo(line)


@contextmanager
def _prepared(folder: Path | None) -> Iterator[Path]:
    """Prepare a folder; without one, a temporary folder of which only the logs of a failure are kept."""
    if folder is not None:
        _prepare(folder)
        yield folder
        return
    from ludus_local.memory import temporary_folder  # noqa: PLC0415 - only here: help must be fast

    with temporary_folder("ludus-join") as path:
        try:
            yield path
        except Exception:  # whatever the failure is, the logs explain it; it is raised again
            if (path / "logs").exists():
                _keep_logs(path)
            raise


def _keep_logs(folder: Path) -> None:
    """Remove everything but the logs; without the mark of temporary folders the folder is not removed as stale."""
    for path in folder.iterdir():
        if not path.is_dir():
            path.unlink()
        elif path.name != "logs":
            shutil.rmtree(path, ignore_errors=True)


def _prepare(folder: Path) -> None:
    """Make a folder, or check that an earlier `ludus join` has made it, so that no other files are overwritten.

    Raises:
        ConfigError: It contains other files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) and not (folder / _MARK).exists():
        raise ConfigError(f"--folder {folder}: expected an empty folder, or one made by `ludus join`")
    (folder / _MARK).touch()


def _host_name() -> str:
    """Return the host name of this machine with invalid characters replaced."""
    return re.sub("[^a-z0-9._-]", "-", socket.gethostname().lower()).strip("._-")[:64] or "host"
