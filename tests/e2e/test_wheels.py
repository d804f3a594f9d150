"""The wheels of all distributions install into an empty environment and train a league."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command, cwd):
    """Run a command outside of the checkout and return its output; on failure show the output."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "LUDUS_DEBUG"}}
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Return a folder with the wheels that ``make wheels`` builds."""
    folder = tmp_path_factory.mktemp("wheels")
    prefix = Path(sys.prefix)
    run("make", "wheels", f"VENV={prefix}", f"WHEELS={folder}", "-o", prefix / "installed", cwd=ROOT)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Return a virtual environment without packages of ludus; third-party packages are symbolic links."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    third_party = folder / "third-party"
    third_party.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("ludus", "__editable__", "pip", "distutils-precedence", "_distutils_hack")):
            (third_party / path.name).symlink_to(path)
    [site] = folder.glob("lib/python*/site-packages")
    (site / "third_party.pth").write_text(f"{third_party}\n")
    return folder


@pytest.mark.slow
def test_wheels_install_and_train(wheels, environment, tmp_path):
    """Pip finds all distributions in the folder, and the demo trains for six seconds."""
    names = sorted({path.name.partition("-")[0].replace("_", "-") for path in wheels.glob("ludus*.whl")})
    folders = [ROOT, *(path.parent for path in ROOT.glob("*/ludus-*/setup.cfg"))]
    assert len(names) == len(folders)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    run(*pip, "install", "--no-index", "--find-links", wheels, *names, cwd=tmp_path)
    ludus = environment / "bin" / "ludus"
    located = run(python, "-c", "import ludus; print(ludus.__file__)", cwd=tmp_path)
    assert Path(located.strip()).is_relative_to(environment)
    example = ROOT / "examples" / "connect4.toml"
    output = run(ludus, "train", example, "--run", tmp_path / "demo", "--minutes", "0.5", cwd=tmp_path)
    assert "against minimax3" in output
    run(ludus, "league", "verify", tmp_path / "demo", cwd=tmp_path)
