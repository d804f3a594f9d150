"""`ludus doctor`: every finding has an observation and, unless its status is ok, an action."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import ludus
import pytest
from ludus import __main__
from ludus._plugins.loading import ALLOW_VARIABLE, LoadedPlugin, PluginReport
from ludus._plugins.manager import Plugins
from ludus_terminal import doctor


@pytest.fixture(autouse=True)
def only_dummy(monkeypatch):
    """Load only the plugins that this package needs."""
    monkeypatch.setenv(ALLOW_VARIABLE, "ludus-dummy,ludus-terminal")


def find(check, findings):
    """Return the finding of one check."""
    (found,) = (finding for finding in findings if finding.check == check)
    return found


def test_this_host_passes(tmp_path, capsys):
    """No check fails where the tests run, and every area is checked."""
    assert __main__.main(["doctor", "--json", "--run-dir", str(tmp_path)]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert {finding["status"] for finding in findings} <= {"ok", "warn"}
    expected = {"python", "platform", "cores", "memory", "torch", "numpy", "gpu", "plugins", "run folder"}
    assert expected | {"temporary folder", "shared memory", "open files", "zmq ipc"} <= {f["check"] for f in findings}
    assert all(finding["action"] for finding in findings if finding["status"] != "ok")


def test_lines(monkeypatch, capsys):
    """A line has the status, the observation and the action; a failure makes the exit status 1."""
    good = doctor.Finding(check="a", status="ok", seen="fine")
    bad = doctor.Finding(check="b", status="fail", seen="broken", action="mend it")
    monkeypatch.setattr(doctor, "diagnose", lambda run_dir: iter([good, bad]))
    assert __main__.main(["doctor"]) == 1
    assert capsys.readouterr().out == "ok    a: fine\nfail  b: broken — mend it\n"


def test_broken_plugins_are_warnings(monkeypatch):
    """Each broken plugin is a line with an action, and the remaining checks run."""
    report = PluginReport(
        name="bad", distribution="ludus-bad", version="2", status="broken", problems=("it — broke — disable it",)
    )
    monkeypatch.setattr(ludus, "load_plugins", lambda: Plugins([LoadedPlugin(report=report)]))
    count, line = doctor._plugins()
    assert (count.status, count.seen) == ("warn", "0 of 1 loaded")
    assert (line.status, line.seen, line.action) == ("warn", "bad (ludus-bad 2) broken: it — broke", "disable it")


def test_a_check_that_raises_is_a_finding(monkeypatch, tmp_path):
    """The other checks run all the same."""

    def burn():
        raise OSError("smoke")

    monkeypatch.setattr(doctor, "_torch", burn)
    findings = list(doctor.diagnose(tmp_path))
    failed = [finding for finding in findings if finding.status == "fail"]
    assert [finding.seen for finding in failed] == ["the check itself failed: OSError: smoke"]
    assert findings[-1].check == "zmq ipc"


def test_pyzmq_is_optional(monkeypatch):
    """The core and runs in one process do not need it."""
    monkeypatch.setitem(sys.modules, "zmq", None)  # as if it were not installed
    (finding,) = doctor._ipc()
    assert (finding.check, finding.status) == ("zmq ipc", "ok")
    assert "not installed" in finding.seen


@pytest.mark.parametrize(
    ("requirement", "status", "action"),
    [
        ("numpy>=1.0", "ok", ""),
        ("numpy>=99", "fail", "pip install --upgrade 'numpy>=99'"),
        ("numpy", "ok", ""),
        ("no-such-distribution>=1.2", "fail", "pip install 'no-such-distribution>=1.2'"),
    ],
)
def test_dependencies_are_compared(monkeypatch, requirement, status, action):
    """Installed versions are compared with the declared lower bounds."""
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: [requirement])
    (finding,) = doctor._dependencies()
    assert (finding.status, finding.action) == (status, action)


def test_extras_are_no_dependencies(monkeypatch):
    """Requirements of extras and of other Python versions are skipped."""
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: ['nothing>=1; extra == "test"'])
    assert list(doctor._dependencies()) == []


@pytest.mark.parametrize(("version", "release"), [("2.13.0+cpu", (2, 13, 0)), ("4.0rc1", (4, 0)), ("odd", ())])
def test_releases_are_compared_as_numbers(version, release):
    """2.13 is newer than 2.4."""
    assert doctor._release(version) == release


@pytest.mark.parametrize(("value", "status"), [("1", "ok"), ("0", "warn"), ("100000", "warn"), ("many", "warn")])
def test_thread_limits_must_fit_the_machine(monkeypatch, value, status):
    """Expect a number from 1 to the number of cores."""
    for variable in doctor._THREAD_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    (finding,) = doctor._threads()
    assert (finding.check, finding.status) == ("OMP_NUM_THREADS", status)


def test_no_thread_limit_is_fine(monkeypatch):
    """Workers set their own limits."""
    for variable in doctor._THREAD_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    (finding,) = doctor._threads()
    assert finding.status == "ok"


def test_a_missing_folder_is_checked_at_its_parent(tmp_path):
    """The nearest existing parent is checked."""
    (finding,) = doctor._folder("run folder", tmp_path / "a" / "b")
    assert finding.status == "ok"
    assert f"{tmp_path} is writable" in finding.seen


def test_a_folder_that_cannot_be_made_is_named(monkeypatch, tmp_path):
    """The finding names the requested folder, not its parent."""
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", lambda **_: (tmp_path / "none").open())
    (finding,) = doctor._folder("run folder", tmp_path / "a" / "b")
    assert finding.seen == f"{tmp_path}/a/b cannot be made: No such file or directory"


def test_a_folder_that_cannot_be_written_fails(monkeypatch, tmp_path):
    """The finding has the reason of the operating system."""

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    (finding,) = doctor._folder("run folder", tmp_path)
    assert (finding.status, finding.seen) == ("fail", f"{tmp_path} cannot be written: Permission denied")


def test_a_full_disk_is_a_warning(monkeypatch, tmp_path):
    """The limit is 2 GiB."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1024**3))
    (finding,) = doctor._folder("run folder", tmp_path)
    assert (finding.status, "1.0 GiB free" in finding.seen) == ("warn", True)


def test_small_shared_memory_is_a_warning(monkeypatch):
    """Containers have little shared memory by default."""
    monkeypatch.setattr(Path, "is_dir", lambda self: True)
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: True)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=64 * 1024**2))
    (finding,) = doctor._shared_memory()
    assert (finding.status, "--shm-size" in finding.action) == ("warn", True)


def test_no_shared_memory_is_fine(monkeypatch):
    """On macOS there is no /dev/shm."""
    monkeypatch.setattr(Path, "is_dir", lambda self: False)
    (finding,) = doctor._shared_memory()
    assert finding.status == "ok"


@pytest.mark.parametrize(
    ("hard", "status", "seen"),
    [
        (256, "warn", "limit 256, at most 256"),
        (1024, "ok", "limit 256, at most 1024"),
        (-1, "ok", "limit 256, at most any number"),
    ],
)
def test_few_open_files_are_a_warning(monkeypatch, hard, status, seen):
    """The hard limit is checked, because runs raise the soft limit; no limit is fine."""
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda which: (256, hard))
    (finding,) = doctor._open_files()
    assert (finding.status, finding.seen) == (status, seen)


@pytest.mark.parametrize(
    ("available", "seen"), [(True, "CUDA 12.4: H, H"), (False, "none (torch is built for CUDA 12.4)")]
)
def test_gpus_are_named(monkeypatch, available, seen):
    """A host without a GPU is fine."""
    cuda = SimpleNamespace(is_available=lambda: available, device_count=lambda: 2, get_device_name=lambda index: "H")
    torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(cuda="12.4"))
    monkeypatch.setattr(doctor.importlib, "import_module", lambda name: torch)
    (finding,) = doctor._torch()
    assert finding.status == "ok"
    assert finding.seen.startswith(seen)


@pytest.mark.parametrize(
    ("attribute", "value", "check", "status"),
    [
        ("sys.version_info", (3, 10, 0), "python", "fail"),
        ("sys.platform", "win32", "platform", "warn"),
    ],
)
def test_old_pythons_and_other_platforms(monkeypatch, attribute, value, check, status):
    """Unsupported versions of Python fail, and unsupported platforms are warnings."""
    module, _, name = attribute.partition(".")
    monkeypatch.setattr(getattr(doctor, module), name, value)
    assert find(check, doctor._python()).status == status


def test_small_machines(monkeypatch):
    """One core and little memory are warnings."""
    monkeypatch.setattr(doctor, "_usable_cores", lambda: 1)
    monkeypatch.setattr(doctor.os, "sysconf", lambda name: 1000)
    assert [finding.status for finding in doctor._machine()] == ["warn", "warn"]


@pytest.mark.parametrize(
    ("kernels", "wide", "status"),
    [("SkylakeX", True, "ok"), ("Haswell", True, "warn"), ("Haswell", False, "ok"), ("neoverse", False, "ok")],
)
def test_old_matrix_kernels_are_a_warning(monkeypatch, kernels, wide, status):
    """The action names the variable to set; BLAS libraries of other packages are ignored."""
    numpys = {"internal_api": "openblas", "filepath": "/x/numpy.libs/b.so", "version": "0.3", "architecture": kernels}
    others = numpys | {"filepath": "/x/scipy.libs/b.so", "architecture": "Haswell"}
    monkeypatch.setattr("threadpoolctl.threadpool_info", lambda: [others, numpys])
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: {"avx512_f": wide})
    (finding,) = doctor._products()
    assert (finding.check, finding.status) == ("numpy products", status)
    assert kernels in finding.seen
    assert ("OPENBLAS_CORETYPE" in finding.action) == (status == "warn")
