"""``ludus doctor``: check whether this host can run ludus, and suggest fixes."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import attrs
import click
import ludus
from attrs import frozen

__all__ = ["Finding", "diagnose", "doctor"]

_GIB = 1024**3
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_AVX512_KERNELS = ("SkylakeX", "Cooperlake", "SapphireRapids")  # names in OpenBLAS
_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


@frozen(kw_only=True)
class Finding:
    """One line of the report: the check, its result, and an action unless the status is ok."""

    check: str
    status: Literal["ok", "warn", "fail"]
    seen: str
    action: str = ""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Folder for run folders.",
)
@click.pass_context
def doctor(context: click.Context, *, as_json: bool, run_dir: Path) -> None:
    """Check this host and suggest fixes of problems.

    The exit status is 1 when a check fails, 0 otherwise.
    """
    findings = []
    for finding in diagnose(run_dir):
        findings.append(finding)
        if not as_json:  # at once, as some checks take a second
            click.echo(_line(finding))
    if as_json:
        click.echo(json.dumps([attrs.asdict(finding) for finding in findings], indent=2))
    if any(finding.status == "fail" for finding in findings):
        context.exit(1)


def _finding(check: str, fine: bool, *, seen: str, action: str, bad: Literal["warn", "fail"] = "warn") -> Finding:
    """Return a finding of status ok, or of status `bad` with an action."""
    return Finding(check=check, status="ok" if fine else bad, seen=seen, action="" if fine else action)


def _line(finding: Finding) -> str:
    status = click.style(f"{finding.status:4}", fg=_STYLES[finding.status])
    return f"{status}  {finding.check}: {finding.seen}" + (f" — {finding.action}" if finding.action else "")


def diagnose(run_dir: Path) -> Iterator[Finding]:
    """Yield the findings of all checks; an exception of a check becomes a finding."""
    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _python,
        _machine,
        _dependencies,
        _torch,
        _threads,
        _products,
        _plugins,
        lambda: _folder("run folder", run_dir),
        lambda: _folder("temporary folder", Path(tempfile.gettempdir())),
        _shared_memory,
        _open_files,
        _ipc,
    )
    for check in checks:
        try:
            yield from check()
        except Exception as error:  # noqa: BLE001 - a broken host may raise anything
            name = getattr(check, "__name__", "folder").strip("_")
            yield Finding(
                check=name,
                status="fail",
                seen=f"the check itself failed: {type(error).__name__}: {error}",
                action="repair or reinstall what the message names",
            )


def _python() -> Iterator[Finding]:
    old = sys.version_info < (3, 11)
    yield _finding(
        "python",
        not old,
        seen=f"{platform.python_implementation()} {platform.python_version()}, ludus {ludus.__version__}",
        action="ludus needs Python 3.11 or newer",
        bad="fail",
    )
    known = sys.platform in {"linux", "darwin"}
    yield _finding(
        "platform", known, seen=platform.platform(), action="ludus supports Linux and macOS; on Windows use WSL"
    )


def _machine() -> Iterator[Finding]:
    cores = _usable_cores()
    yield _finding(
        "cores",
        cores > 1,
        seen=f"{cores} usable of {os.cpu_count()}",
        action="more than one core lets sampling and learning overlap",
    )
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    yield _finding(
        "memory", total >= 4 * _GIB, seen=f"{total / _GIB:.1f} GiB", action="use few workers: each takes about 0.3 GiB"
    )


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _dependencies() -> Iterator[Finding]:
    """Compare installed versions with the lower bounds of the requirements of ludus."""
    for requirement in importlib.metadata.requires("ludus") or ():
        match = re.match(r"([\w.-]+)\s*(?:>=\s*([\d.]+))?([^;]*)(;.*)?$", requirement)
        if match is None or match[4]:  # extras and other Pythons
            continue
        name, lowest = match[1], match[2] or "0"
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(check=name, status="fail", seen="not installed", action=f"pip install '{name}>={lowest}'")
            continue
        old = _release(version) < _release(lowest)
        yield _finding(name, not old, seen=version, action=f"pip install --upgrade '{name}>={lowest}'", bad="fail")


def _release(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _torch() -> Iterator[Finding]:
    torch = importlib.import_module("torch")
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
        yield Finding(check="gpu", status="ok", seen=f"CUDA {torch.version.cuda}: {names}")
    else:
        built = f"torch is built for CUDA {torch.version.cuda}" if torch.version.cuda else "torch is built without CUDA"
        yield Finding(check="gpu", status="ok", seen=f"none ({built}); learners run on the CPU")


def _threads() -> Iterator[Finding]:
    cores = _usable_cores()
    for variable in _THREAD_VARIABLES:
        value = os.environ.get(variable)
        if value is None:
            continue
        fine = value.isdecimal() and 1 <= int(value) <= cores
        yield _finding(variable, fine, seen=value, action=f"set it to a number from 1 to {cores}, or unset it")
    if not any(variable in os.environ for variable in _THREAD_VARIABLES):
        yield Finding(check="threads", status="ok", seen="no limit set in the environment")


def _products() -> Iterator[Finding]:
    """Check the matrix kernels of NumPy, which `ludus-inference` uses; it also installs threadpoolctl."""
    importlib.import_module("numpy")
    capabilities: dict[str, object] = getattr(importlib.import_module("torch").cpu, "get_capabilities", dict)()
    try:
        probe = importlib.import_module("threadpoolctl")
    except ModuleNotFoundError:
        return
    for library in probe.threadpool_info():
        if library["internal_api"] == "openblas" and "numpy" in library["filepath"]:
            kernels = library.get("architecture")
            yield _finding(
                "numpy products",
                kernels in _AVX512_KERNELS or not capabilities.get("avx512_f"),
                seen=f"OpenBLAS {library['version']} with kernels for {kernels}",
                action="the processor has AVX-512, which makes small networks up to 1.7 times as fast: unset "
                "OPENBLAS_CORETYPE, or set it to SkylakeX if that does not help",
            )


def _plugins() -> Iterator[Finding]:
    loaded = ludus.load_plugins()
    count = sum(report.status == "ok" for report in loaded.reports)
    yield _finding(
        "plugins",
        count > 0,
        seen=f"{count} of {len(loaded.reports)} loaded",
        action="install some: pip install ludus-…",
    )
    for line in loaded.problems():
        text, _, action = line.rpartition(" — ")
        yield Finding(check="plugin", status="warn", seen=text or line, action=action if text else "see ludus plugins")


def _folder(name: str, folder: Path) -> Iterator[Finding]:
    """Check that files can be created in a folder, or in its nearest existing parent."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        seen = f"{folder} cannot be {'written' if existing == folder.absolute() else 'made'}: {error.strerror}"
        yield Finding(check=name, status="fail", seen=seen, action="choose another folder or change its permissions")
        return
    free = shutil.disk_usage(existing).free
    yield _finding(
        name,
        free >= 2 * _GIB,
        seen=f"{existing} is writable, {free / _GIB:.1f} GiB free",
        action="free some space: checkpoints and models of a run take up to several GiB",
    )


def _shared_memory() -> Iterator[Finding]:
    shared = Path("/dev/shm")  # noqa: S108 - only inspected
    if not shared.is_dir():
        yield Finding(check="shared memory", status="ok", seen="no /dev/shm; temporary files are mapped instead")
        return
    free = shutil.disk_usage(shared).free
    writable = os.access(shared, os.W_OK)
    enough = writable and free >= _GIB // 4
    yield _finding(
        "shared memory",
        enough,
        seen=f"{shared} is {'writable' if writable else 'not writable'}, {free / _GIB:.1f} GiB free",
        action="make it larger (in containers: --shm-size=1g), or use fewer workers",
    )


def _open_files() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # runs raise the soft limit to the hard limit
    enough = hard == resource.RLIM_INFINITY or hard >= 1024
    seen = f"limit {soft}, at most {'any number' if hard == resource.RLIM_INFINITY else hard}"
    yield _finding("open files", enough, seen=seen, action="raise the hard limit: ulimit -Hn 4096")


def _ipc() -> Iterator[Finding]:
    """Send one frame through an ipc socket, the transport of local workers; `ludus-local` requires pyzmq."""
    if importlib.util.find_spec("zmq") is None:
        yield Finding(check="zmq ipc", status="ok", seen="pyzmq is not installed; single-process runs do not need it")
        return
    zmq = importlib.import_module("zmq")
    with tempfile.TemporaryDirectory(prefix="ludus-") as folder, zmq.Context() as context:
        address = f"ipc://{folder}/doctor"
        with context.socket(zmq.PULL) as pull, context.socket(zmq.PUSH) as push:
            push.linger = 0
            pull.rcvtimeo = 2000
            pull.bind(address)
            push.connect(address)
            push.send(b"well")
            pull.recv()
    yield Finding(check="zmq ipc", status="ok", seen=f"libzmq {zmq.zmq_version()}")
