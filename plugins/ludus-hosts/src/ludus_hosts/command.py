"""``ludus keys`` and ``ludus join``."""

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
from ludus.option import name as a_name
from ludus.signals import on_signal

from ludus_hosts.config import HostsConfig, tcp_address

__all__ = ["join", "keys"]

_MARK = ".ludus-join"  # of folders that a person has named


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path("keys"))
@click.option("--name", default="join", help="Of the key for machines that join; one may serve many machines.")
def keys(folder: Path, *, name: str) -> None:
    """Make the keys by which machines that join a run know it, and it them.

    Once more with another --name adds a key. A name that is deleted from the file of the run is not let in again.
    """
    from ludus_hosts.keys import RUN_KEY, make_keys  # noqa: PLC0415 - only here: help must be fast

    made = make_keys(folder, name)
    ours = folder / RUN_KEY
    default = "" if str(ours) == HostsConfig().key else f" --set run.hosts.key={ours}"
    click.echo(f"wrote {ours}: stays on the machine of the run")
    click.echo(f"wrote {made}: copy it to machines that join, and keep it secret; next:")
    click.echo(f"  here:  ludus train RUN.TOML --set run.launcher=hosts{default}")
    click.echo(f"  there: ludus join tcp://HERE:7077 --key {made.name}")


@click.command()
@click.argument("address", metavar="tcp://HOST:PORT")
@click.option(
    "--key", type=click.Path(path_type=Path, dir_okay=False), default=Path("join.key"), help="Made by `ludus keys`."
)
@click.option("--samplers", type=click.IntRange(1, 4096), help="How many; as many as there are cores by default.")
@click.option("--name", help="Of this machine in the run; its host name by default.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="For logs and frozen models; a temporary one by default.",
)
@click.option("--cache-gb", type=FiniteRange(0), default=8.0, help="Frozen models kept; 8 GB by default.")
@click.option("--any-versions", is_flag=True, help="Join with other versions of plugins than where the run is.")
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
    """Take part in a run of another machine with samplers.

    The run is started there by `ludus train` with launcher "hosts", before or after this. The same plugins must be
    installed here, in the same versions. Ctrl-C leaves the run, which goes on.
    """
    from ludus_hosts.keys import JoinKey  # noqa: PLC0415 - only here: help must be fast
    from ludus_hosts.relay import Relay  # noqa: PLC0415
    from ludus_hosts.site import Options  # noqa: PLC0415

    host = name or _host_name()
    for what, value, check in (("address", address, tcp_address()), ("--name", host, a_name())):
        if not check.accepts(value):
            raise ConfigError(f"{what} {value!r}: expected {check.expected}")
    secret = JoinKey.read(key)
    while True:
        with _claimed(folder) as place:
            options = Options(
                address=address,
                key=secret,
                host=host,
                samplers=samplers or 0,
                folder=place,
                cache_bytes=int(cache_gb * 1e9),
                any_versions=any_versions,
            )
            relay = Relay(options, _tell)
            with on_signal(relay.interrupt):
                why = relay.run()
        click.echo(f"left the run: {why}")
        if relay.interrupted or not stay:
            context.exit(130 if relay.interrupted else 0)


def _tell(line: str) -> None:
    """Tell the person one line, where that is possible: a closed terminal or pipe is no reason to leave."""
    with suppress(OSError):
        click.echo(line)


@contextmanager
def _claimed(folder: Path | None) -> Iterator[Path]:
    """Provide a folder; without one a temporary, of which nothing is left but the logs of a failure."""
    if folder is not None:
        _claim(folder)
        yield folder
        return
    from ludus_local.memory import temporary_folder  # noqa: PLC0415 - only here: help must be fast

    with temporary_folder("ludus-join") as place:
        try:
            yield place
        except Exception:  # whatever it was: the logs explain it, and go with the folder otherwise
            if (place / "logs").exists():
                _keep_logs(place)
            raise


def _keep_logs(place: Path) -> None:
    """Remove everything else, the mark included, so that nobody takes what is left for that of a killed process."""
    for left in place.iterdir():
        if not left.is_dir():
            left.unlink()
        elif left.name != "logs":
            shutil.rmtree(left, ignore_errors=True)


def _claim(folder: Path) -> None:
    """Make a folder, or check that it is one of an earlier time: what is of use elsewhere is not to be overwritten.

    Raises:
        ConfigError: It holds something else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) and not (folder / _MARK).exists():
        raise ConfigError(f"--folder {folder}: expected an empty folder, or one that `ludus join` has made")
    (folder / _MARK).touch()


def _host_name() -> str:
    """Return what this machine is called, as far as a name of ludus can hold it."""
    return re.sub("[^a-z0-9._-]", "-", socket.gethostname().lower()).strip("._-")[:64] or "host"
