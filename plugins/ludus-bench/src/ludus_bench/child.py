"""Run the command ``ludus …`` as long as its parent process lives: ``python -m ludus_bench.child PARENT_PID …``."""

from __future__ import annotations

import runpy
import sys

from ludus_local.process import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv.pop(1)))
    runpy.run_module("ludus", run_name="__main__", alter_sys=True)
