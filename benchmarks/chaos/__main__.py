"""Command line of the campaign."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from chaos.campaign import Campaign
from chaos.faults import FAULTS
from chaos.table import table
from chaos.target import KINDS

_IN_NAMESPACE = "LUDUS_CHAOS_NAMESPACE"
_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")


def _enter_namespace() -> None:
    """Start this program again where it may mount disks that no other process sees, if the machine permits that."""
    if _IN_NAMESPACE in os.environ or shutil.which(_UNSHARE[0]) is None:
        return
    if subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0:
        os.environ[_IN_NAMESPACE] = "1"
        os.execvp(_UNSHARE[0], [*_UNSHARE, sys.executable, "-m", "chaos", *sys.argv[1:]])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaos",
        description="Disturb a run and a joined host by faults that a seed draws, and check that nothing is lost.",
    )
    faults = [fault.name for fault in FAULTS]
    parser.add_argument("count", type=int, nargs="?", default=50, help="faults per kind of process")
    parser.add_argument("--seed", type=int, default=0, help="seed of faults and moments")
    parser.add_argument("--kind", action="append", choices=KINDS, help="disturb only this kind of process")
    parser.add_argument("--fault", action="append", choices=faults, help="make only this fault")
    parser.add_argument("--stop-s", type=float, default=30.0, help="seconds for which processes are stopped")
    parser.add_argument("--rules", action="store_true", help="disturb a league of four algorithms with rules")
    parser.add_argument("--keep", type=Path, help="keep runs and outputs in this new folder")
    return parser


def main() -> int:
    """Run the campaign, print its table, and return 1 if anything was lost or is wrong."""
    options = _parser().parse_args()
    _enter_namespace()
    with tempfile.TemporaryDirectory(prefix="ludus-chaos-") as temporary:
        campaign = Campaign(
            folder=options.keep or Path(temporary),
            seed=options.seed,
            with_rules=options.rules,
            stop_s=options.stop_s,
            print_line=lambda line: print(line, flush=True),
        )
        for kind in options.kind or KINDS:
            campaign.run(kind, options.fault or [fault.name for fault in FAULTS], options.count)
    print(table(campaign.instants, campaign.missing))
    return 0 if campaign.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
