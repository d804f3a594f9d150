"""Install each peer in a virtual environment of its own: ``python benchmarks/peers/install.py --venvs DIR``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PEERS = ("loop", "sample_factory", "pufferlib", "sb3")
BUILD_TOOLS = ("setuptools<81", "wheel", "numpy==1.26.4", "torch==2.13.0")


def install(peer: str, venvs: Path) -> None:
    """Create or update the virtual environment of a peer."""
    venv = venvs / peer
    if not venv.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [str(venv / "bin/python"), "-m", "pip", "install", "--quiet"]
    requirements = ["-r", str(HERE / "requirements" / f"{peer}.txt")]
    if peer != "pufferlib":
        subprocess.run([*pip, *requirements], check=True)
        return
    subprocess.run([*pip, *BUILD_TOOLS], check=True)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*pip, "--no-build-isolation", *requirements], check=True, env=build_environment(Path(folder)))


def build_environment(folder: Path) -> dict[str, str]:
    """Return environment variables with which PufferLib 3.0.0 builds from source without its C games.

    The C games need a graphics library that the build downloads; the trainer does not. Without them `setup.py` reads a
    list that it does not define. A CUDA compiler on the path without CUDA's libraries breaks the build.
    """
    Path(folder, "sitecustomize.py").write_text("import builtins\nbuiltins.c_extension_paths = []\n", encoding="utf-8")
    path = [part for part in os.environ["PATH"].split(os.pathsep) if not shutil.which("nvcc", path=part)]
    return {**os.environ, "PATH": os.pathsep.join(path), "NO_OCEAN": "1", "PYTHONPATH": str(folder)}


def main() -> None:
    """Install all peers, or those of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venvs", type=Path, default=Path("build/peers"))
    parser.add_argument("--only", choices=PEERS, action="append")
    args = parser.parse_args()
    for peer in args.only or PEERS:
        print(f"installing {peer}", flush=True)
        install(peer, args.venvs.resolve())


if __name__ == "__main__":
    main()
