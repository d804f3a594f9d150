"""The faults: each disturbs processes of one kind, or what they depend on, and can be ended."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from attrs import frozen

from chaos.damage import damage_files
from chaos.effect import Effect
from chaos.processes import send_signal
from chaos.target import COORDINATOR, EVERYTHING, JOINED, KINDS, Target

_MACHINES = (COORDINATOR, JOINED, EVERYTHING)
_OUTAGE_S = 5.0
_HOUR_S, _DAY_S = 3600, 86400
_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGABRT,
    signal.SIGWINCH,
)
_FATAL = {signal.SIGKILL, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGABRT, signal.SIGHUP}
_STOPPING = {signal.SIGINT, signal.SIGTERM}  # workers ignore them


@frozen(kw_only=True)
class Fault:
    """A fault.

    Attributes:
        name: Its name in tables and options.
        kinds: Kinds of processes that it can disturb.
        start: Starts the fault, given the target, the kind and a generator, and returns its effect.
    """

    name: str
    kinds: Sequence[str]
    start: Callable[[Target, str, random.Random], Effect]


def _choose(target: Target, kind: str, rng: random.Random) -> dict[str, int]:
    """Return all processes for `EVERYTHING`, else one of the kind; none if none runs."""
    pids = target.pids(kind)
    return pids if kind == EVERYTHING else dict(rng.sample(sorted(pids.items()), min(1, len(pids))))


def _names(pids: dict[str, int]) -> str:
    return "everything" if len(pids) > 1 else "".join(pids) or "nothing"


def _signal(target: Target, kind: str, rng: random.Random, *, numbers: Sequence[signal.Signals]) -> Effect:
    number, pids = rng.choice(numbers), _choose(target, kind, rng)
    send_signal(pids.values(), number)
    return Effect(summary=f"{number.name} to {_names(pids)}", ends=frozenset(_ending(pids, number)))


def _ending(pids: dict[str, int], number: signal.Signals) -> Iterator[int]:
    """Yield the processes that a signal ends."""
    if signal.getsignal(number) == signal.SIG_IGN:  # as SIGHUP after nohup, which processes inherit
        return
    for name, pid in pids.items():
        if number in _FATAL or (number in _STOPPING and name in {COORDINATOR, "host"}):
            yield pid


def _stop(target: Target, kind: str, rng: random.Random) -> Effect:
    pids = _choose(target, kind, rng)
    send_signal(pids.values(), signal.SIGSTOP)
    return Effect(
        summary=f"{_names(pids)} stopped for {target.stop_s:.0f} s",
        hold_s=target.stop_s,
        end=partial(send_signal, list(pids.values()), signal.SIGCONT),
    )


def _fill_disk(target: Target, kind: str, rng: random.Random) -> Effect:
    disks = [disk for name, disk in target.disks.items() if kind in {name, EVERYTHING}]
    for disk in disks:
        disk.fill()

    def end() -> None:
        for disk in disks:
            disk.free()

    return Effect(summary=f"disk of {kind} full", hold_s=rng.uniform(0.5, _OUTAGE_S), end=end)


def _set_clock(target: Target, kind: str, rng: random.Random) -> Effect:
    clocks = [clock for name, clock in target.clocks.items() if kind in {name, EVERYTHING}]
    jumps = [jump for jump in (-_DAY_S, -_HOUR_S, _HOUR_S, _DAY_S) if abs(clocks[0].offset_s + jump) <= _DAY_S]
    jump = rng.choice(jumps)
    for clock in clocks:
        clock.shift(clock.offset_s + jump)
    return Effect(summary=f"clock of {kind} set by {jump / _HOUR_S:+.0f} h", hold_s=_OUTAGE_S / 2)


def _slow_link(target: Target, _kind: str, rng: random.Random) -> Effect:
    link, way = target.link, rng.choice(("delay", "rate", "cuts", "down"))
    if way == "delay":
        link.delay_s = rng.uniform(0.1, 1.0)
    elif way == "rate":
        link.bytes_per_s = rng.uniform(10_000, 100_000)
    elif way == "cuts":
        for _ in range(3):
            link.cut()
            time.sleep(rng.uniform(0.0, 1.0))
    else:
        link.is_down = True
        link.cut()
    return Effect(summary=f"link: {way}", hold_s=target.stop_s if way == "down" else _OUTAGE_S, end=link.restore)


def _draw_two(target: Target, kind: str, rng: random.Random) -> list[tuple[Fault, str]]:
    """Return two different faults with their kinds, of which one is given; those that last come first."""
    single = [fault for fault in possible_faults(target) if fault.start is not _two]
    one = rng.choice([fault for fault in single if kind in fault.kinds])
    other = rng.choice([fault for fault in single if fault is not one])
    kinds = [name for name in other.kinds if target.with_host or name != JOINED]
    return sorted([(one, kind), (other, rng.choice(kinds))], key=lambda pair: FAULTS.index(pair[0]))


def _two(target: Target, kind: str, rng: random.Random) -> Effect:
    first, second = (fault.start(target, where, rng) for fault, where in _draw_two(target, kind, rng))

    def end() -> None:
        first.end()
        second.end()

    return Effect(
        summary=f"{first.summary} + {second.summary}",
        hold_s=max(first.hold_s, second.hold_s),
        end=end,
        ends=first.ends | second.ends,
        damages=first.damages or second.damages,
        reports=(*first.reports, *second.reports),
        is_contained=lambda: first.is_contained() and second.is_contained(),
    )


#: All faults; those that last come first.
FAULTS = (
    Fault(name="stop", kinds=KINDS, start=_stop),
    Fault(name="full disk", kinds=_MACHINES, start=_fill_disk),
    Fault(name="slow link", kinds=(JOINED,), start=_slow_link),
    Fault(name="clock", kinds=_MACHINES, start=_set_clock),
    Fault(name="signal", kinds=KINDS, start=partial(_signal, numbers=_SIGNALS)),
    Fault(name="kill", kinds=KINDS, start=partial(_signal, numbers=[signal.SIGKILL])),
    Fault(name="damage", kinds=KINDS, start=damage_files),
    Fault(name="two at once", kinds=KINDS, start=_two),
)


def possible_faults(target: Target) -> list[Fault]:
    """Return the faults that this machine can make."""
    return [
        fault for fault in FAULTS if fault.name not in target.missing and (target.with_host or fault.kinds != (JOINED,))
    ]
