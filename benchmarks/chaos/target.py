"""A run with everything that faults need: processes by kind, a joined host, its link, disks and clocks."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import define, field
from ludus_hosts.keys import make_keys

from chaos.host import SAMPLER, Host, takes_part
from chaos.league import LEAGUE, LIGHT, League, State, run_verify
from chaos.league_audit import LeagueAudit
from chaos.machine import Disk, Link, WallClock
from chaos.processes import LudusCommand

SAMPLERS, EVALUATOR, LEARNER, COORDINATOR, JOINED = "sampler", "evaluator", "learner", "coordinator", "joined host"
EVERYTHING = "everything"
KINDS = (SAMPLERS, EVALUATOR, LEARNER, COORDINATOR, JOINED, EVERYTHING)
_PREFIXES = {SAMPLERS: "sampler-", EVALUATOR: "evaluator-", LEARNER: "learner-"}
_LIGHT_SETTINGS = ("players.main_agent.freeze_every_decisions=100000",)


@define(eq=False)
class Target:
    """A run, which a host may have joined, on a machine whose parts can fail.

    Args:
        folder: Empty folder for everything; its path has no spaces.
        with_host: Let a host join the run over TCP. Without one, the run starts its workers by the default launcher.
        with_rules: Run the league of four algorithms, whose rules act every few seconds, instead of a light one.
        stop_s: Seconds for which processes are stopped.

    Attributes:
        missing: Why faults are not possible on this machine, by their name.
        disks: Disks by kind: of the run's machine (`COORDINATOR`), and of the host (`JOINED`).
        clocks: Wall clocks, likewise.
        audit: The recount of the league.
        league: The run.
        link: The connection of the host.
        host: The host, if there is one.
    """

    folder: Path
    with_host: bool = True
    with_rules: bool = False
    stop_s: float = 30.0
    missing: dict[str, str] = field(init=False, factory=dict)
    disks: Mapping[str, Disk] = field(init=False)
    clocks: Mapping[str, WallClock] = field(init=False)
    audit: LeagueAudit = field(init=False, factory=LeagueAudit)
    league: League = field(init=False)
    link: Link = field(init=False)
    host: Host | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        machines = {COORDINATOR: "run", **({JOINED: "host"} if self.with_host else {})}
        self.disks = {kind: Disk(self.folder / f"disk-{name}") for kind, name in machines.items()}
        self.clocks = {kind: WallClock(self.folder / f"clock-{name}") for kind, name in machines.items()}
        self._note_missing("full disk", [disk.mount() for disk in self.disks.values()])
        self._note_missing("clock", [clock.build() for clock in self.clocks.values()])
        self.link = Link(_free_port())
        make_keys(self.folder / "keys", "join")
        self.league = self._make_league()
        self.host = self._make_host() if self.with_host else None

    def _note_missing(self, fault: str, reasons: Sequence[str]) -> None:
        if reason := next(filter(None, reasons), ""):
            self.missing[fault] = reason

    def _make_league(self) -> League:
        hosts = (
            "run.launcher=hosts",
            f"run.hosts.listen=tcp://127.0.0.1:{self.link.run_port}",
            f"run.hosts.key={self.folder / 'keys' / 'run.key'}",
        )
        return League(
            self.disks[COORDINATOR].path / "run",
            settings=(*(hosts if self.with_host else ()), *(() if self.with_rules else _LIGHT_SETTINGS)),
            source=LEAGUE if self.with_rules else LIGHT,
            checks=(run_verify, lambda store: self.audit(store)),  # noqa: PLW0108 - a new audit may replace it
            environment=self._clock(COORDINATOR),
            output_path=self.folder / "run.out",
        )

    def _make_host(self) -> Host:
        return Host(
            self.link.port,
            self.folder / "keys" / "join.key",
            self.disks[JOINED].path / "host",
            environment=self._clock(JOINED),
            output_path=self.folder / "host.out",
        )

    def _clock(self, kind: str) -> dict[str, str]:
        return {} if "clock" in self.missing else self.clocks[kind].environment

    def start(self) -> None:
        """Start everything, and wait until every process works and models exist."""
        self.link.start()
        self.league.train()
        if self.host is not None:
            self.host.join()
        self.league.wait_for(lambda state: len(state.models) >= 2 and self._is_working(state))

    def _is_working(self, state: State) -> bool:
        learners = [name for name in self.league.pids if name.startswith(_PREFIXES[LEARNER])]
        learns = len(state.learned) == len(learners) and min(state.learned.values()) > 0
        return learns and state.rated > 0 and self.has_host()

    def has_host(self) -> bool:
        """Return whether the run has accepted the host, whose sampler runs; true without a host."""
        host = self.host
        return host is None or (
            takes_part(self.league.output) and not host.command.has_ended() and SAMPLER in host.pids
        )

    @property
    def starts(self) -> Mapping[LudusCommand, Callable[[], None]]:
        """Return the commands, of the run and of the host, with what starts them again."""
        run = {self.league.command: self.league.resume}
        return run if self.host is None else {**run, self.host.command: self.host.join}

    def pids(self, kind: str) -> dict[str, int]:
        """Return the ids of the running processes of a kind, by name."""
        run = {} if self.league.command.has_ended() else self.league.pids
        host = {} if self.host is None or self.host.command.has_ended() else self.host.pids
        if kind == EVERYTHING:
            return {**run, **host}
        if kind == JOINED:
            return host
        prefix = _PREFIXES.get(kind, kind)
        return {name: pid for name, pid in run.items() if name.startswith(prefix)}

    def close(self) -> None:
        """Kill all processes and unmount the disks."""
        for command in self.starts:
            command.close()
        self.link.close()
        if "full disk" not in self.missing:
            for disk in self.disks.values():
                disk.unmount()


def _free_port() -> int:
    """Return a free port that the system does not assign by itself."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
